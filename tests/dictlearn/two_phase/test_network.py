"""The two-phase network: Theorems 1 to 3 of Lin and Tang (2018)."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest

from dictlearn import RunawayFeedbackError, TwoPhaseNetwork, rules
from snn import simulate
from solvers import LassoProblem, solve_active_set
from tests.dictlearn.two_phase.networks import N_ATOMS, N_INPUTS, mismatched, sparse_codes, sparse_dictionary

PENALTY = 0.1


@pytest.fixture(scope="module")
def dictionary():
    return sparse_dictionary()


@pytest.fixture(scope="module")
def signals(dictionary):
    rng = np.random.default_rng(2)
    return sparse_codes(4, N_ATOMS, 0.1, rng) @ dictionary + 0.02 * rng.uniform(size=(4, N_INPUTS))


# -- the code ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.7, 0.9])
def test_a_consistent_network_has_the_lasso_code_at_any_feedback(dictionary, signals, gamma):
    """Theorems 1 and 2: with thresholds other than 1, and whatever gamma."""
    network = TwoPhaseNetwork.consistent(dictionary)
    problem = LassoProblem(dictionary, signals[:1], PENALTY, positive=True)
    optimum = solve_active_set(problem).codes[0]
    errors = []
    for duration in (500.0, 5000.0):
        run = simulate(network.spiking_network(signals[0], penalty=PENALTY, gamma=gamma), duration)
        errors.append(np.abs(run.spike_rate[N_INPUTS:] - optimum).max())
    # The error is C / t; feedback amplifies C by 1 / (1 - gamma).
    assert errors[1] < 10.0 / (1.0 - gamma) / 5000.0
    assert errors[1] < errors[0] / 4.0


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.7])
def test_a_mismatch_of_the_lateral_weights_acts_as_another_penalty(dictionary, signals, gamma):
    """lambda1 s~ = lambda1 s + (H - F B) a / (1 - gamma)."""
    network = TwoPhaseNetwork.consistent(dictionary)
    lateral = network.lateral * np.random.default_rng(4).uniform(0.95, 1.1, (N_ATOMS, N_ATOMS))
    network = TwoPhaseNetwork(network.feedforward, network.feedback, lateral)
    run = simulate(network.spiking_network(signals[0], penalty=PENALTY, gamma=gamma), 20_000.0)
    code = run.spike_rate[N_INPUTS:]
    mismatch = lateral - network.feedforward @ network.feedback
    penalty = PENALTY + mismatch @ code / (1.0 - gamma)
    slack = dictionary @ (signals[0] - code @ dictionary) - penalty
    tolerance = 50.0 / (1.0 - gamma) / 20_000.0
    assert (slack <= tolerance).all()
    assert np.abs(slack[code > 10.0 * tolerance]).max() <= tolerance
    assert np.abs(penalty - PENALTY).max() > 20.0 * tolerance


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_codes_of_the_network_itself_approach_the_optimum_with_its_consistency(dictionary, signals, gamma):
    """Sparse coding with F, B and H as they are, beside the solver on the dictionary."""
    distances = []
    for strength in (0.04, 0.01, 0.0):
        network = TwoPhaseNetwork.consistent(dictionary)
        lateral = network.lateral * np.random.default_rng(6).uniform(
            1.0 - strength, 1.0 + strength, (N_ATOMS, N_ATOMS)
        )
        network = TwoPhaseNetwork(network.feedforward, network.feedback, lateral)
        codes = network.code(signals, penalty=PENALTY, duration=2000.0, gamma=gamma)
        problem = LassoProblem(network.feedback.T, signals, PENALTY, positive=True)
        optimum = solve_active_set(problem).codes
        distances.append(np.linalg.norm(codes - optimum) / np.linalg.norm(optimum))
    # Proportional to the mismatch, and without one what 1,000 time constants leave.
    assert distances[1] < distances[0] / 2.5
    assert distances[2] < 1e-3


def test_one_signal_drawn_is_one_signal_run(dictionary, signals):
    """`spikes` and `run` are the same simulation."""
    network = mismatched(dictionary, 0.05)
    options = {"penalty": PENALTY, "duration": 30.0, "initial_potential": 0.5}
    spikes = network.spikes(signals[0], **options)
    phases = network.run(signals[:1], **options)
    for k, phase in enumerate(phases):
        times = (spikes.times > 30.0 * k) & (spikes.times <= 30.0 * (k + 1))
        counts = np.bincount(spikes.neurons[times], minlength=N_INPUTS + N_ATOMS)
        seen = np.hstack([phase.input_rate, phase.coding_rate])[0] * 30.0
        np.testing.assert_allclose(counts, seen, atol=1e-9)


# -- the gradients -------------------------------------------------------------------------------


def true_gradients(network, codes, signals, kappa):
    """The right-hand sides of (9) and (10)."""
    mismatch = network.lateral - network.feedforward @ network.feedback
    return kappa * (codes @ network.feedback.T - signals), kappa * codes @ mismatch.T


def seen_gradients(network, phases, kappa, readout):
    """What neurons make of their two phases, g_D and g_H."""
    g_d = rules.reconstruction_gradient(*phases, readout=readout)
    return g_d, rules.lateral_gradient(
        network.feedforward, network.lateral, *phases, kappa=kappa, readout=readout
    )


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.2])
def test_counted_gradients_are_true_to_one_over_the_duration(dictionary, signals, strength):
    """Theorem 3, for matching and for arbitrary F, B, H: errors of (9) and (10) fall like 1 / T."""
    network = mismatched(dictionary, strength)
    kappa = 0.7 if strength < 0.1 else 0.3  # at 0.7 feedback outruns thresholds that are a fifth too low
    durations = 125.0 * 2.0 ** np.arange(5)
    errors = {"g_D": [], "g_H": []}
    for duration in durations:
        phases = network.run(signals, penalty=PENALTY, kappa=kappa, duration=duration)
        true_d, true_h = true_gradients(network, phases[1].coding_rate, signals, kappa)
        seen_d, seen_h = seen_gradients(network, phases, kappa, "rate")
        errors["g_D"].append(np.abs(seen_d - true_d).max())
        errors["g_H"].append(np.abs(seen_h - true_h).max())
        scale = np.abs(true_d).max()
    for name, values in errors.items():
        slope = np.polyfit(np.log(durations), np.log(values), 1)[0]
        assert -1.2 < slope < -0.8, (name, slope, values)
    assert errors["g_D"][-1] < 0.05 * scale


@pytest.mark.parametrize(
    "clock",
    [{}, {"time_step": 1 / 32}, {"time_step": 1 / 4}, {"time_step": 1 / 32, "integration": "euler"}],
    ids=["events", "1/32", "1/4", "1/32, Euler"],
)
@pytest.mark.parametrize("duration", [1.0, 20.0])
@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_gradients_from_currents_are_exact(dictionary, signals, strength, duration, clock):
    """However short the phases: for the code that the coding neurons' synapses passed on."""
    network = mismatched(dictionary, strength)
    kappa = 0.7
    phases = network.run(signals, penalty=PENALTY, kappa=kappa, duration=duration, **clock)
    codes = phases[1].coding_trace
    true_d, true_h = true_gradients(network, codes, signals, kappa)
    seen_d, seen_h = seen_gradients(network, phases, kappa, "current")
    np.testing.assert_allclose(seen_d, true_d, rtol=0, atol=1e-13)
    np.testing.assert_allclose(seen_h, true_h, rtol=0, atol=1e-13)
    if duration == 20.0:
        assert np.abs(codes).max() > 0.1


