"""The solvers as values: methods with their options, and the parts of a new one."""

from solvers.methods.active_set import ActiveSet
from solvers.methods.analog import Analog
from solvers.methods.fista import Fista
from solvers.methods.method import Method, Takes
from solvers.methods.reference import CoordinateDescent
from solvers.methods.spiking import (
    ActiveSetFromSpikes,
    AverageCurrents,
    DigitalOneWindow,
    OneRun,
    OneWindow,
    Rates,
    Stages,
)
from solvers.results.codes import BestCodes, Codes

__all__ = [
    "ActiveSet",
    "ActiveSetFromSpikes",
    "Analog",
    "AverageCurrents",
    "BestCodes",
    "Codes",
    "CoordinateDescent",
    "DigitalOneWindow",
    "Fista",
    "Method",
    "OneRun",
    "OneWindow",
    "Rates",
    "Stages",
    "Takes",
]
