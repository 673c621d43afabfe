"""Spiking neural networks, simulated exactly: neurons, weights, spikes, time."""

from snn.network import NetworkState, SpikingNetwork
from snn.precompile import warm_up
from snn.record.operations import ARITHMETIC_45NM, LOIHI, OperationCounts, energy_estimate
from snn.record.record import Record, SpikeExplanation
from snn.record.result import RunawayError, SimulationResult
from snn.record.spikes import SpikeTrain
from snn.record.stimulus import Stimulus
from snn.run.imperfect import Imperfections
from snn.run.simulate import simulate
from snn.run.simulator import Simulator
from snn.run.time import Clock, Exact, RealNeuron
from snn.run.trials import Trials, simulate_trials
from snn.weights import DenseRows, StencilWeights, Weights

__distribution__ = "sparsespike"
__version__ = "1.0.0rc1"

__all__ = [
    "ARITHMETIC_45NM",
    "LOIHI",
    "Clock",
    "DenseRows",
    "Exact",
    "Imperfections",
    "NetworkState",
    "OperationCounts",
    "RealNeuron",
    "Record",
    "RunawayError",
    "SimulationResult",
    "Simulator",
    "SpikeExplanation",
    "SpikeTrain",
    "SpikingNetwork",
    "StencilWeights",
    "Stimulus",
    "Trials",
    "Weights",
    "energy_estimate",
    "simulate",
    "simulate_trials",
    "warm_up",
]