def test_half_filled_potentials_count_without_bias_and_currents_without_counting(dictionary):
    """An input neuron with drive x fires floor(x T) times from empty: half a spike too few, on average."""
    signals = np.random.default_rng(5).uniform(0.05, 1.0, (40, N_INPUTS))
    network = TwoPhaseNetwork.consistent(dictionary)
    missing = {}
    for initial_potential in (0.0, 0.5):
        first, _ = network.run(signals, penalty=PENALTY, duration=20.0, initial_potential=initial_potential)
        missing[initial_potential] = 20.0 * (signals - first.input_rate)
        np.testing.assert_allclose(first.input_current, signals, rtol=0, atol=1e-12)
    # Uniform between 0 and 1, or -1/2 and 1/2: the mean of 960 is known to 0.01.
    assert missing[0.0].mean() == pytest.approx(0.5, abs=0.05)
    assert missing[0.5].mean() == pytest.approx(0.0, abs=0.05)


def test_gradients_on_a_clock(dictionary, signals):
    """Step 1/32: on the paper's clock the same gradient, within its error; on one that keeps charge, as good."""
    network = TwoPhaseNetwork.consistent(dictionary)
    exact = network.run(signals[:2], penalty=PENALTY, duration=1000.0)
    papers, kept = (
        network.run(signals[:2], penalty=PENALTY, duration=1000.0, time_step=1 / 32, integration=integration)
        for integration in ("euler", "exact")
    )
    seen = rules.reconstruction_gradient(*papers)
    expected = rules.reconstruction_gradient(*exact)
    # A spike delivers 1/64 more than its weight and a reset loses up to a step's rise: a few percent
    # of the rates, of which the gradient is a difference.
    rates = np.abs(exact[0].input_rate[:2]).max()
    assert 0.001 * rates < np.abs(seen - expected).max() < 0.05 * rates
    # Averages over T differ from their limits by C / T, on the clock as without.
    assert np.abs(rules.reconstruction_gradient(*kept) - expected).max() < 10.0 / 1000.0


