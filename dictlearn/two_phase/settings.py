"""Settings of the two-phase network: how the network runs and how it learns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dictlearn.two_phase.observed import AUTO, PhaseSettings
from dictlearn.two_phase.rule import KINDS, Rule
from dictlearn.two_phase.rules import PaperSteps, UsageSteps
from dictlearn.two_phase.synapses import checked_format
from snn.base import checks
from snn.base.value import assign, checked
from snn.digital import FixedPoint
from snn.run.time import Clock, Exact, RealNeuron, Time, end_of, is_digital, require_time


@dataclass(frozen=True, kw_only=True)
class LearningSettings(PhaseSettings):
    """Settings of the two-phase network: its clock, its phases, and its learning.

    `kappa`, `duration`, `time`, `amplitude`, `inputs` and `batch_size` are "auto" by default.  The
    constructor replaces "auto" by values, which `dataclasses.replace` keeps.  For graded inputs, `kappa`
    becomes 0.1, `duration` 7, `time` Clock(1 / 8) and `amplitude` 3.  For spiking inputs, `kappa` becomes
    0.1, `duration` 5 (10 for atoms of either sign), `time` Clock(1 / 16) and `amplitude` 5.  With
    `PaperSteps` or readout "rate", `kappa` becomes 0.7, `duration` 5, `time` Clock(1 / 32) and `amplitude` 5.

    Parameters
    ----------
    penalty : float, or array_like of shape (n_atoms,)
        The penalty lambda1, positive, in units of the signals: one number, or a tuple with a number for each
        atom.
    kappa : float or "auto", default "auto"
        Strength of the feedback in the second phase, in (0, 1).  A small kappa gives better codes in short
        phases, but gradients that are read from spike counts need a large kappa.
    duration : float or "auto", default "auto"
        Length of each phase, in synaptic time constants.  In longer phases codes converge further.
    amplitude : float or "auto", default "auto"
        The root mean square norm to which the network scales the signals.  A larger norm means more spikes
        and a smaller counting error.  Dictionaries do not depend on the unit of the signals.
    readout : {"current", "rate"}, default "current"
        Source of gradients and codes.  "rate", as in the paper, uses spike rates, with an error of one spike
        in a phase.  "current" uses average soma currents, which tend to the same values in long phases.
        Gradients from currents are exact for the code that neurons pass on in the phase with feedback.
    inputs : {"auto", "graded", "spiking"}, default "auto"
        Output of input neurons.  "graded" inputs pass their currents on at every instant and do not fire.
        Gradients are then exact, without the noise of spike counts, and a sample needs only a fraction of the
        spikes.  With graded inputs, both phases run with feedback, and the network settles in the first
        phase.  "spiking" is the network of the paper.  By default inputs are graded with readout "current",
        except with `PaperSteps`.  In exact time, signals with unknown entries run with spiking inputs even if
        inputs are graded, with the phases and the amplitude of the settings.
    initial_potential : float, default 0.5
        Potentials at the start of each sample, as a share of the thresholds, in [0, 1).  With graded inputs
        potentials start at 0, so that neurons that will be silenced do not fire first.
    time : Exact, Clock or "auto", default "auto"
        Exact time, from event to event, or a clock with perfect neurons that compute in real numbers.  The
        steps of a Clock with the default neuron are halved if the network runs away and, with graded inputs,
        if the mean of the signals has most of their energy.
    positive_atoms : bool, default True
        Whether atoms, and so all weights, must not be negative.
    positive_code : bool, default True
        Whether codes must not be negative.
    positive_signals : bool, default True
        Whether signals must not be negative.  If atoms or codes may be negative, signals may be negative too.
    rule : Rule, default UsageSteps()
        The learning rule: `UsageSteps`, `PaperSteps`, or your own.
    batch_size : int or "auto", default "auto"
        Number of samples between two changes of the weights: 32, or 1 with `PaperSteps`.
    replacement : bool, default True
        Whether some atoms are replaced by patterns that the reconstructions of signals lack.  Dead atoms
        (`TwoPhaseLearner.dead_atoms`) and one atom of each pair that is more similar than chance allows are
        replaced, and stalled atoms restart (docs/dictionary_learning.md, section 11).
    weight_format : snn.digital.FixedPoint, optional
        Number format to which weights and thresholds are rounded at the start and after each batch.  By
        default weights are not rounded.  With an exponent of None, weights between the layers lie below 1,
        and lateral weights and thresholds below 2.
    """

    rule: Rule = checked(checks.instance_of, Rule, default=UsageSteps())
    batch_size: int = AUTO
    replacement: bool = checked(checks.flag, default=True)

    def _check(self) -> None:
        if self.inputs == AUTO:
            assign(self, inputs=self.rule.inputs if self.readout == "current" else "spiking")
        if self.inputs == "graded" and self.readout == "rate":
            raise ValueError(
                "readout must be 'current' if inputs are graded; got 'rate': pass inputs='spiking'"
            )
        defaults = {
            **Rule.defaults(self.rule, self.readout, self.inputs, self.signs),
            **self.rule.defaults(self.readout, self.inputs, self.signs),
            "batch_size": self.rule.batch_size,
        }
        for name, number in defaults.items():
            value = getattr(self, name)
            if isinstance(value, str):
                if value != AUTO:
                    kind = "Exact(), a Clock" if name == "time" else "a number"
                    raise ValueError(f"{name} must be {kind} or {AUTO!r}; got {value!r}")
                assign(self, **{name: number})
        phases = checked_phases(self.kappa, self.duration, self.initial_potential, self.time)
        amplitude = checks.positive_number("amplitude", self.amplitude)
        batch_size = checks.positive_integer("batch_size", self.batch_size)
        assign(self, **phases, amplitude=amplitude, batch_size=batch_size)
        if self.weight_format is not None:
            checked_format(self.weight_format, self.signs)

    @classmethod
    def paper(cls, penalty: float | Sequence[float] | np.ndarray) -> LearningSettings:
        """Return the settings of Lin and Tang (2018), who describe every part of this network.

        Phases last 20 time constants, on a clock of 1/32 with reset to zero; potentials start at zero; codes
        are spike counts; samples come one at a time; the rule is `PaperSteps`.

        Parameters
        ----------
        penalty : float, or array_like of shape (n_atoms,)
            The penalty lambda1, positive, in units of the signals.
        """
        return cls(
            penalty=penalty,
            duration=20.0,
            readout="rate",
            initial_potential=0.0,
            time=Clock(1 / 32, RealNeuron(integration="euler", reset="zero")),
            rule=PaperSteps(),
            replacement=False,
        )

    def penalties(self, n_atoms: int) -> np.ndarray:
        """Return lambda1 of each atom, shape (n_atoms,).

        Parameters
        ----------
        n_atoms : int
            Number of atoms of the network.
        """
        penalty = np.asarray(self.penalty)
        if penalty.ndim and len(penalty) != n_atoms:
            raise ValueError(
                f"penalty must be one number, or one for each of {n_atoms} atoms; got {len(penalty)}"
            )
        return np.full(n_atoms, penalty)

    def as_text(self) -> str:
        """Return the settings as JSON."""
        kind = type(self.rule)
        rule = {"kind": f"{kind.__module__}.{kind.__qualname__}", **asdict(self.rule)}
        return json.dumps({**asdict(self), "rule": rule})

    @classmethod
    def from_text(cls, text: str) -> LearningSettings:
        """Return the settings that `as_text` wrote."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"settings must be a JSON object, as `as_text` writes it; got {text[:40]!r}")
        rule = dict(values.pop("rule"))
        kind = rule.pop("kind")
        if kind not in KINDS:
            raise ValueError(f"its rule is {kind}: define or import this class before loading the learner")
        time, weights = values.pop("time"), values.pop("weight_format")
        neuron = time.get("neuron")
        time = Exact(**time) if neuron is None else Clock(time["time_step"], RealNeuron(**neuron))
        if weights is not None:
            weights = FixedPoint(**weights)
        return cls(**values, time=time, rule=KINDS[kind](**rule), weight_format=weights)


def checked_phases(kappa: float, duration: float, initial_potential: float, time: Time) -> dict[str, Any]:
    """Check the parameters of two phases; return a dict of these parameters, with numbers as floats."""
    kappa = share("kappa", kappa)
    if kappa == 0.0:
        raise ValueError("kappa must be positive; got 0: without feedback there is no second phase")
    duration = checks.positive_number("duration", duration)
    require_time("time", time)
    if isinstance(time, Clock) and (is_digital(time) or time.imperfections is not None):
        got = f"a {type(time.neuron).__name__}" if is_digital(time) else "imperfections"
        raise ValueError(f"time must be Exact() or a Clock of a RealNeuron, without imperfections; got {got}")
    end_of(time, duration)
    initial_potential = share("initial_potential", initial_potential)
    return {"kappa": kappa, "duration": duration, "initial_potential": initial_potential, "time": time}


def share(name: str, value: float) -> float:
    """Check that a number lies in [0, 1), and return it."""
    number = checks.non_negative_number(name, value)
    if number >= 1.0:
        raise ValueError(f"{name} must lie in [0, 1); got {number}")
    return number
