"""The gradient check: Theorem 3 of Lin and Tang (2018) as numbers, for networks of every kind."""

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

from dictlearn import check_gradients, rules
from solvers import LassoProblem, solve_active_set
from tests.dictlearn.two_phase.learners import SIGNS, network_of, signals_for

PENALTY = 0.1
LAYERS = ("feedforward", "feedback", "lateral")
each_sign = pytest.mark.parametrize("signs", SIGNS.values(), ids=SIGNS)


def task_of(signs, masked, n_signals=6):
    """Signals, one of them zero, and a mask."""
    signals = signals_for(signs, n_signals)
    signals[2] = 0.0
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.75 if masked else None
    return signals, mask


def true_gradients(network, codes, signals, known):
    residual = known * (codes @ network.feedback.T - signals)
    mismatch = network.lateral - network.feedforward @ network.feedback
    return residual, codes @ mismatch.T


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("strength", [0.0, 0.02])
@each_sign
def test_figures_by_hand(signs, strength, masked):
    """Outer products written out, from what neurons saw; the code of a consistent network is exact."""
    network, (signals, mask) = network_of(signs, strength=strength), task_of(signs, masked)
    weights = np.random.default_rng(6).uniform(0.5, 1.5, network.n_atoms)
    options = {"penalty": PENALTY, "kappa": 0.4, "reweighting": weights, "initial_potential": 0.25}
    durations = [4.0, 16.0]
    check = check_gradients(network, signals, durations=durations, mask=mask, **options)
    known = np.ones(signals.shape) if mask is None else mask.astype(float)
    assert 2 not in check.signals
    assert check.durations.tolist() == durations
    assert check.readouts == rules.READOUTS
    if strength == 0.0:
        for code, row in zip(check.codes, check.signals, strict=True):
            atoms, seen = network.feedback.T, known[row] > 0.0
            problem = LassoProblem(
                atoms[:, seen],
                signals[row : row + 1, seen],
                PENALTY * weights,
                positive=network.positive_code,
            )
            np.testing.assert_allclose(code, solve_active_set(problem).codes[0], rtol=0, atol=1e-8)
    else:
        long = network.run(signals, duration=2000.0, mask=mask, **options)[1]
        expected = np.where(long.coding_rate != 0.0, long.coding_trace, 0.0)
        np.testing.assert_array_equal(check.codes, expected[check.signals])
    signals, known = signals[check.signals], known[check.signals]
    chosen = None if mask is None else mask[check.signals]
    g_d, g_h = true_gradients(network, check.codes, signals, known)
    for t, duration in enumerate(durations):
        phases = network.run(signals, duration=duration, mask=chosen, **options)
        at_code = true_gradients(network, phases[1].coding_trace, signals, known)
        for r, readout in enumerate(rules.READOUTS):
            seen = {"readout": readout, "mask": chosen}
            codes = rules.code(phases[1], readout=readout, positive=network.positive_code)
            seen_d = rules.reconstruction_gradient(*phases, **seen) / 0.4
            seen_h = (
                rules.lateral_gradient(network.feedforward, network.lateral, *phases, kappa=0.4, **seen) / 0.4
            )
            rows = [slice(k, k + 1) for k in range(len(signals))] + [slice(None)]
            for k, row in enumerate(rows):
                updates = (codes[row].T @ seen_d[row], seen_d[row].T @ codes[row], seen_h[row].T @ codes[row])
                a = check.codes[row]
                gradients = (a.T @ g_d[row], g_d[row].T @ a, g_h[row].T @ a)
                for layer in (0, 1, 2) if strength else (0, 1):
                    update, gradient = updates[layer], gradients[layer]
                    size, length = np.linalg.norm(gradient), np.linalg.norm(update)
                    error = np.linalg.norm(update - gradient) / size
                    cosine = (update * gradient).sum() / (size * length) if length else 0.0
                    whole = k == len(signals)
                    place = (r, layer, t) if whole else (r, layer, t, k)
                    assert (check.mean_error if whole else check.error)[place] == pytest.approx(
                        error, rel=1e-6
                    )
                    found = (check.mean_cosine if whole else check.cosine)[place]
                    assert found == pytest.approx(cosine, rel=1e-6, abs=1e-9)
            for layer, (ours, theirs) in enumerate(
                [(seen_d, at_code[0]), (seen_d, at_code[0]), (seen_h, at_code[1])]
            ):
                if layer < 2 or strength:
                    sizes = np.linalg.norm(theirs, axis=1)
                    errors = np.linalg.norm(ours - theirs, axis=1) / np.where(sizes > 0.0, sizes, np.nan)
                    np.testing.assert_allclose(
                        check.same_code_error[r, layer, t], errors, rtol=1e-6, atol=1e-10
                    )
    if strength == 0.0:  # then there is no gradient of H
        for figures in (check.error, check.cosine, check.mean_error, check.same_code_error):
            places = figures[:, 2]
            assert np.isnan(places).all()


@pytest.mark.parametrize(
    ("signs", "masked"), [(SIGNS["positive"], True), (SIGNS["signed atoms and codes"], False)]
)
def test_updates_become_gradients(signs, masked):
    """Errors fall as 1 / T; currents are exact for the code of the phase."""
    signals, mask = task_of(signs, masked)
    for strength, layers in ((0.0, (0, 1)), (0.02, (1, 2))):
        check = check_gradients(
            network_of(signs, strength=strength),
            signals,
            penalty=PENALTY,
            durations=[125.0, 2000.0],
            mask=mask,
        )
        assert np.nanmax(check.same_code_error[1]) < 1e-8
        for layer in layers:
            errors = check.mean("error", "rate", LAYERS[layer])
            assert errors[1] < errors[0] / 4.0
            assert np.median(check.cosine[0, layer, -1]) > 0.98


@pytest.fixture(scope="module")
def small_check():
    signals, _ = task_of({}, masked=False)
    return check_gradients(network_of({}, strength=0.02), signals, penalty=PENALTY, durations=(10.0, 50.0))


def test_means_and_quartiles(small_check):
    values = small_check.error[0, 1]
    np.testing.assert_allclose(small_check.mean("error", "rate", "feedback"), values.mean(axis=1))
    quartiles = small_check.quartiles("error", "rate", "feedback")
    np.testing.assert_allclose(quartiles, np.quantile(values, (0.25, 0.5, 0.75), axis=1))
    consistent = check_gradients(network_of({}), signals_for({}), penalty=PENALTY, durations=[2.0])
    assert np.isnan(consistent.mean("cosine", "rate", "lateral")).all()
    consistent.plot(layer="lateral", ax=Figure().subplots())  # of nothing
    # A fraction is a number; half-filled potentials are the default.
    options = {"penalty": PENALTY, "durations": [2.0], "kappa": Fraction(7, 10)}
    same = check_gradients(network_of({}), signals_for({}), initial_potential=Fraction(1, 2), **options)
    np.testing.assert_array_equal(same.error, consistent.error)


@pytest.mark.parametrize("measure", ["error", "cosine"])
def test_picture(small_check, measure):
    ax = small_check.plot(layer="lateral", measure=measure, ax=Figure().subplots())
    lines = {line.get_label(): line for line in ax.get_lines()}
    if measure == "error":
        for readout in rules.READOUTS:
            expected = small_check.quartiles("error", readout, "lateral")[1]
            np.testing.assert_array_equal(lines[readout].get_ydata(), expected)
        slopes = np.diff(np.log(lines["1 / T"].get_ydata())) / np.diff(np.log((10.0, 50.0)))
        np.testing.assert_allclose(slopes, -1.0)
