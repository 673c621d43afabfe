"""Streams: certified codes, frame after frame, from the codes of earlier frames."""

import time
from functools import partial
from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from snn import NetworkState, simulate
from solvers import (
    ElasticNet,
    LassoProblem,
    SparseCodingStream,
    duality_gap,
    lasso_network,
    solve_active_set,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from tests.interrupting import interrupted, n_places
from tests.reference.problems import random_problem
from tests.tiers import examples

either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
PENALTY = 0.1


def moving_frames(n_frames=10, *, n_signals=1, positive=False, seed=0):
    """Return a dictionary, and frames with slowly changing codes, shape (n_frames, n_signals, 32)."""
    rng = np.random.default_rng(seed)
    dictionary = random_problem(32, 64, seed=seed).dictionary
    phases = rng.uniform(0.0, 2.0 * np.pi, (n_signals, 64))
    waves = np.sin(phases + 0.05 * np.arange(n_frames)[:, np.newaxis, np.newaxis])
    codes = np.where(rng.random((n_signals, 64)) < 0.1, waves, 0.0)
    codes = np.abs(codes) if positive else codes
    return dictionary, codes @ dictionary + 0.002 * rng.standard_normal((n_frames, n_signals, 32))


def cold(stream, frame, **options):
    stream.reset()
    return stream.code(frame, **options)


# -- every frame -----------------------------------------------------------------------------------

DEADLINES = ({}, {}, {"max_spikes": 1}, {"max_spikes": 7}, {"max_seconds": 1e-9}, {"max_duration": 0.5})


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(15)
@given(
    seed=st.integers(0, 99),
    positive=st.booleans(),
    n_signals=st.integers(1, 4),
    tol=st.sampled_from((1e-2, 1e-4, 1e-7)),
    is_curved=st.booleans(),
    masked=st.sampled_from(("never", "always", "at times")),
    deadline=st.sampled_from(DEADLINES),
)
def test_every_frame_is_certified_whatever_the_deadline(
    seed, positive, n_signals, tol, is_curved, masked, deadline
):
    rng = np.random.default_rng(seed)
    dictionary, frames = moving_frames(6, n_signals=n_signals, positive=positive, seed=seed)
    # The frames include cuts, jumps of amplitude, and silence.
    frames = np.concatenate([frames, frames[::-3], 10.0 * frames[:1], 0.01 * frames[:1], 0.0 * frames[:1]])
    l1 = rng.uniform(0.05, 0.2, 64)
    penalty = ElasticNet(l1, rng.uniform(0.0, 0.5, 64)) if is_curved else l1
    known = rng.random(32) < 0.8
    options = {"mask": known} if masked == "always" else {}
    stream, first = (SparseCodingStream(dictionary, penalty, positive=positive, **options) for _ in range(2))
    before = np.zeros((n_signals, 64))
    for k, frame in enumerate(frames):
        own = {"mask": known} if masked == "at times" and k % 3 else {}
        mask = known if own or options else None
        holed = frame if mask is None else np.where(mask, frame, np.nan)
        result = stream.code(holed, tol=tol, **own, **deadline)
        problem = LassoProblem(dictionary, frame, penalty, positive=positive, mask=mask)
        zero, last, figures = (measure(problem, c) for c in (0.0 * before, before, result.codes))
        atol = 1e-13 * problem.energies.max()
        np.testing.assert_allclose(result.duality_gap, figures.duality_gap, rtol=0, atol=atol)
        np.testing.assert_allclose(result.objective, figures.objective, rtol=0, atol=atol)
        is_reached = result.duality_gap <= tol * problem.energies
        np.testing.assert_array_equal(result.reached, is_reached)
        # The start is not worse than zero or the previous code, and the code is not worse than the start.
        assert (
            result.info["start_duality_gap"] <= np.minimum(zero.duality_gap, last.duality_gap) + atol
        ).all()
        assert (result.duality_gap <= result.info["start_duality_gap"]).all()
        np.testing.assert_array_equal(
            result.info["is_carried"],
            before.any(axis=1) & (result.info["start_duality_gap"] < zero.duality_gap - atol),
        )
        has_started = result.info["start_duality_gap"] > tol * problem.energies
        if not is_curved:  # see below
            assert not result.n_steps[~has_started].any()
            np.testing.assert_array_equal(result.info["n_stages"] > 0, has_started)
        assert (result.n_steps <= deadline.get("max_spikes", np.inf)).all()
        assert (result.info["duration"] <= deadline.get("max_duration", np.inf)).all()
        assert (result.info["seconds_late"] > 0.0) == ("max_seconds" in deadline)
        np.testing.assert_array_equal(result.operations["network"].spikes, result.n_steps)
        np.testing.assert_array_equal(result.operations["network"].neuron_time.shape, (n_signals,))
        if "max_spikes" in deadline:
            assert (is_reached | (result.n_steps == deadline["max_spikes"])).all()
        if not deadline:
            assert result.converged
            excess = result.objective - solve_active_set(problem).objective
            assert (excess <= tol * problem.energies + atol).all()
        # A signal that is coded alone has the same bits, except if masks or curvatures change products.
        alone = first.code(holed[0], tol=tol, **own, **deadline)
        if masked == "never" and not is_curved:
            np.testing.assert_array_equal(alone.codes[0], result.codes[0])
            assert alone.n_steps[0] == result.n_steps[0]
        assert (np.abs(alone.objective - result.objective)[0] <= tol * problem.energies[0]) or deadline
        np.testing.assert_array_equal(stream.frame, np.nan_to_num(holed))
        before = result.codes
    assert stream.n_frames == len(frames)


def test_signals_side_by_side_take_the_spikes_of_each_alone_with_an_elastic_net():
    dictionary, frames = moving_frames(6, n_signals=3)
    streams = [SparseCodingStream(dictionary, ElasticNet(PENALTY, 0.3)) for _ in range(4)]
    for frame in frames:
        together = streams[3].code(frame, tol=1e-2).n_steps
        alone = [streams[k].code(frame[k], tol=1e-2).n_steps[0] for k in range(3)]
        np.testing.assert_array_equal(together, alone)


# -- what is carried -------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-6, 0.5, 3.0, 1e6])
def test_the_unit_of_frames_is_of_no_consequence(factor):
    dictionary, frames = moving_frames()
    plain, scaled = (SparseCodingStream(dictionary, unit * PENALTY) for unit in (1.0, factor))
    for frame in frames:
        one, other = plain.code(frame), scaled.code(factor * frame)
        np.testing.assert_allclose(other.codes, factor * one.codes, rtol=1e-6, atol=1e-9 * factor)
        assert one.n_steps[0] == other.n_steps[0]


@pytest.mark.parametrize("change", ["cut", "silence", "reset"])
def test_a_frame_after_nothing_of_use_is_coded_as_if_it_were_the_first(change):
    dictionary, frames = moving_frames(positive=True)
    stream = SparseCodingStream(dictionary, PENALTY)
    expected = cold(stream, -frames[5])
    cold(stream, frames[5])
    if change == "silence":
        assert not stream.code(np.zeros(32)).n_steps.any()
    elif change == "reset":
        stream.reset()
        assert (stream.n_frames, stream.frame) == (0, None)
    found = stream.code(-frames[5])
    assert not found.info["is_carried"][0]
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert found.n_steps[0] == expected.n_steps[0]


@either_sign
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("shares", [(0.7,), (0.8, 0.3), (0.5, 0.4, 0.2)])
def test_a_mixture_of_the_frames_before_takes_no_spikes(positive, shares, l2):
    """The optimum of the frame is a mixture of the last codes, within the support of the last one."""
    dictionary, frames = moving_frames(4, n_signals=3, positive=positive)
    penalty = ElasticNet(PENALTY, l2)
    stream = SparseCodingStream(dictionary, penalty, positive=positive)
    last = [stream.code(frame, tol=1e-10) for frame in frames][::-1]
    signs = np.sign(last[0].codes)
    mixed = signs**2 * sum(share * result.codes for share, result in zip(shares, last, strict=False))
    assert ((np.sign(mixed) == signs) | (signs == 0.0)).all()
    # The residual of the optimum depends only on signs and on curvatures times the code.
    left = frames[-1] - last[0].codes @ dictionary
    for k, change in enumerate(l2 * (mixed - last[0].codes)):
        support = np.flatnonzero(signs[k])
        left[k] += np.linalg.lstsq(dictionary[support], change[support])[0]
    frame = mixed @ dictionary + left
    result = stream.code(frame, tol=1e-6)
    problem = LassoProblem(dictionary, frame, penalty, positive=positive)
    gaps = measure(problem, mixed).duality_gap
    np.testing.assert_allclose(
        result.info["start_duality_gap"], gaps, rtol=1e-3, atol=1e-8 * problem.energies.max()
    )
    if l2 == 0.0:
        assert not result.n_steps.any()
        np.testing.assert_allclose(result.codes, mixed, rtol=0, atol=1e-3)


# -- deadlines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [False, True])
def test_a_penalty_that_drifts_is_that_of_each_frame(positive):
    rng = np.random.default_rng(0)
    dictionary, frame = rng.normal(size=(20, 8)), rng.normal(size=8)
    stream = SparseCodingStream(dictionary, 1.0, positive=positive)
    for penalty in (1.0, 0.9, ElasticNet(0.8, 0.1), np.linspace(0.5, 1.0, 20), 2.0):
        stream.penalty = penalty
        frame = frame + 0.01 * rng.normal(size=8)
        found = stream.code(frame, tol=1e-9)
        problem = LassoProblem(dictionary, frame[np.newaxis], penalty, positive=positive)
        expected = solve_active_set(problem)
        assert found.reached.all()
        np.testing.assert_allclose(found.codes, expected.codes, atol=1e-3)
        np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-8)
        np.testing.assert_allclose(found.duality_gap, duality_gap(problem, found.codes), atol=1e-9)
    assert stream.n_frames == 5
    for wrong in (0.0, -1.0, np.zeros(20), "1"):
        with pytest.raises((TypeError, ValueError), match="penalty"):
            stream.penalty = wrong
    assert (stream.penalty.l1 == 2.0).all()


