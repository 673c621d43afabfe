"""One batch of samples: the run of the network, and what neurons observe in this run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.phases import Phase, run_graded, run_phases
from dictlearn.two_phase.synapses import Synapses
from snn._interrupts import float_errors
from snn.base import checks
from snn.base.value import Value, cached_property, checked
from snn.digital import FixedPoint
from snn.run.time import Clock, Time

READOUTS = ("rate", "current")
INPUTS = ("spiking", "graded")
AUTO: Any = "auto"


def _checked_penalty(name: str, penalty: Any) -> float | tuple[float, ...]:
    if np.ndim(penalty) == 0:
        return checks.positive_number(name, penalty)
    return tuple(checks.positive_array(name, penalty, len(penalty)).tolist())


@dataclass(frozen=True, kw_only=True)
class PhaseSettings(Value):
    """The settings that a batch and a learning rule read; `LearningSettings` adds the rule."""

    penalty: float | Sequence[float] | np.ndarray = checked(_checked_penalty)
    kappa: float = AUTO
    duration: float = AUTO
    amplitude: float = AUTO
    readout: str = checked(checks.one_of, READOUTS, default="current")
    inputs: str = checked(checks.one_of, (AUTO, *INPUTS), default=AUTO)
    initial_potential: float = 0.5
    time: Time = AUTO
    positive_atoms: bool = True
    positive_code: bool = True
    positive_signals: bool = True
    weight_format: FixedPoint | None = None

    @cached_property
    def signs(self) -> Signs:
        """The flags that say whether atoms, codes and signals must not be negative."""
        return Signs.checked(self.positive_atoms, self.positive_code, self.positive_signals)


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Everything that the run of a batch needs except the weights and the signals.

    A run has a row for each signal and then a row for each probe, which drives an atom without a signal.
    The result of a row does not depend on other rows, so a batch may run in parts and in several processes.

    Attributes
    ----------
    n_signals : int
        Number of signals in the batch.
    n_samples : int
        Number of samples that the network learned from before the batch.
    penalty, reweighting : ndarray, shape (n_atoms,)
        The penalties lambda1, in the network's units, and the weights s of the penalties.
    probed : ndarray of int, shape (n_probes,)
        The atom of each probe.
    probe_drive : ndarray, shape (n_probes,)
        The drive of each probed atom at gamma = 0.
    scale : float
        Factor by which the signals are multiplied before they enter the network.
    settings : LearningSettings
        The settings of the clock and of the phases.
    """

    n_signals: int
    n_samples: int
    penalty: np.ndarray
    reweighting: np.ndarray
    probed: np.ndarray
    probe_drive: np.ndarray
    scale: float
    settings: PhaseSettings

    @property
    def n_rows(self) -> int:
        """Number of rows of a run: signals plus probes."""
        return self.n_signals + len(self.probed)

    @property
    def energy(self) -> float:
        """The mean squared norm of the signals, in the network's units."""
        return self.settings.amplitude**2

    def run(
        self,
        synapses: Synapses,
        signals: np.ndarray,
        mask: np.ndarray | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        n_threads: int = 1,
    ) -> Observed:
        """Run rows `start` to `stop`, which have these `signals` and `mask`; return what neurons observe."""
        rows = np.arange(self.n_rows)[start:stop]
        n_signals, probes = len(signals), rows[len(signals) :] - self.n_signals
        inputs, coding = np.zeros((len(rows), synapses.n_inputs)), np.empty((len(rows), synapses.n_atoms))
        with float_errors(over="ignore"):  # a run refuses signals that are too large
            inputs[:n_signals] = self.scale * (signals if mask is None else np.where(mask, signals, 0.0))
            norms = np.sqrt(np.einsum("ij,ij->i", inputs, inputs))
        coding[:] = -self.penalty * self.reweighting
        coding[n_signals + np.arange(len(probes)), self.probed[probes]] = self.probe_drive[probes]
        settings, is_on_clock = self.settings, isinstance(self.settings.time, Clock)
        groups: list[Any] = [slice(None)]
        if mask is not None:
            mask = np.concatenate([mask, np.ones((len(rows) - len(mask), synapses.n_inputs), dtype=bool)])
            if settings.inputs == "graded" and not is_on_clock:
                is_whole = mask.all(axis=1)
                groups = [k for k in (np.flatnonzero(is_whole), np.flatnonzero(~is_whole)) if len(k)]
        parts = []
        for k in groups:
            known = None if mask is None or mask[k].all() else mask[k]
            common: Any = {"duration": settings.duration, "time": settings.time, "mask": known}
            common |= {"n_threads": n_threads, "numbers": rows[k]}
            # In exact time, all samples with graded inputs share one set of weights.  Therefore samples with
            # unknown inputs run with spiking inputs.
            if settings.inputs == "graded" and (known is None or is_on_clock):
                figures: Any = run_graded(synapses, inputs[k], coding[k], kappa=settings.kappa, **common)
            else:
                common |= {"gammas": (0.0, settings.kappa), "initial_potential": settings.initial_potential}
                first, second = run_phases(synapses, inputs[k], coding[k], **common)
                figures = read_phases(first, second, known, synapses, settings)
            n_spikes, fired, codes, g_d, g_h = figures
            part = Observed(
                n_spikes=n_spikes,
                signals=inputs[k],
                signal_norm=norms[k],
                known_share=np.ones(len(fired)) if known is None else known.mean(axis=1),
                fired=fired,
                codes=codes,
                reconstruction_gradient=g_d,
                lateral_gradient=g_h,
            )
            parts.append(part)
        return parts[0] if len(parts) == 1 else Observed.joined(parts, np.argsort(np.concatenate(groups)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Observed:
    """Observations of the neurons in both phases: rows of signals come first, then rows of probes.

    Attributes
    ----------
    n_spikes : ndarray of int, shape (n_rows,)
        Number of spikes in both phases; with graded inputs, a probe has only the second phase.
    signals : ndarray, shape (n_rows, n_inputs)
        The signals in the network's units; unknown entries and probes are zero.
    signal_norm, known_share : ndarray, shape (n_rows,)
        The norm of each signal, and the share of its inputs that are known.
    fired : ndarray of bool, shape (n_rows, n_atoms)
        Whether each coding neuron fired in the phase with feedback.
    codes : ndarray, shape (n_rows, n_atoms)
        Codes a_kappa: average filtered spikes, which have exact gradients, or spike rates (readout "rate").
    reconstruction_gradient : ndarray, shape (n_rows, n_inputs)
        ``g_D = b_kappa - b_0 ~= kappa (B a_kappa - x)`` (9); b are the average currents or the rates of input
        neurons.  For unknown inputs g_D is 0, because b_kappa replaces b_0.
    lateral_gradient : ndarray, shape (n_rows, n_atoms)
        The mismatch g_H of H and F B that each coding neuron observes::

            g_H = (1 - kappa) H (a_0 - a_kappa) + (1 - kappa) e_0 - e_kappa ~= kappa (H - F B) a_kappa   (10)

        Here e = u - Theta a is a neuron's average current minus the charge of its spikes.  With readout
        "current", g_H is ``kappa H a_kappa + (1 - kappa) F b_0 - F b_kappa``, which equals the right-hand
        side of (10).
    """

    n_spikes: np.ndarray
    signals: np.ndarray
    signal_norm: np.ndarray
    known_share: np.ndarray
    fired: np.ndarray
    codes: np.ndarray
    reconstruction_gradient: np.ndarray
    lateral_gradient: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Observed], order: np.ndarray | slice = slice(None)) -> Observed:
        """Return the observations of all parts in one value, with the rows in the given order."""
        names = (field.name for field in fields(cls))
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts])[order] for name in names})


