"""Atoms: checks, and scaling to unit norm without overflow or underflow."""

from typing import Any

import numpy as np

from snn.base import checks


def unit_norm(atoms: np.ndarray) -> np.ndarray:
    """Return atoms, one per row, scaled to unit Euclidean norm; a zero atom stays zero."""
    return unit_rows(atoms)[0]


def checked_atoms(name: str, value: Any, *, positive: bool = True) -> np.ndarray:
    """Check atoms for a network, and return them as floats; no atom may be zero."""
    atoms = checks.real_array(name, value, shape=(None, None), meaning="(n_atoms, n_inputs)")
    if positive and atoms.min() < 0.0:
        raise ValueError(
            f"{name} must not be negative; got {atoms.min()}: pass positive_atoms=False to allow it"
        )
    require_positive_norms(name, atoms)
    return atoms


def require_positive_norms(name: str, atoms: np.ndarray) -> None:
    """Raise a ValueError that names the first zero atom, if any."""
    nonzero = atoms.any(axis=1)
    if not nonzero.all():
        raise ValueError(
            f"{name} must have atoms of positive norm; got zeros for atom {int(np.argmin(nonzero))}"
        )


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unit rows, norms and exponents; a row's norm is norm * 2**exponent, which may overflow."""
    # Shapes: unit (n_rows, n_values); norms (n_rows, 1); exponents (n_rows, 1).
    scaled, exponents = scaled_by_power_of_two(rows, axis=1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(norms > 0.0, norms, 1.0), norms, exponents


def scaled_by_power_of_two(array: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the array divided by powers of two, with largest magnitudes in [1/2, 1), and the exponents."""
    # The squares of the largest scaled values neither overflow nor vanish, and only values far below the
    # largest are rounded.  The largest magnitude is taken along `axis`, or over all values if `axis` is None.
    exponents = np.frexp(np.abs(array).max(axis=axis, keepdims=True))[1]
    return np.ldexp(array, -exponents), exponents
