"""Atoms: unit norms, and what functions require of atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dictlearn.scaling import unit_rows
from snn.base import checks


def unit_norm(atoms: np.ndarray) -> np.ndarray:
    """Return atoms scaled to unit Euclidean norm; an atom of zeros stays as it is.

    Parameters
    ----------
    atoms : ndarray, shape (n_atoms, n_features)
    """
    return unit_rows(atoms)[0]


def checked_atoms(
    name: str, value: Any, *, n_features: int | None = None, meaning: str = "(n_atoms, n_features)"
) -> np.ndarray:
    """Return `value` as atoms for a network: a float array, none of them negative or zero.

    Parameters
    ----------
    name : str
        Its name in messages.
    value : array_like, shape (n_atoms, n_features)
    n_features : int, optional
        How many there must be, if that is known.
    meaning : str, optional
        What the axes are, for the message.

    Raises
    ------
    TypeError, ValueError
        If it is of the wrong kind, shape or value.
    """
    atoms = checks.real_array(name, value, shape=(None, n_features), meaning=meaning)
    if atoms.min() < 0.0:
        raise ValueError(f"{name} must not be negative; got {atoms.min()}")
    require_positive_norms(name, atoms)
    return atoms


def require_positive_norms(name: str, atoms: np.ndarray) -> None:
    """Raise ValueError naming the first atom that is zero.

    Parameters
    ----------
    name : str
        Their name in messages.
    atoms : ndarray, shape (n_atoms, n_features)
    """
    nonzero = atoms.any(axis=1)
    if not nonzero.all():
        raise ValueError(
            f"{name} must have atoms of positive norm; got zeros for atom {int(np.argmin(nonzero))}"
        )
