"""Streams: frame after frame, certified, from the codes of the frames before."""

import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from snn import NetworkState, SpikeTrain, simulate
from solvers import (
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    SparseCodingStream,
    Status,
    lasso_network,
    solve_active_set,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from solvers.studies.stream import predicted
from tests.reference.problems import random_codes, random_problem

either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
PENALTY = 0.1


def moving_codes(n_frames, n_atoms, *, n_signals=1, positive=False, seed=0):
    """Codes of few atoms that grow and shrink slowly, shape (n_frames, n_signals, n_atoms)."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0.0, 2.0 * np.pi, (n_signals, n_atoms))
    waves = np.sin(phases + 0.05 * np.arange(n_frames)[:, np.newaxis, np.newaxis])
    codes = np.where(rng.random((n_signals, n_atoms)) < 0.1, waves, 0.0)
    return np.abs(codes) if positive else codes


def moving_frames(n_frames=10, *, n_signals=1, positive=False, seed=0):
    """A dictionary and frames that change little, shape (n_frames, n_signals, 32)."""
    dictionary = random_problem(32, 64, seed=seed).dictionary
    codes = moving_codes(n_frames, 64, n_signals=n_signals, positive=positive, seed=seed)
    noise = 0.002 * np.random.default_rng(seed + 1).standard_normal((n_frames, n_signals, 32))
    return dictionary, codes @ dictionary + noise


def cold(stream, frame, **options):
    stream.reset()
    return stream.code(frame, **options)


# -- certificates ----------------------------------------------------------------------------------


@either_sign
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7])
def test_every_frame_is_certified_and_near_the_optimum(positive, tol):
    dictionary, frames = moving_frames(n_signals=3, positive=positive)
    stream = SparseCodingStream(dictionary, PENALTY, positive=positive)
    for frame in frames:
        result = stream.code(frame, tol=tol)
        problem = LassoProblem(dictionary, frame, PENALTY, positive=positive)
        figures = measure(problem, result.codes)
        # Rounding depends on where a frame lies in memory.
        rounding = 1e-13 * problem.energies.max()
        np.testing.assert_allclose(result.duality_gap, figures.duality_gap, rtol=0, atol=rounding)
        np.testing.assert_allclose(result.objective, figures.objective, rtol=0, atol=rounding)
        assert (result.duality_gap <= tol * problem.energies).all()
        assert result.converged
        optimum = solve_active_set(problem).objective
        assert (result.objective - optimum <= tol * problem.energies).all()
    assert stream.n_frames == len(frames)


def test_penalties_that_differ_and_elastic_nets():
    dictionary, frames = moving_frames()
    rng = np.random.default_rng(0)
    penalty = ElasticNet(rng.uniform(0.05, 0.2, 64), rng.uniform(0.0, 0.5, 64))
    stream = SparseCodingStream(dictionary, penalty)
    for frame in frames:
        result = stream.code(frame, tol=1e-5)
        optimum = solve_active_set(LassoProblem(dictionary, frame, penalty))
        assert result.objective[0] - optimum.objective[0] <= 1e-5 * 0.5 * (frame**2).sum()


def test_convolutional_dictionaries():
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((3, 4, 4)), (12, 12), 2)
    start = rng.standard_normal(144)
    stream = SparseCodingStream(dictionary, 2.0)
    spikes = []
    for k in range(4):
        frame = start + 0.003 * k * rng.standard_normal(144)
        result = stream.code(frame, tol=1e-3)
        spikes.append(result.n_steps[0])
        gap = measure(LassoProblem(dictionary, frame[np.newaxis], 2.0), result.codes).duality_gap
        assert gap[0] <= 1e-3 * 0.5 * (frame**2).sum()
    assert np.mean(spikes[1:]) < 0.5 * spikes[0]


# -- what is carried -------------------------------------------------------------------------------


@either_sign
def test_frames_that_change_little_take_few_spikes(positive):
    dictionary, frames = moving_frames(20, n_signals=4, positive=positive)
    stream = SparseCodingStream(dictionary, PENALTY, positive=positive)
    warm = [stream.code(frame) for frame in frames]
    alone = SparseCodingStream(dictionary, PENALTY, positive=positive)
    spikes = sum(result.n_steps.sum() for result in warm[1:])
    assert 2 * spikes < sum(cold(alone, frame).n_steps.sum() for frame in frames[1:])
    assert all(result.is_carried.all() for result in warm[1:])
    assert not warm[0].is_carried.any()


def test_the_same_frame_again_takes_no_spikes():
    dictionary, frames = moving_frames()
    stream = SparseCodingStream(dictionary, PENALTY)
    first = stream.code(frames[0])
    again = stream.code(frames[0])
    assert again.n_steps[0] == 0
    assert again.n_stages[0] == 0
    assert again.duality_gap[0] <= first.duality_gap[0]


@pytest.mark.parametrize("factor", [1e-6, 0.5, 3.0, 1e6])
def test_a_frame_of_another_amplitude_is_the_frame_at_another_penalty(factor):
    """As many spikes in any unit; and amplitude alone costs little, as the mixture follows it."""
    dictionary, frames = moving_frames()
    plain = SparseCodingStream(dictionary, PENALTY)
    scaled = SparseCodingStream(dictionary, factor * PENALTY)
    for frame in frames:
        one, other = plain.code(frame), scaled.code(factor * frame)
        np.testing.assert_allclose(other.codes, factor * one.codes, rtol=1e-6, atol=1e-9 * factor)
        assert one.n_steps[0] == other.n_steps[0]


def test_a_louder_frame_takes_fewer_spikes_than_a_new_one():
    dictionary, frames = moving_frames(n_signals=20)
    stream = SparseCodingStream(dictionary, PENALTY)
    alone = cold(stream, 1.2 * frames[0])
    cold(stream, frames[0])
    louder = stream.code(1.2 * frames[0])
    assert louder.converged
    assert louder.is_carried.all()
    assert louder.n_steps.sum() < 0.6 * alone.n_steps.sum()


def test_after_a_cut_a_frame_is_coded_as_if_it_were_the_first():
    """The frame before, turned round, has nothing to say: its code has a larger gap than zero."""
    dictionary, frames = moving_frames(positive=True)
    stream = SparseCodingStream(dictionary, PENALTY)
    expected = cold(stream, -frames[5])
    cold(stream, frames[5])
    cut = stream.code(-frames[5])
    assert not cut.is_carried[0]
    np.testing.assert_array_equal(cut.codes, expected.codes)
    assert cut.n_steps[0] == expected.n_steps[0]


def test_a_silent_frame_is_zero_and_leaves_nothing_behind():
    dictionary, frames = moving_frames()
    stream = SparseCodingStream(dictionary, PENALTY)
    expected = cold(stream, frames[3])
    cold(stream, frames[2])
    silent = stream.code(np.zeros(32))
    assert silent.n_steps[0] == 0
    assert silent.converged
    assert not silent.codes.any()
    after = stream.code(frames[3])
    np.testing.assert_array_equal(after.codes, expected.codes)


def test_reset_forgets_all_frames():
    dictionary, frames = moving_frames()
    stream = SparseCodingStream(dictionary, PENALTY)
    first = [stream.code(frame) for frame in frames]
    stream.reset()
    assert stream.n_frames == 0
    for frame, expected in zip(frames, first, strict=True):
        result = stream.code(frame)
        np.testing.assert_array_equal(result.codes, expected.codes)
        np.testing.assert_array_equal(result.n_steps, expected.n_steps)


def test_signals_and_streams_do_not_mix():
    """To the last bit: side by side, alone, and with two streams in turns."""
    dictionary, frames = moving_frames(n_signals=3)
    together = SparseCodingStream(dictionary, PENALTY)
    alone = [SparseCodingStream(dictionary, PENALTY) for _ in range(3)]
    for frame in frames:
        side_by_side = together.code(frame)
        for signal, stream in enumerate(alone):
            result = stream.code(frame[signal])
            np.testing.assert_array_equal(result.codes[0], side_by_side.codes[signal])
            assert result.n_steps[0] == side_by_side.n_steps[signal]
            assert result.duality_gap[0] == side_by_side.duality_gap[signal]


@either_sign
def test_the_mixture_is_the_best_of_its_kind(positive):
    """Against a search over shares, on codes of which none changes its sign."""
    from scipy.optimize import minimize

    problem = random_problem(20, 40, n_signals=2, positive=positive, share=0.02)
    first = solve_active_set(problem).codes
    second = first * np.random.default_rng(0).uniform(0.9, 1.1, first.shape)
    mixture = predicted(problem, [sparse.csr_array(first * 0.7), sparse.csr_array(second)])
    for signal in range(2):
        one = problem.subset([signal])

        def cost(shares, one=one, signal=signal):
            code = shares[0] * first[signal] + shares[1] * second[signal]
            return measure(
                one, np.maximum(code, 0.0)[np.newaxis] if positive else code[np.newaxis]
            ).objective[0]

        best = minimize(cost, [0.5, 0.5], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-14})
        found = measure(one, mixture[[signal]]).objective[0]
        assert found <= best.fun + 1e-9 * one.energies[0]


# -- deadlines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_spikes", [3, 9])
def test_a_frame_with_few_spikes_ends_at_the_last_of_them(max_spikes):
    dictionary, frames = moving_frames(1)
    result = SparseCodingStream(dictionary, PENALTY).code(frames[0], tol=1e-9, max_spikes=max_spikes)
    problem = LassoProblem(dictionary, frames[0], PENALTY)
    with pytest.warns(ConvergenceWarning):
        scale = solve_spiking(problem, tol=1e-9, max_duration=12.0).scale
    network = lasso_network(problem, scale=float(scale[0]))
    half = NetworkState(
        membrane_potential=0.5 * network.firing_threshold, synaptic_current=np.zeros(network.n_neurons)
    )
    spikes = simulate(network, 12.0, state=half, record_spikes=True).spikes
    np.testing.assert_allclose(result.duration, spikes.times[max_spikes - 1], rtol=1e-9)


@pytest.mark.parametrize("max_spikes", [1, 2, 7, 30])
def test_no_signal_takes_more_spikes_than_it_may(max_spikes):
    dictionary, frames = moving_frames(n_signals=4)
    stream = SparseCodingStream(dictionary, PENALTY)
    for frame in frames:
        result = stream.code(frame, tol=1e-6, max_spikes=max_spikes)
        assert (result.n_steps <= max_spikes).all()
        reached = result.duality_gap <= 1e-6 * 0.5 * (frame**2).sum(axis=1)
        np.testing.assert_array_equal(result.status == Status.CONVERGED, reached)
        # Either it is good enough, or every spike was used.
        assert (reached | (result.n_steps == max_spikes)).all()


@either_sign
@pytest.mark.parametrize("deadline", [{"max_spikes": 3}, {"max_seconds": 1e-9}, {"max_duration": 0.5}])
def test_at_a_deadline_no_code_is_worse_than_zero_or_than_that_of_the_frame_before(positive, deadline):
    dictionary, frames = moving_frames(n_signals=3, positive=positive)
    # Cuts and leaps of amplitude among them.
    frames = np.concatenate([frames, frames[::-4], 10.0 * frames[:2], 0.01 * frames[:2]])
    stream = SparseCodingStream(dictionary, PENALTY, positive=positive)
    before = np.zeros((3, 64))
    for frame in frames:
        result = stream.code(frame, **deadline)
        problem = LassoProblem(dictionary, frame, PENALTY, positive=positive)
        for codes in (before, np.zeros((3, 64))):
            gaps = measure(problem, codes).duality_gap
            # Rounding depends on where a frame lies in memory.
            assert (result.duality_gap <= gaps + 1e-13 * problem.energies).all()
        assert (result.duality_gap <= result.start_duality_gap).all()
        before = result.codes


def test_more_spikes_are_no_worse_and_enough_of_them_are_no_deadline():
    dictionary, frames = moving_frames()
    stream = SparseCodingStream(dictionary, PENALTY)
    gaps = [cold(stream, frames[0], max_spikes=m, tol=1e-5).duality_gap[0] for m in (2, 20, 200, 100_000)]
    assert (np.diff(gaps) <= 0.0).all()
    assert gaps[2] < 0.1 * gaps[0]
    free, bound = (cold(stream, frames[0], tol=1e-5, max_spikes=m) for m in (None, 100_000))
    np.testing.assert_allclose(bound.codes, free.codes, rtol=0, atol=1e-8)
    assert bound.n_steps[0] == free.n_steps[0]


def test_late_frames_end_after_one_read_out(monkeypatch):
    dictionary, frames = moving_frames()
    stream = SparseCodingStream(dictionary, PENALTY)
    clock = iter([0.0, 0.5, 1.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    result = stream.code(frames[0], tol=1e-12, max_seconds=1.0)
    assert next(clock, None) is None
    assert result.status[0] == Status.LIMIT_REACHED
    assert 0.0 < result.duality_gap[0] < result.start_duality_gap[0]


# -- starts of solve_spiking -----------------------------------------------------------------------


@either_sign
@pytest.mark.parametrize("refine", [True, False])
def test_the_network_starts_from_codes(positive, refine):
    problem = random_problem(32, 64, n_signals=10, positive=positive, share=0.1)
    optimum = solve_active_set(problem)
    assert not solve_spiking(problem, start=optimum, refine=refine).n_steps.any()
    near = optimum.codes * np.random.default_rng(0).uniform(0.9, 1.1, optimum.codes.shape)
    tol = 1e-3
    warm, alone = (solve_spiking(problem, start=start, tol=tol, refine=refine) for start in (near, None))
    assert warm.converged
    assert warm.n_steps.sum() < 0.8 * alone.n_steps.sum()
    for signal in range(3):
        one = solve_spiking(problem.subset([signal]), start=near[[signal]], tol=tol, refine=refine)
        np.testing.assert_array_equal(one.codes[0], warm.codes[signal])


def test_a_start_worse_than_zero_is_none():
    problem = random_problem(n_signals=2)
    start = random_codes(problem, scale=100.0)
    result, alone = solve_spiking(problem, start=start), solve_spiking(problem)
    np.testing.assert_array_equal(result.codes, alone.codes)
    np.testing.assert_array_equal(result.n_steps, alone.n_steps)


@pytest.mark.parametrize("options", [{"readout": "rate"}, {"readout": "current"}, {"polish": True}])
def test_other_read_outs_have_no_start(options):
    with pytest.raises(ValueError, match=r"start must be None for .*: 'spiking', .* take it$"):
        solve_spiking(random_problem(), start=np.zeros((3, 40)), **options)


# -- frames that input spikes change -----------------------------------------------------------------


def train(counts, stop=1.0):
    """Return a spike train with so many spikes of each source."""
    neurons = np.repeat(np.arange(len(counts)), counts)
    times = np.linspace(0.0, stop, len(neurons))
    return SpikeTrain(times=times, neurons=neurons, n_neurons=len(counts), start=0.0, stop=stop)


@pytest.mark.parametrize("as_sparse", [True, False])
@pytest.mark.parametrize("n_signals", [1, 3])
def test_a_frame_that_input_spikes_change_is_the_frame_that_they_say(n_signals, as_sparse):
    dictionary, frames = moving_frames(1, n_signals=n_signals)
    stream, other = (SparseCodingStream(dictionary, PENALTY) for _ in range(2))
    assert stream.frame is None
    first = frames[0].copy()
    stream.code(first)
    other.code(first)
    first[:] = np.nan  # the caller's own
    rng = np.random.default_rng(3)
    steps = np.where(rng.random((8, n_signals * 32)) < 0.1, 0.05, 0.0)
    expected = frames[0].reshape(n_signals, 32)
    for _ in range(3):
        counts = rng.integers(0, 4, 8)
        result = stream.code_change(train(counts), sparse.csr_array(steps) if as_sparse else steps, tol=1e-5)
        expected = expected + (counts @ steps).reshape(n_signals, 32)
        np.testing.assert_allclose(stream.frame, expected, rtol=0, atol=1e-15)
        theirs = other.code(stream.frame, tol=1e-5)
        np.testing.assert_array_equal(result.codes, theirs.codes)
        np.testing.assert_array_equal(result.duality_gap, theirs.duality_gap)
        assert (result.status == Status.CONVERGED).all()
    assert stream.code_change(train([0] * 8), steps, tol=1e-5).n_steps.sum() == 0
    stream.reset()
    assert stream.frame is None


def test_changes_of_nonsense_are_refused_and_change_nothing():
    dictionary, frames = moving_frames(1)
    stream = SparseCodingStream(dictionary, PENALTY)
    steps = np.zeros((2, 32))
    with pytest.raises(ValueError, match="code_change must follow a frame that was coded; got none"):
        stream.code_change(train([1, 1]), steps)
    stream.code(frames[0])
    for spikes, wrong, error, sentence in (
        ([0.0], steps, TypeError, "spikes must be a SpikeTrain; got list"),
        (
            train([1, 1]),
            np.zeros((2, 31)),
            ValueError,
            r"steps must have shape \(2, 32\), .* got shape \(2, 31\)",
        ),
        (
            train([1, 1]),
            np.zeros((3, 32)),
            ValueError,
            r"steps must have shape \(2, 32\), .* got shape \(3, 32\)",
        ),
        (
            train([1, 1]),
            sparse.csr_array((2, 31)),
            ValueError,
            r"steps must have shape \(2, 32\), .* got shape \(2",
        ),
        (train([1, 1]), steps + np.nan, ValueError, "steps must be finite; got nan"),
        (
            train([1, 1]),
            steps.astype(object),
            TypeError,
            "steps must be an array of real numbers; got dtype object",
        ),
        (
            train([1, 1]),
            steps + 1e308,
            ValueError,
            "frame must be finite|signals must have rows of squared norm",
        ),
    ):
        with pytest.raises(error, match=sentence):
            stream.code_change(spikes, wrong)
    assert stream.n_frames == 1
    np.testing.assert_array_equal(stream.frame, frames[0].reshape(1, 32))


# -- nonsense --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "options", "error", "sentence"),
    [
        (np.ones(31), {}, ValueError, r"frame must have shape \(32,\), .* got shape \(31,\)"),
        (np.ones((2, 31)), {}, ValueError, r"frame must have shape \(any, 32\), .* got shape \(2, 31\)"),
        (np.ones((1, 1, 32)), {}, ValueError, "frame must have shape"),
        (np.ones((2, 32)), {}, ValueError, "frame must have as many signals as the frame before, 1; got 2"),
        (np.full(32, np.nan), {}, ValueError, r"frame must be finite; got nan at \[0\]"),
        (np.full(32, 1e200), {}, ValueError, "signals must have rows of squared norm between"),
        ("frame", {}, TypeError, "frame must be an array of real numbers; got dtype"),
        (None, {}, TypeError, "frame must be an array of real numbers; got dtype"),
        (np.ones(32) * 1j, {}, TypeError, "frame must be an array of real numbers; got dtype complex128"),
        (np.ones(32), {"tol": 0.0}, ValueError, "tol must be positive; got 0.0"),
        (np.ones(32), {"max_spikes": 0}, ValueError, "max_spikes must be positive; got 0"),
        (np.ones(32), {"max_spikes": 1.5}, TypeError, "max_spikes must be an integer; got float"),
        (np.ones(32), {"max_seconds": 0.0}, ValueError, "max_seconds must be positive; got 0.0"),
        (np.ones(32), {"max_seconds": -1}, ValueError, "max_seconds must be positive; got -1.0"),
        (np.ones(32), {"max_duration": np.inf}, ValueError, "max_duration must be finite; got inf"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(frame, options, error, sentence):
    dictionary, frames = moving_frames(3)
    stream, other = (SparseCodingStream(dictionary, PENALTY) for _ in range(2))
    for one in (stream, other):
        one.code(frames[0])
    with pytest.raises(error, match=sentence):
        stream.code(frame, **options)
    np.testing.assert_array_equal(stream.code(frames[1]).codes, other.code(frames[1]).codes)


@pytest.mark.parametrize(
    ("dictionary", "penalty", "options", "error", "sentence"),
    [
        (np.ones(3), 1.0, {}, ValueError, "dictionary must be 2-D"),
        (np.eye(3), 0.0, {}, ValueError, "penalty must be positive for a stream; got 0 for atom 0"),
        (np.eye(3), [1.0, 1.0], {}, ValueError, "penalty must"),
        (np.eye(3), 1.0, {"positive": 1}, TypeError, "positive must be True or False; got 1"),
        (np.eye(3), 1.0, {"gram": np.ones((3, 3))}, ValueError, "gram must be dictionary @ dictionary.T"),
    ],
)
def test_streams_of_nonsense_are_refused(dictionary, penalty, options, error, sentence):
    with pytest.raises(error, match=sentence):
        SparseCodingStream(dictionary, penalty, **options)
