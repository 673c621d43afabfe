"""The time of a run: exact, or in steps of fixed length; and the neurons of a clock."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from snn.base import checks
from snn.base.value import Value, assign, checked
from snn.digital.digital_network import DigitalNetwork
from snn.digital.format import DigitalFormat, checked_step
from snn.run.imperfect import MOST_STEPS, Imperfections, checked_floor, rounding_of

LARGEST_SUM_OF_MESSAGES = 2**62


@dataclass(frozen=True, kw_only=True)
class Exact(Value):
    """Time without steps: potentials and currents follow a closed form, and spike times are its roots.

    Currents have one time constant and thresholds stay; others need a `Clock`.

    Parameters
    ----------
    screening : bool, default True
        Let an active set of neurons be integrated spike by spike and the others be screened, where that pays.
        Without, all neurons are integrated: the same spikes to rounding.
    potential_floor : float, optional
        In firing thresholds, at most 0: at each change from outside, of the drive or by an input spike, lower
        potentials are raised to it.  By default none: the potential of a neuron that is not needed sinks
        without end, and delays its first spike when a change needs it.

    Attributes
    ----------
    time_step : float
        0: there are no steps.
    """

    screening: bool = checked(checks.flag, default=True)
    potential_floor: float | None = checked(checked_floor, default=None)
    time_step: ClassVar[float] = 0.0


def _time_constants(name: str, value: Any) -> tuple[float, ...]:
    array = checks.real_array(name, value, shape=(None,), meaning="one number a source")
    return tuple(checks.positive_array(name, array).tolist())


@dataclass(frozen=True, kw_only=True)
class RealNeuron(Value):
    """A neuron in real numbers on a clock.

    The papers' clock, ``RealNeuron(integration="euler", reset="zero")``, has two errors that do not vanish
    with time: a spike brings dt / (1 - e^-dt) times its weight, about 1 + dt / 2, and the reset loses what
    the potential had risen beyond the threshold.  Each option removes one of them.

    Parameters
    ----------
    integration : {"exact", "euler"}, default "exact"
        Rise of potentials in a step: by the charge that arrives, or by dt times the current at its beginning.
    reset : {"subtract", "zero"}, default "subtract"
        Charge that a spike takes: the threshold, or the whole potential.  With "subtract" a neuron fires as
        often in a step as its potential holds the threshold, at most 1,024 times, and with "zero" once.
    time_constants : sequence of float, shape (n_neurons,), optional
        The time constant of the currents that each *source* causes, such as fast excitation and slow
        inhibition; by default 1 for all.  A weight is the charge of a spike: currents begin at W / tau.
    adaptation : float, default 0.0
        Share of its threshold by which a spike raises a neuron's threshold.
    adaptation_time : float, default 10.0
        Time constant with which raised thresholds fall again.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 4: Euler's steps.  Rotter and Diesmann (1999),
    Biological Cybernetics 81: exact ones.
    """

    integration: str = checked(checks.one_of, ("exact", "euler"), default="exact")
    reset: str = checked(checks.one_of, ("subtract", "zero"), default="subtract")
    time_constants: tuple[float, ...] | None = checked(_time_constants, default=None)
    adaptation: float = checked(checks.non_negative_number, default=0.0)
    adaptation_time: float = checked(checks.positive_number, default=10.0)


@dataclass(frozen=True, kw_only=True)
class Clock(Value):
    """Time in steps of fixed length.

    One step of length dt, from t to t + dt, does, in this order and for all neurons at once::

        1.  v <- v + beta dt + h (1 - e^-dt)    h: the synaptic current at time t
            ("euler": v <- v + (beta + h) dt)
        2.  where v >= theta: n = floor(v / theta) spikes, and v <- v - n theta
            (reset "zero": one spike, and v <- 0)
        3.  h <- e^-dt h + W^T n                the spikes of 2 act from t + dt on

    By default nothing but the time of a spike is rounded, to the end of its step.  Rule 1 solves the
    equations of the neuron, and rule 2 fires as often as there is charge for.  So the identities of an exact
    run hold on the grid, to rounding, whatever the step (docs/theory.md, section 7), and rates tend to the
    same limit.  Integers do these steps by the rules of `DigitalFormat`.

    Parameters
    ----------
    time_step : float
        dt, in synaptic time constants.
    neuron : RealNeuron or DigitalFormat, default RealNeuron()
        Real numbers, or integers of a format, to which weights are rounded when a run starts; also a
        `DigitalNetwork`, in place of the weights of the network that runs.
    imperfections : Imperfections, optional
        Leak, refractory time, delays, mismatch, noise and lost spikes; by default none.  In integers,
        mismatched thresholds and weights are rounded; the leak is rounded as the decay of currents is, and
        noise to whole units of the potential.
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
        # `DigitalNetwork.of` warns of a long one.
        assign(self, time_step=checked_step(self.time_step, warn=isinstance(self.neuron, RealNeuron)))
        varied = isinstance(self.neuron, RealNeuron) and (
            self.neuron.time_constants or self.neuron.adaptation
        )
        if varied and self.imperfections is None:
            assign(self, imperfections=Imperfections())  # their steps know of both
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
    """Raise TypeError unless a value says how time passes."""
    if not isinstance(value, Exact | Clock):
        raise TypeError(
            f"{name} must be Exact() or a Clock, such as Clock(1 / 8); got {type(value).__name__}"
        )


def is_digital(time: Time) -> bool:
    """Return whether neurons are integers."""
    return isinstance(time, Clock) and isinstance(time.neuron, DigitalFormat | DigitalNetwork)


def end_of(time: Time, duration: float, *, goes_on: bool = False) -> float:
    """Return when a run of a duration ends, which on a clock has to be a whole number of steps."""
    # One that `goes_on` from a state may be shorter than what neurons wait for.
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
