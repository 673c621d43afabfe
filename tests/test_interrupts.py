"""After Ctrl-C at any moment nothing is left behind, a change is whole or absent, and the next call works."""

import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    RunawayFeedbackError,
    SpikingDictionaryLearning,
    TwoPhaseLearner,
    continue_learning,
    new_learner,
)
from dictlearn.images.kernels import KernelLearner, KernelSettings
from dictlearn.two_phase.fit import on_finer_steps
from snn import Clock, Simulator, SpikingNetwork, Stimulus, _interrupts
from snn.weights import DenseRows
from solvers import (
    METHODS,
    LassoModel,
    LassoRegressor,
    SparseCodingStream,
    SpikingSparseCoder,
    solve,
    solve_active_set,
    solve_spiking,
)
from solvers.workers.blas import load_scipy_linalg, one_blas_thread
from tests.interrupting import Standstill, interrupted, n_places, nothing_left
from tests.processes import LIMIT

pytestmark = pytest.mark.filterwarnings("ignore:the network ran away on a clock")
RNG = np.random.default_rng(0)
ATOMS, SIGNALS = RNG.standard_normal((12, 8)), np.abs(RNG.standard_normal((6, 8)))
IMAGES = RNG.standard_normal((2, 12, 13))
OFFSET = 16.0 + RNG.standard_normal((16, 16))
COARSE = LearningSettings(
    penalty=0.8, amplitude=5.0, duration=5.0, positive_atoms=False, positive_code=False, time=Clock(1.0)
)
SETTINGS = LearningSettings(penalty=0.1, batch_size=3)
COUPLED = SpikingNetwork(-0.3 * (1.0 - np.eye(4)), [1.0, 0.8, 0.0, 0.3])
PULSE = Stimulus(drive=[[1.0, 0.0, 1.0, 0.0]], drive_times=[0.5])


def limited(_):
    with one_blas_thread(), one_blas_thread():
        pass


def weights():
    strengths = RNG.standard_normal((40, 40))
    return DenseRows.on_demand(40, lambda sources: strengths[sources])


def prepared(rows):
    rows.compute_rows(np.arange(3))
    rows.compute_rows(np.arange(20))
    rows._rows.__getstate__()


def model():
    return LassoModel(ATOMS, 0.5)


def kernels():
    return KernelLearner(IMAGES[:, :3, :3], KernelSettings(penalty=0.5))


def advance(simulator):
    simulator.advance(simulator.time + 5.0, stimulus=None if simulator.time else PULSE)


def learner():
    return new_learner(SIGNALS, 5, settings=SETTINGS, rng=1)


def coarse():
    """Return a learner whose steps are halved in its first batch."""
    one = new_learner(OFFSET, 64, settings=COARSE, rng=0)
    one.n_halvings = 0
    return one


def estimator():
    return SpikingDictionaryLearning(5, alpha=0.1, batch_size=3, max_iter=1, random_state=1)


def fitted():
    return estimator().fit(SIGNALS[:, :7])


# Pairs of functions: one makes an object, the other changes the object.
CHANGES = {
    "limit of BLAS": (lambda: None, limited),
    "SciPy": (lambda: None, lambda _: load_scipy_linalg.__wrapped__()),
    "rows of weights": (weights, prepared),
    "active set": (model, lambda one: solve_active_set(one.with_signals(SIGNALS))),
    "one signal": (model, lambda one: solve_active_set(one.with_signals(SIGNALS[:1]))),
    "spikes": (model, lambda one: solve_spiking(one.with_signals(SIGNALS[:1]))),
    "stream": (lambda: SparseCodingStream(ATOMS, 0.5), lambda one: one.code(SIGNALS)),
    "advance": (lambda: Simulator(COUPLED), advance),
    "step": (lambda: Simulator(COUPLED), lambda one: one.step()),
    "steps": (lambda: Simulator(COUPLED), lambda one: one.step(5)),
    "row": (lambda: Simulator(COUPLED), lambda one: one.set_weights_from(0, [0.0, 0.1, 0.0, -0.2])),
    "drive": (lambda: Simulator(COUPLED), lambda one: setattr(one, "soma_bias", [0.0, 1.0, 0.5, 0.0])),
    "learner": (learner, lambda one: one.learn(SIGNALS[:3])),
    "finer steps": (coarse, lambda one: on_finer_steps(one, lambda new: new.learn(OFFSET))),
    "kernels": (kernels, lambda one: one.learn(IMAGES)),
    "first fit": (estimator, lambda one: one.fit(SIGNALS[:3])),
    "another fit": (fitted, lambda one: one.fit(SIGNALS[:3])),
    "first samples": (estimator, lambda one: one.partial_fit(SIGNALS[:3])),
    "coordinate descent": (
        model,
        lambda one: solve(one.with_signals(SIGNALS[:2]), METHODS["coordinate_descent"]),
    ),
    "FISTA": (model, lambda one: solve(one.with_signals(SIGNALS[:2]), METHODS["fista"])),
    "coder": (lambda: SpikingSparseCoder(ATOMS, alpha=0.5), lambda one: one.fit(SIGNALS)),
    "regression": (lambda: LassoRegressor(0.1), lambda one: one.fit(ATOMS, ATOMS[:, 0] - ATOMS[:, 1])),
}


