"""What every solver's result says in the same units."""

import numpy as np
import pytest

from solvers import (
    LassoProblem,
    PreparedLasso,
    solve_active_set,
    solve_spiking,
)
from tests.reference.methods import methods


def dictionary() -> np.ndarray:
    atoms = np.random.default_rng(0).standard_normal((24, 12))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def signals() -> np.ndarray:
    """Return some of norms 0 to 1000."""
    drawn = np.random.default_rng(1).standard_normal((4, 12))
    return drawn * np.array([[0.0], [0.1], [1.0], [1000.0]])


@pytest.mark.parametrize("solve", methods("spiking_rate").values(), ids=methods("spiking_rate"))
def test_relative_gap_is_in_the_unit_of_tol(solve):
    for signal in signals():
        result = solve(
            LassoProblem(dictionary(), signal[np.newaxis], penalty=0.2 * max(np.abs(signal).max(), 0.1)),
            tol=1e-3,
        )
        energy = 0.5 * np.sum(signal**2)
        np.testing.assert_allclose(result.energies, [energy], rtol=1e-14)
        np.testing.assert_allclose(result.relative_gap * energy, result.duality_gap, rtol=1e-14)
        assert result.converged
        assert result.relative_gap[0] <= 1e-3


def test_a_zero_signal_with_a_zero_code_has_no_gap():
    result = solve_active_set(LassoProblem(dictionary(), signals()[:1], penalty=0.1))
    assert result.relative_gap.tolist() == [0.0]


def test_units_are_those_of_the_known_features():
    known = np.random.default_rng(2).random((3, 12)) < 0.6
    result = solve_spiking(LassoProblem(dictionary(), signals()[1:], penalty=0.05, mask=known))
    energies = 0.5 * np.sum(np.where(known, signals()[1:], 0.0) ** 2, axis=1)
    np.testing.assert_allclose(result.energies, energies, rtol=1e-14)


def test_prepared_codes_have_them_too():
    prepared = PreparedLasso(dictionary(), 0.05)
    result = solve_active_set(prepared.with_signals(signals()[2:3]))
    np.testing.assert_allclose(result.energies, 0.5 * np.sum(signals()[2] ** 2), rtol=1e-14)