def test_a_frame_with_few_spikes_ends_at_the_last_of_them():
    dictionary, frames = moving_frames(1)
    result = SparseCodingStream(dictionary, PENALTY).code(frames[0], tol=1e-9, max_spikes=9)
    problem = LassoProblem(dictionary, frames[0], PENALTY)
    with pytest.warns(ConvergenceWarning):
        scale = solve_spiking(problem, tol=1e-9, max_duration=12.0).info["scale"]
    network = lasso_network(problem, scale=float(scale[0]))
    half = NetworkState(
        membrane_potential=0.5 * network.firing_threshold, synaptic_current=np.zeros(network.n_neurons)
    )
    spikes = simulate(network, 12.0, state=half, record_spikes=True).spikes
    np.testing.assert_allclose(result.info["duration"], spikes.times[8], rtol=1e-9)


def test_late_frames_end_after_one_read_out_and_say_how_late(monkeypatch):
    dictionary, frames = moving_frames()
    stream = SparseCodingStream(dictionary, PENALTY)
    clock = chain([0.0, 0.5], repeat(1.75))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    in_time = cold(stream, frames[0], tol=1e-12, max_seconds=2.0)
    assert in_time.converged
    assert in_time.info["seconds_late"] == 0.0
    clock = chain([0.0], repeat(1.75))
    late = cold(stream, frames[0], tol=1e-12, max_seconds=1.0)
    assert late.info["seconds_late"] == 0.75
    assert not late.converged
    assert 0.0 < late.duality_gap[0] < late.info["start_duality_gap"][0]
    with pytest.warns(ConvergenceWarning):
        first = solve_spiking(LassoProblem(dictionary, frames[0], PENALTY), tol=1e-12, max_duration=12.0)
    assert late.n_steps[0] == first.n_steps[0]
    np.testing.assert_allclose(late.codes, first.codes, rtol=0, atol=1e-12)