def content(one):
    """Return the visible content of an object, without results that models and weights cache."""
    if isinstance(one, (LassoModel, DenseRows)):
        return b""
    return pickle.dumps(one._entries() if isinstance(one, TwoPhaseLearner) else one)


def interrupt(name, numbers):
    """Interrupt a change at some places; the next call must give the result of an uninterrupted call."""
    make, change = CHANGES[name]
    one = make()
    before, first = content(one), change(one)
    after = content(one)
    for number in numbers:
        one = make()
        with nothing_left():
            error = interrupted(lambda one=one: change(one), number)
        assert error.__traceback__ is not None
        assert isinstance(error.__context__, (type(None), RunawayFeedbackError)), number
        assert content(one) in (before, after), number
        if content(one) == before:
            again = change(one)
            assert content(one) == after, number
            if hasattr(first, "codes"):
                np.testing.assert_array_equal(again.codes, first.codes)


@pytest.mark.parametrize("name", CHANGES)
def test_ctrl_c_comes_before_or_after(name):
    make, change = CHANGES[name]
    change(make())  # the first change computes or imports some things once
    one = make()
    n = n_places(lambda: change(one))
    interrupt(name, np.unique(np.random.default_rng(n).integers(1, n + 1, 40)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHANGES)
def test_ctrl_c_comes_before_or_after_at_every_place(name):
    make, change = CHANGES[name]
    change(make())
    one = make()
    interrupt(name, range(1, n_places(lambda: change(one)) + 1))


def test_steps_were_halved():
    one = coarse()
    CHANGES["finer steps"][1](one)
    assert one.n_halvings > 0


# -- several threads ---------------------------------------------------------------------------------

IN_TURN = (
    "stream", "advance", "step", "drive", "learner", "finer steps", "kernels", "first fit", "first samples",
)  # fmt: skip


@contextmanager
def amid(name):
    """Yield an object while another thread has paused within a change; then let that thread finish."""
    make, change = CHANGES[name]
    change(make())
    one, counted = make(), make()
    standstill = Standstill(n_places(lambda: change(counted)) // 2)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(standstill.run, lambda: change(one))
        try:
            assert standstill.here.wait(LIMIT)
            yield one
        finally:
            standstill.leave.set()
        ended.result(LIMIT)


@pytest.mark.parametrize("name", IN_TURN)
def test_a_second_thread_is_refused_while_another_changes_an_object(name):
    make, change = CHANGES[name]
    expected = make()
    change(expected)
    with amid(name) as one:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="must be used by one thread at a time"):
                change(one)
        other = make()
        change(other)  # this thread may change another object
        change(deepcopy(one))
    assert content(one) == content(other) == content(expected)
    change(one)
    assert not _interrupts._turns


def test_one_thread_may_change_an_object_within_a_change():
    one = learner()
    continue_learning(
        one, SIGNALS, n_samples=9, rng=1, callback=lambda one: one.learn(SIGNALS) < 0.0, callback_every=3
    )
    assert one.n_samples > 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("name", ["limit of BLAS", "rows of weights", "stream", "learner"])
def test_a_child_that_is_forked_amid_a_change_has_its_turn(name):
    with amid(name) as one:
        child = os.fork()
        if not child:
            signal.alarm(30)  # the alarm kills a child that hangs
            with nothing_left():
                CHANGES[name][1](one)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_share_what_does_not_change():
    one, shared = fitted(), model()

    def codes(_):
        coded = solve_active_set(shared.with_signals(SIGNALS)).codes
        return coded.tobytes() + one.transform(SIGNALS[:, :7]).tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(codes, range(40))) == {codes(None)}
