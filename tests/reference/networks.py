"""Networks for tests: networks of papers, and a strategy for networks of every form and regime."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from snn import NetworkState, SpikeTrain, SpikingNetwork, Stimulus
from tests.reference.weight_forms import (
    FORMS,
    NAMES,
    bounded,
    dense_weights,
    random_dictionary,
    random_matrix,
    random_weights,
    sparse_coding,
    stored,
)

__all__ = ["dense_weights", "random_dictionary", "random_weights"]

# Figure 1 of Tang, Lin and Davies (2017): atoms in rows, first as printed, then with unit norms.
PRINTED_DICTIONARY = np.array([[0.3313, 0.8835, 0.3313], [0.8148, 0.3621, 0.4527], [0.4364, 0.2182, 0.8729]])
UNIT_DICTIONARY = PRINTED_DICTIONARY / np.linalg.norm(PRINTED_DICTIONARY, axis=1, keepdims=True)
FIGURE_1_SIGNAL = np.array([0.5, 1.0, 1.5])
FIGURE_1_PENALTY = 0.1
# Two independent programs computed these digits (docs/theory.md, section 2); neurons count from 0.
FIRST_SPIKES = [
    (0.607629, 2), (0.748468, 0), (1.248547, 1), (1.563859, 2),
    (2.290987, 0), (2.634709, 2), (3.506289, 2), (3.695049, 0),
]  # fmt: skip


def classo_network(dictionary, signal, penalty):
    """Return the network that solves min 1/2 |s - a D|^2 + penalty |a|_1, a >= 0 (theory.md, section 3)."""
    gram = dictionary @ dictionary.T
    norms = np.diag(gram).copy()
    weights = np.diag(norms) - gram
    np.fill_diagonal(weights, 0.0)
    return SpikingNetwork(weights, dictionary @ signal - penalty, norms)


def golden_network():
    return classo_network(UNIT_DICTIONARY, FIGURE_1_SIGNAL, FIGURE_1_PENALTY)


def random_network(rng, n_neurons, *, density=1.0, sign=0, strength=0.8):
    return SpikingNetwork(
        random_weights(rng, n_neurons, density=density, sign=sign, strength=strength),
        rng.uniform(-0.5, 1.5, n_neurons),
        rng.uniform(1.0, 2.0, n_neurons),
    )


# -- networks of every form and regime -----------------------------------------------------------

DECIMALS = [0.01, 0.07, 0.18, 0.36, 1.29, 1.66, 2.29, 2.5, 90.0]
"""Few of these are exact floats, so crossings that are equal on paper differ in their last bits."""
MOST_SPIKES = 1500
"""Networks with more spikes than this have run away, or nearly."""
LARGEST_RATIO = 2.0**40
"""Weights, drives and initial currents are at most this many firing thresholds."""


class Case(NamedTuple):
    """One network, its initial state, and the duration of its run."""

    form: str
    regime: str
    weights: np.ndarray
    soma_bias: np.ndarray
    firing_threshold: np.ndarray
    state: NetworkState | None
    duration: float
    seed: int

    def network(self) -> SpikingNetwork:
        """Return the network, with weights stored in the form of this case."""
        return stored(self.form, self.weights, self.soma_bias, self.firing_threshold)

    @property
    def start(self) -> float:
        return 0.0 if self.state is None else self.state.time

    def stimulus(self, *, onto="current", n_spikes=20) -> Stimulus:
        """Return a stimulus with changes at both ends of the run and between; some are simultaneous."""
        rng, n = np.random.default_rng(self.seed), len(self.weights)
        stop = self.start + self.duration
        times = np.sort(np.concatenate([[self.start] * 2, [stop], rng.uniform(self.start, stop, n_spikes)]))
        times[5:8] = times[5]
        train = SpikeTrain(
            times=times, neurons=rng.integers(0, 3, len(times)), n_neurons=3, start=self.start, stop=stop
        )
        sizes = self.firing_threshold * (0.6 if onto == "current" else 0.2)
        weights = sizes * rng.standard_normal((3, n))
        if onto == "drive":
            return Stimulus(spikes=train, weights=weights, onto=onto)
        drive_times = np.unique([self.start, times[5], stop, *rng.uniform(self.start, stop, 3)])
        drive = self.soma_bias * rng.uniform(0.2, 1.2, (len(drive_times), n))
        return Stimulus(spikes=train, weights=weights, drive_times=drive_times, drive=drive)


def networks(form=None, regime=None, *, least: int = 1, most: int = 60) -> st.SearchStrategy[Case]:
    """Return a strategy for networks of the given forms and regimes; by default of all forms and regimes.

    The first network that it draws has the least size.
    """
    forms, regimes = (
        st.sampled_from([chosen] if isinstance(chosen, str) else list(chosen or every))
        for chosen, every in ((form, NAMES), (regime, REGIMES))
    )
    return st.builds(case, forms, regimes, st.integers(least, most), st.integers(0, 2**20))


def case(form: str, regime: str, about: int, seed: int) -> Case:
    """Return a network of about `about` neurons; regimes of large networks add a hundred neurons."""
    rng = np.random.default_rng([seed, about])
    weights, bias, threshold = REGIMES[regime](form, rng, about + 100 if regime in LARGE else about)
    threshold = np.array(np.broadcast_to(threshold, len(weights)), dtype=float)
    state = None
    if regime in STARTS:
        state = STARTS[regime](rng, bias, threshold)
    elif rng.uniform() < 0.4:
        state = (moderate_state if regime in MODERATE else any_state)(rng, threshold)
    return Case(form, regime, weights, bias, threshold, state, _duration(rng, bias, threshold, state), seed)


def _duration(rng, bias, threshold, state) -> float:
    """Return a time in which drive and currents, without weights, would cause tens or hundreds of spikes."""
    target = 10.0 ** rng.uniform(0.8, 2.5)
    rate = (np.maximum(bias, 0.0) / threshold).sum()
    if state is not None:
        # Currents fade within a time constant, but may cause too many spikes before they fade.
        burst = (np.maximum(state.synaptic_current, 0.0) / threshold).sum()
        if burst > MOST_SPIKES / 3.0:
            return target / max(rate, burst)
    return float(np.clip(target / rate if rate > 0.0 else np.inf, 1e-12, 10.0 ** rng.uniform(0.0, 4.0)))


def any_state(rng: np.random.Generator, threshold: np.ndarray) -> NetworkState:
    """Return currents of any size, and potentials at, one last bit below, below, or far below thresholds."""
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


def moderate_state(rng: np.random.Generator, threshold: np.ndarray) -> NetworkState:
    n = len(threshold)
    return NetworkState(
        membrane_potential=threshold * rng.uniform(-2.0, 0.99, n),
        synaptic_current=threshold * rng.normal(0.0, rng.choice([0.0, 0.3, 3.0]), n),
        time=float(rng.choice([0.0, rng.uniform(0.0, 5.0)])),
    )


def _near_tangent(rng, bias, threshold) -> NetworkState:
    """Return currents that raise falling neurons to their thresholds, or nearly.

    Without a spike the highest potential is h - |c| - |c| log(h / |c|) for c < 0 < h + c; for c = 0 its limit
    is h.  The currents make this maximum differ from the threshold by a share of 0 or of 1e-16 to 1e-2.
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
        if FORMS[name].signed:  # weights across a pair have the opposite sign
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
    """Return a network in which few neurons are driven, and most drift away from their thresholds."""
    weights = random_matrix(
        name, rng, about, sign=rng.choice([0, 1, -1]), density=rng.choice([0.05, 0.2, 1.0])
    )
    n = len(weights)
    bias = np.where(rng.uniform(size=n) < 0.1, rng.uniform(0.0, 1.5, n), rng.uniform(-1.0, 0.1, n))
    return weights, bias, _thresholds(rng, n)


