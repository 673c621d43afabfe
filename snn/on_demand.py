"""Lateral inhibition of which only the rows of neurons that fire are ever computed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from snn import checks


class InhibitionOnDemand:
    """As `LateralInhibition`, W = -(S - diag S), where S is large and few neurons fire.

    A row of S is computed when its neuron fires for the first time, together with those of neurons that
    are about to, and kept.  Several runs may share one object, also in threads; they agree to rounding, for
    who asks first decides with which others a row is computed.

    Parameters
    ----------
    n_neurons : int
        Number of neurons.
    compute_rows : callable
        Takes indices, an array of int of shape (n_sources,), and returns those rows of S, an array of
        shape (n_sources, n_neurons): `strength[source, target]`, positive inhibits; the diagonal is not
        looked at.  It must not use this object.

    Raises
    ------
    TypeError, ValueError
        If `n_neurons` is not a positive integer, or `compute_rows` cannot be called; later, when a run asks
        for rows, if those are not finite real numbers of the right shape.
    """

    def __init__(self, n_neurons: int, compute_rows: Callable[[np.ndarray], np.ndarray]) -> None:
        self._n_neurons = checks.positive_integer("n_neurons", n_neurons)
        if not callable(compute_rows):
            raise TypeError(f"compute_rows must be callable; got {type(compute_rows).__name__}")
        self._compute_rows = compute_rows
        self._rows = np.zeros((1, self._n_neurons))
        self._row_of = np.full(self._n_neurons, -1, dtype=np.int64)
        self._n_stored = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict:
        with self._lock:
            state = {key: value for key, value in self.__dict__.items() if key != "_lock"}
            # Rows of its own: a copy goes on storing where this one does.
            state["_rows"] = self._rows[: max(self._n_stored, 1)].copy()
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def shape(self) -> tuple[int, int]:
        """(n_neurons, n_neurons)."""
        return self._n_neurons, self._n_neurons

    @property
    def n_stored(self) -> int:
        """How many rows were computed so far."""
        return self._n_stored

    def stored(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows, row_of): row r of S is rows[row_of[r]], where that is not -1.

        Neither array changes afterwards but for rows beyond those it tells of.
        """
        with self._lock:
            return self._rows, self._row_of

    def store(self, sources: np.ndarray, *, most: int | None = None, by: np.ndarray | None = None) -> None:
        """Compute the rows missing among `sources`; of more than `most`, those with the largest `by`."""
        with self._lock:
            missing = sources[self._row_of[sources] < 0]
            if most is not None and len(missing) > most:
                missing = missing[np.argsort(-by[missing], kind="stable")[:most]]
            if not len(missing):
                return
            rows = checks.real_array(
                "compute_rows(sources)",
                self._compute_rows(missing),
                shape=(len(missing), self._n_neurons),
                meaning="one row a source",
            )
            n_stored = self._n_stored + len(missing)
            if n_stored > len(self._rows):
                # Others may be reading: they keep what they have.
                larger = np.zeros((max(n_stored, 2 * len(self._rows)), self._n_neurons))
                larger[: self._n_stored] = self._rows[: self._n_stored]
                self._rows = larger
            self._rows[self._n_stored : n_stored] = rows
            row_of = self._row_of.copy()
            row_of[missing] = np.arange(self._n_stored, n_stored)
            self._row_of = row_of
            self._n_stored = n_stored

    def strength_of(self, sources: np.ndarray) -> np.ndarray:
        """Return rows of S, shape (n_sources, n_neurons), computing those that are missing."""
        self.store(np.unique(sources))
        rows, row_of = self.stored()
        return rows[row_of[sources]]

    def toarray(self) -> np.ndarray:
        """Return the weights in full."""
        array = -self.strength_of(np.arange(self._n_neurons))
        np.fill_diagonal(array, 0.0)
        return array

    def delivered(self, amounts: np.ndarray) -> np.ndarray:
        """See the function `snn.weights.delivered`."""
        sources = np.flatnonzero(amounts.reshape(-1, self._n_neurons).any(axis=0))
        strength = self.strength_of(sources)
        received = -amounts[..., sources] @ strength
        received[..., sources] += amounts[..., sources] * strength[np.arange(len(sources)), sources]
        return received

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        """See the function `snn.weights.out_degrees`."""
        strength = self.strength_of(sources)
        own = strength[np.arange(len(sources)), sources] != 0.0
        return np.count_nonzero(strength, axis=1) - own