def test_batches_and_workers_change_nothing(dictionary, signals):
    network = mismatched(dictionary, 0.05)
    many = np.tile(signals, (40, 1))
    together = network.run(many, penalty=PENALTY, duration=10.0, n_jobs=2)
    alone = network.run(signals[1:2], penalty=PENALTY, duration=10.0)
    for phase, single in zip(together, alone, strict=True):
        np.testing.assert_array_equal(phase.input_rate[1::4], np.tile(single.input_rate, (40, 1)))
        np.testing.assert_array_equal(phase.coding_current[1::4], np.tile(single.coding_current, (40, 1)))


def test_a_runaway_ends_in_an_error(signals, dictionary):
    """Lateral weights and thresholds a tenth of what the feedback loop needs."""
    network = TwoPhaseNetwork.consistent(dictionary)
    network = TwoPhaseNetwork(network.feedforward, network.feedback, 0.1 * network.lateral)
    with pytest.raises(
        RuntimeError, match=r"the network ran away: more than [0-9,]+ spikes of one signal in a phase"
    ):
        network.run(signals, penalty=PENALTY, duration=50.0)


def test_how_signals_are_divided_does_not_decide_what_is_a_runaway():
    """One loud signal among quiet ones, in a network that its feedback almost makes run away."""
    rng = np.random.default_rng(0)
    atoms = np.abs(rng.standard_normal((8, 16)))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    network = TwoPhaseNetwork(atoms, atoms.T, 0.55 * atoms @ atoms.T)
    signals = 0.01 * np.abs(rng.standard_normal((32, 16)))
    signals[5] *= 500.0
    outcomes = set()
    for n_jobs in (1, 2, 8, 32):
        try:
            network.run(signals, penalty=PENALTY, kappa=0.7, n_jobs=n_jobs)
            outcomes.add("finished")
        except RunawayFeedbackError as error:
            outcomes.add(str(error))
    assert len(outcomes) == 1


