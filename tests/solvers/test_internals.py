"""Figures of internals: multiply-adds of kernels, by hand and by loops of the textbook, and rounds."""

import warnings
from functools import partialmethod

import numpy as np
import pytest
from scipy import sparse

from solvers import METHODS, ConvolutionalDictionary, LassoProblem
from solvers._kernels.factor import Terms, enter, join, leave, new_working_set
from solvers._kernels.products import GramMatrix
from solvers._kernels.sweeps import GridProblem, sweep
from solvers.gram.atom_products import FullGram
from solvers.gram.convolutional import _kernel_grid, gram_part
from solvers.gram.nested_dissection import Factor
from solvers.problem.convolutional_dictionary import ConvolutionalAtoms
from solvers.results.codes import certificate_work
from solvers.studies.stream import _work_of_mixture
from tests.reference.problems import random_problem, require_certified


@pytest.mark.parametrize("n_block", [1, 3, 8, 20])
def test_atoms_that_enter_cost_the_same_in_any_blocks(n_block):
    """An atom that joins s atoms costs a triangle, and inner products for its remainder and image."""
    rng = np.random.default_rng(5)
    dictionary = rng.standard_normal((20, 30))
    terms = Terms(
        rng.standard_normal((1, 20)), np.full(20, 0.1), np.zeros(20), np.ones(20), np.ones(20, dtype=np.bool_)
    )
    work = new_working_set(20)
    for atom in range(20):
        join(work, atom, GramMatrix(dictionary @ dictionary.T), terms, 0, atom)
    size, places, signs = 0, rng.permutation(20), np.ones(20)
    for start in range(0, 20, n_block):
        stop = min(start + n_block, 20)
        size = enter(work, size, places[start:stop], signs[start:stop], stop - start)
    assert size == 20
    assert work.n_multiply_adds[0] == sum(s * (s + 1) // 2 + s + s + 1 for s in range(20))
    before = int(work.n_multiply_adds[0])
    leave(work, 20, 16)
    # Rotations of rows 17, 18 and 19 change 2, 1 and 0 pairs behind the diagonal, the image, and the radius.
    assert work.n_multiply_adds[0] - before == 4 * (2 + 1 + 0) + 3 * (4 + 2)


def test_sweeps_by_hand():
    """Two kernels of four pixels are at one position: each coefficient moves once, and then stays."""
    dictionary = ConvolutionalAtoms(np.array([[[1.0, 0], [0, 0]], [[0, 1.0], [0, 0]]]), (2, 2), 1)
    grid = _kernel_grid(dictionary)
    code, image, drift = np.zeros((1, 2)), np.array([[2.0, 3.0], [0.0, 0.0]]), np.zeros(1)
    problem = GridProblem(np.full((1, 2), 0.5), np.ones((1, 2)), np.ones((1, 2), bool))
    assert sweep(grid, problem, False, 0.0, code, image, drift) == 2
    np.testing.assert_allclose(code, [[1.5, 2.5]])
    # Two passes over two coefficients: an inner product and a product for each.  Two moves of four pixels.
    assert grid.n_multiply_adds[0] == 2 * 2 * (4 + 1) + 2 * 4
    before = int(grid.n_multiply_adds[0])
    drift[:] = 1.0
    assert sweep(grid, problem, True, 0.5, code, image, drift) == 0
    # One pass over two coefficients that stay: an inner product and a product for each.
    assert grid.n_multiply_adds[0] - before == 2 * (4 + 1)


def test_factorisation_of_one_region_is_that_of_a_dense_matrix():
    rng = np.random.default_rng(1)
    dictionary = ConvolutionalAtoms(rng.standard_normal((5, 4, 4)), (6, 6), 2)
    members = np.arange(dictionary.shape[0])
    n = len(members)
    part = gram_part(dictionary, members, np.full(n, 0.1))
    factor = Factor(part, np.ones(n), 0.0)
    factor.solve(np.ones(n))
    # The number of products in the loops of the textbook.
    cholesky = sum((n - j) * (j + 1) for j in range(n))
    assert factor.n_multiply_adds == cholesky + n * (n + 1)


def test_counts_beyond_32_bits():
    """Sparse codes have 32-bit pointers; their products with 65,536 features per atom exceed 32 bits."""
    dictionary = ConvolutionalDictionary(np.ones((1, 256, 256)), (512, 512), 1)
    n_atoms, n_covered = dictionary.shape[0], 256 * 256
    problem = LassoProblem(dictionary, np.ones((1, 512 * 512)), 1e6)
    code = sparse.csr_array(np.ones((1, n_atoms)))
    assert code.indptr.dtype == np.int32
    assert certificate_work(problem, np.diff(code.indptr))[0] == 4 * n_atoms * n_covered + 2 * 512 * 512
    assert _work_of_mixture(problem, [code])[0] == n_atoms * n_covered + 2 * 512 * 512


def test_signals_whose_active_set_does_not_end_run_on_and_do_not_disturb_the_others(monkeypatch):
    """With few rounds some signals need a better start; their new codes must not disturb finished rows."""
    impatient = partialmethod(FullGram.optimal_codes, max_rounds=3)
    monkeypatch.setattr(FullGram, "optimal_codes", impatient)
    problem = random_problem(32, 64, n_signals=12, share=0.1)
    method = METHODS["active_set_from_spikes"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = method(problem, tol=1e-9)
        each = [method(problem.subset([signal]), tol=1e-9) for signal in range(12)]
    assert len(np.unique(together.info["duration"])) > 1
    assert together.converged
    require_certified(problem, together)
    for signal, alone in enumerate(each):
        assert alone.info["n_corrections"][0] == together.info["n_corrections"][signal]
        assert alone.info["duration"][0] == together.info["duration"][signal]
        for name in ("codes", "spike_counts", "duality_gap"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[signal])
