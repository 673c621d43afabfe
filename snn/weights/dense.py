"""Weights with a dense row for every source: rows may be computed later, and sign pairs share them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snn._interrupts import fork_safe_lock
from snn._kernels.rows import Rows
from snn.base import checks
from snn.base.value import assign, replaced, unchecked
from snn.weights.protocol import Weights, require_square, same_type

NO_CROSS = checks.read_only(np.empty(0))
ROWS_COMPARED = 64  # number of rows that are compared together: so few rows stay in the processor's cache


class _Rows:
    """All rows of strengths, or the rows computed so far; threads and sign pairs may share one object."""

    def __init__(
        self,
        stored: np.ndarray,
        row_of: np.ndarray,
        compute_rows: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self._stored: np.ndarray
        self.flat: tuple[np.ndarray, np.ndarray]
        self.n_rows = len(row_of)
        self.n_stored = self.n_rows if compute_rows is None else 0
        self._largest, self._n_bounded = np.zeros(self.n_rows), 0
        self._compute_rows, self._lock = compute_rows, fork_safe_lock()
        self._place(stored, row_of, self.n_stored)

    def _place(self, stored: np.ndarray, row_of: np.ndarray, n_stored: int) -> None:
        """Set the rows: row j is ``stored[row_of[j]]``, or missing if ``row_of[j]`` is -1."""
        # All attributes are set at once, for Ctrl-C and for threads that read.  Stored rows never change.
        flat = same_type(stored, np.float64), same_type(row_of, np.int64)
        assign(self, _stored=stored, n_stored=n_stored, flat=flat)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = dict(vars(self))
        del state["_lock"]
        # A copy needs an array of its own, because both objects may store further rows in the same place.
        stored, (_, row_of) = state["_stored"][: max(state["n_stored"], 1)], state.pop("flat")
        return state | {"_stored": stored, "_row_of": row_of}

    def __setstate__(self, state: dict[str, Any]) -> None:
        row_of = state.pop("_row_of")
        assign(self, **state, _lock=fork_safe_lock())
        self._place(self._stored, row_of, self.n_stored)

    def of(self, sources: np.ndarray, target: int | None = None) -> np.ndarray:
        """Return rows, shape (n_sources, n_rows), or their entries at one target; compute missing rows."""
        self.compute(np.unique(sources))
        values, row_of = self.flat
        rows = values.reshape(-1, self.n_rows)
        if target is not None:
            return rows[row_of[sources], target]
        is_whole = self._compute_rows is None and len(sources) == self.n_rows
        return rows if is_whole and (sources == row_of).all() else rows[row_of[sources]]

    def compute(
        self, sources: np.ndarray, at_most: int | None = None, priority: np.ndarray | None = None
    ) -> None:
        """Compute at most `at_most` missing rows, first the rows with the largest priority."""
        if self._compute_rows is None:
            return
        with self._lock:
            missing = sources[self.flat[1][sources] < 0]
            if priority is not None and at_most is not None and len(missing) > at_most:
                missing = missing[np.argsort(-priority[missing], kind="stable")[:at_most]]
            if len(missing):
                self._store(missing)

    def _store(self, missing: np.ndarray) -> None:
        assert self._compute_rows is not None
        rows = checks.real_array(
            "compute_rows(sources)",
            self._compute_rows(missing),
            shape=(len(missing), self.n_rows),
            meaning="one row for each source",
        )
        stored, n_stored = self._stored, self.n_stored + len(missing)
        if n_stored > len(stored):
            # Other runs may still read the old array.  Unwritten parts of the new array take no memory.
            stored = np.empty((2 * n_stored, self.n_rows))
            stored[: self.n_stored] = self._stored[: self.n_stored]
        stored[self.n_stored : n_stored] = rows
        row_of = self.flat[1].copy()
        row_of[missing] = np.arange(self.n_stored, n_stored)
        self._place(stored, row_of, n_stored)

    def largest(self) -> np.ndarray:
        """Return the largest absolute strength to each target in all computed rows, without the diagonal."""
        with self._lock:
            values, row_of = self.flat
            sources = np.flatnonzero(row_of >= self._n_bounded)
            for first in range(0, len(sources), ROWS_COMPARED):
                block = sources[first : first + ROWS_COMPARED]
                rows = np.abs(values.reshape(-1, self.n_rows)[row_of[block]])
                rows[np.arange(len(block)), block] = 0.0
                self._largest = np.maximum(self._largest, rows.max(axis=0))
            self._n_bounded = self.n_stored
            return self._largest


@dataclass(frozen=True, eq=False, init=False, repr=False)
class DenseRows(Weights):
    """Weights with a dense row for every source: a factor times strengths S, without the diagonal of S.

    ::

        W[j, i] = factor S[j, i]    i != j

    With ``factor=-1``, a Gram matrix becomes lateral inhibition without a copy.  `on_demand` makes weights
    whose rows are computed when their neurons fire; `sign_pairs` makes weights of pairs of neurons.

    Parameters
    ----------
    strengths : array_like, shape (n_neurons, n_neurons)
        S: ``strengths[source, target]``; the diagonal is ignored.
    factor : float, default 1.0
        Factor of all strengths; -1 if a positive strength inhibits.
    """

    _rows: _Rows
    _factor: float
    _cross: np.ndarray

    _shown: ClassVar = (*Weights._shown, "n_stored")

    def __init__(self, strengths: ArrayLike, factor: float = 1.0) -> None:
        array = checks.real_array("strengths", strengths, shape=(None, None), meaning="(source, target)")
        require_square("strengths", array.shape)
        rows = _Rows(checks.read_only(array), checks.read_only(np.arange(len(array))))
        assign(self, _rows=rows, _factor=checks.real_number("factor", factor), _cross=NO_CROSS)

    @classmethod
    def on_demand(
        cls, n_neurons: int, compute_rows: Callable[[np.ndarray], np.ndarray], factor: float = 1.0
    ) -> DenseRows:
        """Return weights whose rows are computed when needed, for large networks in which few neurons fire.

        A row is computed when its neuron first fires, together with the rows of neurons that will fire soon,
        and is kept.  Several runs may share one object, also in different threads.  The results of such runs
        agree only to rounding: the first run that needs a row decides which rows are computed together.

        Parameters
        ----------
        n_neurons : int
            Number of neurons.
        compute_rows : callable
            Function that gets an int array of indices, shape (n_sources,), and returns the rows of S with
            these indices, shape (n_sources, n_neurons).  The function must not use the new weights.
        factor : float, default 1.0
            Factor of all strengths; -1 if a positive strength inhibits.
        """
        n_neurons = checks.positive_integer("n_neurons", n_neurons)
        if not callable(compute_rows):
            raise TypeError(f"compute_rows must be callable; got {type(compute_rows).__name__}")
        rows = _Rows(np.zeros((1, n_neurons)), np.full(n_neurons, -1), compute_rows)
        return unchecked(cls, _rows=rows, _factor=checks.real_number("factor", factor), _cross=NO_CROSS)

    def sign_pairs(self, cross: ArrayLike) -> DenseRows:
        """Return weights of sign pairs: the two neurons of a pair receive one current with opposite signs.

        Neuron i < n is the positive neuron of pair i, and neuron n + i the negative neuron.  With the weights
        L of this object and the diagonal matrix X of the cross weights, the 2n x 2n weights are::

            [[  L,  X - L ],
             [ X - L,  L  ]]

        The 2n x 2n matrix is never built.  A spike reads one row of L, and the new weights use the rows of L
        without a copy.

        Parameters
        ----------
        cross : array_like, shape (n,)
            Diagonal of X: the weight from either neuron of a pair to the other.
        """
        if len(self._cross):
            raise TypeError("sign_pairs must be made from single neurons; got weights of sign pairs")
        n_pairs = self._rows.n_rows
        cross = checks.real_array("cross", cross, shape=(n_pairs,), meaning="one weight for each pair")
        return replaced(self, _cross=checks.read_only(cross))

    @property
    def shape(self) -> tuple[int, int]:
        return (2 * len(self._cross) or self._rows.n_rows,) * 2

    @property
    def n_stored(self) -> int:
        """Number of rows computed so far."""
        return self._rows.n_stored

    @property
    def kernel_form(self) -> Rows:
        # The record keeps the rows computed so far; later rows are in a new record.
        return Rows(*self._rows.flat, self._factor, self._cross)

    def toarray(self) -> np.ndarray:
        """Return the weights as a dense array; it is read-only if it is the array passed as `strengths`."""
        strengths = self._rows.of(np.arange(self._rows.n_rows))
        lateral = strengths
        if self._factor != 1.0 or strengths.diagonal().any():
            lateral = self._factor * strengths
            np.fill_diagonal(lateral, 0.0)
        if not len(self._cross):
            return lateral
        opposite = np.diag(self._cross) - lateral
        return np.block([[lateral, opposite], [opposite, lateral]])

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        if not len(self._cross):
            return self._lateral_product(amounts)
        positive, negative = np.split(amounts, 2, axis=-1)
        lateral = self._lateral_product(positive - negative)
        return np.concatenate([lateral + self._cross * negative, self._cross * positive - lateral], axis=-1)

    def _lateral_product(self, amounts: np.ndarray) -> np.ndarray:
        n = self._rows.n_rows
        sources = np.arange(n)
        if self._rows.n_stored < n:
            sources = np.flatnonzero(amounts.reshape(-1, n).any(axis=0))
            amounts = amounts[..., sources]
        strengths = self._rows.of(sources)
        received = amounts @ strengths
        received[..., sources] -= amounts * strengths[np.arange(len(sources)), sources]
        return self._factor * received

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        rows = sources % self._rows.n_rows
        strengths = self._rows.of(rows)
        diagonal = strengths[np.arange(len(rows)), rows] != 0.0
        degrees = (np.count_nonzero(strengths, axis=1) - diagonal) * (self._factor != 0.0)
        return 2 * degrees + (self._cross[rows] != 0.0) if len(self._cross) else degrees

    def _largest_magnitudes(self) -> np.ndarray:
        largest = abs(self._factor) * self._rows.largest()
        return np.tile(np.maximum(largest, np.abs(self._cross)), 2) if len(self._cross) else largest

    def _column(self, target: int, sources: np.ndarray) -> np.ndarray:
        n_rows = self._rows.n_rows
        row, place = sources % n_rows, target % n_rows
        weights = self._factor * self._rows.of(row, place)
        weights[row == place] = 0.0
        if not len(self._cross):
            return weights
        is_same_sign = (sources < n_rows) == (target < n_rows)
        return np.where(is_same_sign, weights, np.where(row == place, self._cross[place], 0.0) - weights)

    def compute_rows(
        self, sources: np.ndarray, *, at_most: int | None = None, priority: np.ndarray | None = None
    ) -> None:
        if len(self._cross):
            sources = np.unique(sources % len(self._cross))
            if priority is not None:
                priority = priority.reshape(2, -1).max(axis=0)
        self._rows.compute(sources, at_most, priority)
