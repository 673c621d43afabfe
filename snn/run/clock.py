"""Time in steps of fixed length, and what it is by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snn.base import checks
from snn.base.value import Value, checked
from snn.network import RunnableNetwork, SpikingNetwork
from snn.run.clocked import MOST_STEPS, ROUNDING, ClockRun, RealRun, checked_step
from snn.run.exact import Exact
from snn.run.imperfect import Imperfections, ImperfectRun
from snn.run.run import Time

INTEGRATIONS = ("exact", "euler")
RESETS = ("subtract", "zero")


@dataclass(frozen=True, kw_only=True)
class Clock(Value, Time[RealRun]):
    """Time in steps of fixed length, by the rules of `simulate_clocked`.

    Parameters
    ----------
    time_step : float
        Length of a step, in synaptic time constants.
    integration : {"exact", "euler"}, default "exact"
    reset : {"subtract", "zero"}, default "subtract"
    imperfections : Imperfections, optional
        Leak, refractory time, delays, mismatch, noise and lost spikes; by default none.
    """

    time_step: float = field(kw_only=False)
    integration: str = checked(checks.one_of, INTEGRATIONS, default="exact")
    reset: str = checked(checks.one_of, RESETS, default="subtract")
    imperfections: Imperfections | None = checked(checks.instance_of, Imperfections, default=None)

    def _check(self) -> None:
        vars(self)["time_step"] = checked_step(self.time_step)
        leak = 0.0 if self.imperfections is None else self.imperfections.leak
        if self.integration == "euler" and leak * self.time_step >= 1.0:
            raise ValueError(
                f"leak must be less than 1 / time_step, {1.0 / self.time_step:g}, with integration='euler'; "
                f"got {leak:g}"
            )

    @property
    def departures(self) -> str:
        """Imperfections but mismatch, which the network of a run has; Euler's steps, resets to zero."""
        names = ("leak", "refractory_time", "delays", "potential_noise", "lost_spikes")
        found = [name.replace("_", " ") for name in names if np.any(getattr(self.imperfections, name, 0.0))]
        euler = ["Euler's steps"] if self.integration == "euler" else []
        return ", ".join(found + euler + (["resets to zero"] if self.reset == "zero" else []))

    def start(
        self, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
    ) -> RealRun:
        """Start copies of a network, each with its own drive.

        Parameters
        ----------
        network, soma_bias, state, **options
            As of `Run`; not checked.
        """
        kind = ClockRun if self.imperfections is None else ImperfectRun
        return kind(self, network, soma_bias, state, **options)

    def network_of(self, network: SpikingNetwork) -> SpikingNetwork:
        """Return the network with the thresholds and weights that are drawn: `Imperfections.mismatched`.

        Parameters
        ----------
        network : SpikingNetwork
            The network that was meant.
        """
        return network if self.imperfections is None else self.imperfections.mismatched(network)

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
                f"duration must be a whole number of time steps; got {duration} and a time_step of "
                f"{self.time_step}"
            )
        return n_steps * self.time_step


def time_of(time_step: float | None, *, integration: str = "exact", reset: str = "subtract") -> Time[Any]:
    """Return the time of functions that take a `time_step`, or None for an exact run."""
    checks.one_of("integration", integration, INTEGRATIONS)
    checks.one_of("reset", reset, RESETS)
    return Exact() if time_step is None else Clock(time_step, integration=integration, reset=reset)
