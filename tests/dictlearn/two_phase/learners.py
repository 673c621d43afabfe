"""Cases for tests of the two-phase network: atoms and signals, and networks and settings of every kind."""

# ruff: noqa: E501 - a case a line reads better

from dataclasses import fields, replace

import numpy as np
from hypothesis import strategies as st

from dictlearn import LearningSettings, PaperSteps, TwoPhaseNetwork, UsageSteps, random_dictionary
from snn import Clock, Exact, NetworkState, RealNeuron, SpikingNetwork, simulate

# Quantities that may be negative: none (as in the paper), atoms, atoms and codes, codes, or only signals.
SIGNS = {
    "positive": {},
    "signed atoms": {"positive_atoms": False},
    "signed atoms and codes": {"positive_atoms": False, "positive_code": False},
    "signed codes": {"positive_code": False},
    "signed signals": {"positive_signals": False},
}
TIMES = {
    "events": Exact(),
    "1/32": Clock(1 / 32),
    "1/4": Clock(1 / 4),
    "1/32, Euler": Clock(1 / 32, RealNeuron(integration="euler", reset="zero")),
    "1/32, Euler, subtracting": Clock(1 / 32, RealNeuron(integration="euler")),
    "1/32, to zero": Clock(1 / 32, RealNeuron(reset="zero")),
}
COUNTERS = ("n_samples", "n_spikes", "n_replaced", "n_saturated", "n_halvings")


def planted(n_atoms=8, n_inputs=12, n_signals=300, signs=None, seed=0):
    """Return unit atoms with a fifth of the entries nonzero, and signals made of three atoms each."""
    signs, rng = signs or {}, np.random.default_rng(seed)
    shape = (n_atoms, n_inputs)
    atoms = rng.uniform(0.2, 1.0, shape) * (rng.uniform(size=shape) < 0.2)
    atoms[np.arange(n_atoms), rng.integers(n_inputs, size=n_atoms)] += 0.5
    if not signs.get("positive_atoms", True):
        atoms *= rng.choice([-1.0, 1.0], shape)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = np.zeros((n_signals, n_atoms))
    for code in codes:
        code[rng.choice(n_atoms, 3, replace=False)] = rng.uniform(0.3, 1.0, 3)
    if not signs.get("positive_code", True):
        codes *= rng.choice([-1.0, 1.0], codes.shape)
    signals = codes @ atoms
    if signs == SIGNS["signed signals"]:
        signals -= 0.1 * (rng.uniform(size=signals.shape) < 0.3)
    return atoms, signals


def network_of(signs, n_atoms=10, n_inputs=7, strength=0.0, seed=1):
    """Return a network of atoms with norms 0.7 to 1.3; F, B and H deviate by up to `strength`."""
    rng = np.random.default_rng(seed)
    atoms = random_dictionary(n_atoms, n_inputs, positive=signs.get("positive_atoms", True), rng=rng)
    network = TwoPhaseNetwork.consistent(atoms * rng.uniform(0.7, 1.3, (n_atoms, 1)), **signs)
    weights = (network.feedforward, network.feedback, network.lateral)
    return TwoPhaseNetwork(*(w * rng.uniform(1 - strength, 1 + strength, w.shape) for w in weights), **signs)


def signals_for(signs, n_signals=4, n_inputs=7, seed=2):
    signals = np.random.default_rng(seed).standard_normal((n_signals, n_inputs))
    signals /= np.linalg.norm(signals, axis=1, keepdims=True)
    return signals if signs else np.abs(signals)


def state(learner):
    """Return the state of a learner: everything that learning continues from or reports."""
    network = learner.network
    return {
        **{name: getattr(network, name) for name in ("feedforward", "feedback", "lateral")},
        **{f"rule.{name}": array for name, array in learner.memory.items()},
        **{name: getattr(learner, name) for name in ("dictionary", "scale")},
        **{name: getattr(learner, name) for name in ("n_fired", "last_fired", "last_compared")},
        **{name: getattr(learner, name) for name in COUNTERS},
        "settings": learner.settings.as_text(),
        **learner.history,
    }


def assert_same(first, second):
    """Require that two learners have the same state to the last bit."""
    ours, theirs = state(first), state(second)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


# -- one signal, spike by spike ------------------------------------------------------------------


