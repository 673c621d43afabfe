"""What workers do: run the network on some rows of a batch, and look at the data before learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from dictlearn.resumable import digest
from dictlearn.signals import checked_signals
from dictlearn.two_phase.phases import Phase, RunawayFeedbackError
from solvers.workers.blas import one_blas_thread
from solvers.workers.transport import opened

# What `TwoPhaseLearner.apply` reads of the first phase and of the second, beside rates.
READ = {
    "current": (("input_current",), ("input_current", "coding_trace")),
    "rate": (("input_current", "coding_current"), ("coding_current",)),
}
RATES = ("input_rate", "coding_rate")
ARRAYS = tuple(field.name for field in fields(Phase) if field.name not in ("duration", "n_spikes"))


class SentPhase(NamedTuple):
    """As much of a phase as learning reads, in a quarter of the bytes."""

    duration: float
    n_spikes: np.ndarray
    counts: dict[str, np.ndarray]
    """Spikes of each neuron: rates times the duration, as small integers."""
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(cls, phase: Phase, names: Sequence[str]) -> SentPhase:
        """Return what is sent of a phase: spikes, and the arrays of these names."""
        counts = {name: np.rint(getattr(phase, name) * phase.duration) for name in RATES}
        kinds = {name: _smallest_type(array) for name, array in counts.items()}
        return cls(
            phase.duration,
            phase.n_spikes,
            {name: array.astype(kinds[name]) for name, array in counts.items()},
            {name: getattr(phase, name) for name in names},
        )

    def phase(self) -> Phase:
        """Return the phase; what was not sent is not a number."""
        rates = {name: array.astype(np.float64) / self.duration for name, array in self.counts.items()}
        inputs, coding = (np.broadcast_to(np.nan, rates[name].shape) for name in RATES)
        unknown = {name: inputs if name.startswith("input") else coding for name in ARRAYS}
        return Phase(duration=self.duration, n_spikes=self.n_spikes, **{**unknown, **rates, **self.arrays})


def _smallest_type(counts: np.ndarray) -> np.dtype:
    """Return the smallest type of integers that holds counts, of which those of pairs are differences."""
    ends = int(counts.min(initial=0)), int(counts.max(initial=0))
    return (
        np.result_type(*(np.min_scalar_type(end) for end in ends)) if ends[0] else np.min_scalar_type(ends[1])
    )


def run_part(
    key: str, packed: np.ndarray, start: int, stop: int, samples: Any, rows: np.ndarray
) -> list[SentPhase] | Exception:
    """Return the phases of some rows of a batch; an error is returned, for the caller to raise the first."""
    plan, synapses = opened(key, packed).content
    try:
        with one_blas_thread():
            signals = np.empty((0, synapses.n_inputs))
            if len(rows):
                signed = synapses.signs.signed_inputs
                signals = checked_signals(samples[rows], synapses.n_inputs, signed=signed)
            phases = plan.run(synapses, signals, start=start, stop=stop)
    except (RunawayFeedbackError, OSError, TypeError, ValueError) as error:
        return error
    names = READ[plan.settings.readout]
    return [SentPhase.of(phase, read) for phase, read in zip(phases, names, strict=True)]


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
