"""The methods: each solver and its options as an object.  Users call functions such as `solve_fista`."""

from solvers.methods.active_set import ActiveSet
from solvers.methods.analog import Analog
from solvers.methods.fista import Fista
from solvers.methods.method import METHODS
from solvers.methods.reference import CoordinateDescent
from solvers.methods.spiking import (
    QUARTER_STEPS,
    ActiveSetFromSpikes,
    AverageCurrents,
    DigitalOneWindow,
    OneWindow,
    Rates,
    Stages,
)

__all__ = [
    "ActiveSet",
    "ActiveSetFromSpikes",
    "Analog",
    "AverageCurrents",
    "CoordinateDescent",
    "DigitalOneWindow",
    "Fista",
    "OneWindow",
    "Rates",
    "Stages",
]

METHODS.update(
    (method.name, method)
    for method in (
        Stages(),
        OneWindow(),
        AverageCurrents(),
        Rates(),
        ActiveSet(),
        ActiveSetFromSpikes(),
        Fista(),
        CoordinateDescent(),
        Analog(),
        Stages(time=QUARTER_STEPS),
    )
)
