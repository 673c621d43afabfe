"""Signals that a two-phase network learns from, wherever they are, and warnings of what they are."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.resumable import digest
from dictlearn.signals import checked_signals
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks
from solvers.problem.messages import IllPosedWarning

# A single signal of fewer may well have most of the energy.
SIGNALS_TO_COMPARE = 10
# With at least this number of signals, a mean with more than this share of their energy makes all atoms
# alike: digits have .69, photographs .74.
SIGNALS_WITH_MEAN, LARGEST_SHARE_OF_MEAN = 200, 0.85
# Objectives, which are sums of squares, stay in the range of floats.
SMALLEST_NORM, LARGEST_NORM = 1e-150, 1e150


class Samples(ABC):
    """Signals of one length; a subclass says where they are, and where batches of them run."""

    n_signals: int
    n_inputs: int
    largest: float  # magnitude of their numbers, once they are checked

    @abstractmethod
    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Check all signals: their number of features, if it is given, and whether they may be negative."""

    @abstractmethod
    def blocks(self) -> Iterator[np.ndarray]:
        """Yield all signals, some at a time, float64 and zero where they are not known."""

    def energies(self) -> np.ndarray:
        """Return the squared norm of each signal, in units of the square of the largest number."""
        # Divided first: squares of very large or small numbers leave the range of floats.
        return np.concatenate([((block / (self.largest or 1.0)) ** 2).sum(axis=1) for block in self.blocks()])

    def share_of_mean(self) -> float:
        """Return the share of their energy that the mean of the signals has."""
        mean = sum((block / self.largest).sum(axis=0) for block in self.blocks()) / self.n_signals
        return float(mean @ mean / self.energies().mean())

    def scale(self, amplitude: float) -> float:
        """Return the factor that brings the root mean square norm of the signals to `amplitude`."""
        if self.largest == 0.0:
            raise ValueError("signals must not all be zero: there is nothing to learn")
        norm = self.largest * math.sqrt(self._energy())
        if not SMALLEST_NORM <= norm <= LARGEST_NORM:
            raise ValueError(
                f"signals must have a root mean square norm between {SMALLEST_NORM:g} and {LARGEST_NORM:g}, "
                f"so that objectives are in the range of floats; got {norm:.3g}: change their unit"
            )
        return amplitude / norm

    def _energy(self) -> float:
        """Return the mean of `energies`."""
        return float(self.energies().mean())

    def digest(self) -> str:
        """Return a short text that differs if any number of the signals does."""
        return digest(self.blocks())

    def warn_if_ill_scaled(self, name: str) -> None:
        """Warn if one of many signals, or their mean, has most of the energy; `name` is the caller's."""
        # The network's unit is the root mean square norm: beside one that dominates, others hardly make it
        # spike.  With a large mean all atoms resemble the mean and each other, and the network may run away.
        energies = self.energies()
        if np.count_nonzero(energies) < SIGNALS_TO_COMPARE:
            return
        worst = int(np.argmax(energies))
        if energies[worst] > 0.5 * energies.sum():
            ratio = math.sqrt(energies[worst]) / np.median(np.sqrt(energies[energies > 0.0]))
            checks.warn_caller(
                f"{name}[{worst}] has more energy than all other signals together, a norm of {ratio:.3g} "
                "times the median: remove it, or bring signals to unit norm (dictlearn.normalise)",
                IllPosedWarning,
            )
        elif self.n_signals >= SIGNALS_WITH_MEAN and (share := self.share_of_mean()) > LARGEST_SHARE_OF_MEAN:
            checks.warn_caller(
                f"{name} has an offset: its mean has {100.0 * share:.0f} % of the energy, so that all atoms "
                f"will resemble it, and learning may run away: subtract it, {name} - {name}.mean(axis=0), "
                "and learn atoms of either sign",
                IllPosedWarning,
            )

    @abstractmethod
    def run(self, batch: Batch, synapses: Synapses, rows: np.ndarray, n_threads: int) -> Observed:
        """Return what neurons observe of a batch, whose signals are these rows, and of its probes."""


class SamplesInMemory(Samples):
    """Signals in an array, shape (n_signals, n_inputs), of which a mask says where they are known."""

    def __init__(self, signals: ArrayLike, mask: ArrayLike | None = None) -> None:
        self._given = signals, mask

    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Check signals and mask."""
        signals, mask = self._given
        signals, self._mask = checked_signals(signals, n_inputs, mask, signed=signed)
        self._known = signals if self._mask is None else np.where(self._mask, signals, 0.0)
        self.n_signals, self.n_inputs = signals.shape
        self.largest = float(np.abs(self._known).max())

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield all signals at once."""
        yield self._known

    def _energy(self) -> float:
        """Return the mean squared norm; the mean square of a feature is taken over its known values."""
        if self._mask is None:
            return super()._energy()
        squares = ((self._known / (self.largest or 1.0)) ** 2).sum(axis=0)
        return float((squares / np.maximum(self._mask.sum(axis=0), 1)).sum())

    def digest(self) -> str:
        """Return a short text of known values and mask."""
        return digest([self._known] if self._mask is None else [self._known, self._mask])

    def run(self, batch: Batch, synapses: Synapses, rows: np.ndarray, n_threads: int) -> Observed:
        """Run a batch in threads."""
        known = None if self._mask is None else self._mask[rows]
        return batch.run(synapses, self._known[rows], known, n_threads=n_threads)


def samples_of(
    signals: ArrayLike | Samples,
    mask: ArrayLike | None,
    settings: LearningSettings,
    n_inputs: int | None = None,
) -> Samples:
    """Return signals to learn from, checked."""
    if isinstance(signals, Samples):
        if mask is not None:
            raise TypeError(f"mask must be None for {type(signals).__name__}, which are known everywhere")
        samples = signals
    else:
        samples = SamplesInMemory(signals, mask)
    samples.check(n_inputs, signed=settings.signs.signed_inputs)
    return samples
