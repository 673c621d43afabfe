"""The two kinds of time, `Exact` and `Clock`, and the real neurons of a clock."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from snn.base import checks
from snn.base.value import Value, assign, checked
from snn.digital.digital_network import DigitalNetwork
from snn.digital.format import DigitalFormat, checked_step
from snn.run.imperfect import MOST_STEPS, Imperfections, checked_floor, rounding_of

LARGEST_SUM_OF_MESSAGES = 2**62  # largest sum of the messages of a neuron in a run, which must fit 64 bits


@dataclass(frozen=True, kw_only=True)
class Exact(Value):
    """Time without steps: spike times are computed from a closed form of potentials and currents.

    All currents have one time constant, and thresholds are constant; for other neurons, use a `Clock`.

    Parameters
    ----------
    screening : bool, default True
        True: only an active set of neurons is integrated spike by spike, and all other neurons are screened,
        if this is faster.  False: all neurons are integrated spike by spike; spikes differ only by rounding.
    potential_floor : float, optional
        Lowest potential after a change of the drive or an input spike, in firing thresholds, at most 0.
        Lower potentials are raised to this floor.  By default, there is no floor: the potential of a silent
        neuron may fall without limit, and the neuron responds late when a change lets the neuron fire.

    Attributes
    ----------
    time_step : float
        Always 0, because exact time has no steps.
    """

    screening: bool = checked(checks.flag, default=True)
    potential_floor: float | None = checked(checked_floor, default=None)
    time_step: ClassVar[float] = 0.0


def _time_constants(name: str, value: Any) -> tuple[float, ...]:
    array = checks.real_array(name, value, shape=(None,), meaning="one number for each source")
    return tuple(checks.positive_array(name, array).tolist())


@dataclass(frozen=True, kw_only=True)
class RealNeuron(Value):
    """A neuron on a clock whose state is real numbers.

    The clock of the papers, ``RealNeuron(integration="euler", reset="zero")``, has two errors that do not
    vanish with time: a spike brings dt / (1 - e^-dt) times its weight, about 1 + dt / 2, and the reset loses
    the part of the potential above the threshold.  The default `integration` removes the first error, and the
    default `reset` removes the second.

    Parameters
    ----------
    integration : {"exact", "euler"}, default "exact"
        Rise of potentials in a step: the exact charge of the step ("exact"), or dt times the current at the
        beginning of the step ("euler").
    reset : {"subtract", "zero"}, default "subtract"
        A spike subtracts the threshold from the potential, or sets the potential to zero.  With "subtract", a
        neuron fires floor(v / theta) times in a step, at most 1,024 times.  With "zero", a neuron fires once.
    time_constants : sequence of float, shape (n_neurons,), optional
        The time constant of the currents that each *source* causes, such as fast excitation and slow
        inhibition; by default 1 for all sources.  A weight is the charge of a spike, so that a current begins
        at W / tau.
    adaptation : float, default 0.0
        Amount by which a spike raises the threshold of its neuron, in original thresholds.
    adaptation_time : float, default 10.0
        Time constant of the decay of raised thresholds.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 4: Euler's steps.  Rotter and Diesmann (1999),
    Biological Cybernetics 81: exact steps.
    """

    integration: str = checked(checks.one_of, ("exact", "euler"), default="exact")
    reset: str = checked(checks.one_of, ("subtract", "zero"), default="subtract")
    time_constants: tuple[float, ...] | None = checked(_time_constants, default=None)
    adaptation: float = checked(checks.non_negative_number, default=0.0)
    adaptation_time: float = checked(checks.positive_number, default=10.0)


@dataclass(frozen=True, kw_only=True)
class Clock(Value):
    """Time in steps of fixed length.

    A step of length dt, from t to t + dt, does the following in this order, for all neurons at once::

        1.  v <- v + beta dt + h (1 - e^-dt)    h: the synaptic current at time t
            ("euler": v <- v + (beta + h) dt)
        2.  if v >= theta: n = floor(v / theta) spikes, and v <- v - n theta
            (reset "zero": one spike, and v <- 0)
        3.  h <- e^-dt h + W^T n                the spikes of rule 2 act from t + dt on

    By default, only spike times are rounded, to the end of a step.  Rule 1 solves the equations of the neuron
    exactly, and by rule 2 a neuron fires as often as its charge allows.  Therefore the identities of an exact
    run hold at the ends of steps, up to rounding, for any length of a step (docs/theory.md, section 7), and
    rates tend to the limit of an exact run.  `DigitalFormat` has the steps of neurons in integers.

    Parameters
    ----------
    time_step : float
        dt, in synaptic time constants.
    neuron : RealNeuron or DigitalFormat, default RealNeuron()
        Neurons whose states are real numbers, or integers of a format.  When a run starts, the weights are
        rounded to the format.  A `DigitalNetwork` has rounded weights, which replace the weights of the
        network that runs.
    imperfections : Imperfections, optional
        Leak, refractory time, delays, mismatch, noise and lost spikes; by default none.  For neurons in
        integers, mismatched thresholds and weights are rounded, the leak is rounded like the decay of
        currents, and noise is rounded to whole units of the potential.
    """

    time_step: float = field(kw_only=False)
    neuron: RealNeuron | DigitalFormat | DigitalNetwork = field(default_factory=RealNeuron, kw_only=False)
    imperfections: Imperfections | None = checked(checks.instance_of, Imperfections, default=None)

    def _check(self) -> None:
        if not isinstance(self.neuron, RealNeuron | DigitalFormat | DigitalNetwork):
            raise TypeError(
                "neuron must be a RealNeuron, a DigitalFormat or a DigitalNetwork; got "
                f"{type(self.neuron).__name__}"
            )
        # For integers, `DigitalNetwork.of` warns if the step is long.
        assign(self, time_step=checked_step(self.time_step, warn=isinstance(self.neuron, RealNeuron)))
        varied = isinstance(self.neuron, RealNeuron) and (
            self.neuron.time_constants or self.neuron.adaptation
        )
        if varied and self.imperfections is None:
            # Only the kernel `Faults` has time constants and adaptation.
            assign(self, imperfections=Imperfections())
        leak = 0.0 if self.imperfections is None else self.imperfections.leak
        is_euler = isinstance(self.neuron, RealNeuron) and self.neuron.integration == "euler"
        if is_euler and leak * self.time_step >= 1.0:
            raise ValueError(
                f"leak must be less than 1 / time_step, {1.0 / self.time_step:g}, with integration='euler'; "
                f"got {leak:g}"
            )
        if isinstance(self.neuron, DigitalNetwork) and self.neuron.time_step != self.time_step:
            raise ValueError(
                f"time_step must be that of the DigitalNetwork, {self.neuron.time_step}; got {self.time_step}"
            )


Time: TypeAlias = Exact | Clock


def require_time(name: str, value: Any) -> None:
    """Raise TypeError unless a value is `Exact` or a `Clock`."""
    if not isinstance(value, Exact | Clock):
        raise TypeError(
            f"{name} must be Exact() or a Clock, such as Clock(1 / 8); got {type(value).__name__}"
        )


def require_digital(name: str, value: Any) -> None:
    """Raise TypeError unless a value is a `Clock` of integers."""
    if not is_digital(value):
        raise TypeError(f"{name} must be a Clock with a DigitalFormat; got {value}")


def is_digital(time: Time) -> bool:
    """Return whether the neurons of a time are integers."""
    return isinstance(time, Clock) and isinstance(time.neuron, DigitalFormat | DigitalNetwork)


def end_of(time: Time, duration: float, *, goes_on: bool = False) -> float:
    """Return the time at which a run ends; on a clock, raise ValueError if it is not the end of a step."""
    # A run that continues from a state (`goes_on`) may be shorter than the refractory time and the delays.
    if isinstance(time, Exact):
        return duration
    if time.imperfections is not None and not goes_on:
        for name, wait in (
            ("refractory_time", time.imperfections.refractory_time),
            ("longest of delays", float(time.imperfections.delays.max())),
        ):
            if wait >= duration:
                raise ValueError(f"duration must be longer than the {name}, {wait:g}; got {duration:g}")
    steps = duration / time.time_step
    n_steps = round(min(steps, MOST_STEPS))
    if n_steps < 1 or (n_steps != steps and abs(n_steps - steps) > rounding_of(duration, time.time_step)):
        raise ValueError(
            f"duration must be a whole number of time steps, at most 2^40; got {duration} and a "
            f"time_step of {time.time_step}"
        )
    largest = getattr(getattr(time.neuron, "format", time.neuron), "largest_message", 1)
    if n_steps * largest > LARGEST_SUM_OF_MESSAGES:
        raise ValueError(
            f"duration must be so short that messages sum to at most 2^62; got {n_steps} steps of "
            f"messages up to {largest}"
        )
    return n_steps * time.time_step
