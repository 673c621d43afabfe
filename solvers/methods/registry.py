"""The methods by name.  A new one is a line of `ALL`."""

from __future__ import annotations

from typing import Any

from snn.base import checks
from solvers.methods.active_set import ActiveSet
from solvers.methods.analog import Analog
from solvers.methods.digital import DigitalStages
from solvers.methods.fista import Fista
from solvers.methods.method import METHODS, Method
from solvers.methods.reference import CoordinateDescent
from solvers.methods.spiking import ActiveSetFromSpikes, AverageCurrents, OneWindow, Rates, Stages

__all__ = ["ALL", "METHODS", "named_method"]

ALL: tuple[Method[Any], ...] = (
    Stages(),
    OneWindow(),
    AverageCurrents(),
    Rates(),
    ActiveSet(),
    ActiveSetFromSpikes(),
    Fista(),
    CoordinateDescent(),
    Analog(),
    DigitalStages(),
)
METHODS.update({method.name: method for method in ALL})


def named_method(method: str | Method[Any], *, with_start: bool = False) -> Method[Any]:
    """Return the method that has a name, or the method that was passed."""
    known = {name: each for name, each in METHODS.items() if each.takes.start or not with_start}
    if not isinstance(method, Method):
        return known[checks.one_of("method", method, tuple(known))]
    if with_start and not method.takes.start:
        raise ValueError(f"method must take a start; got {method.name}: {', '.join(map(repr, known))} do")
    return method
