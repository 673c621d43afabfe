"""Parts of a batch, and the threads that run them."""

import threading
import time

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib.parallel import BACKENDS, ThreadingBackend

from dictlearn import LearningSettings, RunawayFeedbackError, TwoPhaseLearner, TwoPhaseNetwork
from dictlearn.two_phase.observed import Observed
from dictlearn.two_phase.phases import in_threads, run_graded, thread_count
from dictlearn.two_phase.rules import PROJECTION_RIDGE, project_lateral
from dictlearn.two_phase.synapses import LATERAL_BLOCK
from tests.dictlearn.two_phase.learners import SIGNS, assert_same, network_of
from tests.dictlearn.two_phase.test_learning import data_of, settings_of
from tests.dictlearn.two_phase.test_resuming import begun


@pytest.mark.parametrize("way", ["usage", "paper", "counts", "spiking", "signed atoms and codes"])
def test_a_batch_run_in_parts_is_the_batch(way):
    """As on workers, parts of the rows, with probes among them, run and are joined for one update."""
    settings, signals = settings_of(way), data_of(way)[1]
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.7
    mask[:7] = True  # a part without unknown inputs
    mask[::3] = True
    whole, parts = (begun(signals, settings) for _ in range(2))

    def run(batch):
        found, n_rows = [], 20 if way == "paper" else 25
        assert batch.n_rows == n_rows
        for start, stop in ((0, 7), (7, 19), (19, 23), (23, 25))[: 3 if way == "paper" else 4]:
            rows = slice(start, stop)
            found.append(batch.run(parts.synapses, some[rows], known[rows], start=start, stop=stop))
        return Observed.joined(found)

    for first in range(0, 60, 20):
        some, known = signals[first : first + 20], mask[first : first + 20]
        objective = whole.learn(some, mask=known)
        assert parts.learn_batch(20, run) == objective
    assert_same(parts, whole)


@pytest.mark.parametrize("is_consistent", [True, False])
def test_weights_with_feedback_of_more_atoms_than_a_block(is_consistent):
    """The weights H - kappa F B and the consistency agree with those of NumPy."""
    rng, n_atoms, n_inputs = np.random.default_rng(0), 2 * LATERAL_BLOCK + 9, LATERAL_BLOCK + 5
    atoms, signals = rng.random((n_atoms, n_inputs)) ** 4, rng.random((64, n_inputs)) ** 8
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    network = TwoPhaseNetwork.consistent(atoms)
    if not is_consistent:
        network = TwoPhaseNetwork(atoms, atoms[::-1].T, atoms @ atoms.T + 0.1)
    learners = [TwoPhaseLearner(network, LearningSettings(penalty=0.1), scale=4.0) for _ in range(2)]
    for learner, n_threads in zip(learners, (1, 3), strict=True):
        for some in np.split(signals, 2):
            learner.learn(some, n_threads=n_threads)
        learner.batch(1)
    one, several = learners
    assert_same(several, one)
    f, b, h = (getattr(one.synapses, name) for name in ("feedforward", "feedback", "lateral"))
    assert (np.abs(f - network.feedforward) > 0.0).any(axis=1).sum() > LATERAL_BLOCK
    np.testing.assert_allclose(one.synapses.closed_rows.T, h - 0.1 * f @ b, rtol=1e-13, atol=1e-14)
    expected = np.linalg.norm(h - f @ b) / np.linalg.norm(h)
    assert one.network.consistency == pytest.approx(1.0 - expected, abs=1e-12)


def run_in_pieces(learner, signals, mask, n_threads, updates_per_call):
    """Run a batch with graded inputs in small pieces."""
    batch = learner.batch(len(signals))
    coding = np.tile(-batch.penalty, (len(signals), 1))
    return run_graded(
        learner.synapses, batch.scale * signals, coding, mask=mask, kappa=batch.settings.kappa,
        duration=batch.settings.duration, time=batch.settings.time, n_threads=n_threads,
        numbers=np.arange(len(signals)), neurons_per_thread=1, updates_per_call=updates_per_call,
    )  # fmt: skip


