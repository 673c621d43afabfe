"""Weights with a dense row for every source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from snn._kernels.forms import Rows
from snn.base import checks
from snn.weights.protocol import Weights, kept, same_type

NO_CROSS = checks.read_only(np.empty(0))
ROWS_AT_ONCE = 64
"""Rows compared together, so that they stay in the cache."""


@dataclass(frozen=True, eq=False, repr=False)
class DenseWeights(Weights):
    """Weights of any kind, in one array.

    Parameters
    ----------
    values : array_like, shape (n_neurons, n_neurons)
        W: ``values[source, target]``, with a zero diagonal.

    Raises
    ------
    TypeError, ValueError
        If `values` does not hold finite real numbers, is not square, or has a non-zero diagonal.
    """

    values: np.ndarray

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, values: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _checked("values", self.values))

    @classmethod
    def from_argument(cls, name: str, value: Any) -> DenseWeights:
        """Return the weights of an array; messages call it `name`."""
        weights = object.__new__(cls)
        object.__setattr__(weights, "values", _checked(name, value))
        return weights

    @property
    def layout(self) -> tuple[int]:
        return (len(self.values),)

    @kept
    def kernel_form(self) -> Rows:
        return rows_of_matrix(self.values, 1.0)

    def toarray(self) -> np.ndarray:
        """Return the array itself, which is read-only."""
        return self.values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.values if dtype is None else self.values.astype(dtype, copy=False)
        return array.copy() if copy else array

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        return amounts @ self.values

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        return np.count_nonzero(self.values[sources], axis=1)

    @kept
    def largest_magnitudes(self) -> np.ndarray:
        return largest_off_diagonal(self.values)

    def column(self, target: int, sources: np.ndarray) -> np.ndarray:
        return self.values[sources, target]


@dataclass(frozen=True, eq=False, repr=False)
class LateralInhibition(Weights):
    """Weights minus a matrix of strengths, without its diagonal: W = -(S - diag S).

    A Gram matrix can be used as it is; nothing is copied.

    Parameters
    ----------
    strength : array_like, shape (n_neurons, n_neurons)
        S: ``strength[source, target]``; a positive strength inhibits; the diagonal is ignored.

    Raises
    ------
    TypeError, ValueError
        If `strength` does not hold finite real numbers, or is not square.
    """

    strength: np.ndarray

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, strength: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        strength = checks.real_array(
            "strength", self.strength, shape=(None, None), meaning="(source, target)"
        )
        require_square("strength", strength.shape)
        object.__setattr__(self, "strength", checks.read_only(strength))

    @classmethod
    def unchecked(cls, strength: np.ndarray) -> LateralInhibition:
        """Return the weights of a square float64 array in C order, without validation."""
        weights = object.__new__(cls)
        object.__setattr__(weights, "strength", checks.read_only(strength))
        return weights

    @property
    def layout(self) -> tuple[int]:
        return (len(self.strength),)

    @kept
    def kernel_form(self) -> Rows:
        return rows_of_matrix(self.strength, -1.0)

    def toarray(self) -> np.ndarray:
        """Return the weights as a dense array."""
        array = -self.strength
        np.fill_diagonal(array, 0.0)
        return array

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        return amounts * np.diagonal(self.strength) - amounts @ self.strength

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        own = self.strength[sources, sources] != 0.0
        return np.count_nonzero(self.strength[sources], axis=1) - own

    @kept
    def largest_magnitudes(self) -> np.ndarray:
        return largest_off_diagonal(self.strength)

    def column(self, target: int, sources: np.ndarray) -> np.ndarray:
        return np.where(sources == target, 0.0, -self.strength[sources, target])


def rows_of_matrix(matrix: np.ndarray, factor: float) -> Rows:
    """Return the record of a matrix whose rows are all there."""
    return Rows(same_type(matrix, np.float64), _consecutive(len(matrix)), factor, NO_CROSS)


def largest_off_diagonal(values: np.ndarray, *, first_source: int = 0, first_target: int = 0) -> np.ndarray:
    """Return the largest absolute weight to each target, without those from a neuron to itself.

    The weights are between two ranges of neurons, which begin at `first_source` and `first_target`.
    """
    n_sources, n_targets = values.shape
    largest = np.zeros(n_targets)
    for first in range(0, n_sources, ROWS_AT_ONCE):
        rows = np.abs(values[first : first + ROWS_AT_ONCE])
        own = np.arange(first, first + len(rows)) + first_source - first_target
        inside = (own >= 0) & (own < n_targets)
        rows[inside, own[inside]] = 0.0
        np.maximum(largest, rows.max(axis=0), out=largest)
    return largest


def require_square(name: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless a matrix is square."""
    if shape[0] != shape[1]:
        raise ValueError(f"{name} must be square, (source, target); got shape {shape}")


def require_zero_diagonal(name: str, diagonal: np.ndarray) -> None:
    """Raise ValueError if a neuron is connected to itself."""
    if diagonal.any():
        neuron = int(np.flatnonzero(diagonal)[0])
        raise ValueError(
            f"{name} must have a zero diagonal (no neuron connects to itself); "
            f"got {diagonal[neuron]} at [{neuron}, {neuron}]: set the diagonal to exactly 0"
        )


def _checked(name: str, value: Any) -> np.ndarray:
    array = checks.real_array(name, value, shape=(None, None), meaning="(source, target)")
    require_square(name, array.shape)
    require_zero_diagonal(name, np.diagonal(array))
    return checks.read_only(array)


@lru_cache(maxsize=16)
def _consecutive(n_rows: int) -> np.ndarray:
    return checks.read_only(np.arange(n_rows))
