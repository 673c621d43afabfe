"""The registry of kinds of runs: what every test of runs goes over.  A new kind is one line of `KINDS`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from snn import Clock, Exact, ImperfectClock, Imperfections, SpikingNetwork, simulate, simulate_clocked
from snn.digital import Digital, DigitalFormat, DigitalNetwork, FixedPoint, simulate_digital
from snn.run.run import Time
from tests.reference import weight_forms

CLOCK_FORMS = ("dense", "sparse", "blocks", "grid", "sign pairs")
TIME_STEP = 1 / 32
# Wide registers: what is rounded is less than what tests look at.
WIDE = DigitalFormat(
    weights=FixedPoint(bits=24), bias=FixedPoint(bits=40), potential_bits=48, current_bits=44,
    decay_bits=18, message_bits=16,
)  # fmt: skip


class Kind(NamedTuple):
    """A kind of run, and what holds for it."""

    how: Time
    forms: tuple[str, ...] = CLOCK_FORMS
    """Forms of weights that it is tested with."""
    tolerance: float = 0.0
    """By how much a run that is cut, or starts again, may differ from one that is not."""
    charge: float | None = 1e-11
    """By how much charge may differ from what drive and spikes bring; None where weights are rounded."""
    filters: bool = True
    """Whether it can keep filtered spikes, and so go on where another run stood."""
    simulate: Callable[..., Any] | None = None
    """The public function: takes a network and a duration, and returns the result of one run."""


def simulate_integers(network: SpikingNetwork, duration: float, *, how: Digital, **options: Any):
    """Return the result of `simulate_digital`."""
    made = DigitalNetwork.of(network, how.format, time_step=how.time_step, threshold=how.threshold)
    return simulate_digital(made, round(duration / how.time_step), **options)


def clock(**rules: str) -> Kind:
    return Kind(Clock(TIME_STEP, **rules), simulate=partial(simulate_clocked, time_step=TIME_STEP, **rules))


def imperfect(**changes: float) -> Kind:
    imperfections = Imperfections(**changes)
    front = partial(simulate_clocked, time_step=TIME_STEP, imperfections=imperfections)
    how = ImperfectClock(TIME_STEP, imperfections=imperfections)
    return Kind(how, charge=None, filters=False, simulate=front)


def digital(how: Digital, forms: tuple[str, ...], charge: float | None = None) -> Kind:
    front = partial(simulate_integers, how=how)
    return Kind(how, forms, charge=charge, filters=False, simulate=front)


KINDS = {
    "exact": Kind(Exact(), weight_forms.NAMES, tolerance=1e-9, charge=1e-9, simulate=simulate),
    "exact, unscreened": Kind(Exact(screening=False), ("dense", "blocks"), tolerance=1e-9, charge=1e-9),
    **{
        f"clock, {integration}, {reset}": clock(integration=integration, reset=reset)
        for integration in ("exact", "euler")
        for reset in ("subtract", "zero")
    },
    "imperfect, leak": imperfect(leak=0.05),
    "imperfect, mismatch": imperfect(weight_mismatch=0.1),
    "digital": digital(Digital(TIME_STEP), ("dense",)),
    "digital, wide": digital(Digital(TIME_STEP, WIDE, threshold=2**36), ("dense", "sign pairs"), 1e-3),
}