@pytest.mark.parametrize("share", [1.0, 0.7, 0.3])
@pytest.mark.parametrize("way", ["usage", "Euler", "signed atoms and codes"])
def test_a_graded_run_that_pauses_anywhere_is_the_run(way, share):
    """Kernels return after every step, every few steps, or at the end, in one thread or several."""
    settings, signals = settings_of(way), data_of(way)[1][:40]
    mask = np.random.default_rng(7).uniform(size=signals.shape) < share if share < 1.0 else None
    known = signals if mask is None else np.where(mask, signals, 0.0)
    learner = begun(signals, settings)
    whole, *others = (
        run_in_pieces(learner, known, mask, n_threads, steps * 8)
        for steps, n_threads in ((10**9, 1), (1, 1), (7, 2), (500, 3))
    )
    assert whole[0].mean() > 1.0
    for other in others:
        for observed, expected in zip(other, whole, strict=True):
            np.testing.assert_array_equal(observed, expected)


def test_the_first_row_that_runs_away_on_a_clock_is_named_whatever_the_pieces():
    """A row's own spikes decide whether it runs away, so pauses and threads do not change the message."""
    network = network_of(SIGNS["signed atoms"], 12, 8, 0.0)
    exciting = 1.5 * np.eye(12) - 0.5  # each neuron excites all others
    wild = TwoPhaseNetwork(network.feedforward, network.feedback, exciting, *network.signs)
    settings = LearningSettings(penalty=0.1, positive_atoms=False)
    learner = TwoPhaseLearner(wild, settings, scale=40.0)
    signals, told = np.random.default_rng(0).standard_normal((20, 8)), set()
    for updates_per_call, n_threads in ((30_000_000, 1), (100, 1), (5_000, 3)):
        with pytest.raises(RunawayFeedbackError) as error:
            run_in_pieces(learner, signals, None, n_threads, updates_per_call)
        told.add(str(error.value))
    assert len(told) == 1


@pytest.mark.property
@given(
    n_rows=st.sampled_from([1, 7, 60, 90]), n_atoms=st.sampled_from([2, 30, 80, 100]), seed=st.integers(0, 99)
)
def test_lateral_weights_are_projected_as_the_formula_says(n_rows, n_atoms, seed):
    """The result is H - G^T L (L A A^T L + epsilon I)^-1 L A / kappa, by systems of rows or of atoms."""
    rng = np.random.default_rng(seed)
    synapses = network_of(SIGNS["signed atoms and codes"], n_atoms, 5, 0.1, seed).synapses()
    codes = rng.standard_normal((n_rows, n_atoms)) * (rng.random((n_rows, n_atoms)) < 0.3)
    codes[0] = 0.0
    gradient, before = rng.standard_normal((n_rows, n_atoms)), synapses.lateral.copy()
    norms = np.linalg.norm(codes, axis=1)
    inverse = np.diag(np.divide(1.0, norms, out=np.zeros(n_rows), where=norms > 0.0))
    scaled = inverse @ codes
    system = scaled @ scaled.T + PROJECTION_RIDGE * np.eye(n_rows)
    project_lateral(synapses, codes, gradient, kappa=0.2, gain=0.7)
    expected = before - 0.7 / 0.2 * gradient.T @ inverse @ np.linalg.solve(system, scaled)
    np.testing.assert_allclose(synapses.lateral, expected, rtol=1e-9, atol=1e-9)


def test_threads_return_results_in_order_and_end_at_an_error():
    """The error may be raised in this thread or another one; Ctrl-C does not wait for any thread."""
    stop = threading.Event()
    assert in_threads(lambda k: 2 * k, range(4), stop) == [0, 2, 4, 6]
    assert in_threads(lambda k: k, [3], stop) == [3]
    assert not stop.is_set()
    for failing, error in ((0, KeyboardInterrupt), (2, ZeroDivisionError)):
        stop = threading.Event()

        def call(k, failing=failing, error=error, stop=stop):
            if k == failing:
                raise error
            assert k == 0 or stop.wait(10.0)

        begin = time.monotonic()
        with pytest.raises(error):
            in_threads(call, range(4), stop)
        assert time.monotonic() - begin < 5.0
        assert stop.is_set()


class Cluster(ThreadingBackend):
    """The backend of any cluster, which counts the workers of the cluster."""

    def effective_n_jobs(self, n_jobs):
        return 400


def test_threads_are_counted_on_this_machine_under_the_backend_of_any_cluster(monkeypatch):
    monkeypatch.setitem(BACKENDS, "cluster", Cluster)
    with joblib.parallel_config("cluster"):
        assert [thread_count(n) for n in (None, 7, -1)] == [1, 7, joblib.cpu_count()]
    for backend in ("loky", "threading", "multiprocessing"):
        with joblib.parallel_config(backend, n_jobs=3):
            assert thread_count(None) == 3
