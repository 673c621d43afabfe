"""The methods of `METHODS` as parameters of tests, so that all these tests try a new method."""

from dataclasses import replace

import pytest

from snn import Clock
from snn.digital import DigitalFormat, FixedPoint
from solvers import METHODS
from solvers.methods.spiking import Stages

# Coherent atoms, and norms of atoms that differ tenfold, need more bits than the default of eight.
SIXTEEN_BITS = DigitalFormat(weights=FixedPoint(bits=16), bias=FixedPoint(bits=20))
# Finest `tol` at which a method must agree with other methods, if it is not the method's `finest_tol`.
TOLS = {"spiking_clock": 1e-4, "digital": 1e-4}


def methods(*but, **takes):
    """Return methods by name, and a spiking method on a clock, except names in `but` and without `takes`.

    Parameters
    ----------
    *but : str
        Names of methods to leave out.
    **takes : bool
        Whether methods must have this name in `Method.takes`.
    """
    chosen = {**METHODS, "spiking_clock": Stages(time=Clock(0.0625))}
    digital = chosen["digital"]
    chosen["digital"] = replace(digital, time=Clock(digital.time.time_step, SIXTEEN_BITS))
    return {
        name: method
        for name, method in chosen.items()
        if name not in but and all((feature in method.takes) == wanted for feature, wanted in takes.items())
    }


def each_method(*but, tols=None, **takes):
    """Return the parametrisation over `solve` and `tol` of the methods that `methods` returns.

    Parameters
    ----------
    *but, **takes
        See `methods`.
    tols : dict of str to float, optional
        Tolerances, by name, that replace the finest tolerance of a method.
    """
    chosen = methods(*but, **takes)
    of = {name: method.finest_tol for name, method in chosen.items()} | TOLS | (tols or {})
    return pytest.mark.parametrize(
        ("solve", "tol"), [(method, of[name]) for name, method in chosen.items()], ids=list(chosen)
    )
