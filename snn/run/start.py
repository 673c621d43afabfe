"""The start of runs of any kind of time."""

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
from snn.run.time import Exact, RealNeuron, Time


def prepared(how: Time, network: RunnableNetwork) -> Time:
    """Return a time that starts runs of one network faster: weights are rounded to integers here, once."""
    if isinstance(how, Exact):
        return how
    if how.imperfections is not None:
        require_fit(how.imperfections, network.n_neurons, how.time_step)
    if not isinstance(how.neuron, DigitalFormat):
        return how
    drive = getattr(network, "soma_bias", np.zeros(network.n_neurons))
    if how.imperfections is not None:
        network = how.imperfections.mismatched(network)
    real = SpikingNetwork(network.weights, drive, network.firing_threshold)
    return replace(how, neuron=DigitalNetwork.of(real, how.neuron, time_step=how.time_step))


def start_run(
    how: Time, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
) -> Run:
    """Start copies of a network, each with its own drive; arguments as of `Run`, not checked."""
    how = prepared(how, network)
    if isinstance(how, Exact):
        return ExactRun(how, network, soma_bias, state, **options)
    kind = RealOnClock if isinstance(how.neuron, RealNeuron) else IntegersOnClock
    return kind(how, network, soma_bias, state, **options)