# -- nonsense --------------------------------------------------------------------------------------

REFUSED = [
    ((np.ones(31),), {}, ValueError, "frame"),
    ((np.ones((2, 32)),), {}, ValueError, "frame .*previous frame, 1; got 2"),
    ((np.full(32, np.nan),), {}, ValueError, "frame .*mask="),
    ((np.full(32, np.nan),), {"mask": np.arange(32) > 3}, ValueError, "frame .*mask is True"),
    ((np.full(32, 1e200),), {}, ValueError, "signals"),
    ((np.ones(32) * 1j,), {}, TypeError, "frame"),
    ((np.ones(32),), {"max_spikes": 0}, ValueError, "max_spikes"),
    ((np.ones(32),), {"max_seconds": 0.0}, ValueError, "max_seconds"),
    ((np.ones(32),), {"max_duration": np.inf}, ValueError, "max_duration"),
    ((np.ones(32),), {"mask": np.ones(31, dtype=bool)}, ValueError, "mask"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "name"), REFUSED)
def test_nonsense_is_refused_and_changes_nothing(arguments, options, error, name):
    dictionary, frames = moving_frames(3)
    stream, other = (SparseCodingStream(dictionary, PENALTY) for _ in range(2))
    for one in (stream, other):
        one.code(frames[0])
    with pytest.raises(error, match=f"^{name}"):
        stream.code(*arguments, **options)
    np.testing.assert_array_equal(stream.frame, frames[0])
    np.testing.assert_array_equal(stream.code(frames[1]).codes, other.code(frames[1]).codes)


def test_a_frame_that_was_taken_before_an_interrupt_is_coded_once_more_from_its_codes():
    """As the docstring of `code` says, `n_frames` tells whether the frame was taken."""
    atoms, frames = (
        np.random.default_rng(0).standard_normal((12, 8)),
        np.random.default_rng(1).uniform(size=(2, 8)),
    )

    def after_one():
        stream = SparseCodingStream(atoms, 0.2)
        stream.code(frames[0])
        return stream

    number = [n_places(partial(after_one().code, frames[1])) for _ in range(2)][1]
    met = set()
    for place in range(number - 30, number + 1):
        stream = after_one()
        assert isinstance(interrupted(partial(stream.code, frames[1]), place), KeyboardInterrupt)
        met.add(stream.n_frames)
        before = stream.n_frames
        result = stream.code(frames[1])
        assert result.converged
        assert stream.n_frames == before + 1
        assert result.n_steps[0] == 0 or before == 1  # codes that were kept are at hand
    assert met == {1, 2}
