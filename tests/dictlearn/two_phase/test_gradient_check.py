"""The gradient check: Theorem 3 of Lin and Tang (2018) as numbers, for networks of every kind."""

# ruff: noqa: E501 - a case a line reads better

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

from dictlearn import TwoPhaseNetwork, learn_dictionary, random_dictionary
from dictlearn.two_phase.gradient_check import LAYERS, check_gradients, limiting_codes
from dictlearn.two_phase.rules import READOUTS
from solvers import LassoProblem, solve_active_set
from tests.dictlearn.two_phase.networks import (
    N_ATOMS,
    N_INPUTS,
    mismatched,
    sparse_atoms,
    sparse_codes,
    sparse_dictionary,
)

PENALTY = 0.1
DURATIONS = (10.0, 125.0, 250.0, 500.0, 1000.0, 2000.0)


@pytest.fixture(scope="module")
def dictionary():
    return sparse_dictionary()


@pytest.fixture(scope="module")
def signals(dictionary):
    """A zero one among them."""
    rng = np.random.default_rng(2)
    codes = sparse_codes(12, N_ATOMS, 0.1, rng)
    codes[5] = 0.0
    codes[6, 3] = 1.0
    signals = codes @ dictionary + 0.02 * rng.uniform(size=(12, N_INPUTS))
    signals[5] = 0.0
    return signals


@pytest.fixture(scope="module")
def consistent_check(dictionary, signals):
    network = TwoPhaseNetwork.consistent(dictionary)
    return check_gradients(network, signals, penalty=PENALTY, durations=DURATIONS)


@pytest.fixture(scope="module")
def mismatched_check(dictionary, signals):
    return check_gradients(mismatched(dictionary, 0.02), signals, penalty=PENALTY, durations=DURATIONS)


def slope(check, readout, layer):
    """Return the slope of the mean error against the duration, in decades a decade."""
    errors = check.mean("error", readout, layer)
    return np.polyfit(np.log(check.durations[1:]), np.log(errors[1:]), 1)[0]