def read_phases(
    first: Phase, second: Phase, known: np.ndarray | None, synapses: Synapses, settings: PhaseSettings
) -> tuple[np.ndarray, ...]:
    """Return spike counts, which coding neurons fired, codes, g_D and g_H from phases with spiking inputs."""
    kappa, h, f = settings.kappa, synapses.lateral_rows, synapses.feedforward_rows
    reads_currents = settings.readout == "current"
    before, after = (phase.input_current if reads_currents else phase.input_rate for phase in (first, second))
    sent = before if known is None else np.where(known, before, after)
    if reads_currents:
        codes = second.coding_trace
        if settings.positive_code:
            codes = np.maximum(codes, 0.0)  # negative codes are rounding errors
    else:
        codes = second.coding_rate
    # Sums run in the order of the neurons; sums by BLAS would depend on the number of rows.
    gradient = np.zeros(codes.shape)
    if reads_currents:
        updates.add_combinations(gradient, kappa * codes, 1.0, h)
        updates.add_combinations(gradient, (1.0 - kappa) * sent - after, 1.0, f)
    else:
        excess = [phase.coding_current - synapses.thresholds * phase.coding_rate for phase in (first, second)]
        gradient += (1.0 - kappa) * excess[0] - excess[1]
        updates.add_combinations(gradient, (1.0 - kappa) * (first.coding_rate - codes), 1.0, h)
        # Unknown inputs carry a different prediction in each phase.
        updates.add_combinations(gradient, (1.0 - kappa) * (sent - before), 1.0, f)
    n_spikes, fired = first.n_spikes + second.n_spikes, second.coding_rate != 0.0
    return n_spikes, fired, codes, after - sent, gradient
