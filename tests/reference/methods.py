"""The methods of `METHODS` as the parameters of tests, so that a new one is tested by all of them."""

from dataclasses import replace

import pytest

from snn import Clock
from snn.digital import DigitalFormat, FixedPoint
from solvers import METHODS
from solvers.methods.spiking import Stages

# Atoms whose norms differ tenfold, or that are coherent, need more bits than the eight of the default.
SIXTEEN_BITS = DigitalFormat(weights=FixedPoint(bits=16), bias=FixedPoint(bits=20))
# Finest `tol` at which a method must agree with the others, if it differs from the method's own finest.
TOLS = {"spiking_clock": 1e-4, "digital": 1e-4}


def methods(*but, **takes):
    """Return methods by name, and one on a clock, except the names in `but` and those without `takes`.

    Parameters
    ----------
    *but : str
        Names that are left out.
    **takes : bool
        Whether a method takes what has this name in `Method.takes`.
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
        As for `methods`.
    tols : dict of str to float, optional
        Other tolerances than the finest of a method.
    """
    chosen = methods(*but, **takes)
    of = {name: method.finest_tol for name, method in chosen.items()} | TOLS | (tols or {})
    return pytest.mark.parametrize(
        ("solve", "tol"), [(method, of[name]) for name, method in chosen.items()], ids=list(chosen)
    )
