"""Spiking neural networks, simulated exactly: neurons, weights, spikes, time."""

from importlib import import_module

from snn.analog import AnalogResult, simulate_analog
from snn.clock_driven import simulate_clocked
from snn.explain import SpikeExplanation, explain
from snn.network import SpikingNetwork
from snn.precompile import warm_up
from snn.result import RunawayError, SimulationResult, SpikeTrain
from snn.simulate import simulate
from snn.simulator import Simulator
from snn.state import NetworkState
from snn.weights import (
    Block,
    BlockWeights,
    DenseWeights,
    InhibitionOnDemand,
    LateralInhibition,
    SignPairWeights,
    SparseWeights,
    StencilWeights,
    Weights,
)

__distribution__ = "sparsespike"

__all__ = [
    "AnalogResult",
    "Block",
    "BlockWeights",
    "DenseWeights",
    "InhibitionOnDemand",
    "LateralInhibition",
    "NetworkState",
    "RunawayError",
    "SignPairWeights",
    "SimulationResult",
    "Simulator",
    "SparseWeights",
    "SpikeExplanation",
    "SpikeTrain",
    "SpikingNetwork",
    "StencilWeights",
    "Weights",
    "explain",
    "simulate",
    "simulate_analog",
    "simulate_clocked",
    "warm_up",
]


def __getattr__(name: str) -> object:
    # Plots need Matplotlib, which takes longer to import than all else together.
    if name != "plotting":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("snn.plotting")
