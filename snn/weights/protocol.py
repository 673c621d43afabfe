"""The protocol of weights: everything that simulators, results and solvers use of a form of weights."""

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from snn._kernels.delivery import Form
from snn.base.describe import Described
from snn.base.value import Value


class Weights(Value, Described, ABC):
    """Weights of a network: ``weights[source, target]``; a positive weight excites.

    A form of weights is a subclass that defines `shape`, `kernel_form`, and `toarray` or `tocsr`.  A subclass
    may override other methods that its structure makes cheaper.  Weights are immutable, and several runs may
    use an object at the same time.  ``numpy.asarray(weights)`` returns an array.
    """

    _shown: ClassVar[tuple[str, ...]] = ("shape",)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix of weights, (n_neurons, n_neurons)."""

    @property
    @abstractmethod
    def kernel_form(self) -> Form:
        """Return the record of the weights for kernels; threads may share the record."""

    def toarray(self) -> np.ndarray:
        """Return the weights as a dense array, shape (n_neurons, n_neurons)."""
        return self.tocsr().toarray()

    def tocsr(self) -> sparse.csr_array:
        """Return the weights in compressed rows, one row for each source, without stored zeros."""
        # This code takes as little as a tenth of the time of SciPy's conversion of an array.
        array = self.toarray()
        kept = array != 0.0
        targets = np.broadcast_to(np.arange(len(array)), array.shape)[kept]
        starts = np.append(0, np.cumsum(np.count_nonzero(kept, axis=1)))
        return sparse.csr_array((array[kept], targets, starts), array.shape)

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        """Return W^T amounts, shape (..., n_neurons).

        ``received[..., i] = sum_j W[j, i] amounts[..., j]`` is the charge that target i receives if every
        source j sends ``amounts[..., j]`` spikes.
        """
        return (amounts.reshape(-1, self.shape[0]) @ self.tocsr()).reshape(amounts.shape)

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        """Return the number of targets (non-zero weights) of each source, shape (n_sources,)."""
        return np.diff(self.tocsr().indptr)[sources]

    def _largest_magnitudes(self) -> np.ndarray:
        """Return an upper bound on the computed absolute weights to each target, shape (n_neurons,)."""
        matrix, largest = self.tocsr(), np.zeros(self.shape[0])
        np.maximum.at(largest, matrix.indices, np.abs(matrix.data))
        return largest

    def _column(self, target: int, sources: np.ndarray) -> np.ndarray:
        """Return the weights from `sources` to one target, shape (n_sources,)."""
        return self.tocsr()[:, [target]].toarray().reshape(-1)[sources]

    def compute_rows(
        self, sources: np.ndarray, *, at_most: int | None = None, priority: np.ndarray | None = None
    ) -> None:
        """Compute at most `at_most` missing rows of weights, first those of the largest priority."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                f"copy must not be False for {type(self).__name__}, whose array is computed; got False"
            )
        array = np.asarray(self.toarray(), dtype=dtype)
        return array.copy() if copy else array

    def __getstate__(self) -> dict[str, Any]:
        # A pickle has only the fields of the dataclass; other attributes are computed again when needed.
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def same_type(array: np.ndarray, dtype: type) -> np.ndarray:
    """Return a flat, contiguous, read-only view of `array`, or a copy if its type or layout differs."""
    flat: np.ndarray = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view()
    flat.flags.writeable = False
    return flat


def require_square(name: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless a matrix is square."""
    if shape[0] != shape[1]:
        raise ValueError(f"{name} must be square, (source, target); got shape {shape}")


def require_zero_diagonal(name: str, matrix: np.ndarray | sparse.csr_array) -> None:
    """Raise ValueError unless a matrix is square and no neuron connects to itself."""
    require_square(name, matrix.shape)
    diagonal = matrix.diagonal()
    if diagonal.any():
        neuron = int(np.flatnonzero(diagonal)[0])
        raise ValueError(
            f"{name} must have a zero diagonal, since no neuron connects to itself; got {diagonal[neuron]} "
            f"at [{neuron}, {neuron}]: set the diagonal to exactly 0"
        )
