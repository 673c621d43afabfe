"""Random networks of every form and of every regime, each made anew from a seed and a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from snn import NetworkState, SpikingNetwork
from snn.base.checks import LARGEST_RATIO
from tests.reference.networks import random_weights
from tests.reference.weight_forms import FORMS, NAMES, bounded, random_matrix, sparse_coding, stored

DECIMALS = [0.01, 0.07, 0.18, 0.36, 1.29, 1.66, 2.29, 2.5, 90.0]
"""Few are floats: crossings that are equal on paper differ in their last bits."""
MOST_SPIKES = 1500
"""Networks that fire more often than that have run away, or nearly."""


class Case(NamedTuple):
    """One network, where it starts, and for how long it runs."""

    form: str
    regime: str
    weights: np.ndarray
    soma_bias: np.ndarray
    firing_threshold: np.ndarray
    state: NetworkState | None
    duration: float

    def network(self) -> SpikingNetwork:
        """Return the network, its weights stored in the form."""
        return stored(self.form, self.weights, self.soma_bias, self.firing_threshold)


def case(seed: int, number: int) -> Case:
    """Return network `number` of a seed; forms and regimes take turns, the rest is random."""
    rng = np.random.default_rng([seed, number])
    name = NAMES[number % len(NAMES)]
    regime = str(rng.choice(list(REGIMES), p=SHARES))
    make, _ = REGIMES[regime]
    weights, bias, threshold = make(name, rng, _size(rng, regime))
    n = len(weights)
    threshold = np.array(np.broadcast_to(threshold, n), dtype=float)
    state = None
    if regime in STARTS:
        state = STARTS[regime](rng, bias, threshold)
    elif rng.uniform() < 0.4:
        state = random_start(rng, threshold)
    if rng.uniform() < 0.05:
        weights, bias, threshold, state = _in_other_units(rng, weights, bias, threshold, state)
    return Case(name, regime, weights, bias, threshold, state, _duration(rng, bias, threshold, state))


def _size(rng: np.random.Generator, regime: str) -> int:
    if regime in LARGE:
        return int(rng.integers(100, 300))
    return int(rng.integers(1, 13) if rng.uniform() < 0.65 else rng.integers(13, 61))


def _duration(rng, bias, threshold, state) -> float:
    """Return a time in which drive and currents alone would cause some tens or hundreds of spikes."""
    target = 10.0 ** rng.uniform(0.8, 2.5)
    rate = (np.maximum(bias, 0.0) / threshold).sum()
    if state is not None:
        # Currents fade within a time constant, in which they may cause more spikes than that.
        burst = (np.maximum(state.synaptic_current, 0.0) / threshold).sum()
        if burst > MOST_SPIKES / 3.0:
            return target / max(rate, burst)
    return float(np.clip(target / rate if rate > 0.0 else np.inf, 1e-12, 10.0 ** rng.uniform(0.0, 4.0)))


def _in_other_units(rng, weights, bias, threshold, state):
    """Change the unit of potentials, thresholds included: no ratio changes."""
    unit = 10.0 ** rng.uniform(-250.0, 250.0)
    if state is not None:
        potential, current = (
            _within_range(x, unit) for x in (state.membrane_potential, state.synaptic_current)
        )
        state = NetworkState(
            membrane_potential=np.minimum(potential, threshold * unit),
            synaptic_current=current,
            time=state.time,
        )
    return _within_range(weights, unit), _within_range(bias, unit), threshold * unit, state


def _within_range(numbers: np.ndarray, unit: float) -> np.ndarray:
    """Multiply; small products are set to zero, since subnormal ones would have lost digits."""
    product = numbers * unit
    return np.where(np.abs(product) < 1e-290, 0.0, product)


# -- where runs start ----------------------------------------------------------------------------


def random_start(rng: np.random.Generator, threshold: np.ndarray) -> NetworkState:
    """Potentials at the threshold, a last bit below it, below it, and far below; currents of any size."""
    n = len(threshold)
    kind = rng.choice(5, n, p=[0.05, 0.05, 0.5, 0.35, 0.05])
    potential = threshold * rng.uniform(-2.0, 1.0, n)
    potential = np.select(
        [kind == 0, kind == 1, kind == 3, kind == 4],
        [threshold, np.nextafter(threshold, 0.0), 0.0, -threshold * 10.0 ** rng.uniform(1.0, 8.0, n)],
        potential,
    )
    current = threshold * rng.normal(0.0, rng.choice([0.0, 0.3, 3.0, 100.0]), n)
    return NetworkState(
        membrane_potential=potential,
        synaptic_current=current,
        time=float(rng.choice([0.0, rng.uniform(0.0, 5.0), 1e3])),
    )


def _near_tangent(rng, bias, threshold) -> NetworkState:
    """Currents with which falling neurons come up to their thresholds, or not quite.

    Without a spike the highest potential is h - |c| - |c| log(h / |c|) for c < 0 < h + c, and for c = 0 its
    limit is h.  The current is found for a highest potential that is off by a share from 1e-16 on.
    """
    share = 1.0 + rng.choice([-1.0, 0.0, 1.0], len(bias)) * 10.0 ** rng.uniform(-16.0, -2.0, len(bias))
    highest = threshold * share
    fall = np.where(bias < -1e-200, -bias, 0.0)
    current = fall + highest
    for _ in range(60):  # Newton's method
        ratio = np.where(fall > 0.0, np.maximum(current, fall) / np.where(fall > 0.0, fall, 1.0), 1.0)
        slope = np.where(ratio > 1.0, 1.0 - 1.0 / ratio, 1.0)
        current = current - (current - fall - fall * np.log(ratio) - highest) / slope
    return NetworkState(membrane_potential=np.zeros(len(bias)), synaptic_current=current)


def _extreme_start(rng, bias, threshold) -> NetworkState:
    n = len(bias)
    current = threshold * rng.choice([-1.0, -1.0, 0.0], n) * 10.0 ** rng.uniform(-14.0, 12.0, n)
    potential = threshold * np.where(rng.uniform(size=n) < 0.3, -(10.0 ** rng.uniform(0.0, 12.0, n)), 0.0)
    return NetworkState(membrane_potential=potential, synaptic_current=current)


# -- regimes -------------------------------------------------------------------------------------


def _thresholds(rng, n):
    return rng.uniform(1.0, 2.0, n) if rng.uniform() < 0.7 else 1.0


def _mixed(name, rng, about):
    weights = random_matrix(name, rng, about, density=rng.choice([0.1, 0.3, 1.0]))
    n = len(weights)
    return weights, rng.uniform(-0.5, 1.5, n), _thresholds(rng, n)


def _inhibition(lowest, highest):
    def make(name, rng, about):
        weights = random_matrix(name, rng, about, density=rng.choice([0.3, 1.0]), sign=-1)
        n = len(weights)
        if FORMS[name].signed:  # what crosses a pair has the opposite sign
            weights = bounded(weights, 0.9)
            return weights, rng.uniform(-0.2, 1.5, n), _thresholds(rng, n)
        return weights * 10.0 ** rng.uniform(lowest, highest), rng.uniform(-0.2, 1.5, n), _thresholds(rng, n)

    return make


def _excitation(name, rng, about):
    strength = rng.choice([0.3, 0.9, 0.99])
    weights = random_matrix(name, rng, about, density=rng.choice([0.3, 1.0]), sign=1, strength=strength)
    n = len(weights)
    return weights, rng.uniform(-0.3, 0.5, n), _thresholds(rng, n)


def _runaway(name, rng, about):
    n = FORMS[name].n_neurons(about)
    weights = FORMS[name].nearest(random_weights(rng, n, sign=1, strength=1.0) * rng.uniform(1.5, 5.0))
    return weights, rng.uniform(-0.2, 1.0, n), 1.0


def _coding(name, rng, about):
    n_features, support = int(rng.integers(3, 60)), int(rng.integers(1, 4))
    coherence = rng.choice([0.0, rng.uniform(0.1, 0.9)])
    n_atoms = FORMS[name].n_neurons(about) // (2 if FORMS[name].signed else 1)
    weights, bias = sparse_coding(
        name, rng, about, n_features, min(support * (1 + about // 40), n_atoms), coherence=coherence
    )
    return weights, bias, 1.0


def _few_of_many(name, rng, about):
    """A few are driven, and most drift away from their thresholds."""
    weights = random_matrix(
        name, rng, about, sign=rng.choice([0, 1, -1]), density=rng.choice([0.05, 0.2, 1.0])
    )
    n = len(weights)
    bias = np.where(rng.uniform(size=n) < 0.1, rng.uniform(0.0, 1.5, n), rng.uniform(-1.0, 0.1, n))
    return weights, bias, _thresholds(rng, n)


def _late(name, rng, about):
    """Neurons far below their thresholds, which rare spikes of others lift across them at once."""
    form = FORMS[name]
    n = form.n_neurons(about)
    group = np.arange(n) % 8
    weights = np.where((group[:, np.newaxis] == 0) & (group == 1), rng.uniform(2.0, 5.0), 0.0)
    weights *= rng.uniform(size=(n, n)) < 0.2
    if form.signed or form.multiple > 1:  # what fits these forms feeds back, and is kept weak
        weights = bounded(form.nearest(weights), 0.9)
    bias = np.where(group == 0, rng.uniform(0.02, 0.1, n), -rng.uniform(0.02, 0.5, n))
    bias[group == 2] = rng.uniform(0.3, 1.0, (group == 2).sum())
    return weights, bias, 1.0


def _ties(name, rng, about):
    """Groups of equal neurons: all numbers are dyadic, or multiplied by a decimal for each neuron."""
    form = FORMS[name]
    n_groups = int(rng.integers(1, 4))
    group = rng.integers(0, n_groups, min(max(about // max(form.multiple, 1), 1), 12))
    base = rng.integers(-16, 5, (n_groups, n_groups))[np.ix_(group, group)] / 32.0
    np.fill_diagonal(base, 0.0)
    scale = rng.choice(DECIMALS, len(group)) if rng.uniform() < 0.6 else np.ones(len(group))
    drive = rng.integers(0, 12, n_groups)[group] / 8.0
    threshold = rng.choice([1.0, 2.0], n_groups)[group]
    weights, copies = base, 1
    if form.signed:
        cross = np.diag(-rng.integers(0, 4, n_groups)[group] / 4.0)
        weights, copies = np.block([[base, cross - base], [cross - base, base]]), 2
    elif form.multiple > 1:  # within positions only: no border breaks a tie
        weights, copies = np.kron(np.eye(form.multiple), base), form.multiple
    scale, drive, threshold = (np.tile(x, copies) for x in (scale, drive, threshold))
    return weights * scale, drive * scale, threshold * scale


def _common_multiples(name, rng, about):
    """Decimal thresholds, and periods with common multiples, so that groups meet again and again."""
    n = FORMS[name].n_neurons(min(about, 12))
    threshold = np.round(rng.uniform(0.01, 3.0, n), 2) if FORMS[name].nearest is np.copy else np.full(n, 0.3)
    weights = FORMS[name].nearest(np.round(rng.choice([0.0, 0.0, -0.1, -5.0], (n, n)), 2) * (1.0 - np.eye(n)))
    return bounded(weights, 0.25), np.round(threshold * rng.choice([0.5, 1.0, 1.0, 2.0], n), 3), threshold


def _ratios(name, rng, about):
    """Thresholds over 24 decades where the form has room for it; weights and drives up to what is refused."""
    n = FORMS[name].n_neurons(about)
    free = FORMS[name].nearest is np.copy
    threshold = 10.0 ** rng.uniform(-12.0, 12.0, n) if free and rng.uniform() < 0.7 else np.ones(n)
    weights = -(10.0 ** rng.uniform(-14.0, 12.0, (n, n))) * (rng.uniform(size=(n, n)) < 0.5)
    excites = rng.uniform(size=(n, n)) < 0.1
    weights = np.where(excites, rng.uniform(0.0, 0.5, (n, n)) / n, weights) * (1.0 - np.eye(n))
    weights = FORMS[name].nearest(weights) * threshold
    if FORMS[name].signed:  # inhibition within a half is excitation across
        weights = bounded(weights, 0.5)
    drive = rng.choice([1.0, 1.0, -1.0, 0.0], n) * 10.0 ** rng.uniform(-14.0, rng.choice([0.0, 12.0]), n)
    bound = LARGEST_RATIO * threshold
    return np.clip(weights, -bound, bound), drive * threshold, threshold


def _no_weights(name, rng, about):
    n = FORMS[name].n_neurons(about)
    return (
        np.zeros((n, n)),
        rng.choice([-1.0, 0.0, 1.0, 1.0], n) * rng.uniform(0.0, 2.0, n),
        _thresholds(rng, n),
    )


def _undriven(name, rng, about):
    """Biases of zero and below it, some subnormal: only currents at the start can fire anything."""
    weights = random_matrix(name, rng, about, sign=rng.choice([0, 1, -1]))
    n = len(weights)
    return weights, -rng.choice([0.0, 5e-324, 1e-12, 0.1, 1.0], n), _thresholds(rng, n)


REGIMES: dict[str, tuple[Callable, float]] = {
    "mixed weights": (_mixed, 0.16),
    "weak inhibition": (_inhibition(-4.0, 0.0), 0.08),
    "strong inhibition": (_inhibition(0.0, 11.0), 0.10),
    "excitation": (_excitation, 0.08),
    "runaway": (_runaway, 0.03),
    "sparse coding": (_coding, 0.12),
    "few of many fire": (_few_of_many, 0.05),
    "late in many": (_late, 0.03),
    "ties": (_ties, 0.08),
    "ties of decimals": (_common_multiples, 0.07),
    "extreme ratios": (_ratios, 0.08),
    "no weights": (_no_weights, 0.03),
    "no drive": (_undriven, 0.04),
    "up to the threshold": (_undriven, 0.05),
}
"""What makes weights, drives and thresholds, and of how many networks."""
SHARES = np.array([share for _, share in REGIMES.values()]) / sum(share for _, share in REGIMES.values())
STARTS = {"up to the threshold": _near_tangent, "extreme ratios": _extreme_start}
LARGE = ("few of many fire", "late in many")