def _late(name, rng, about):
    """Return a network in which rare spikes raise neurons at once from far below to above thresholds."""
    form = FORMS[name]
    n = form.n_neurons(about)
    group = np.arange(n) % 8
    weights = np.where((group[:, np.newaxis] == 0) & (group == 1), rng.uniform(2.0, 5.0), 0.0)
    weights *= rng.uniform(size=(n, n)) < 0.2
    if form.signed or form.multiple > 1:  # weights of these forms include feedback, so keep them weak
        weights = bounded(form.nearest(weights), 0.9)
    bias = np.where(group == 0, rng.uniform(0.02, 0.1, n), -rng.uniform(0.02, 0.5, n))
    bias[group == 2] = rng.uniform(0.3, 1.0, (group == 2).sum())
    return weights, bias, 1.0


def _ties(name, rng, about):
    """Return groups of equal neurons; all numbers are dyadic, or dyadic times a decimal for each neuron."""
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
    elif form.multiple > 1:  # weights stay within positions, because a border would break ties
        weights, copies = np.kron(np.eye(form.multiple), base), form.multiple
    scale, drive, threshold = (np.tile(x, copies) for x in (scale, drive, threshold))
    return weights * scale, drive * scale, threshold * scale


def _common_multiples(name, rng, about):
    """Return decimal thresholds and periods with common multiples: groups repeatedly fire together."""
    n = FORMS[name].n_neurons(min(about, 12))
    threshold = np.round(rng.uniform(0.01, 3.0, n), 2) if FORMS[name].nearest is np.copy else np.full(n, 0.3)
    weights = FORMS[name].nearest(np.round(rng.choice([0.0, 0.0, -0.1, -5.0], (n, n)), 2) * (1.0 - np.eye(n)))
    return bounded(weights, 0.25), np.round(threshold * rng.choice([0.5, 1.0, 1.0, 2.0], n), 3), threshold


