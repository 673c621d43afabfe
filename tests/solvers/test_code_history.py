"""The history of a code: the run of `solve_spiking` itself, every spike of it, and certified codes."""

import numpy as np
import pytest

from snn import NetworkState
from solvers import ConvolutionalDictionary, LassoProblem, code_history, duality_gap, solve_spiking
from solvers._kernels.refinement import LAG
from tests.reference.plain_simulator import simulate_plainly


def random_problem(seed=0, *, positive=False, n_signals=3, **options):
    rng = np.random.default_rng(seed)
    return LassoProblem(
        rng.standard_normal((24, 12)), rng.standard_normal((n_signals, 12)), 0.6, positive=positive, **options
    )


def convolutional_problem():
    rng = np.random.default_rng(1)
    kernels = rng.standard_normal((2, 3, 3))
    dictionary = ConvolutionalDictionary(kernels, (8, 8), 1)
    return LassoProblem(dictionary, rng.standard_normal((1, dictionary.shape[1])), 1.5)


PROBLEMS = {
    "signed": random_problem(),
    "positive": random_problem(positive=True),
    "masked": random_problem(mask=np.random.default_rng(2).random((3, 12)) < 0.8),
    "convolutional": convolutional_problem(),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "options", [{"tol": 1e-5}, {"tol": 1e-2, "refine": False}, {"tol": 0.05, "readout": "rate"}]
)
def test_it_is_the_run_of_the_solver(name, options):
    problem = PROBLEMS[name]
    signal = problem.n_signals - 1
    history = code_history(problem, signal, n_times=30, **options)
    result = solve_spiking(problem.subset([signal]), **options)
    assert len(history.spikes) == result.n_steps[0]
    np.testing.assert_array_equal(history.spikes.counts(), result.spike_counts[0])
    assert history.times[-1] == pytest.approx(result.duration[0], rel=1e-12)
    assert len(history.stages) == result.n_stages[0]
    assert history.n_spikes[-1] == len(history.spikes)
    np.testing.assert_allclose(history.codes[-1], result.codes[0], rtol=0, atol=1e-12)
    assert history.duality_gap[-1] <= options["tol"] * problem.energies[signal]


@pytest.mark.parametrize("options", [{"tol": 1e-4}, {"tol": 0.05, "readout": "rate"}])
def test_of_a_wide_dictionary_only_the_rows_that_are_used_are_computed(options):
    rng = np.random.default_rng(3)
    atoms, signal = rng.standard_normal((1000, 60)), rng.standard_normal((1, 60))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    problem = LassoProblem(atoms, signal, 0.5 * np.abs(signal @ atoms.T).max())
    history, result = code_history(problem, **options), solve_spiking(problem, **options)
    assert not problem.has_gram
    assert not history.problem.has_gram
    np.testing.assert_array_equal(history.spikes.counts(), result.spike_counts[0])
    assert history.times[-1] == pytest.approx(result.duration[0], rel=1e-12)
    np.testing.assert_allclose(history.codes[-1], result.codes[0], rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*did not reach")
def test_a_run_that_is_stopped_ends_with_the_code_of_the_solver():
    for seed in range(5):
        problem = random_problem(seed)
        history = code_history(problem, 0, max_duration=3.0)
        result = solve_spiking(problem.subset([0]), max_duration=3.0)
        np.testing.assert_array_equal(history.codes[-1], result.codes[0])
        assert (np.diff(history.duality_gap) <= 0.0).all()


@pytest.mark.parametrize("readout", ["smooth", "rate"])
def test_every_gap_is_that_of_its_code(readout):
    problem = PROBLEMS["signed"]
    history = code_history(problem, 1, tol=1e-2, readout=readout, n_times=25)
    for code, gap in zip(history.codes, history.duality_gap, strict=True):
        assert duality_gap(problem.subset([1]), code[np.newaxis])[0] == gap
    if readout == "smooth":
        assert (np.diff(history.duality_gap) <= 0.0).all()
    assert (np.diff(history.times) > 0.0).all()
    assert not history.codes[0].any()


def test_spikes_of_every_stage_are_those_of_a_plain_simulator():
    problem = PROBLEMS["positive"]
    history = code_history(problem, 0, tol=1e-4)
    assert len(history.stages) > 2
    gram = problem.dictionary @ problem.dictionary.T
    thresholds = np.diag(gram)
    for number, stage in enumerate(history.stages):
        left = problem.correlations[0] - gram @ stage.offset - problem.l1_weights
        rates = (stage.origin - stage.offset) / stage.scale
        current = (np.diag(thresholds) - gram) @ rates
        lag = LAG * np.minimum(left / stage.scale + current, 0.0) if number else 0.0
        state = NetworkState(membrane_potential=0.5 * thresholds + lag, synaptic_current=current)
        plain = simulate_plainly(
            np.diag(thresholds) - gram, left / stage.scale, thresholds, stage.spikes.stop, state=state
        )
        np.testing.assert_array_equal(stage.spikes.neurons, plain.neurons)
        np.testing.assert_allclose(stage.spikes.times, plain.times, rtol=0, atol=1e-8)


def test_a_stage_says_what_it_is_in_one_line():
    stage = code_history(PROBLEMS["signed"], 2, tol=1e-4).stages[-1]
    n_used, n_atoms = np.count_nonzero(stage.offset), len(stage.offset)
    assert f"; spikes: {len(stage.spikes)}; offset: {n_used} of {n_atoms} atoms; " in repr(stage)
    assert "\n" not in repr(stage)
    assert "array" not in repr(stage)


def test_rates_are_counts_by_time_and_stages_add_to_their_offsets():
    problem = PROBLEMS["signed"]
    history = code_history(problem, 2, tol=1e-4)
    stage = history.stages[-1]
    time = 0.7 * stage.spikes.stop
    code = stage.offset.copy()
    for spike, neuron in zip(stage.spikes.times, stage.spikes.neurons, strict=True):
        if spike <= time:
            place = spike / time
            bump = 30.0 * place**2 * (1.0 - place) ** 2 / time
            code[neuron % 24] += stage.scale * bump * (1.0 if neuron < 24 else -1.0)
    np.testing.assert_allclose(stage.code(time, readout="smooth", positive=False), code, rtol=0, atol=1e-12)
    (run,) = code_history(problem, 2, tol=0.05, readout="rate").stages
    plus, minus = np.split(run.spikes.counts(stop=5.0), 2)
    np.testing.assert_allclose(
        run.code(5.0, readout="rate", positive=False), run.scale * (plus - minus) / 5.0, rtol=1e-14
    )


def test_a_signal_whose_code_is_zero_has_no_spikes():
    history = code_history(LassoProblem(np.eye(3), [[0.1, 0.2, 0.0]], 1.0), n_times=5)
    assert history.stages == ()
    assert len(history.spikes) == 0
    assert not history.codes.any()
    assert history.times.tolist() == [0.0] * 5


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"signal": 3}, ValueError, "signal must lie in"),
        ({"readout": "current"}, ValueError, r"readout must be one of .*smooth.*rate"),
        ({"n_times": 1}, ValueError, "n_times must be at least 2"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"refine": 1}, TypeError, "refine must be"),
    ],
)
def test_nonsense_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        code_history(PROBLEMS["signed"], **options)


def test_no_problem_is_refused():
    with pytest.raises(TypeError, match="problem must be"):
        code_history(np.eye(3))
