"""Time in steps of fixed length, and the neurons of a clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from snn.base import checks
from snn.base.value import Value, checked
from snn.digital.format import DigitalFormat, checked_step
from snn.digital.network import DigitalNetwork
from snn.network import RunnableNetwork, SpikingNetwork
from snn.run.exact import Exact
from snn.run.imperfect import MOST_STEPS, ROUNDING, Imperfections, require_fit
from snn.run.run import Time
from snn.run.stepped import SteppedRun

INTEGRATIONS = ("exact", "euler")
RESETS = ("subtract", "zero")
LARGEST_SUM_OF_MESSAGES = 2**62


@dataclass(frozen=True, kw_only=True)
class RealNeuron(Value):
    """A neuron in real numbers on a clock.

    The papers' clock, ``RealNeuron(integration="euler", reset="zero")``, has two errors that do not vanish
    with time: a spike brings dt / (1 - e^-dt) times its weight, about 1 + dt / 2, and the reset loses what
    the potential had risen beyond the threshold.  Each option removes one of them.

    Parameters
    ----------
    integration : {"exact", "euler"}, default "exact"
        How potentials rise within a step: by the charge that arrives, or by dt times the current at its
        beginning.
    reset : {"subtract", "zero"}, default "subtract"
        What a spike takes from the potential: the threshold, or all of it.  With "subtract" a neuron fires as
        often in a step as its potential holds the threshold, at most 1,024 times, and with "zero" once.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 4: Euler's steps.  Rotter and Diesmann (1999),
    Biological Cybernetics 81: exact ones.
    """

    integration: str = checked(checks.one_of, INTEGRATIONS, default="exact")
    reset: str = checked(checks.one_of, RESETS, default="subtract")


@dataclass(frozen=True, kw_only=True)
class Clock(Value, Time[SteppedRun]):
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
        vars(self)["time_step"] = checked_step(self.time_step, warn=isinstance(self.neuron, RealNeuron))
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

    @property
    def is_digital(self) -> bool:  # type: ignore[override]
        """Whether neurons are integers."""
        return not isinstance(self.neuron, RealNeuron)

    @property
    def departures(self) -> str:
        """Imperfections but mismatch, which the network of a run has; Euler's steps, resets to zero."""
        names = ("leak", "refractory_time", "delays", "potential_noise", "lost_spikes")
        found = [name.replace("_", " ") for name in names if np.any(getattr(self.imperfections, name, 0.0))]
        if isinstance(self.neuron, RealNeuron):
            found += ["Euler's steps"] * (self.neuron.integration == "euler")
            found += ["resets to zero"] * (self.neuron.reset == "zero")
        else:
            found.append("registers of few bits")
        return ", ".join(found)

    def prepare(self, network: RunnableNetwork) -> Clock:
        """As `Time.prepare`: weights are rounded to integers here.

        Parameters
        ----------
        network : SpikingNetwork, or another with its weights and thresholds
            The network of all runs to come.
        """
        if self.imperfections is not None:
            require_fit(self.imperfections, network.n_neurons, self.time_step)
        if not isinstance(self.neuron, DigitalFormat):
            return self
        drive = getattr(network, "soma_bias", np.zeros(network.n_neurons))
        if self.imperfections is not None:
            network = self.imperfections.mismatched(network)
        real = SpikingNetwork(network.weights, drive, network.firing_threshold)
        return replace(self, neuron=DigitalNetwork.of(real, self.neuron, time_step=self.time_step))

    def start(
        self, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
    ) -> SteppedRun:
        """As `Time.start`."""
        return SteppedRun(self.prepare(network), network, soma_bias, state, **options)

    def end_of(self, duration: float) -> float:
        """Return the time of the end of the last step; ValueError unless the steps of a duration are whole.

        Parameters
        ----------
        duration : float
            Positive; longer than a refractory time and all delays.
        """
        if self.imperfections is not None:
            for name, time in (
                ("refractory_time", self.imperfections.refractory_time),
                ("longest of delays", self.imperfections.longest_delay),
            ):
                if time >= duration:
                    raise ValueError(f"duration must be longer than the {name}, {time:g}; got {duration:g}")
        n_steps = round(min(duration / self.time_step, MOST_STEPS))
        if n_steps < 1 or abs(n_steps * self.time_step - duration) > ROUNDING * duration:
            raise ValueError(
                f"duration must be a whole number of time steps, at most 2^40; got {duration} and a "
                f"time_step of {self.time_step}"
            )
        largest = getattr(getattr(self.neuron, "format", self.neuron), "largest_message", 1)
        if n_steps * largest > LARGEST_SUM_OF_MESSAGES:
            raise ValueError(
                f"duration must be so short that messages sum to at most 2^62; got {n_steps} steps of "
                f"messages up to {largest}"
            )
        return n_steps * self.time_step


def time_of(time_step: float | None, *, integration: str = "exact", reset: str = "subtract") -> Time[Any]:
    """Return the time of functions that take a `time_step`, or None for an exact run."""
    neuron = RealNeuron(integration=integration, reset=reset)
    return Exact() if time_step is None else Clock(time_step, neuron=neuron)