def observed_by_hand(network, signal, penalty, *, kappa, duration, initial_potential=0.0, weights=None, mask=None, probe=None):  # fmt: skip
    """Return a dict of the observations of each phase, from the times of single spikes and equation 8.

    `probe` is a pair: the index of an atom and the drive of its neuron.
    """
    n_inputs, n_atoms = network.n_inputs, network.n_atoms
    weights = np.ones(n_atoms) if weights is None else weights
    known = np.ones(n_inputs) if mask is None else mask.astype(float)
    pairs_in, pairs_out = 1 + (network.layers.coding[0].first > n_inputs), 1 + (not network.positive_code)
    first_coding = pairs_in * n_inputs
    inhibition = penalty * weights * np.ones(n_atoms)
    networks = []
    for gamma in (0.0, kappa):
        spiking = network.spiking_network(
            signal, penalty=penalty, gamma=gamma, reweighting=weights, mask=mask
        )
        bias = spiking.soma_bias.copy()
        if probe is not None:
            atom, drive = probe
            bias[first_coding + atom] = (1.0 - gamma) * drive
            if pairs_out == 2:
                bias[first_coding + n_atoms + atom] = -(1.0 - gamma) * drive
        networks.append(SpikingNetwork(spiking.weights, bias, spiking.firing_threshold))

    def of_pairs(values, first, size, pairs):
        return values[first : first + size] - (values[first + size : first + 2 * size] if pairs == 2 else 0.0)

    def filtered(times, neurons, until):
        return np.bincount(neurons, np.exp(np.minimum(times - until, 0.0)), networks[0].n_neurons)

    state = NetworkState(
        membrane_potential=initial_potential * networks[0].firing_threshold,
        synaptic_current=np.zeros(networks[0].n_neurons),
    )
    times, neurons, phases = np.empty(0), np.empty(0, dtype=int), []
    drives = -inhibition
    if probe is not None:
        drives = drives.copy()
        drives[probe[0]] = probe[1]
    for phase, spiking in enumerate(networks):
        start, end, gamma = phase * duration, (phase + 1) * duration, phase * kappa
        at_start = filtered(times, neurons, start)
        if phase == 1:
            current, potential = state.synaptic_current.copy(), state.membrane_potential.copy()
            received = (
                kappa * known * (network.feedback @ of_pairs(at_start, first_coding, n_atoms, pairs_out))
            )
            current[:n_inputs] += received
            if pairs_in == 2:
                current[n_inputs:first_coding] -= received
                potential[:first_coding] = np.maximum(potential[:first_coding], 0.0)
            state = NetworkState(membrane_potential=potential, synaptic_current=current, time=state.time)
        run = simulate(spiking, duration, state=state, record_spikes=True)
        state = run.state
        times = np.concatenate([times, run.spikes.times])
        neurons = np.concatenate([neurons, run.spikes.neurons])
        counts = np.bincount(run.spikes.neurons, minlength=spiking.n_neurons)
        traces = (counts + at_start - filtered(times, neurons, end)) / duration
        a, b = of_pairs(traces, first_coding, n_atoms, pairs_out), of_pairs(traces, 0, n_inputs, pairs_in)
        lateral = network.lateral - np.diag(np.diagonal(network.lateral))
        current = network.feedforward @ b - lateral @ a
        gains = np.where(known, gamma, 1.0)
        phases.append(
            {
                "n_spikes": counts.sum(),
                "input_rate": of_pairs(counts, 0, n_inputs, pairs_in) / duration,
                "coding_rate": of_pairs(counts, first_coding, n_atoms, pairs_out) / duration,
                "input_current": (1.0 - gamma) * known * np.where(known, signal, 0.0) + gains * (network.feedback @ a),
                "coding_current": current if pairs_out == 2 else current + (1.0 - gamma) * drives,
                "coding_trace": a,
            }
        )  # fmt: skip
    return phases


# -- tasks of learning ---------------------------------------------------------------------------

RULES = [
    UsageSteps(),
    UsageSteps(gain=2.0, reach=1.2, averaging=2.0, initial_usage=1.0, settling=40.0, caution=5.0, probes=0.4, patience=3.0),
    UsageSteps(lateral_gain=0.4, probes=1.3, caution=0.0, patience=0.7),
    PaperSteps(step=0.03, halving=50.0),
    PaperSteps(step=0.02, decay=0.3, lateral_ratio=7.0, reweighting=False),
]  # fmt: skip


@st.composite
def tasks(draw):
    """Return settings, an initial network, a factor for the signals, and batches of signals with masks."""
    signs = draw(st.sampled_from(list(SIGNS.values())))
    seed, n_atoms, n_inputs = draw(st.integers(0, 999)), draw(st.integers(2, 9)), draw(st.integers(2, 8))
    rng = np.random.default_rng(seed)
    rule, time = draw(st.sampled_from(RULES)), draw(st.sampled_from(list(TIMES.values())))
    readout, graded = draw(st.sampled_from(["current", "rate"])), draw(st.booleans())
    graded = graded and readout == "current"
    if (isinstance(time, Clock) or graded) and isinstance(rule, UsageSteps):
        rule = replace(rule, probes=0.0)  # single spikes are followed from event to event
    settings = LearningSettings(
        penalty=draw(st.sampled_from([0.05, tuple(np.linspace(0.03, 0.2, n_atoms))])),
        kappa=draw(st.sampled_from([0.1, 0.45])),
        duration=draw(st.sampled_from([2.0, 5.0])),
        amplitude=draw(st.sampled_from([3.0, 5.0])),
        readout=readout,
        inputs="graded" if graded else "spiking",
        initial_potential=draw(st.sampled_from([0.0, 0.5])),
        time=time,
        rule=rule,
        **signs,
    )
    network = network_of(signs, n_atoms, n_inputs, draw(st.sampled_from([0.0, 0.03])), seed)
    batches = []
    for n_signals in draw(st.lists(st.sampled_from([1, 5, 16]), min_size=1, max_size=3)):
        signals = planted(n_atoms + 3, n_inputs, n_signals, signs, seed=rng.integers(999))[1]
        signals[rng.uniform(size=n_signals) < 0.1] = 0.0
        mask = rng.uniform(size=signals.shape) < 0.7 if draw(st.booleans()) else None
        batches.append((signals, mask))
    return settings, network, settings.amplitude, batches


OPTIONS = [(kind, each.name) for kind in (UsageSteps, PaperSteps) for each in fields(kind)]
