"""Signals that a two-phase network learns from, wherever they are."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.resumable import digest
from dictlearn.signals import checked_signals, scale_to
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import Synapses


class Samples(ABC):
    """Signals of one length; a subclass says where they are, and where batches of them run."""

    n_signals: int
    n_inputs: int

    @abstractmethod
    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Check all signals: their number of features, if it is given, and whether they may be negative."""

    @abstractmethod
    def scale(self, amplitude: float) -> float:
        """Return the factor that brings the root mean square norm of the signals to `amplitude`."""

    @abstractmethod
    def digest(self) -> str:
        """Return a short text that differs if any number of the signals does."""

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
        self._signals, self._mask = checked_signals(signals, n_inputs, mask, signed=signed)
        self.n_signals, self.n_inputs = self._signals.shape

    @property
    def known(self) -> np.ndarray:
        """The signals, zero where they are not known."""
        return self._signals if self._mask is None else np.where(self._mask, self._signals, 0.0)

    def scale(self, amplitude: float) -> float:
        """Return the factor; the mean square of a feature is taken over its known values."""
        signals = self.known
        largest = float(np.abs(signals).max())
        # Divided first: squares of very large or small numbers leave the range of floats.
        squares = (signals / (largest or 1.0)) ** 2
        if self._mask is None:
            energy = np.mean(squares.sum(axis=1))
        else:
            energy = (squares.sum(axis=0) / np.maximum(self._mask.sum(axis=0), 1)).sum()
        return scale_to(amplitude, largest, float(energy))

    def digest(self) -> str:
        """Return a short text of known values and mask."""
        return digest([self.known] if self._mask is None else [self.known, self._mask])

    def run(self, batch: Batch, synapses: Synapses, rows: np.ndarray, n_threads: int) -> Observed:
        """Run a batch in threads."""
        mask = None if self._mask is None else self._mask[rows]
        return batch.run(synapses, self._signals[rows], mask, n_threads=n_threads)


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