def _ratios(name, rng, about):
    """Return thresholds over up to 200 decades if a form allows, and weights up to the largest allowed."""
    n = FORMS[name].n_neurons(about)
    free = FORMS[name].nearest is np.copy
    decades = rng.choice([2.0, 12.0, 100.0])
    threshold = 10.0 ** rng.uniform(-decades, decades, n) if free and rng.uniform() < 0.7 else np.ones(n)
    weights = -(10.0 ** rng.uniform(-14.0, 12.0, (n, n))) * (rng.uniform(size=(n, n)) < 0.5)
    excites = rng.uniform(size=(n, n)) < 0.1
    weights = np.where(excites, rng.uniform(0.0, 0.5, (n, n)) / n, weights) * (1.0 - np.eye(n))
    weights = FORMS[name].nearest(weights) * threshold
    if FORMS[name].signed:  # inhibition between atoms of equal sign is excitation between opposite signs
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
    """Return drives of at most zero, some subnormal, so that initial currents must cause the first spike."""
    weights = random_matrix(name, rng, about, sign=rng.choice([0, 1, -1]))
    n = len(weights)
    return weights, -rng.choice([0.0, 5e-324, 1e-12, 0.1, 1.0], n), _thresholds(rng, n)


REGIMES: dict[str, Callable] = {
    "mixed weights": _mixed,
    "weak inhibition": _inhibition(-4.0, 0.0),
    "strong inhibition": _inhibition(0.0, 11.0),
    "excitation": _excitation,
    "runaway": _runaway,
    "sparse coding": _coding,
    "few of many fire": _few_of_many,
    "late in many": _late,
    "ties": _ties,
    "ties of decimals": _common_multiples,
    "extreme ratios": _ratios,
    "no weights": _no_weights,
    "no drive": _undriven,
    "up to the threshold": _undriven,
}
"""Functions of (form, random generator, about how many neurons) -> weights, drives and thresholds."""
MODERATE = (
    "mixed weights", "weak inhibition", "excitation", "sparse coding", "few of many fire", "late in many",
    "no weights",
)  # fmt: skip
"""Regimes with numbers of one size, bounded rates, and ties only by chance."""
STARTS = {"up to the threshold": _near_tangent, "extreme ratios": _extreme_start}
LARGE = ("few of many fire", "late in many")
