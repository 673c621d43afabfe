"""What workers do: run the network on some rows of a batch, and look at the data before learning."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dictlearn.resumable import digest
from dictlearn.signals import checked_signals
from dictlearn.two_phase.observed import Observed
from dictlearn.two_phase.phases import RunawayFeedbackError
from solvers.workers.blas import one_blas_thread
from solvers.workers.transport import opened


def run_part(
    key: str, packed: np.ndarray, start: int, stop: int, samples: Any, rows: np.ndarray
) -> Observed | Exception:
    """Return what neurons observed of some rows of a batch; an error is returned, for the caller to raise."""
    batch, synapses = opened(key, packed).content
    try:
        with one_blas_thread():
            signals = np.empty((0, synapses.n_inputs))
            if len(rows):
                signed = synapses.signs.signed_inputs
                signals = checked_signals(samples[rows], synapses.n_inputs, signed=signed)
            return batch.run(synapses, signals, start=start, stop=stop)
    except (RunawayFeedbackError, OSError, TypeError, ValueError) as error:
        return error


class Summary(NamedTuple):
    """What is known of some samples."""

    n_signals: int
    largest: float
    digest: str


def summary_of(key: str, packed: np.ndarray, samples: Any, rows: slice, first: int) -> Summary | Exception:
    """Return what is to be known of samples before learning, having checked them."""
    try:
        n_inputs, signed = opened(key, packed).content
        signals = checked_signals(samples[rows], n_inputs, first=first, signed=signed)
    except (OSError, TypeError, ValueError) as error:
        return error
    return Summary(len(signals), float(np.abs(signals).max()), digest([signals]))


def energies_of(
    key: str, packed: np.ndarray, samples: Any, rows: slice, first: int
) -> np.ndarray | Exception:
    """Return the squared norms of samples, in units of the largest magnitude, as `amplitude_scale`."""
    try:
        # In C order, as `checked_signals` has them: sums along rows round differently in another one.
        signals = np.ascontiguousarray(samples[rows], dtype=np.float64)
    except (OSError, TypeError, ValueError) as error:
        return error
    return ((signals / opened(key, packed).content) ** 2).sum(axis=1)
