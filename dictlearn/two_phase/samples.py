"""Signals that a two-phase network learns from, in memory or elsewhere, and warnings about such signals."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dictlearn.resumable import digest
from dictlearn.signals import checked_signals
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks
from snn.base.describe import Closed, number
from snn.base.value import cached_property
from solvers.problem.messages import IllPosedWarning

# Warn of outliers if at most 1 / SIGNALS_PER_OUTLIER of the signals have most of the energy.  Fewer nonzero
# signals than SIGNALS_TO_COMPARE cause no warning.
SIGNALS_TO_COMPARE, SIGNALS_PER_OUTLIER = 10, 100
# If the mean of SIGNALS_WITH_MEAN signals or more has more than LARGEST_SHARE_OF_MEAN of their energy, atoms
# become alike.  The mean of digits has 0.69 of the energy, and the mean of photographs has 0.74 of the
# energy.
SIGNALS_WITH_MEAN, LARGEST_SHARE_OF_MEAN = 200, 0.85
# Limits of the root mean square norm of signals, within which objectives stay in the range of floats.
SMALLEST_MEAN_NORM, LARGEST_MEAN_NORM = 1e-150, 1e150
# Largest number of values that are read at a time before learning: 16 MB of float64.
VALUES_READ_AT_ONCE = 2_000_000


class Samples(Closed, ABC):
    """Signals of one length; a subclass says where signals are stored, and where batches run."""

    _assignable = ("n_signals", "n_inputs", "largest")

    n_signals: int
    n_inputs: int
    largest: float  # the largest magnitude of all numbers; `check` sets it

    @abstractmethod
    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Check the number of features of all signals, unless `n_inputs` is None, and their signs."""

    @abstractmethod
    def _read(self, rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Return some signals as float64, zero where unknown, and their mask or None."""

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yield the signals and their mask block by block."""
        return (self._read(rows) for rows in blocks_of_rows(self.n_signals, self.n_inputs))

    @cached_property
    def _measured(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The squared norm of each signal, and the mean and mean square of each input's known values."""
        # Values are divided by the largest value, because their squares may leave the range of floats.
        energies, totals = [], np.zeros((3, self.n_inputs))
        for signals, known in self.blocks():
            scaled = signals / (self.largest or 1.0)
            squares = scaled**2
            energies.append(squares.sum(axis=1))
            totals[0] += len(signals) if known is None else known.sum(axis=0)
            totals[1] += scaled.sum(axis=0)
            totals[2] += squares.sum(axis=0)
        return np.concatenate(energies), *(totals[1:] / np.maximum(totals[0], 1.0))

    @property
    def share_of_mean(self) -> float:
        """The share of the signals' energy that their mean has; 0 if signals are too few."""
        _, mean, squares = self._measured
        return float(mean @ mean / squares.sum()) if self.n_signals >= SIGNALS_WITH_MEAN else 0.0

    def scale(self, amplitude: float) -> float:
        """Return the factor that brings the root mean square norm of the signals to `amplitude`."""
        if self.largest == 0.0:
            raise ValueError("signals must not all be zero; got only zeros: there is nothing to learn")
        norm = self.largest * math.sqrt(self._measured[2].sum())
        if not SMALLEST_MEAN_NORM <= norm <= LARGEST_MEAN_NORM:
            raise ValueError(
                f"signals must have a root mean square norm between {SMALLEST_MEAN_NORM:g} and "
                f"{LARGEST_MEAN_NORM:g}, so that objectives are in the range of floats; got {norm:.3g}: "
                "change their unit"
            )
        return amplitude / norm

    def digest(self) -> str:
        """Return a hash of the signals and their mask as a short text."""
        return digest(array for block in self.blocks() for array in block if array is not None)

    def warn_if_ill_scaled(self, name: str) -> None:
        """Warn if few signals, or their mean, have most of the energy; the warning calls signals `name`."""
        # The network measures signals in units of their root mean square norm.  If a few signals dominate
        # this norm, the other signals cause hardly any spikes.  If the mean is large, all atoms resemble the
        # mean, and the network may run away.
        energies = self._measured[0]
        if np.count_nonzero(energies) < SIGNALS_TO_COMPARE:
            return
        order = np.argsort(-energies)
        n_largest = 1 + int(np.searchsorted(np.cumsum(energies[order]), 0.5 * energies.sum(), side="right"))
        if n_largest <= max(self.n_signals // SIGNALS_PER_OUTLIER, 1):
            ratio = math.sqrt(energies[order[0]] / np.median(energies[energies > 0.0]))
            checks.warn_caller(
                f"{name} has more than half of its energy in {n_largest} of {number(self.n_signals)} "
                f"signals, the largest, {name}[{order[0]}], with a norm of {ratio:.3g} times the median: "
                "remove outliers, or bring signals to unit norm (dictlearn.normalise)",
                IllPosedWarning,
            )
        elif self.share_of_mean > LARGEST_SHARE_OF_MEAN:
            checks.warn_caller(
                f"{name} has an offset: its mean has {100.0 * self.share_of_mean:.0f} % of the energy, so "
                "that all atoms will resemble it, and learning may run away: subtract it, "
                f"{name} - {name}.mean(axis=0), and learn atoms of either sign",
                IllPosedWarning,
            )

    def run(self, batch: Batch, synapses: Synapses, rows: np.ndarray, n_threads: int) -> Observed:
        """Run the batch of the signals `rows`, with its probes; return what neurons observe."""
        return batch.run(synapses, *self._read(rows), n_threads=n_threads)


def blocks_of_rows(n_signals: int, n_inputs: int) -> Iterator[slice]:
    """Return slices of rows, 16 MB each; the same slices for every kind of storage give the same sums."""
    step = max(VALUES_READ_AT_ONCE // n_inputs, 1)
    return (slice(first, first + step) for first in range(0, n_signals, step))


class SamplesInMemory(Samples):
    """Signals in an array, shape (n_signals, n_inputs), with a mask that is True for known values."""

    def __init__(self, signals: ArrayLike, mask: ArrayLike | None = None) -> None:
        self._given = signals, mask
        self._checked: set[tuple[int | None, bool]] = set()

    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Check signals and mask; if they were checked by the same rules before, do nothing."""
        if (n_inputs, signed) in self._checked:
            return
        signals, mask = self._given
        signals, self._mask = checked_signals(signals, n_inputs, mask, signed=signed)
        self._known = signals if self._mask is None else np.where(self._mask, signals, 0.0)
        self.n_signals, self.n_inputs = signals.shape
        self.largest = float(np.abs(self._known).max())
        self._checked |= {(None, signed), (self.n_inputs, signed)}

    def _read(self, rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Return rows of the signals and of the mask."""
        return self._known[rows], None if self._mask is None else self._mask[rows]


class SparseSamples(Samples):
    """Signals in a sparse matrix, shape (n_signals, n_inputs); a batch becomes dense when it is read."""

    def __init__(self, signals: sparse.sparray | sparse.spmatrix) -> None:
        self._signals = sparse.csr_array(signals, dtype=np.float64)
        self.n_signals, self.n_inputs = self._signals.shape
        self.largest = float(np.abs(self._signals.data).max(initial=0.0))

    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Check the shape and all numbers; the error names the first bad row."""
        if n_inputs not in (None, self.n_inputs) or 0 in self._signals.shape:
            wanted = f"(n_signals, {n_inputs or 'n_inputs'}), not empty"
            raise ValueError(f"signals must have shape {wanted}; got {self._signals.shape}")
        data = self._signals.data
        wrong = np.flatnonzero(~np.isfinite(data) | ((data < 0.0) & (not signed)))
        if len(wrong):
            row = int(np.searchsorted(self._signals.indptr, wrong[0], side="right")) - 1
            checked_signals(self._signals[[row]].toarray(), self.n_inputs, first=row, signed=signed)

    def _read(self, rows: np.ndarray | slice) -> tuple[np.ndarray, None]:
        """Return rows of the matrix as a dense array."""
        return self._signals[rows].toarray(), None


def samples_of(
    signals: ArrayLike | Samples,
    mask: ArrayLike | None,
    settings: LearningSettings,
    n_inputs: int | None = None,
) -> Samples:
    """Return the signals as checked `Samples`."""
    if isinstance(signals, Samples) or sparse.issparse(signals):
        if mask is not None:
            raise TypeError(
                f"mask must be None for {type(signals).__name__}, whose values are all known; got a mask"
            )
        samples = signals if isinstance(signals, Samples) else SparseSamples(signals)
    else:
        samples = SamplesInMemory(signals, mask)
    samples.check(n_inputs, signed=not settings.signs.positive_signals)
    return samples
