"""The problem and its dictionary: what they keep, what they share, and their products."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from solvers import ElasticNet, LassoProblem, ZeroCodesWarning, penalty_max, solve_active_set
from solvers.problem.convolutional_dictionary import require_grid, require_room, valid_shape
from solvers.problem.lasso import zero_code_multiples
from solvers.problem.matrix import MatrixAtoms, atoms_of
from solvers.problem.parts import groups_of
from tests.reference.convolutions import GEOMETRIES, random_dictionary
from tests.reference.problems import random_codes, random_problem

RNG = np.random.default_rng(0)


def random_rows(n_rows, n_columns, density):
    mask = RNG.random((n_rows, n_columns)) < density
    return sparse.csr_array(RNG.random((n_rows, n_columns)) * mask)


DICTIONARIES = {
    "wide": MatrixAtoms(RNG.standard_normal((30, 80))),
    "tall": MatrixAtoms(RNG.uniform(0.1, 3.0, (90, 1)) * RNG.standard_normal((90, 20))),
    "sparse": atoms_of(random_rows(40, 70, 0.1) + sparse.eye_array(40, 70)),
    "long sparse": atoms_of(sparse.vstack([np.ones((1, 5000)), random_rows(20, 5000, 0.01)])),
    **{f"images {geometry}": random_dictionary(geometry) for geometry in GEOMETRIES},
}
each_dictionary = pytest.mark.parametrize("dictionary", DICTIONARIES.values(), ids=DICTIONARIES.keys())


def full(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


# -- dictionaries ----------------------------------------------------------------------------------


@each_dictionary
def test_products_are_those_of_the_array(dictionary):
    rng = np.random.default_rng(1)
    array = dictionary.toarray()
    n_atoms, n_features = dictionary.shape
    # Numbers of order 1 are multiplied and summed, at most twice, over some thousands of terms.
    close = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(dictionary.squared_norms, (array**2).sum(axis=1), rtol=1e-13)
    signals, codes = rng.standard_normal((3, n_features)), rng.standard_normal((3, n_atoms))
    codes[:, ::2] = 0.0
    few = codes * (rng.uniform(size=codes.shape) < 0.05)
    np.testing.assert_allclose(dictionary.correlate(signals), signals @ array.T, **close)
    for some in (codes, few, np.zeros_like(few)):
        for form in (some, sparse.csr_array(some)):
            np.testing.assert_allclose(dictionary.reconstruct(form), some @ array, **close)
    for atoms in (np.array([n_atoms - 1, 0, n_atoms // 2]), np.arange(n_atoms)[::-3], np.arange(0)):
        np.testing.assert_array_equal(full(dictionary.take(atoms)), array[atoms])
        if dictionary.is_matrix:
            np.testing.assert_allclose(dictionary.gram_rows(atoms), array[atoms] @ array.T, **close)
    out = np.empty((3, n_atoms))
    for rows in (codes, few, np.eye(n_atoms)[:1]):
        dictionary.normal_product(rows, out=out[: len(rows)])
        np.testing.assert_allclose(out[: len(rows)], rows @ array @ array.T, **close)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    largest = np.linalg.norm(array / norms, ord=2) ** 2
    assert largest * (1 - 1e-12) <= dictionary.largest_eigenvalue() <= largest * 1.002


@pytest.mark.parametrize(("n_features", "n_atoms"), [(1024, 515), (1024, 1025), (3, 5)])
def test_products_of_a_row_do_not_depend_on_the_other_rows(n_features, n_atoms):
    """Products also do not depend on whether a large dictionary is processed in parts."""
    problem = random_problem(n_features=n_features, n_atoms=n_atoms, n_signals=20)
    codes, correlations = random_codes(problem), problem.atoms.correlate(problem.signals)
    for rows in (slice(0, 1), slice(3, 5), slice(4, 11)):
        np.testing.assert_array_equal(correlations[rows], problem.atoms.correlate(problem.signals[rows]))
        np.testing.assert_array_equal(problem.reconstruct(codes)[rows], problem.reconstruct(codes[rows]))


def test_a_long_sparse_dictionary_has_parts():
    assert len(DICTIONARIES["long sparse"]._parts) == 5  # bounds of rounding count on it


def covers(image, kernel, stride):
    """Return whether a kernel at a multiple of the stride ends at the edge of the image."""
    return any(stride * k + kernel == image for k in range(image + 1))


def test_sizes_and_strides_that_fit_are_those_of_the_definition():
    for image, kernel, stride in product(range(1, 20), range(1, 8), range(1, 7)):
        if kernel > image:
            continue
        larger = next(side for side in range(image, 60) if covers(side, kernel, stride))
        smaller = next(side for side in range(image, 0, -1) if covers(side, kernel, stride))
        assert valid_shape((image, 9), (kernel, 9), stride, pad=True) == (larger, 9)
        assert valid_shape((9, image), (9, kernel), stride, pad=False) == (9, smaller)
    for image, kernel in (((427, 640), (8, 8)), ((20, 14), (8, 2)), ((8, 8), (8, 8))):
        fits = {s: all(covers(*sides, s) for sides in zip(image, kernel, strict=True)) for s in range(1, 9)}
        for stride, is_valid in fits.items():
            if is_valid:
                require_grid(image, kernel, stride)
                continue
            with pytest.raises(ValueError, match="stride"):
                require_grid(image, kernel, stride)
    with pytest.raises(ValueError, match=r"images\[3\]"):
        require_room((9, 5), (8, 8), name="images[3]")


# -- what a problem keeps and shares ---------------------------------------------------------------


def test_arrays_that_fit_are_not_copied_and_none_can_be_written():
    rng = np.random.default_rng(7)
    dictionary, signals, penalty = rng.standard_normal((5, 4)), rng.standard_normal((3, 4)), np.full(5, 0.1)
    gram = dictionary @ dictionary.T
    problem = LassoProblem(dictionary, signals, penalty, gram=gram)
    given = {"dictionary": dictionary, "signals": signals, "l1_weights": penalty, "gram": gram}
    for name, array in given.items():
        assert np.shares_memory(getattr(problem, name), array)
        assert array.flags.writeable
    for name in (*given, "curvatures", "correlations", "energies"):
        assert not getattr(problem, name).flags.writeable


@pytest.mark.parametrize(
    "which", [slice(1, 3), slice(None, None, 2), np.array([3, 0]), [True, False, False, True]]
)
def test_a_subset_is_the_problem_of_some_signals(which):
    problem = random_problem(n_signals=4)
    part = problem.subset(which)
    for name in ("signals", "energies", "correlations"):
        np.testing.assert_array_equal(getattr(part, name), getattr(problem, name)[np.arange(4)[which]])


@pytest.mark.parametrize("which", [list(range(900)), np.arange(20_000), np.linspace(0, 1, 900)])
def test_a_wrong_subset_is_not_shown_in_full(which):
    with pytest.raises((TypeError, ValueError), match=r"^which must .*; got array\(.{,200}$"):
        random_problem(n_signals=4).subset(which)


def test_masks_and_sparse_rows_of_the_caller_are_left_alone():
    """Sparse rows are unsorted, with duplicates and stored zeros, of any type, read-only or not."""
    signals, mask = np.ones((2, 3)), np.array([[True, False, True], [True, True, True]])
    problem = LassoProblem(np.eye(3), signals, 0.1, mask=mask)
    mask[:] = False
    assert problem.feature_weights.sum() == 5
    assert (signals == 1.0).all()
    assert problem.signals[0, 1] == 0.0
    for writeable, dtype, index in product((True, False), (np.int8, np.float32, float), (np.int32, np.int64)):
        arrays = (
            np.array([1, 2, 3, 0, 5], dtype),
            np.array([2, 0, 2, 1, 3], index),
            np.array([0, 4, 5], index),
        )
        for array in arrays:
            array.flags.writeable = writeable
        rows = sparse.csr_array(arrays, (2, 4))
        problem = LassoProblem(np.eye(4), rows, 0.5)
        np.testing.assert_array_equal(problem.dense_signals(), [[2.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
        assert problem.signals.nnz == 3
        assert problem.signals.dtype == np.float64
        for array, kept in zip(arrays, (rows.data, rows.indices, rows.indptr), strict=True):
            np.testing.assert_array_equal(kept, array)
        np.testing.assert_array_equal(solve_active_set(problem).codes, [[1.5, 0, 3.5, 0], [0, 0, 0, 4.5]])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_atoms_of_any_format_are_taken_and_none_is_changed(form):
    array = np.random.default_rng(11).standard_normal((12, 9)) * (np.arange(9) % 3 == 0)
    matrix = sparse.csr_array(array).asformat(form)
    problem = LassoProblem(matrix, np.ones((1, 9)), 0.1)
    np.testing.assert_array_equal(problem.atoms.toarray(), array)
    np.testing.assert_array_equal(matrix.toarray(), array)


def test_groups_are_signals_with_equal_masks():
    masks = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    for options in ({"mask": masks}, {"feature_weights": 0.5 * masks}):
        problem = LassoProblem(np.eye(3), np.ones((5, 3)), 0.1, **options)
        assert [group.tolist() for group in groups_of(problem)] == [[0, 2], [1, 3], [4]]


def test_the_largest_penalty_of_one_signal_is_a_number():
    atoms, signal = RNG.standard_normal((5, 3)), RNG.standard_normal((1, 3))
    problem = LassoProblem(atoms, signal, 0.1 * penalty_max(atoms, signal))
    np.testing.assert_allclose(zero_code_multiples(problem), 10.0, rtol=1e-14)
    np.testing.assert_array_equal(problem.l1_weights, problem.l1_weights[0])


def test_columns_of_a_data_frame_are_arguments():
    """A pandas series can be the penalty, the signs or, as a row, the signal."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    atoms, signal = rng.standard_normal((3, 8)), pandas.Series(rng.standard_normal(8))
    signs = pandas.Series([True, False, True])
    of_series = LassoProblem(atoms, np.atleast_2d(signal), pandas.Series([0.1, 0.2, 0.3]), positive=signs)
    of_arrays = LassoProblem(atoms, signal.to_numpy()[np.newaxis], [0.1, 0.2, 0.3], positive=list(signs))
    np.testing.assert_array_equal(solve_active_set(of_series).codes, solve_active_set(of_arrays).codes)


def test_a_huge_penalty_is_not_said_to_be_the_fault_of_signs():
    """Correlations divided by penalties underflow."""
    problem = LassoProblem(1e-140 * np.eye(2), np.ones((2, 2)), 1e200)
    with pytest.warns(ZeroCodesWarning, match="the penalty is too large"):
        solve_active_set(problem)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_a_squared_norm_that_overflows_is_refused_without_a_warning(form):
    with pytest.raises(ValueError, match=r"squared norm between .* got inf for atom 1: rescale"):
        LassoProblem(form([[1.0, 2.0], [1e200, -1e200]]), [[1.0, 2.0]], 0.5)


def test_a_quadratic_penalty_alone_is_compared_with_the_norms_of_atoms():
    """Without a quadratic penalty, nothing is compared."""
    atoms, signals = [[1e150, 0.0], [0.0, 1.0]], [[1.0, 2.0]]
    assert not LassoProblem(atoms, signals, 0.5).curvatures.any()
    with pytest.raises(ValueError, match="l2 must be 0 or at least 1e-15"):
        LassoProblem(atoms, signals, ElasticNet(0.5, [1.0, 1.0]))
