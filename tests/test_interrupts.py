"""Ctrl-C at any moment: nothing is left, what changes is as before or as after, and the next call ends."""

import pickle

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    SpikingDictionaryLearning,
    TwoPhaseLearner,
    new_learner,
)
from dictlearn.images.kernels import KernelLearner, KernelSettings
from dictlearn.two_phase.learner import on_finer_steps
from snn import Simulator, SpikingNetwork, Stimulus
from snn.weights import DenseRows
from solvers import (
    METHODS,
    LassoModel,
    SparseCodingStream,
    SpikingSparseCoder,
    solve,
    solve_active_set,
    solve_spiking,
)
from solvers.workers.blas import load_scipy_linalg, one_blas_thread
from tests.interrupting import Interruption, n_places, nothing_left

pytestmark = pytest.mark.filterwarnings("ignore:the network ran away on a clock")
RNG = np.random.default_rng(0)
ATOMS, SIGNALS = RNG.standard_normal((12, 8)), np.abs(RNG.standard_normal((6, 8)))
IMAGES = RNG.standard_normal((2, 12, 13))
OFFSET = 16.0 + RNG.standard_normal((16, 16))
COARSE = LearningSettings(
    penalty=0.8, amplitude=5.0, duration=5.0, positive_atoms=False, positive_code=False, time_step=0.5
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
    rows.prepare(np.arange(3))
    rows.prepare(np.arange(20))


def model():
    return LassoModel(ATOMS, 0.5)


def kernels():
    return KernelLearner(IMAGES[:, :3, :3], KernelSettings(penalty=0.5))


def learner():
    return new_learner(SIGNALS, 5, settings=SETTINGS, rng=1)


def coarse():
    """Return a learner whose steps are halved in its first batch."""
    one = new_learner(OFFSET, 32, settings=COARSE, rng=0)
    one.n_halvings = 0
    return one


def estimator():
    return SpikingDictionaryLearning(5, alpha=0.1, batch_size=3, max_iter=1, random_state=1)


def fitted():
    return estimator().fit(SIGNALS[:, :7])


# What makes an object, and what changes it.
CHANGES = {
    "limit of BLAS": (lambda: None, limited),
    "SciPy": (lambda: None, lambda _: load_scipy_linalg.__wrapped__()),
    "rows of weights": (weights, prepared),
    "active set": (model, lambda one: solve_active_set(one.with_signals(SIGNALS))),
    "one signal": (
        lambda: LassoModel(ATOMS, 0.5),
        lambda one: solve_active_set(one.with_signals(SIGNALS[:1])),
    ),
    "spikes": (model, lambda one: solve_spiking(one.with_signals(SIGNALS[:1]))),
    "stream": (lambda: SparseCodingStream(ATOMS, 0.5), lambda one: one.code(SIGNALS)),
    "advance": (lambda: Simulator(COUPLED), lambda one: one.advance(one.time + 5.0, stimulus=PULSE)),
    "step": (lambda: Simulator(COUPLED), lambda one: one.step()),
    "drive": (lambda: Simulator(COUPLED), lambda one: setattr(one, "soma_bias", [0.0, 1.0, 0.5, 0.0])),
    "learner": (learner, lambda one: one.learn(SIGNALS[:3])),
    "finer steps": (coarse, lambda one: on_finer_steps(one, lambda new: new.learn(OFFSET))),
    "kernels": (
        lambda: KernelLearner(IMAGES[:, :3, :3], KernelSettings(penalty=0.5)),
        lambda one: one.learn(IMAGES),
    ),
    "first fit": (estimator, lambda one: one.fit(SIGNALS[:3])),
    "another fit": (fitted, lambda one: one.fit(SIGNALS[:3])),
    "first samples": (estimator, lambda one: one.partial_fit(SIGNALS[:3])),
    "coordinate descent": (
        model,
        lambda one: solve(one.with_signals(SIGNALS[:2]), METHODS["coordinate_descent"]),
    ),
    "FISTA": (model, lambda one: solve(one.with_signals(SIGNALS[:2]), METHODS["fista"])),
    "coder": (lambda: SpikingSparseCoder(ATOMS, alpha=0.5), lambda one: one.fit(SIGNALS)),
}


OF_SCIKIT_LEARN = METHODS["coordinate_descent"]


def content(one):
    """Return all that is seen of an object; what models and weights have computed is not."""
    if isinstance(one, (LassoModel, DenseRows)):
        return b""
    return pickle.dumps(one._entries() if isinstance(one, TwoPhaseLearner) else one)


def interrupt(name, numbers):
    """Interrupt a change at some of the places; the next call has to make of it what no interrupt met."""
    make, change = CHANGES[name]
    one = make()
    before, first = content(one), change(one)
    after = content(one)
    for number in numbers:
        one, interruption = make(), Interruption(number)
        with nothing_left():
            was_interrupted = interruption.of(lambda one=one: change(one))
        assert was_interrupted, number
        assert content(one) in (before, after), number
        if content(one) == before:
            again = change(one)
            assert content(one) == after, number
            if hasattr(first, "codes"):
                np.testing.assert_array_equal(again.codes, first.codes)


@pytest.mark.parametrize("name", CHANGES)
def test_ctrl_c_comes_before_or_after(name):
    make, change = CHANGES[name]
    change(make())  # what is computed or imported once
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
