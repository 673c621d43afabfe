"""solve_digital: certified against the true problem, whatever is rounded; what bits, steps and widths do."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snn.digital import DigitalFormat, FixedPoint, simulate_digital
from solvers import ConvolutionalDictionary, LassoProblem, Status, solve_active_set, solve_digital
from solvers.certificate.optimality import objective
from tests.reference.problems import optimal_codes, random_problem, require_certified

either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


def with_weights(bits, **options):
    return DigitalFormat(weights=FixedPoint(bits=bits), **options)


def quietly(solve, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(*arguments, **options)


@either_sign
@pytest.mark.parametrize("bits", [6, 8, 12])
def test_stages_correct_what_rounded_weights_do(positive, bits):
    """Weights of six bits, and a gap of 1e-6 of the true problem: the next stage sees the true residual."""
    problem = random_problem(64, 128, positive=positive)
    result = solve_digital(problem, with_weights(bits), tol=1e-6)
    assert result.converged
    require_certified(problem, result)
    excess = result.objective - objective(problem, optimal_codes(problem))
    assert (excess <= 1e-6 * problem.energies).all()
    assert (result.n_stages > 1).all()
    # Weights differ from the true ones: this was not a network of real numbers.
    real = np.asarray(result.network.network.weights)
    assert np.abs(result.network.effective_weights - real).max() > 2.0 ** -(bits + 2)


@either_sign
@pytest.mark.parametrize("readout", ["smooth", "rate"])
def test_the_network_alone_solves_the_rounded_problem(positive, readout):
    """Without refinement codes tend to those of the rounded Gram matrix, and the gap falls with the bits."""
    problem = random_problem(64, 128, positive=positive, n_signals=2)
    solve = partial(quietly, solve_digital, problem, readout=readout, refine=False, tol=1e-9)
    gaps = []
    for bits in (6, 8, 10):
        result = solve(with_weights(bits, bias=FixedPoint(bits=24)), max_duration=4000.0)
        gaps.append(result.duality_gap / problem.energies)
        require_certified(problem, result)
        assert (result.status == Status.LIMIT_REACHED).all()
    assert (np.diff(gaps, axis=0) < 0.0).all()
    # The weights of the network are -(G' - diag G'), with G' rounded: the optimality conditions for G' hold.
    weights = result.network.effective_weights
    rounded = np.diag(problem.gram.diagonal()) - weights[:128, :128]
    left = problem.correlations - result.codes @ rounded
    over = left if positive else np.abs(left)
    # A run of 4000 time constants leaves errors of a few spikes, each of the scale of a code.
    assert (over <= problem.l1_weights + 60.0 * result.scale[:, np.newaxis] / 4000.0).all()
    true_left = problem.correlations - result.codes @ problem.gram
    assert np.max(true_left if positive else np.abs(true_left)) > np.max(over)


def test_coherent_atoms_need_a_shorter_step_and_then_16_bits_do():
    problem = random_problem(64, 128, coherence=0.9, n_signals=2)
    short = solve_digital(problem, with_weights(16, decay_bits=16), tol=1e-4, time_step=1 / 16)
    assert short.converged
    with pytest.warns(ConvergenceWarning, match="digital: "):
        long = solve_digital(problem, with_weights(16), tol=1e-4, max_duration=500.0)
    assert not long.converged


def test_networks_that_run_away_are_stopped_and_say_so():
    """Three bits turn small negative weights into none, and atoms excite each other."""
    problem = random_problem(64, 128, n_signals=2)
    with pytest.warns(ConvergenceWarning, match="ran away and were stopped before: use more weight bits"):
        result = solve_digital(problem, with_weights(3))
    assert result.ran_away.all()
    assert (result.duration < 1000.0).all()
    assert (result.saturations[:, 1] > 0).all()
    require_certified(problem, result)
    assert (quietly(solve_digital, problem, with_weights(3), refine=False).ran_away).all()


def test_results_depend_on_neither_batch_mates_nor_workers():
    problem = random_problem(64, 128, n_signals=6)
    for options in ({}, {"refine": False, "tol": 0.05}):
        together = solve_digital(problem, **options)
        spread = solve_digital(problem, n_jobs=2, **options)
        np.testing.assert_array_equal(together.codes, spread.codes)
        np.testing.assert_array_equal(together.saturations, spread.saturations)
        for k in (0, 4):
            alone = solve_digital(problem.subset(slice(k, k + 1)), **options)
            np.testing.assert_array_equal(alone.codes[0], together.codes[k])
            assert alone.n_steps[0] == together.n_steps[k]


def test_figures_of_a_result():
    problem = random_problem(64, 128, n_signals=3)
    result = solve_digital(problem, tol=1e-3)
    np.testing.assert_array_equal(result.sparse_spike_counts.sum(axis=1), result.n_steps)
    assert result.sparse_spike_counts.shape == (3, 256)
    np.testing.assert_array_equal(result.operations["network"].neuron_updates, result.duration / 0.25 * 256)
    # A positive neuron reaches all others of either sign, unless the weight is rounded to zero.
    delivered = np.zeros(3, dtype=np.int64)
    weights = result.network.effective_weights
    for k, counts in enumerate(result.sparse_spike_counts.toarray()):
        delivered[k] = counts @ (weights != 0.0).sum(axis=1)
    np.testing.assert_array_equal(result.operations["network"].synaptic_operations, delivered)
    assert (result.operations["network"].synaptic_operations < 255 * result.n_steps).all()
    assert set(result.operations) == {"drive", "network", "read-out", "certificate"}
    alone = quietly(solve_digital, problem, refine=False, max_duration=20.0)
    # Two looks at 256 rates, after 12 and after 17 time constants, and one at the end.
    assert (alone.operations["read-out"].multiply_adds % 256 == 0).all()
    assert result.saturations.shape == (3, 4)


def test_one_run_is_that_of_simulate_digital():
    """The drive of a signal at rest, run as `simulate_digital` runs it, has the rates of the read-out."""
    problem = random_problem(20, 40, positive=True, n_signals=1)
    result = quietly(solve_digital, problem, refine=False, readout="rate", max_duration=300.0, tol=1e-12)
    assert result.duration[0] == 300.0
    drive = (problem.correlations[0] - problem.l1_weights) / result.scale[0]
    drive = np.maximum(drive, -4.0 * drive.max())
    network = type(result.network).of(
        result.network.network.with_soma_bias(drive), result.network.format, time_step=0.25
    )
    run = simulate_digital(network, 1200)
    # The solver starts at half the thresholds, and keeps the best code: rates agree to a few spikes.
    np.testing.assert_allclose(
        run.spike_rate * result.scale[0], result.codes[0], atol=3 * result.scale[0] / 200
    )


def test_graded_and_delayed_spikes_and_several_at_once():
    problem = random_problem(64, 128, n_signals=2)
    for options in (
        {"graded": True, "message_bits": 16},
        {"graded": True, "message_bits": 16, "reset": "zero"},
        {"message_bits": 4},
        {"delay": 1},
        {"current_overflow": "wrap"},
    ):
        result = solve_digital(problem, DigitalFormat(**options), tol=1e-4)
        assert result.converged, options


def test_a_reset_to_zero_leaves_a_gap_that_stages_close():
    """Loihi's own neuron: unit spikes, a reset to zero."""
    problem = random_problem(64, 128, n_signals=2)
    loihi = DigitalFormat(reset="zero", current_overflow="wrap")
    assert solve_digital(problem, loihi, tol=5e-3).converged
    alone, keeping = (
        quietly(solve_digital, problem, form, refine=False, tol=1e-9, max_duration=1000.0)
        for form in (loihi, DigitalFormat())
    )
    assert (alone.duality_gap > 2.0 * keeping.duality_gap).all()