# -- Theorem 3 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", LAYERS[:2])
def test_updates_of_a_consistent_network_become_gradients(consistent_check, layer):
    for readout in READOUTS:
        assert consistent_check.cosine[:, LAYERS.index(layer), -1].min() > 0.999
        assert consistent_check.mean_cosine[:, LAYERS.index(layer), -1].min() > 0.999
        assert -1.2 < slope(consistent_check, readout, layer) < -0.8
    at_ten = [consistent_check.mean("error", readout, layer)[0] for readout in READOUTS]
    assert at_ten[1] < 0.6 * at_ten[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_updates_of_a_mismatched_network_become_its_own_gradients(mismatched_check, layer):
    """Counted, of every layer; read from currents, of H."""
    index = LAYERS.index(layer)
    assert np.median(mismatched_check.cosine[0, index, -1]) > 0.99
    assert -1.3 < slope(mismatched_check, "rate", layer) < -0.7
    assert mismatched_check.error[1, 2, -1].mean() < 0.1
    at_ten = [mismatched_check.mean("cosine", readout, layer)[0] for readout in READOUTS]
    assert at_ten[1] > at_ten[0]


@pytest.mark.parametrize("kind", ["consistent", "mismatched"])
def test_currents_are_exact_for_the_code_of_the_phase(consistent_check, mismatched_check, kind):
    check = {"consistent": consistent_check, "mismatched": mismatched_check}[kind]
    layers = LAYERS[:2] if kind == "consistent" else LAYERS
    for layer in layers:
        assert np.nanmax(check.same_code_error[1, LAYERS.index(layer)]) < 1e-11
        counted = check.mean("same_code_error", "rate", layer)
        assert counted[0] > 0.02
        assert counted[-1] < counted[0] / 50.0


def test_after_learning_lateral_gradients_need_currents():
    """The mismatch that is left is small beside H, and smaller than the error of counting."""
    rng = np.random.default_rng(4)
    atoms = sparse_atoms(12, rng)
    signals = sparse_codes(500, 12, 0.2, rng) @ atoms
    start = random_dictionary(12, N_INPUTS, rng=5)
    learner = learn_dictionary(signals, start=start, penalty=PENALTY, n_samples=3_000, rng=6)
    assert learner.network.consistency < 1.0 - 1e-6
    check = check_gradients(
        learner.network,
        learner.scale * signals[:20],
        penalty=learner.scale * PENALTY,
        durations=(10.0, 500.0),
    )
    for layer in LAYERS:
        assert check.mean("cosine", "current", layer)[0] > 0.9
        assert check.mean("cosine", "current", layer)[1] > 0.99
    assert 0.5 < check.mean("cosine", "rate", "feedback")[0] < 0.95
    assert check.mean("cosine", "rate", "lateral")[0] < 0.5


# -- what is compared with what ------------------------------------------------------------------


@pytest.mark.parametrize("readout", READOUTS)
def test_figures_of_one_signal_by_hand(dictionary, signals, readout):
    """Outer products written out, from what neurons saw."""
    network = TwoPhaseNetwork.consistent(dictionary)
    check = check_gradients(network, signals, penalty=PENALTY, durations=[20.0], initial_potential=0.0)
    first, second = network.run(signals[check.signals], penalty=PENALTY, duration=20.0)
    optimum = solve_active_set(LassoProblem(dictionary, signals, PENALTY, positive=True)).codes
    for k, signal in enumerate(check.signals):
        if readout == "rate":
            code, g_d = second.coding_rate[k], second.input_rate[k] - first.input_rate[k]
        else:
            code = np.maximum(second.coding_trace[k], 0.0)
            g_d = second.input_current[k] - first.input_current[k]
        update = np.outer(code, g_d) / 0.7
        gradient = np.outer(optimum[signal], optimum[signal] @ dictionary - signals[signal])
        error = np.linalg.norm(update - gradient) / np.linalg.norm(gradient)
        cosine = (update * gradient).sum() / np.linalg.norm(update) / np.linalg.norm(gradient)
        for layer in (0, 1):
            assert check.error[READOUTS.index(readout), layer, 0, k] == pytest.approx(error, rel=1e-9)
            assert check.cosine[READOUTS.index(readout), layer, 0, k] == pytest.approx(cosine, rel=1e-9)


def test_means_and_quartiles(consistent_check):
    values = consistent_check.error[0, 1]
    np.testing.assert_allclose(consistent_check.mean("error", "rate", "feedback"), values.mean(axis=1))
    low, median, high = consistent_check.quartiles("error", "rate", "feedback")
    np.testing.assert_allclose(median, np.median(values, axis=1))
    assert (low < median).all()
    assert (median < high).all()
    with pytest.raises(ValueError, match="read-only"):
        consistent_check.error[0, 0, 0, 0] = 0.0


def test_a_consistent_network_has_no_lateral_gradient(consistent_check):
    assert np.isnan(consistent_check.error[:, 2]).all()
    assert np.isnan(consistent_check.mean("cosine", "rate", "lateral")).all()
    assert np.isnan(consistent_check.quartiles("cosine", "rate", "lateral")).all()


def test_signals_without_a_code_are_left_out(consistent_check, mismatched_check):
    for check in (consistent_check, mismatched_check):
        assert check.signals.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
        assert check.codes.shape == (11, N_ATOMS)
        assert check.codes.any(axis=1).all()


def test_all_signals_together_are_the_sum(dictionary, signals):
    """For one signal, its own figures."""
    network = mismatched(dictionary, 0.02)
    check = check_gradients(network, signals[:1], penalty=PENALTY, durations=[5.0, 10.0])
    np.testing.assert_array_equal(check.mean_error, check.error[..., 0])
    np.testing.assert_array_equal(check.mean_cosine, check.cosine[..., 0])


# -- the code in the limit -----------------------------------------------------------------------


def test_code_of_a_consistent_network_is_exact(dictionary, signals):
    network = TwoPhaseNetwork.consistent(dictionary)
    weights = np.random.default_rng(6).uniform(0.5, 2.0, N_ATOMS)
    codes = limiting_codes(network, signals, penalty=PENALTY, reweighting=weights)
    problem = LassoProblem(dictionary, signals, PENALTY * weights, positive=True)
    np.testing.assert_allclose(codes, solve_active_set(problem).codes, rtol=0, atol=1e-12)


def test_code_of_any_other_is_read_from_a_long_run(dictionary, signals):
    """One that is nearly consistent has nearly the exact code, to one over the duration."""
    network = TwoPhaseNetwork.consistent(dictionary)
    exact = limiting_codes(network, signals, penalty=PENALTY)
    nearly = mismatched(dictionary, 1e-7)
    assert nearly.consistency < 1.0 - 1e-9
    errors = [
        np.abs(limiting_codes(nearly, signals, penalty=PENALTY, duration=duration) - exact).max()
        for duration in (500.0, 4000.0)
    ]
    assert 0.0 < errors[1] < 20.0 / 4000.0
    assert errors[1] < errors[0] / 4.0


def test_a_fraction_is_a_number():
    """As every function of the network takes them."""
    network, signals = TwoPhaseNetwork.consistent(np.eye(3)), np.ones((1, 3))
    options = {"penalty": 0.25, "durations": [2.0]}
    check = check_gradients(
        network, signals, kappa=Fraction(1, 4), initial_potential=Fraction(1, 2), **options
    )
    np.testing.assert_array_equal(check.error, check_gradients(network, signals, kappa=0.25, **options).error)


# -- the picture ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["feedback", "lateral"])
def test_picture(mismatched_check, layer):
    above, below = (
        mismatched_check.plot(layer=layer, measure=measure, ax=Figure().subplots())
        for measure in ("error", "cosine")
    )
    assert above.get_xscale() == above.get_yscale() == below.get_xscale() == "log"
    lines = {line.get_label(): line for line in above.get_lines()}
    for readout in READOUTS:
        drawn = lines[readout].get_ydata()
        np.testing.assert_array_equal(drawn, mismatched_check.quartiles("error", readout, layer)[1])
    slopes = np.diff(np.log(lines["1 / T"].get_ydata())) / np.diff(np.log(DURATIONS))
    np.testing.assert_allclose(slopes, -1.0)


def test_picture_without_a_gradient(consistent_check):
    lateral, feedback = (
        consistent_check.plot(layer=layer, ax=Figure().subplots()) for layer in ("lateral", "feedback")
    )
    assert [text.get_text() for text in lateral.texts] == ["no gradient"]
    assert not feedback.texts


# -- what is refused -----------------------------------------------------------------------------


NETWORK = TwoPhaseNetwork.consistent(np.eye(3))
RUN = {"penalty": 0.1, "durations": [1.0]}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: check_gradients(1, np.ones((1, 3)), **RUN), TypeError, "network must be a TwoPhaseNetwork; got int"),
        (lambda: check_gradients(NETWORK, np.ones((1, 2)), **RUN), ValueError, r"signals must have shape \(any, 3\)"),
        (lambda: check_gradients(NETWORK, -np.ones((1, 3)), **RUN), ValueError, r"signals must not be negative"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), penalty=2.0), ValueError, "penalty must be small enough for a code that is not zero; got 2.0"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), penalty=0.1, durations=[2.0, 1.0]), ValueError, r"durations must be positive and increase; got \[2.0, 1.0\]"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), penalty=0.1, durations=[0.0, 1.0]), ValueError, "durations must be positive and increase"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), penalty=0.1, durations=[]), ValueError, "durations must not be empty"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), **RUN, kappa=1.0), ValueError, r"kappa must lie in \[0, 1\)"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), **RUN, initial_potential=1.0), ValueError, r"initial_potential must lie in \[0, 1\)"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), **RUN).mean("bias", "rate", "lateral"), ValueError, "measure must be one of 'cosine'"),
        (lambda: check_gradients(NETWORK, np.ones((1, 3)), **RUN).mean("error", "rate", "H"), ValueError, "layer must be one of 'feedforward'"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
