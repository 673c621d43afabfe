"""Functions that start a run in any kind of time."""

from dataclasses import replace
from typing import Any

import numpy as np

from snn.digital import DigitalFormat, DigitalNetwork
from snn.network import RunnableNetwork, SpikingNetwork
from snn.run.exact import ExactRun
from snn.run.imperfect import require_fit
from snn.run.integers import IntegersOnClock
from snn.run.real import RealOnClock
from snn.run.run import Run
from snn.run.time import Exact, Time, is_digital


def fitted(time: Time, network: RunnableNetwork) -> Time:
    """Check the imperfections of a time; return the time, with the rounded network for integers."""
    if isinstance(time, Exact):
        return time
    if time.imperfections is not None:
        require_fit(time.imperfections, network.n_neurons, time.time_step)
    if not isinstance(time.neuron, DigitalFormat):
        return time
    drive = getattr(network, "soma_bias", np.zeros(network.n_neurons))
    if time.imperfections is not None:
        network = time.imperfections.mismatched(network)
    real = SpikingNetwork(network.weights, drive, network.firing_threshold)
    return replace(time, neuron=DigitalNetwork.of(real, time.neuron, time_step=time.time_step))


def start_run(
    time: Time, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
) -> Run:
    """Start copies of a network, each with its own drive; for the unchecked arguments, see `Run`."""
    time = fitted(time, network)
    if isinstance(time, Exact):
        return ExactRun(time, network, soma_bias, state, **options)
    kind = IntegersOnClock if is_digital(time) else RealOnClock
    return kind(time, network, soma_bias, state, **options)
