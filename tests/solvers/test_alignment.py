"""Arrays that begin between two addresses of numbers have the codes of those that do not, to the last bit."""

import numpy as np
import pytest

from solvers import (
    ConvolutionalDictionary,
    LassoProblem,
    PreparedLasso,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from tests.reference.methods import methods
from tests.reference.problems import random_codes, random_problem


def shifted(array, offset):
    """The same numbers, `offset` bytes behind an address of numbers, read-only."""
    buffer = bytes(offset) + np.ascontiguousarray(array).tobytes()
    moved = np.frombuffer(buffer, offset=offset, dtype=np.float64).reshape(array.shape)
    assert moved.flags.aligned == (offset % 8 == 0)
    return moved


@pytest.mark.parametrize("offset", [1, 3, 4, 8, 24])
@pytest.mark.parametrize("solve", methods().values(), ids=methods())
def test_codes_are_the_same_bits(solve, offset):
    problem = random_problem(33, 70, share=0.3)
    tol = max(1e-3, solve.finest_tol)
    expected = solve(LassoProblem(problem.dictionary, problem.signals, problem.l1_weights), tol=tol)
    for moved in (
        LassoProblem(shifted(problem.dictionary, offset), problem.signals, problem.l1_weights),
        LassoProblem(problem.dictionary, shifted(problem.signals, offset), problem.l1_weights),
        LassoProblem(problem.dictionary, problem.signals, shifted(problem.l1_weights, offset)),
        LassoProblem(
            problem.dictionary, problem.signals, problem.l1_weights, gram=shifted(problem.gram, offset)
        ),
        PreparedLasso(shifted(problem.dictionary, offset), problem.l1_weights).with_signals(
            shifted(problem.signals, offset)
        ),
    ):
        result = solve(moved, tol=tol)
        np.testing.assert_array_equal(result.codes, expected.codes)
        np.testing.assert_array_equal(result.duality_gap, expected.duality_gap)


@pytest.mark.parametrize("offset", [1, 4])
def test_certificates_are_the_same_bits(offset):
    problem = random_problem(33, 70)
    codes = random_codes(problem)
    moved = LassoProblem(
        shifted(problem.dictionary, offset), shifted(problem.signals, offset), problem.l1_weights
    )
    expected, found = measure(problem, codes), measure(moved, shifted(codes, offset))
    for name in ("objective", "duality_gap", "kkt_violation"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("solve", [solve_active_set, solve_fista, solve_spiking])
def test_kernels_of_a_convolution_too(solve):
    rng = np.random.default_rng(0)
    kernels, signals = rng.standard_normal((2, 3, 3)), rng.standard_normal((1, 81))
    expected = solve(LassoProblem(ConvolutionalDictionary(kernels, (9, 9), 2), signals, 1.0))
    dictionary = ConvolutionalDictionary(shifted(kernels, 1), (9, 9), 2)
    result = solve(LassoProblem(dictionary, shifted(signals, 1), 1.0))
    np.testing.assert_array_equal(result.codes, expected.codes)
