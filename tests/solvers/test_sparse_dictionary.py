"""Atoms that are sparse: the codes, certificates and refusals of an array of the same numbers."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

from solvers import (
    METHODS,
    ElasticNet,
    LassoProblem,
    PreparedLasso,
    SpikingSparseCoder,
    certify,
    held_out_score,
    memory_limit,
    path,
    penalty_max,
    problem_to_nir,
    solve,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from solvers.problem.dictionaries import dictionary_of
from solvers.problem.sparse_dictionary import SparseDictionary

DENSE_ALONE = ("lars", "coordinate_descent")


def random_atoms(rng, n_atoms=60, n_features=40, density=0.15):
    array = rng.standard_normal((n_atoms, n_features)) * (rng.random((n_atoms, n_features)) < density)
    array[np.arange(n_atoms), rng.integers(0, n_features, n_atoms)] += 1.0
    return array


def both(seed=0, *, n_signals=3, share=0.1, **options):
    """Return a problem of sparse atoms, and the same of an array."""
    rng = np.random.default_rng(seed)
    array, signals = random_atoms(rng), rng.standard_normal((n_signals, 40))
    penalty = options.pop("penalty", share * np.abs(signals @ array.T).max())
    return tuple(
        LassoProblem(atoms, signals, penalty, **options) for atoms in (sparse.csr_array(array), array)
    )


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("positive", [False, True])
def test_methods_solve_or_refuse(method, positive):
    ours, dense = both(1, positive=positive)
    assert isinstance(ours.atoms, SparseDictionary)
    tol = 0.03 if "digital" in method.name else max(method.finest_tol, 1e-6)
    if any(name in method.name for name in DENSE_ALONE):
        with pytest.raises(TypeError, match=r"dense array of atoms .* sparse ones: pass dictionary\.toarray"):
            solve(ours, method, tol=tol)
        return
    result = solve(ours, method, tol=tol)
    assert result.converged
    full = measure(dense, result.sparse_codes)
    assert (full.duality_gap <= 1.001 * tol * dense.energies).all()
    np.testing.assert_allclose(result.objective, full.objective, rtol=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positive": True},
        {"penalty": ElasticNet(0.3, 0.2)},
        {"penalty": np.where(np.arange(60) < 5, 0.0, 0.3)},
        {"penalty": 0.0, "positive": True},
        {"mask": np.arange(40) % 3 != 0},
        {"mask": np.random.default_rng(5).random((3, 40)) < 0.7},
        {"feature_weights": np.random.default_rng(6).uniform(0.1, 3.0, 40)},
        {"feature_weights": np.random.default_rng(7).uniform(0.1, 3.0, (3, 40))},
        {
            "penalty": np.where(np.arange(60) < 5, 0.0, 0.3),
            "feature_weights": np.random.default_rng(7).uniform(0.1, 3.0, (3, 40)),
        },
    ],
    ids=str,
)
@pytest.mark.parametrize("bytes_allowed", [1.0, 1e9])
def test_codes_and_certificates_are_those_of_the_array(options, bytes_allowed):
    with memory_limit(bytes_allowed):
        ours, _ = both(2, **options)
    _, dense = both(2, **options)
    found, expected = solve_active_set(ours), solve_active_set(dense)
    assert found.converged
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-10)
    scale = np.maximum(dense.energies, 1.0)
    assert (found.duality_gap <= 1e-9 * scale).all()
    # Of codes that are not optimal, too; the figures agree to rounding.
    rough = sparse.csr_array(0.9 * found.codes)
    one, other = measure(ours, rough), measure(dense, rough)
    for name in ("objective", "duality_gap", "kkt_violation"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(certify(ours, rough).duality_gap, one.duality_gap)
    fista = solve_fista(ours, tol=1e-6)
    assert fista.converged
    # A gap bounds what is above the optimum.
    assert (fista.objective - expected.objective <= fista.duality_gap + 1e-9 * scale).all()


def test_a_code_does_not_depend_on_its_batch_mates():
    ours, _ = both(3, n_signals=7)
    together = solve_active_set(ours)
    for k in range(7):
        alone = measure(ours.subset([k]), together.sparse_codes[[k]])
        assert alone.duality_gap[0] == together.duality_gap[k]


def test_few_and_many_signals_of_many_atoms():
    """No Gram matrix is made where it is larger than the limit; where it is not, it is."""
    rng = np.random.default_rng(4)
    matrix = sparse.random_array((2000, 300), density=0.02, rng=rng, format="csr")
    signals = rng.standard_normal((25, 300))
    for n_signals, bytes_allowed in ((25, 1e6), (25, 1e9), (1, 1e6)):
        with memory_limit(bytes_allowed):
            problem = LassoProblem(matrix, signals[:n_signals], 0.4)
        result = solve_active_set(problem)
        assert result.converged
        assert (result.relative_gap < 1e-9).all()
        assert problem.has_gram == (bytes_allowed > 1e6)
    with memory_limit(1e6):
        few = LassoProblem(matrix, signals[:2], 1.0)
    assert solve_spiking(few, tol=1e-2).converged


def test_text_like_regression_beside_scikit_learn():
    """An intercept is an atom of ones without penalty; scales of the columns are factors of the penalties."""
    rng = np.random.default_rng(5)
    X = sparse.random_array(
        (200, 1500), density=0.02, rng=rng, format="csr", data_sampler=lambda size: rng.exponential(size=size)
    )
    y = X[:, :8] @ rng.standard_normal(8) + 0.1 * rng.standard_normal(200) + 3.0
    atoms = sparse.vstack([X.T, np.ones((1, 200))])
    mean = X.mean(axis=0)
    scales = np.sqrt(X.power(2).mean(axis=0) - mean**2)
    scales[scales == 0.0] = 1.0
    for factors in (np.ones(1500), scales):
        alpha = 0.02
        result = solve_active_set(LassoProblem(atoms, y[np.newaxis], np.append(200 * alpha * factors, 0.0)))
        assert result.relative_gap[0] < 1e-12
        scaled = sparse.csc_array(X.multiply(1.0 / factors))
        theirs = Lasso(alpha=alpha, tol=1e-13, max_iter=100_000).fit(scaled, y)
        np.testing.assert_allclose(result.codes[0, :-1], theirs.coef_ / factors, atol=1e-7)
        np.testing.assert_allclose(result.codes[0, -1], theirs.intercept_, rtol=1e-7)
    np.testing.assert_allclose(penalty_max(X.T, y[np.newaxis]), np.abs(X.T @ y).max(), rtol=1e-13)


def test_sums_of_long_atoms_are_added_in_parts():
    """Bounds of rounding count on it."""
    rng = np.random.default_rng(6)
    matrix = sparse.vstack([np.ones((1, 5000)), sparse.random_array((20, 5000), density=0.01, rng=rng)])
    dictionary = dictionary_of(matrix)
    assert dictionary.features_of_atom == 5000
    assert len(dictionary._parts) == 5
    signals = rng.standard_normal((2, 5000))
    np.testing.assert_allclose(dictionary.correlate(signals), signals @ matrix.toarray().T, atol=1e-11)
    short = dictionary_of(matrix.tocsr()[1:])
    assert len(short._parts) == 1
    np.testing.assert_array_equal(short.correlate(signals)[0], short.correlate(signals[:1])[0])


def test_signals_may_be_sparse_too():
    rng = np.random.default_rng(7)
    array, signals = random_atoms(rng), random_atoms(rng, 4, 40, 0.3)
    sparse_signals = LassoProblem(sparse.csr_array(array), sparse.csr_array(signals), 0.5)
    found = solve_active_set(sparse_signals)
    np.testing.assert_allclose(
        found.codes, solve_active_set(LassoProblem(array, signals, 0.5)).codes, atol=1e-12
    )


def test_paths_streams_folds_and_derivatives():
    ours, dense = both(8, penalty=1.0)
    results = [path(problem, n_multiples=5, smallest=0.05) for problem in (ours, dense)]
    np.testing.assert_allclose(results[0].multiples, results[1].multiples, rtol=1e-13)
    np.testing.assert_allclose(results[0].codes, results[1].codes, atol=1e-9)
    scores = [held_out_score(problem.with_penalty(0.3)) for problem in (ours, dense)]
    np.testing.assert_allclose(*scores, rtol=1e-9)
    prepared = PreparedLasso(ours.dictionary, 0.3)
    one = solve_active_set(prepared.with_signals(ours.signals[:1]))
    np.testing.assert_allclose(one.codes, solve_active_set(ours.with_penalty(0.3)).codes[:1], atol=1e-12)
    upstream = np.random.default_rng(0).standard_normal((3, 60))
    codes = [solve_active_set(problem.with_penalty(0.3)) for problem in (ours, dense)]
    found, expected = (result.vjp(upstream) for result in codes)
    for name in ("signals", "dictionary", "l1"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10, err_msg=name)


def test_the_coder_takes_them():
    ours, dense = both(9)
    alpha = float(dense.l1_weights[0])
    codes = [
        SpikingSparseCoder(problem.dictionary, alpha=alpha, method="active_set").transform(dense.signals)
        for problem in (ours, dense)
    ]
    np.testing.assert_allclose(*codes, atol=1e-10)


def test_networks_are_those_of_the_array():
    pytest.importorskip("nir")
    ours, dense = both(10)
    graphs = [problem_to_nir(problem) for problem in (ours, dense)]
    for one, other in zip(*(graph.nodes.values() for graph in graphs), strict=True):
        if hasattr(one, "weight"):
            np.testing.assert_allclose(one.weight, other.weight, atol=1e-12)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_any_format_is_taken_and_none_is_changed(form):
    array = random_atoms(np.random.default_rng(11), 12, 9)
    matrix = sparse.csr_array(array).asformat(form)
    problem = LassoProblem(matrix, np.ones((1, 9)), 0.1)
    np.testing.assert_array_equal(problem.atoms.toarray(), array)
    np.testing.assert_array_equal(matrix.toarray(), array)
    copied = pickle.loads(pickle.dumps(problem))
    for part in (problem.dictionary.data, copied.atoms.matrix.data):
        assert not part.flags.writeable
    assert "sparse" in repr(problem)


def test_what_is_wrong_is_refused():
    ones = np.ones((1, 3))
    for numbers, kind, sentence in (
        ([[1.0, np.nan, 0.0]], ValueError, r"dictionary must be finite; got nan at \[0, 1\]"),
        (np.zeros((2, 3)), ValueError, "dictionary must have an atom of positive norm; got zeros only"),
        ([[1j, 0, 0]], TypeError, "dictionary must hold real numbers; got dtype complex128"),
        (np.zeros((0, 3)), ValueError, r"dictionary must not be empty; got shape \(0, 3\)"),
        ([[1e200, 0, 0]], ValueError, "dictionary must have rows of squared norm between"),
    ):
        with pytest.raises(kind, match=sentence):
            LassoProblem(sparse.csr_array(np.asarray(numbers)), ones, 0.1)
    with pytest.raises(ValueError, match=r"gram must be dictionary @ dictionary\.T"):
        LassoProblem(sparse.eye_array(3), ones, 0.1, gram=2.0 * np.eye(3))
    given = LassoProblem(sparse.eye_array(3), ones, 0.1, gram=np.eye(3))
    np.testing.assert_allclose(solve_active_set(given).codes, 0.9)
