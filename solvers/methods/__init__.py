"""The solvers as values: methods with their options, and what a new one is made of."""

from solvers.methods.active_set import ActiveSet
from solvers.methods.analog import Analog
from solvers.methods.digital import DigitalOneWindow, DigitalRates, DigitalStages
from solvers.methods.fista import Fista
from solvers.methods.method import Method, Takes
from solvers.methods.reference import CoordinateDescent
from solvers.methods.spiking import (
    ActiveSetFromSpikes,
    AverageCurrents,
    OneRun,
    OneWindow,
    Rates,
    Stages,
)
from solvers.results.solved import Solved
from solvers.results.start import StartPoint

__all__ = [
    "ActiveSet",
    "ActiveSetFromSpikes",
    "Analog",
    "AverageCurrents",
    "CoordinateDescent",
    "DigitalOneWindow",
    "DigitalRates",
    "DigitalStages",
    "Fista",
    "Method",
    "OneRun",
    "OneWindow",
    "Rates",
    "Solved",
    "Stages",
    "StartPoint",
    "Takes",
]
