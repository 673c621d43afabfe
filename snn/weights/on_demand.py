"""Lateral inhibition whose rows are computed when their neurons fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snn._kernels.forms import Rows
from snn.base import checks
from snn.base.locks import ForkSafeLock
from snn.weights.dense import NO_CROSS
from snn.weights.protocol import Weights, same_type


class InhibitionOnDemand(Weights):
    """As `LateralInhibition`, W = -(S - diag S), where S is large and few neurons fire.

    A row of S is computed when its neuron fires for the first time, and kept.  Rows of neurons that will fire
    soon are computed with it.  Several runs may share one object, also in threads.  They agree to rounding:
    which rows are computed together depends on the run that needs them first.

    Parameters
    ----------
    n_neurons : int
        Number of neurons.
    compute_rows : callable
        Takes indices, an array of int of shape (n_sources,), and returns those rows of S, an array of
        shape (n_sources, n_neurons): ``strength[source, target]``; a positive strength inhibits; the diagonal
        is ignored.  It must not use this object.

    Raises
    ------
    TypeError, ValueError
        If `n_neurons` is not a positive integer, or `compute_rows` cannot be called; later, when a run
        needs rows, if those are not finite real numbers of the right shape.
    """

    def __init__(self, n_neurons: int, compute_rows: Callable[[np.ndarray], np.ndarray]) -> None:
        self._n_neurons = checks.positive_integer("n_neurons", n_neurons)
        if not callable(compute_rows):
            raise TypeError(f"compute_rows must be callable; got {type(compute_rows).__name__}")
        self._compute_rows = compute_rows
        self._rows = np.zeros((1, self._n_neurons))
        self._row_of = np.full(self._n_neurons, -1, dtype=np.int64)
        self._n_stored = 0
        self._largest, self._n_bounded = np.zeros(self._n_neurons), 0
        self._lock = ForkSafeLock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = {key: value for key, value in self.__dict__.items() if key != "_lock"}
            # A copy needs rows of its own: both may store more at the same place.
            state["_rows"] = self._rows[: max(self._n_stored, 1)].copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=ForkSafeLock())

    @property
    def layout(self) -> tuple[int]:
        return (self._n_neurons,)

    @property
    def n_stored(self) -> int:
        """Number of rows computed so far."""
        return self._n_stored

    @property
    def nbytes(self) -> int:
        return 8 * self._n_neurons * self._n_stored

    def stored_facts(self) -> dict[str, str]:
        return {"rows computed": f"{self._n_stored:,} of {self._n_neurons:,}", **super().stored_facts()}

    def kernel_form(self) -> Rows:
        # The rows computed so far; later ones are not added to this record.
        with self._lock:
            rows, row_of = self._rows, self._row_of
        # Rows that this record knows never change; others may be written behind them meanwhile.
        return Rows(same_type(rows, np.float64), same_type(row_of, np.int64), -1.0, NO_CROSS)

    def prepare(
        self, sources: np.ndarray, *, at_most: int | None = None, priority: np.ndarray | None = None
    ) -> None:
        with self._lock:
            missing = sources[self._row_of[sources] < 0]
            if at_most is not None and len(missing) > at_most:
                if priority is not None:
                    missing = missing[np.argsort(-priority[missing], kind="stable")]
                missing = missing[:at_most]
            if len(missing):
                self._store(missing)

    def _store(self, missing: np.ndarray) -> None:
        rows = checks.real_array(
            "compute_rows(sources)",
            self._compute_rows(missing),
            shape=(len(missing), self._n_neurons),
            meaning="one row for each source",
        )
        n_stored = self._n_stored + len(missing)
        if n_stored > len(self._rows):
            # Other runs may be reading: they keep the array that they have.  Memory takes room when it is
            # written.
            larger = np.empty((2 * n_stored, self._n_neurons))
            larger[: self._n_stored] = self._rows[: self._n_stored]
            self._rows = larger
        self._rows[self._n_stored : n_stored] = rows
        row_of = self._row_of.copy()
        row_of[missing] = np.arange(self._n_stored, n_stored)
        self._row_of = row_of
        self._n_stored = n_stored

    def strength_of(self, sources: np.ndarray) -> np.ndarray:
        """Return rows of S, shape (n_sources, n_neurons), computing those that are missing."""
        self.prepare(np.unique(sources))
        form = self.kernel_form()
        return form.values.reshape(-1, self._n_neurons)[form.row_of[sources]]

    def toarray(self) -> np.ndarray:
        """Return the weights as a dense array, all rows of them computed."""
        array = -self.strength_of(np.arange(self._n_neurons))
        np.fill_diagonal(array, 0.0)
        return array

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        sources = np.flatnonzero(amounts.reshape(-1, self._n_neurons).any(axis=0))
        strength = self.strength_of(sources)
        received = -amounts[..., sources] @ strength
        received[..., sources] += amounts[..., sources] * strength[np.arange(len(sources)), sources]
        return received

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        strength = self.strength_of(sources)
        own = strength[np.arange(len(sources)), sources] != 0.0
        return np.count_nonzero(strength, axis=1) - own

    def largest_magnitudes(self) -> np.ndarray:
        with self._lock:
            sources = np.flatnonzero(self._row_of >= self._n_bounded)
            if len(sources):
                rows = np.abs(self._rows[self._row_of[sources]])
                rows[np.arange(len(sources)), sources] = 0.0
                self._largest = np.maximum(self._largest, rows.max(axis=0))
                self._n_bounded = self._n_stored
            return self._largest

    def column(self, target: int, sources: np.ndarray) -> np.ndarray:
        return np.where(sources == target, 0.0, -self.strength_of(sources)[:, target])
