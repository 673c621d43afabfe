"""Signals in compressed rows: the codes and certificates of the same signals as an array."""

import numpy as np
import pytest
from scipy import sparse

from solvers import (
    METHODS,
    ConvolutionalDictionary,
    LassoProblem,
    PreparedLasso,
    compare,
    path,
    penalty_max,
    solve_active_set,
)
from solvers.certificate.optimality import measure
from tests.reference.methods import methods
from tests.reference.problems import random_codes, require_certified


def counts(n_signals=6, n_features=50, seed=0):
    """Counts of words, of which most are zero; the third signal has none."""
    rng = np.random.default_rng(seed)
    array = rng.poisson(2.0, (n_signals, n_features)) * (rng.random((n_signals, n_features)) < 0.2)
    array[2] = 0
    return array


def dictionary_of(n_atoms=70, n_features=50):
    return np.random.default_rng(1).random((n_atoms, n_features))


@pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
@pytest.mark.parametrize("solve", methods().values(), ids=methods())
def test_every_solver_takes_them(solve, positive):
    dense = LassoProblem(dictionary_of(), counts().astype(float), 3.0, positive=positive)
    problem = LassoProblem(dictionary_of(), sparse.csr_array(counts()), 3.0, positive=positive)
    tol = max(1e-3, solve.finest_tol)
    result = solve(problem, tol=tol)
    assert result.converged
    best = solve_active_set(dense, tol=1e-10)
    assert best.support_size.sum() > 10
    assert (result.objective - best.objective <= tol * dense.energies).all()
    assert not result.codes[2].any()
    require_certified(dense, result)
    require_certified(problem, result)


def test_parts_of_a_problem():
    array = counts().astype(float)
    dense, problem = (LassoProblem(dictionary_of(), rows, 1.0) for rows in (array, sparse.csr_matrix(array)))
    assert sparse.issparse(problem.signals)
    np.testing.assert_allclose(problem.energies, dense.energies, rtol=1e-14)
    np.testing.assert_allclose(problem.correlations, dense.correlations, rtol=1e-12)
    codes = random_codes(problem)
    for name in ("objective", "duality_gap", "kkt_violation"):
        figures = [getattr(measure(each, codes), name) for each in (problem, dense)]
        np.testing.assert_array_equal(*figures)
    part = problem.subset([4, 1])
    np.testing.assert_array_equal(part.dense_signals(), array[[4, 1]])
    np.testing.assert_array_equal(part.correlations, problem.correlations[[4, 1]])
    again = LassoProblem(dictionary_of(), sparse.csr_array(array[[4, 1]]), 1.0)
    np.testing.assert_array_equal(again.correlations, problem.correlations[[4, 1]])
    np.testing.assert_allclose(
        penalty_max(dictionary_of(), sparse.csr_array(array)), penalty_max(dictionary_of(), array), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.bool_], ids=str)
@pytest.mark.parametrize("index", [np.int32, np.int64], ids=str)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix], ids=lambda kind: kind.__name__)
def test_any_type_of_numbers_and_indices(kind, index, dtype):
    rows = kind(counts().astype(dtype))
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
    problem = LassoProblem(dictionary_of(), rows, 3.0)
    expected = LassoProblem(dictionary_of(), counts().astype(dtype).astype(float), 3.0)
    assert problem.signals.dtype == np.float64
    assert rows.dtype == dtype
    assert rows.indices.dtype == index
    np.testing.assert_array_equal(problem.dense_signals(), expected.signals)
    np.testing.assert_allclose(
        solve_active_set(problem).codes, solve_active_set(expected).codes, rtol=0, atol=1e-10
    )


def test_callers_rows_are_left_alone():
    """Unsorted, with duplicates and with zeros that are stored, read-only or not."""
    data = np.array([1.0, 2.0, 3.0, 0.0, 5.0])
    indices = np.array([2, 0, 2, 1, 3], dtype=np.int32)
    pointers = np.array([0, 4, 5], dtype=np.int32)
    for writeable in (True, False):
        arrays = [array.copy() for array in (data, indices, pointers)]
        for array in arrays:
            array.flags.writeable = writeable
        rows = sparse.csr_array(tuple(arrays), (2, 4))
        problem = LassoProblem(np.eye(4), rows, 0.5)
        np.testing.assert_array_equal(problem.dense_signals(), [[2.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
        assert problem.signals.nnz == 3
        np.testing.assert_array_equal(rows.data, data)
        np.testing.assert_array_equal(rows.indices, indices)
        np.testing.assert_array_equal(rows.indptr, pointers)
        np.testing.assert_array_equal(
            solve_active_set(problem).codes, [[1.5, 0.0, 3.5, 0.0], [0.0, 0.0, 0.0, 4.5]]
        )


def test_malformed_rows_are_refused():
    rows = sparse.csr_array(np.eye(3))
    rows.indices[1] = 7
    with pytest.raises(ValueError, match="signals must be valid compressed rows; got a csr_array of which"):
        LassoProblem(np.eye(3), rows, 0.5)


def test_numbers_that_do_not_fit():
    rows = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1e-150]]))
    with pytest.raises(ValueError, match=r"signals must have rows of squared norm .* for signal 1: rescale"):
        LassoProblem(np.eye(2), rows, 0.5)
    dictionary = ConvolutionalDictionary(np.ones((1, 2, 2)), (4, 4), 2)
    with pytest.raises(TypeError, match=r"signals must be a dense array with a Conv.*signals\.toarray\(\)"):
        LassoProblem(dictionary, sparse.csr_array(np.ones((1, 16))), 0.5)


def test_few_signals_in_a_large_dictionary():
    rng = np.random.default_rng(0)
    dictionary, rows = rng.standard_normal((600, 50)), sparse.csr_array(counts(n_signals=4)[[0]])
    result = solve_active_set(LassoProblem(dictionary, rows, 3.0), tol=1e-9)
    dense = LassoProblem(dictionary, rows.toarray(), 3.0)
    np.testing.assert_allclose(result.codes, solve_active_set(dense).codes, rtol=0, atol=1e-10)


def test_the_rest_of_the_package():
    rows = sparse.csr_array(counts())
    problem = LassoProblem(dictionary_of(), rows, 3.0)
    records = compare(
        problem, [name for name in METHODS if name not in ("spiking_rate", "digital")], tol=1e-2
    )
    assert all(record["n_converged"] == problem.n_signals for record in records)
    prepared = PreparedLasso(dictionary_of(), 3.0).with_signals(rows)
    np.testing.assert_array_equal(solve_active_set(prepared).codes, solve_active_set(problem).codes)
    followed = path(problem, [2.0, 1.0])
    np.testing.assert_allclose(followed.codes[-1], solve_active_set(problem).codes, rtol=0, atol=1e-9)


def test_large_sparse_signals_are_not_made_dense_at_once():
    """3,000 x 50,000 numbers would take 1.2 GB."""
    rng = np.random.default_rng(0)
    rows = sparse.random(3_000, 50_000, density=2e-4, format="csr", random_state=rng)
    problem = LassoProblem(rng.standard_normal((4, 50_000)), rows, 5.0)
    import tracemalloc

    tracemalloc.start()
    result = solve_active_set(problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.converged
    assert peak < 150e6