def test_small_atoms_are_no_runaway(dictionary, signals):
    network = TwoPhaseNetwork.consistent(0.005 * dictionary)
    codes = network.code(signals[:1], penalty=0.005 * PENALTY, duration=100.0)
    expected = TwoPhaseNetwork.consistent(dictionary).code(signals[:1], penalty=PENALTY, duration=100.0)
    assert np.abs(0.005 * codes - expected).max() < 0.1 * expected.max()


# -- what is refused -----------------------------------------------------------------------------


def test_consistency_and_symmetry(dictionary):
    network = TwoPhaseNetwork.consistent(dictionary)
    assert network.consistency == pytest.approx(1.0)
    assert network.symmetry == 1.0
    other = mismatched(dictionary, 0.2)
    assert 0.7 < other.consistency < 0.95
    assert 0.7 < other.symmetry < 0.95


GOOD = np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2))
NETWORK = TwoPhaseNetwork(*GOOD)
RUN = {"penalty": 0.1, "duration": 1.0}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: TwoPhaseNetwork(GOOD[0], GOOD[0], GOOD[2]), ValueError, r"feedback must have shape \(3, 2\)"),
        (lambda: TwoPhaseNetwork(GOOD[0], GOOD[1], GOOD[0]), ValueError, r"lateral must have shape \(2, 2\)"),
        (lambda: TwoPhaseNetwork(-GOOD[0], *GOOD[1:]), ValueError, "feedforward must not be negative; got -1.0"),
        (lambda: TwoPhaseNetwork(*GOOD[:2], np.array([[1.0, 0.0], [0.0, 0.0]])), ValueError, "lateral must have a positive diagonal"),
        (lambda: TwoPhaseNetwork("F", *GOOD[1:]), TypeError, "feedforward must be an array of real numbers"),
        (lambda: NETWORK.run(np.ones((1, 2)), **RUN), ValueError, r"signals must have shape \(any, 3\)"),
        (lambda: NETWORK.run(-np.ones((1, 3)), **RUN), ValueError, r"signals must not be negative \(split them into"),
        (lambda: NETWORK.run(np.full((1, 3), np.nan), **RUN), ValueError, "signals must be finite; got nan"),
        (lambda: NETWORK.run(np.ones((1, 3)), penalty=0.0), ValueError, "penalty must be positive; got 0.0"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, kappa=1.0), ValueError, r"kappa must lie in \[0, 1\); got 1.0"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, kappa=0.0), ValueError, "kappa must be positive"),
        (lambda: NETWORK.spikes(np.ones(3), **RUN, kappa=0.0), ValueError, "kappa must be positive"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, initial_potential=1.0), ValueError, r"initial_potential must lie in \[0, 1\)"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, reweighting=[1.0]), ValueError, r"reweighting must have shape \(2,\)"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, reweighting=[1.0, -1.0]), ValueError, "reweighting must not be negative; got -1.0"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, time_step=0.3), ValueError, "duration must be a whole number of time steps; got 1.0"),
        (lambda: TwoPhaseNetwork.consistent(np.array([[1.0, 0.0], [0.0, 0.0]])), ValueError, "dictionary must have atoms of positive norm; got zeros for atom 1"),
        (lambda: TwoPhaseNetwork.consistent(-np.eye(2)), ValueError, "dictionary must not be negative; got -1.0"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, integration="rk4"), ValueError, "integration must be one of 'exact', 'euler'; got 'rk4'"),
        (lambda: NETWORK.run(np.ones((1, 3)), **RUN, time_step=0.0), ValueError, "time_step must be positive; got 0.0"),
        (lambda: NETWORK.spiking_network(np.ones(3), penalty=0.1, gamma=1.5), ValueError, r"gamma must lie in \[0, 1\); got 1.5"),
        (lambda: rules.reconstruction_gradient(1, 2), TypeError, "without_feedback must be a Phase; got int"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
