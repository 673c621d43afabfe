"""How the two-phase network is run and taught."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dictlearn.two_phase import rules
from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.network import checked_phases
from dictlearn.two_phase.quantised import checked_format
from dictlearn.two_phase.steps import KINDS, PaperSteps, Steps, UsageSteps
from snn.base import checks
from snn.base.archive import as_object, json_object
from snn.digital import FixedPoint
from snn.run.run import Time

# Read-outs as the first files of learners called them.
FILED = {"rate": "counts", "current": "currents"}
SIGNS = Signs._fields
AUTO: Any = "auto"
# What AUTO means: where gradients are read from currents, where atoms may be negative besides, and elsewhere.
AUTO_OF_CURRENTS: dict[str, float] = {"kappa": 0.1, "duration": 5.0, "time_step": 1 / 32}
AUTO_OF_SIGNED: dict[str, float] = {"kappa": 0.1, "duration": 10.0, "time_step": 1 / 16}
AUTO_OF_OTHERS: dict[str, float] = {"kappa": 0.7, "duration": 5.0, "time_step": 1 / 32}


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """How the two-phase network is run and taught.

    `kappa`, `duration` and `time_step` are "auto" by default and become numbers.  Where `UsageSteps` learn
    from currents they are 0.1, 5 and 1 / 32, and for atoms of either sign 0.1, 10 and 1 / 16; otherwise 0.7,
    5 and 1 / 32.  `dataclasses.replace` keeps the numbers.

    Parameters
    ----------
    penalty : float, or array_like of shape (n_atoms,)
        lambda1, in units of the signals; positive.  Of all atoms, or of each; kept as a tuple.
    kappa : float or "auto", default "auto"
        Strength of the feedback in the second phase, in (0, 1).  Codes of short phases are better where it is
        small; gradients that are read from spike counts need a large one.
    duration : float or "auto", default "auto"
        Of each phase, in synaptic time constants.
    amplitude : float, default 5.0
        The root mean square norm of the signals as the network gets them: more means more spikes and less
        error of counting.  Dictionaries do not depend on the unit of the signals.
    readout : {"current", "rate"}, default "current"
        What gradients and codes are read from; see `dictlearn.two_phase.rules`.
    initial_potential : float, default 0.5
        Where potentials start each sample, as a share of the thresholds, in [0, 1).
    time_step : float, None or "auto", default "auto"
        Run on a clock of this step; None: from event to event, exactly.
    integration : {"exact", "euler"}, default "exact"
        How the steps of a clock are done; see `snn.simulate_clocked`.  "exact" keeps charge.  "euler" resets
        potentials to zero too: the paper's setting, with steps of 1/32.
    positive_atoms : bool, default True
        Whether atoms, and so all weights, must not be negative.
    positive_code : bool, default True
        Whether codes must not be negative.
    positive_signals : bool, default True
        Whether signals must not be negative.  Where atoms or codes may be negative, signals may be anyway.
    steps : UsageSteps or PaperSteps, default UsageSteps()
        Step sizes and decay.
    batch_size : int, default 32
        Samples that see the same weights.
    weight_format : snn.digital.FixedPoint, optional
        Round all weights and thresholds to numbers of this format, at the start and after each batch; with an
        exponent of None see `dictlearn.two_phase.quantised`.  By default they are float64.

    See Also
    --------
    paper : The paper's settings.
    """

    penalty: float | Sequence[float] | np.ndarray
    kappa: float = AUTO
    duration: float = AUTO
    amplitude: float = 5.0
    readout: str = "current"
    initial_potential: float = 0.5
    time_step: float | None = AUTO
    integration: str = "exact"
    positive_atoms: bool = True
    positive_code: bool = True
    positive_signals: bool = True
    steps: Steps = field(default_factory=UsageSteps)
    batch_size: int = 32
    weight_format: FixedPoint | None = None

    def __post_init__(self) -> None:
        checks.check_fields(self, _checked_penalty, "penalty")
        checks.check_fields(self, checks.positive_number, "amplitude")
        checks.one_of("readout", self.readout, rules.READOUTS)
        if not isinstance(self.steps, Steps):
            raise TypeError(f"steps must be UsageSteps or PaperSteps; got {type(self.steps).__name__}")
        signs = self.signs
        reads_currents = isinstance(self.steps, UsageSteps) and self.readout == "current"
        numbers = AUTO_OF_OTHERS
        if reads_currents:
            numbers = AUTO_OF_CURRENTS if signs.positive_atoms else AUTO_OF_SIGNED
        for name, number in numbers.items():
            value = getattr(self, name)
            if isinstance(value, str):
                if value != AUTO:
                    raise ValueError(f"{name} must be a number or {AUTO!r}; got {value!r}")
                object.__setattr__(self, name, number)
        kappa, duration, initial_potential, how = checked_phases(
            self.kappa, self.duration, self.initial_potential, self.time_step, self.integration
        )
        object.__setattr__(self, "kappa", kappa)
        object.__setattr__(self, "duration", duration)
        object.__setattr__(self, "initial_potential", initial_potential)
        object.__setattr__(self, "time_step", how.time_step)
        object.__setattr__(self, "_how", how)
        if self.weight_format is not None:
            checked_format(self.weight_format, signs)
        checks.check_fields(self, checks.positive_integer, "batch_size")

    @classmethod
    def paper(cls, penalty: float | Sequence[float] | np.ndarray) -> LearningSettings:
        """Return the settings of Lin and Tang (2018): every part of the network as it is described there.

        Phases of 20 time constants on a clock of 1/32 with reset to zero, potentials from empty, spikes
        counted, one sample at a time, `PaperSteps`.

        Parameters
        ----------
        penalty : float, or array_like of shape (n_atoms,)
            lambda1, in units of the signals; positive.
        """
        return cls(
            penalty=penalty,
            duration=20.0,
            readout="rate",
            initial_potential=0.0,
            time_step=1 / 32,
            integration="euler",
            steps=PaperSteps(),
            batch_size=1,
        )

    @property
    def how(self) -> Time[Any]:
        """How runs of the network pass time."""
        return vars(self)["_how"]

    @property
    def signs(self) -> Signs:
        """What is not negative."""
        return Signs.checked(self.positive_atoms, self.positive_code, self.positive_signals)

    def penalties(self, n_atoms: int) -> np.ndarray:
        """Return lambda1 of each atom, shape (n_atoms,).

        Parameters
        ----------
        n_atoms : int
            Of the network.

        Raises
        ------
        ValueError
            If there is one for each of another number of atoms.
        """
        penalty = np.asarray(self.penalty)
        if penalty.ndim and len(penalty) != n_atoms:
            raise ValueError(
                f"penalty must be one number, or one for each of {n_atoms} atoms; got {len(penalty)}"
            )
        return np.broadcast_to(penalty, n_atoms)

    def as_text(self) -> str:
        """Return the settings as JSON."""
        steps = {"kind": type(self.steps).__name__, **asdict(self.steps)}
        values = {**asdict(self), "readout": FILED[self.readout], "steps": steps}
        # Left out where they are True, as in files that were made before there was a choice.
        return json.dumps({name: value for name, value in values.items() if not (name in SIGNS and value)})

    @classmethod
    def from_text(cls, text: str) -> LearningSettings:
        """Return the settings that `as_text` wrote."""
        values = json_object("settings", text)
        steps = as_object("steps", values.pop("steps"))
        kind = KINDS[steps.pop("kind")]
        weights = values.pop("weight_format")
        if weights is not None:
            weights = FixedPoint(**as_object("weight_format", weights))
        filed = values.pop("readout")
        readout = next((name for name in FILED if FILED[name] == filed), filed)
        return cls(**values, readout=readout, steps=kind(**steps), weight_format=weights)


def _checked_penalty(name: str, penalty: Any) -> float | tuple[float, ...]:
    if np.ndim(penalty) == 0:
        return checks.positive_number(name, penalty)
    return tuple(checks.positive_array(name, penalty, len(penalty), meaning="one for each atom").tolist())
