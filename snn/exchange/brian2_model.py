"""Spiking networks as models of Brian2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.spikes import SpikeTrain

if TYPE_CHECKING:
    import brian2

EQUATIONS = """
dv/dt = (bias + h) / second : 1
dh/dt = -h / second : 1
bias : 1 (constant)
theta : 1 (constant)
"""
RESETS = {"subtract": "v -= theta", "zero": "v = 0"}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Brian2Model(Described):
    """A network as objects of Brian2; one second of Brian2 is one synaptic time constant.

    Attributes
    ----------
    network : brian2.Network
        The whole model; ``network.run(duration * brian2.second)`` runs it.
    neurons : brian2.NeuronGroup
        With the variables ``v``, ``h``, ``bias`` and ``theta``.
    """

    network: brian2.Network
    neurons: brian2.NeuronGroup
    _monitor: brian2.SpikeMonitor
    _time_step: float
    _start: float

    _shown: ClassVar = ("spike_counts",)

    @property
    def spike_counts(self) -> np.ndarray:
        """Spikes of each neuron so far, shape (n_neurons,)."""
        return np.array(self._monitor.count[:])

    def spikes(self) -> SpikeTrain:
        """Return all spikes so far, each at the end of the step in which its neuron reached the threshold.

        In Brian2's own record a spike has the time at which this step begins.
        """
        second = checks.installed("brian2", extra="brian2").second
        return SpikeTrain(
            times=self._start + np.array(self._monitor.t / second) + self._time_step,
            neurons=np.array(self._monitor.i[:]),
            n_neurons=len(self.neurons),
            start=self._start,
            stop=self._start + float(self.network.t / second),
        )


def to_brian2(
    network: SpikingNetwork,
    *,
    time_step: float,
    state: NetworkState | None = None,
    method: str = "rk4",
    reset: str = "zero",
) -> Brian2Model:
    """Return a network as a model of Brian2, ready to run.

    Parameters
    ----------
    network : SpikingNetwork
        The network.
    time_step : float
        Step of Brian2's clock, in synaptic time constants.  With a step of 1e-3, most neurons have the same
        spike count as in `simulate`.
    state : NetworkState, optional
        The state at the start; by default at rest at time 0.
    method : {"rk4", "euler"}, default "rk4"
        Brian2's method of integration.  "rk4" is exact to time_step^5 / 120 a step; the papers use "euler".
    reset : {"zero", "subtract"}, default "zero"
        Reset of the potential of a neuron that fires.  With "subtract" no charge is lost in a step:
        the spikes are those of a `Clock`.
    """
    checks.instance_of("network", network, SpikingNetwork)
    time_step = checks.positive_number("time_step", time_step)
    start = starting_state(network, state)
    method = checks.one_of("method", method, ("rk4", "euler"))
    reset = checks.one_of("reset", reset, tuple(RESETS))
    brian2 = checks.installed("brian2", extra="brian2")
    neurons = brian2.NeuronGroup(
        network.n_neurons,
        EQUATIONS,
        threshold="v >= theta",
        reset=RESETS[reset],
        method=method,
        dt=time_step * brian2.second,
        namespace={"second": brian2.second},
    )
    neurons.bias = network.soma_bias
    neurons.theta = network.firing_threshold
    neurons.v = start.membrane_potential
    neurons.h = start.synaptic_current
    monitor = brian2.SpikeMonitor(neurons)
    objects = [neurons, monitor]
    weights = network.weights.toarray()
    sources, targets = np.nonzero(weights)
    if len(sources):
        synapses = brian2.Synapses(neurons, neurons, "w : 1", on_pre="h_post += w", clock=neurons.clock)
        synapses.connect(i=sources, j=targets)
        synapses.w = weights[sources, targets]
        objects.append(synapses)
    return Brian2Model(
        network=brian2.Network(*objects),
        neurons=neurons,
        _monitor=monitor,
        _time_step=time_step,
        _start=start.time,
    )
