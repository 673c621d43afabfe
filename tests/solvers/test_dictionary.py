"""Dictionaries of both forms say the same products as their arrays."""

from abc import update_abstractmethods

import numpy as np
import pytest
from scipy import sparse

from solvers import ConvolutionalDictionary, LassoProblem, solve_fista
from solvers.problem.dense_dictionary import DenseDictionary
from solvers.problem.dictionaries import dictionary_of
from solvers.problem.dictionary import Dictionary

RNG = np.random.default_rng(0)
DICTIONARIES = {
    "wide": DenseDictionary(RNG.standard_normal((30, 80))),
    "tall": DenseDictionary(RNG.uniform(0.1, 3.0, (90, 1)) * RNG.standard_normal((90, 20))),
    "sparse": dictionary_of(sparse.random_array((40, 70), density=0.1, rng=RNG) + sparse.eye_array(40, 70)),
    "large": DenseDictionary(RNG.standard_normal((150, 90))),
    "convolutional": ConvolutionalDictionary(RNG.standard_normal((3, 4, 4)), (16, 16), 2),
    "small convolutional": ConvolutionalDictionary(RNG.standard_normal((2, 3, 3)), (7, 7), 2),
}
each_dictionary = pytest.mark.parametrize("dictionary", DICTIONARIES.values(), ids=DICTIONARIES.keys())


def full(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


@each_dictionary
def test_products_are_those_of_the_array(dictionary):
    rng = np.random.default_rng(1)
    array = dictionary.toarray()
    n_atoms, n_features = dictionary.shape
    assert array.shape == (n_atoms, n_features)
    # Sums of at most 256 products of numbers of order 1, and of as many of these.
    close = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(dictionary.squared_norms, (array**2).sum(axis=1), rtol=1e-13)
    signals, codes = rng.standard_normal((3, n_features)), rng.standard_normal((3, n_atoms))
    codes[:, ::2] = 0.0
    np.testing.assert_allclose(dictionary.correlate(signals), signals @ array.T, **close)
    for form in (codes, sparse.csr_array(codes)):
        np.testing.assert_allclose(dictionary.reconstruct(form), codes @ array, **close)
    atoms = [n_atoms - 1, 0, 4]
    np.testing.assert_allclose(full(dictionary.gram_rows(np.array(atoms))), array[atoms] @ array.T, **close)
    out = np.empty((3, n_atoms))
    dictionary.normal_product(codes, out=out)
    np.testing.assert_allclose(out, codes @ array @ array.T, **close)
    single = np.eye(n_atoms)[:1]
    dictionary.normal_product(single, out=out[:1])
    np.testing.assert_allclose(out[:1], array[:1] @ array.T, **close)


@each_dictionary
def test_normalised_atoms_have_one_norm_and_the_largest_eigenvalue(dictionary):
    normalised = dictionary.normalised(2.0)
    assert isinstance(normalised, type(dictionary))
    norms = np.linalg.norm(dictionary.toarray(), axis=1, keepdims=True)
    np.testing.assert_allclose(normalised.toarray(), dictionary.toarray() / (2.0 * norms), rtol=1e-14)
    largest = np.linalg.norm(dictionary.toarray() / norms, ord=2) ** 2
    assert largest * (1 - 1e-12) <= dictionary.largest_eigenvalue() <= largest * 1.002


def test_a_gram_matrix_counts_what_it_takes_to_make_it():
    dictionary = DenseDictionary(np.random.default_rng(2).standard_normal((30, 20)))
    # 30 against 40 multiplications a product, and 300 to make it.
    assert not dictionary.gram_is_cheaper(30, at_hand=False)
    assert dictionary.gram_is_cheaper(31, at_hand=False)
    assert dictionary.gram_is_cheaper(1, at_hand=True)
    assert not DICTIONARIES["convolutional"].gram_is_cheaper(10**9, at_hand=False)
    np.testing.assert_allclose(dictionary.gram(), dictionary.array @ dictionary.array.T, rtol=0, atol=1e-13)


def test_what_the_caller_passed_is_kept():
    array = np.eye(3)
    dense = dictionary_of(array)
    assert isinstance(dense, Dictionary)
    assert np.shares_memory(dense.array, array)
    assert dense.as_passed is dense.array
    convolutional = DICTIONARIES["convolutional"]
    assert dictionary_of(convolutional) is convolutional
    assert convolutional.as_passed is convolutional
    with pytest.raises(TypeError, match="gram must be None with a ConvolutionalDictionary"):
        convolutional.checked_gram(np.eye(3))
    with pytest.raises(TypeError, match="problem must have an array of atoms"):
        convolutional.gram()


class FlippedDictionary(Dictionary):
    """A form of a user's own: what `Dictionary` requires, and no more."""

    def __init__(self, array):
        self._held = DenseDictionary(-array)


def _passed_on(name):
    if isinstance(getattr(Dictionary, name), property):
        return property(lambda self: getattr(self._held, name))
    return lambda self, *args, **kwargs: getattr(self._held, name)(*args, **kwargs)


# Whatever is abstract, now or later.
for _name in Dictionary.__abstractmethods__:
    setattr(FlippedDictionary, _name, _passed_on(_name))
update_abstractmethods(FlippedDictionary)


def test_a_form_of_a_user_needs_nothing_but_what_is_abstract():
    rng = np.random.default_rng(5)
    array = rng.standard_normal((20, 16))
    signals = rng.standard_normal((3, 16))
    problem = LassoProblem(FlippedDictionary(array), signals, 0.3)
    assert repr(problem.atoms) == "<FlippedDictionary; atoms: 20; features: 16>"
    assert "atoms: 20; features: 16" in repr(problem)
    assert "<table" in problem._repr_html_()
    result = solve_fista(problem, tol=1e-6)
    expected = solve_fista(LassoProblem(-array, signals, 0.3), tol=1e-6)
    np.testing.assert_allclose(result.codes, expected.codes, atol=1e-9)
    assert "converged: 3 of 3 signals" in repr(result)
