"""The protocol of weights: everything that simulators, results and solvers need of a form."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from snn._kernels.forms import CompressedRows, Rows, Segments, Stencil
from snn.base.describe import Described
from snn.base.value import Value

KernelForm: TypeAlias = Rows | Segments | CompressedRows | Stencil

Result = TypeVar("Result")


def kept(method: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Return a method that computes its result once for each object, which keeps it."""
    name = f"_{method.__name__}"

    @wraps(method)
    def once(self: Any) -> Result:
        if name not in vars(self):
            vars(self)[name] = method(self)
        result: Result = vars(self)[name]
        return result

    return once


class Weights(Value, Described, ABC):
    """Weights of a network: ``weights[source, target]``; a positive weight excites.

    A form of weights is a subclass that defines `layout`, `kernel_form` and `toarray`,
    and whatever else its structure makes cheaper.  It is immutable, and several runs may use one object at
    the same time.  Objects convert to arrays: ``numpy.asarray(weights)``.
    """

    _shown: ClassVar[tuple[str, ...]] = ("layout", "work_per_spike", "nbytes")

    @property
    @abstractmethod
    def layout(self) -> tuple[int, ...]:
        """Order of the neurons: the shape of the array whose entries they are, in C order."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_neurons, n_neurons)."""
        n_neurons = math.prod(self.layout)
        return n_neurons, n_neurons

    @property
    def work_per_spike(self) -> float:
        """Mean number of targets that a spike touches, stored zeros included; every neuron by default."""
        return float(self.shape[0])

    @abstractmethod
    def kernel_form(self) -> KernelForm:
        """Return the record that kernels take; it may be shared by threads."""

    @abstractmethod
    def toarray(self) -> np.ndarray:
        """Return the weights as a dense array, shape (n_neurons, n_neurons)."""

    def tocsr(self) -> sparse.csr_array:
        """Return the weights in compressed rows, a row for each source, without stored zeros."""
        return sparse.csr_array(self.toarray())

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        """Return W^T amounts, shape (..., n_neurons).

        ``received[..., i] = sum_j W[j, i] amounts[..., j]``: what each target receives when every source j
        sends ``amounts[..., j]``.
        """
        flat = amounts.reshape(-1, self.shape[0]) @ self.tocsr()
        return flat.reshape(amounts.shape)

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        """Return the number of targets of each source: the non-zero weights of its row."""
        return np.diff(self.tocsr().indptr)[sources]

    def largest_magnitudes(self) -> np.ndarray:
        """Return an upper bound of the absolute weights to each target, shape (n_neurons,).

        If rows are computed on demand, it is a bound of the rows that are known.
        """
        matrix, largest = self.tocsr(), np.zeros(self.shape[0])
        np.maximum.at(largest, matrix.indices, np.abs(matrix.data))
        return largest

    def column(self, target: int, sources: np.ndarray) -> np.ndarray:
        """Return the weights from `sources` to one target, shape (n_sources,)."""
        return self.tocsr()[:, [target]].toarray().reshape(-1)[sources]

    def prepare(
        self, sources: np.ndarray, *, at_most: int | None = None, priority: np.ndarray | None = None
    ) -> None:
        """Compute the weights of `sources` that are missing; most forms have all of them.

        Parameters
        ----------
        sources : ndarray of int, shape (n_sources,)
            Neurons whose spikes need their weights.
        at_most : int, optional
            Compute no more rows than this.
        priority : ndarray, shape (n_neurons,), optional
            With `at_most`, those rows whose neurons have the largest priority.
        """

    def n_deliveries(self, spike_counts: np.ndarray) -> np.ndarray:
        """Return how many times a spike reached a target: spike_counts @ out-degrees, shape (...,)."""
        fired = np.flatnonzero(spike_counts.reshape(-1, spike_counts.shape[-1]).any(axis=0))
        return spike_counts[..., fired] @ self.out_degrees(fired)

    @property
    def nbytes(self) -> int:
        """Memory of the weights as they are stored, in bytes."""
        return sum(getattr(stored, "nbytes", 0) for stored in Weights.__getstate__(self).values())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(f"copy must not be False; the array of a {type(self).__name__} is computed")
        array = np.asarray(self.toarray(), dtype=dtype)
        return array.copy() if copy else array

    def __getstate__(self) -> dict[str, Any]:
        # The fields of the dataclass alone: what is kept beside them is computed again where it is needed.
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}


def same_type(array: np.ndarray, dtype: type) -> np.ndarray:
    """Return a flat, contiguous, read-only view of `array`, or a copy where its type differs."""
    flat: np.ndarray = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view()
    flat.flags.writeable = False
    return flat