def test_a_convolutional_dictionary():
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((3, 3, 3)), (9, 9), 1)
    signals = rng.standard_normal((2, 81))
    for positive in (True, False):
        problem = LassoProblem(dictionary, signals, 1.5, positive=positive)
        result = solve_digital(problem, with_weights(12), tol=1e-3)
        assert result.converged
        exact = solve_active_set(problem)
        assert (result.objective - exact.objective <= 1e-3 * problem.energies).all()


def test_stochastic_weights_come_from_the_generator():
    problem = random_problem(20, 40, n_signals=1)
    form = DigitalFormat(weights=FixedPoint(bits=5, rounding="stochastic"))
    first, again, other = (solve_digital(problem, form, tol=1e-3, rng=rng) for rng in (1, 1, 2))
    np.testing.assert_array_equal(first.codes, again.codes)
    assert (first.network.weights.mantissas != other.network.weights.mantissas).any()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": 8}, TypeError, "format must be a DigitalFormat; got int"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"time_step": -1.0}, ValueError, "time_step must be positive"),
        ({"time_step": 1e-5}, ValueError, "give the format more decay_bits"),
        ({"threshold": 2**40}, ValueError, r"threshold must be less than 2\^23"),
        ({"max_duration": 0.0}, ValueError, "max_duration must be positive"),
        ({"max_duration": 0.2}, ValueError, "max_duration must be at least one time_step, 0.25; got 0.2"),
        (
            {"max_duration": 0.2, "refine": False},
            ValueError,
            "max_duration must be at least one time_step, 0.25; got 0.2",
        ),
        ({"readout": "current"}, ValueError, "readout must be one of"),
        ({"readout": "rate"}, ValueError, "refine must be False with readout='rate'"),
        ({"refine": 1}, TypeError, "refine must be True or False"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"progress": "yes"}, TypeError, "progress must be True or False"),
    ],
)
def test_bad_arguments(options, error, message):
    problem = random_problem(20, 40, n_signals=1)
    with pytest.raises(error, match=message):
        solve_digital(problem, **options)


@pytest.mark.filterwarnings("ignore:digital")
@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("max_duration", [0.25, 0.6, 3.1])
def test_no_network_runs_longer_than_it_may(refine, max_duration):
    problem = random_problem(20, 40, n_signals=2)
    result = solve_digital(problem, tol=1e-9, max_duration=max_duration, refine=refine)
    assert (result.duration <= max_duration).all()


def test_not_a_problem():
    with pytest.raises(TypeError, match="problem must be a LassoProblem"):
        solve_digital(np.eye(3))


def test_one_shared_mask_is_a_network_of_its_own_and_one_for_each_signal_is_refused():
    rng = np.random.default_rng(5)
    whole = random_problem(64, 128, positive=True)
    known = rng.random(whole.n_features) < 0.8
    problem = LassoProblem(whole.dictionary, whole.signals, whole.penalty, positive=True, mask=known)
    result = solve_digital(problem, with_weights(8), tol=1e-6)
    assert result.converged
    require_certified(problem, result)
    own = LassoProblem(
        whole.dictionary,
        whole.signals,
        whole.penalty,
        positive=True,
        mask=rng.random(whole.signals.shape) < 0.8,
    )
    with pytest.raises(
        TypeError, match="problem must have one mask for all signals for digital; got one for each signal"
    ):
        solve_digital(own)
