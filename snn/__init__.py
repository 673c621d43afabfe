"""Spiking neural networks, simulated exactly: neurons, weights, spikes, time."""

from snn.analog import AnalogResult, simulate_analog
from snn.clock_driven import simulate_clocked
from snn.event_driven import simulate
from snn.network import SpikingNetwork
from snn.on_demand import InhibitionOnDemand
from snn.result import RunawayError, SimulationResult, SpikeTrain
from snn.start_up import warm_up
from snn.state import NetworkState
from snn.stencil import StencilWeights
from snn.weights import Block, BlockWeights, LateralInhibition, MirroredWeights

__all__ = [
    "AnalogResult",
    "Block",
    "BlockWeights",
    "InhibitionOnDemand",
    "LateralInhibition",
    "MirroredWeights",
    "NetworkState",
    "RunawayError",
    "SimulationResult",
    "SpikeTrain",
    "SpikingNetwork",
    "StencilWeights",
    "simulate",
    "simulate_analog",
    "simulate_clocked",
    "warm_up",
]
