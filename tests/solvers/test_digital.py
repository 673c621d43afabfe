"""solve_digital: certificates for the true problem at any rounding; effects of bits, steps and widths."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from snn import Clock, simulate
from snn.digital import DigitalFormat, FixedPoint
from solvers import LassoProblem, Status, solve, solve_digital
from solvers.certificate.optimality import objective
from solvers.methods import DigitalOneWindow, Stages
from tests.reference.problems import optimal_codes, random_problem, require_certified
from tests.tiers import examples

either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


DEFAULT = DigitalFormat()


def with_weights(bits, **options):
    return DigitalFormat(weights=FixedPoint(bits=bits), **options)


def quietly(problem, form=DEFAULT, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve_digital(problem, time=Clock(0.25, form), **options)


def in_one_run(problem, form=DEFAULT, *, max_duration=10_000.0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, DigitalOneWindow(max_duration, Clock(0.25, form)), **options)


FORMATS = (
    with_weights(8),
    with_weights(12),
    DigitalFormat(graded=True, message_bits=16),
    DigitalFormat(graded=True, message_bits=16, reset="zero"),
    DigitalFormat(message_bits=4),
    DigitalFormat(delay=1),
    DigitalFormat(current_overflow="wrap"),
)


@pytest.mark.property
@examples(12)
@given(
    form=st.sampled_from(FORMATS),
    positive=st.booleans(),
    tol=st.sampled_from((1e-2, 1e-4)),
    is_masked=st.booleans(),
    call=st.sampled_from((quietly, in_one_run)),
    seed=st.integers(0, 99),
)
def test_digital_codes_are_certified_in_any_format(form, positive, tol, is_masked, call, seed):
    problem = random_problem(32, 64, positive=positive, n_signals=4, seed=seed)
    if is_masked:
        known = np.random.default_rng(seed).random(32) < 0.8
        arguments = problem.dictionary, problem.signals, problem.penalty
        problem = LassoProblem(*arguments, positive=positive, mask=known)
    options = {"tol": tol, "max_duration": 600.0}
    result = call(problem, form, **options)
    require_certified(problem, result)
    is_reached = result.duality_gap <= tol * problem.energies
    np.testing.assert_array_equal(result.reached, is_reached)
    assert result.converged or call is in_one_run
    assert (result.duality_gap <= problem.energies * (1.0 + 1e-14)).all()
    n_neurons, counts = 64 * (1 if positive else 2), result.info["spike_counts"].toarray()
    assert counts.shape == (4, n_neurons)
    np.testing.assert_array_equal(counts.sum(axis=1), result.n_steps)
    network = result.operations["network"]
    np.testing.assert_array_equal(network.neuron_updates, result.info["n_clock_steps"] * n_neurons)
    np.testing.assert_array_equal(result.info["duration"], 0.25 * result.info["n_clock_steps"])
    # A neuron reaches every other neuron, unless their weight is rounded to zero.
    delivered = counts @ (result.info["network"].effective_weights != 0.0).sum(axis=1)
    np.testing.assert_array_equal(network.synaptic_operations, delivered)
    assert set(result.operations) == {"drive", "network", "read-out", "certificate"}
    if call is in_one_run:
        assert (result.operations["read-out"].multiply_adds % n_neurons == 0).all()
        np.testing.assert_array_equal(result.info["n_stages"], 1)
    spread = call(problem, form, n_jobs=2, **options)
    np.testing.assert_array_equal(spread.codes, result.codes)
    np.testing.assert_array_equal(spread.info["saturations"], result.info["saturations"])


@either_sign
@pytest.mark.parametrize("bits", [6, 8, 12])
def test_stages_correct_what_rounded_weights_do(positive, bits):
    """With six-bit weights the true gap reaches 1e-6, because each stage gets the true residual."""
    problem = random_problem(64, 128, positive=positive)
    result = solve_digital(problem, time=Clock(0.25, with_weights(bits)), tol=1e-6)
    assert result.converged
    excess = result.objective - objective(problem, optimal_codes(problem))
    assert (excess <= 1e-6 * problem.energies).all()
    assert (result.info["n_stages"] > 1).all()
    # Weights differ from the true weights: the network did not use real numbers.
    real = np.asarray(result.info["network"].network.weights)
    assert np.abs(result.info["network"].effective_weights - real).max() > 2.0 ** -(bits + 2)


@either_sign
def test_the_network_alone_solves_the_rounded_problem(positive):
    """In one run, codes converge to the codes of the rounded Gram matrix; more bits reduce the gap."""
    problem = random_problem(64, 128, positive=positive, n_signals=2)
    options = {"tol": 1e-9, "max_duration": 4000.0}
    gaps = []
    for bits in (6, 8, 10):
        result = in_one_run(problem, with_weights(bits, bias=FixedPoint(bits=24)), **options)
        gaps.append(result.relative_gap)
    assert (np.diff(gaps, axis=0) < 0.0).all()
    # The weights of the network are -(G' - diag G'), with G' rounded: the optimality conditions for G' hold.
    rounded = np.diag(problem.gram.diagonal()) - result.info["network"].effective_weights[:128, :128]
    left, true_left = (problem.correlations - result.codes @ gram for gram in (rounded, problem.gram))
    over, true_over = (values if positive else np.abs(values) for values in (left, true_left))
    # After 4000 time constants codes have errors of a few spikes; a spike is worth scale / 4000.
    assert (over <= problem.l1_weights + 60.0 * result.info["scale"][:, np.newaxis] / 4000.0).all()
    assert np.max(true_over) > np.max(over)


@pytest.mark.parametrize("call", [quietly, in_one_run])
def test_drives_that_do_not_fit_are_said_before_a_network_runs(call):
    """If the exponent is too small by 1 the largest drive saturates; with the next exponent no drive does."""
    problem = random_problem(64, 128, n_signals=2)
    largest = 0.5 * 2**20 * 0.25  # rate, threshold, step
    exponent = int(np.floor(np.log2(largest / 4095.0)))
    with pytest.warns(UserWarning, match="drives are beyond the range of their mantissas"):
        result = call(problem, DigitalFormat(bias=FixedPoint(bits=13, exponent=exponent)), tol=1e-2)
    require_certified(problem, result)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        call(problem, DigitalFormat(bias=FixedPoint(bits=13, exponent=exponent + 1)), tol=1e-2)


@pytest.mark.parametrize("kind", [Stages, DigitalOneWindow])
def test_networks_that_run_away_are_stopped_and_say_so(kind):
    """Three bits round small negative weights to zero, and atoms excite each other."""
    problem = random_problem(64, 128, n_signals=2)
    with pytest.warns(ConvergenceWarning, match=r"^digital.*: 2 of 2 .* before their networks ran away: use"):
        result = solve(problem, kind(time=Clock(0.25, with_weights(3))))
    assert result.info["ran_away"].all()
    assert (result.status == Status.RAN_AWAY).all()
    assert (result.info["duration"] < 1000.0).all()
    assert (result.info["saturations"][:, 1] > 0).all()
    require_certified(problem, result)


def test_currents_beyond_their_registers_are_said():
    problem = random_problem(20, 40, positive=True, n_signals=3)
    for overflow in ("saturate", "wrap"):
        form = DigitalFormat(current_bits=17, current_overflow=overflow)
        with pytest.warns(UserWarning, match="^synaptic currents were beyond .*current_bits"):
            result = quietly(problem, form)
        assert (result.info["saturations"][:, 2] > 0).any()
        require_certified(problem, result)


def test_one_run_is_that_of_simulate():
    """The drive of a signal at rest, run as `simulate` runs it, has the rates of the read-out."""
    problem = random_problem(20, 40, positive=True, n_signals=1)
    result = in_one_run(problem, max_duration=300.0, tol=1e-12)
    assert result.info["duration"][0] == 300.0
    drive = problem.correlations[0] - problem.l1_weights
    # Driven alone, the busiest neuron fires once in two time constants.
    assert result.info["scale"][0] == pytest.approx(2.0 * (drive / problem.atoms.squared_norms).max())
    drive = drive / result.info["scale"][0]
    drive = np.maximum(drive, -4.0 * drive.max())
    network = result.info["network"]
    run = simulate(network.network.with_soma_bias(drive), 300.0, Clock(0.25, network.format))
    rates = run.spike_rate * result.info["scale"][0]
    # The solver starts at half the thresholds and keeps the best code, so its rates differ by a few spikes.
    np.testing.assert_allclose(rates, result.codes[0], atol=3 * result.info["scale"][0] / 200)


def test_stochastic_weights_come_from_the_generator():
    problem = random_problem(20, 40, n_signals=1)
    form = DigitalFormat(weights=FixedPoint(bits=5, rounding="stochastic"))
    first, again, other = (
        solve_digital(problem, time=Clock(0.25, replace(form, seed=seed)), tol=1e-3) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.codes, again.codes)
    assert (first.info["network"].synapses.weights != other.info["network"].synapses.weights).any()


@pytest.mark.parametrize("call", [quietly, in_one_run])
@pytest.mark.parametrize("max_duration", [0.25, 0.6, 3.1])
def test_no_network_runs_longer_than_it_may(call, max_duration):
    problem = random_problem(20, 40, n_signals=2)
    result = call(problem, tol=1e-9, max_duration=max_duration)
    np.testing.assert_array_equal(result.info["duration"], 0.25 * np.floor(max_duration / 0.25))


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"time": Clock(1e-5, DEFAULT)}, ValueError, ".*decay_bits"),
        ({"max_duration": 0.0}, ValueError, "max_duration"),
        ({"max_duration": 0.2}, ValueError, "max_duration .*0.25; got 0.2"),
    ],
)
def test_bad_arguments(options, error, name):
    with pytest.raises(error, match=f"^{name}"):
        solve_digital(**{"problem": random_problem(20, 40, n_signals=1), **options})
