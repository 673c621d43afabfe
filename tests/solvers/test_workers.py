"""Batches over workers: each runs once, in order, with the same bits; an error ends all soon."""

import ast
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import cloudpickle
import joblib
import numpy as np
import pytest
from joblib.parallel import LokyBackend
from threadpoolctl import threadpool_info, threadpool_limits

from solvers import METHODS, LassoProblem, penalty_max, solve, solve_active_set
from solvers.problem.parts import in_groups
from solvers.workers import blas
from solvers.workers.blas import one_blas_thread
from solvers.workers.spread import spread
from tests.interrupting import Amid, n_places
from tests.processes import LIMIT, run_python
from tests.reference.convolutions import random_dictionary


class AllAtOnce(LokyBackend):
    """A backend that cannot report single finished batches, like joblib's "multiprocessing"."""

    supports_return_generator = False


joblib.register_parallel_backend("all at once", AllAtOnce)
BACKENDS = ("sequential", "threading", "loky", "all at once")


def square(number):
    return number * number


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.parametrize("n_batches", [1, 3, 40])
def test_every_outcome_comes_with_the_number_of_its_batch(backend, n_workers, n_batches):
    with joblib.parallel_config(backend=backend, n_jobs=n_workers):
        outcomes = list(spread(square, range(n_batches), None, n_workers))
    assert sorted(outcomes) == [(k, k * k) for k in range(n_batches)]


@pytest.mark.thorough
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    "name", ["spiking", "active_set_from_spikes", "active_set", "fista", "coordinate_descent"]
)
def test_processes_give_the_bits_of_threads_for_long_signals(name, n_threads):
    """Signals are so long that BLAS would divide an inner product among threads and round it differently."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((64, 20_000))
    signals = (rng.standard_normal((8, 64)) * (rng.random((8, 64)) < 0.1)) @ dictionary
    problem = LassoProblem(dictionary, signals, 0.1 * penalty_max(dictionary, signals).min())
    with threadpool_limits(limits=n_threads, user_api="blas"):
        expected = solve(problem, METHODS[name], n_jobs=1)
        for backend in ("threading", "loky"):
            with joblib.parallel_config(backend=backend, n_jobs=2):
                result = solve(problem.subset(slice(None)), METHODS[name])
            for field in ("codes", "duality_gap", "kkt_violation", "objective", "n_steps"):
                np.testing.assert_array_equal(getattr(result, field), getattr(expected, field))


def blas_threads(_):
    pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    # Leave out libraries on OpenMP, which other packages may load: they have one number per calling thread.
    return {pool["num_threads"] for pool in pools if pool.get("threading_layer") != "openmp"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_workers_use_one_thread_of_blas_and_the_caller_has_its_own_again(backend):
    with threadpool_limits(limits=2, user_api="blas"), joblib.parallel_config(backend=backend, n_jobs=2):
        with blas.one_blas_thread():
            n_workers = 1 if backend == "sequential" else 2
            assert dict(spread(blas_threads, range(4), None, n_workers)) == {k: {1} for k in range(4)}
        assert blas_threads(None) == {2}


LOADED_LATE = """
import sys
from threadpoolctl import ThreadpoolController
from solvers.workers.blas import load_scipy_linalg, one_blas_thread

def threads():
    return [info["num_threads"] for info in ThreadpoolController().info() if info["user_api"] == "blas"]

before = threads()
with one_blas_thread():
    with one_blas_thread():
        load_scipy_linalg()  # old releases of SciPy have loaded it before
        assert "scipy.linalg" in sys.modules
        inside = threads()
    assert threads() == inside
sys.stdout.write(repr((before, inside, threads())))
"""


def test_a_library_that_is_loaded_meanwhile_is_limited_too():
    environment = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    before, inside, after = ast.literal_eval(run_python("-c", LOADED_LATE, **environment).stdout)
    assert before == [2] * len(before)
    assert inside == [1] * len(after)
    assert after == [2] * len(after)


def in_a_thread(function):
    """Return what a function returns in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(LIMIT)


def test_a_thread_takes_the_model_while_another_computes_correlations():
    def take(problem, both):
        both.wait(LIMIT)
        return [problem.model for _ in range(30)]

    with ThreadPoolExecutor(1) as pool:
        sys.setswitchinterval(1e-6)
        for _ in range(1000):
            problem, both = LassoProblem(np.eye(3), np.ones((1, 3)), 0.5), threading.Barrier(2)
            models = pool.submit(take, problem, both)
            both.wait(LIMIT)
            assert problem.correlations.shape == (1, 3)
            models.result(LIMIT)
    sys.setswitchinterval(0.005)  # as usual


class Meanwhile:
    """Reading `sent` computes everything that a problem caches, as another thread may do at that time."""

    def __init__(self, problem):
        self.problem = problem

    @property
    def sent(self):
        assert self.problem.correlations.shape == (6, 5)
        assert self.problem.has_own_weights or self.problem.gram.shape == (5, 5)
        assert not self.problem.penalty.has_mixed_signs


def shared_problem(weights):
    rng = np.random.default_rng(0)
    given = {"none": {}, "mask": {"mask": np.arange(4) > 0}, "weights": {"feature_weights": np.arange(4.0)}}
    given["own masks"] = {"mask": np.arange(24).reshape(6, 4) % 5 > 0}
    return LassoProblem(rng.standard_normal((5, 4)), rng.standard_normal((6, 4)), 0.5, **given[weights])


COPIES = {
    "slice": lambda problem: problem.subset(slice(3, 5)),
    "list": lambda problem: problem.subset([5, 2]),
    "bools": lambda problem: problem.subset(np.arange(6) > 3),
    "all": lambda problem: problem.subset(slice(None)),
    "other signals": lambda problem: problem.with_signals(np.ones((2, 4))),
    "other mask": lambda problem: problem.with_signals(np.ones((2, 4)), mask=np.arange(4) < 2),
    "other penalty": lambda problem: problem.with_penalty(0.25),
    "prepared": lambda problem: problem.with_more_to_follow(),
    "group": lambda problem: next(in_groups(problem))[1],
    "model": lambda problem: problem.model.with_signals(np.ones((1, 4))),
    "ordinary": lambda problem: problem if problem.has_own_weights else problem.ordinary(),
}


@pytest.mark.parametrize("weights", ["none", "mask", "weights", "own masks"])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_is_right_whenever_another_thread_computes_what_a_problem_keeps(copied, weights):
    for number in range(1, n_places(lambda: copied(shared_problem(weights))) + 1):
        problem, copies = shared_problem(weights), []
        Amid(Meanwhile(problem), number).run(lambda: copies.append(copied(problem)))  # noqa: B023 - it runs now
        (copy,) = copies
        signals, counts = copy.dense_signals(), copy.feature_weights
        expected = (signals if counts is None else counts * signals) @ copy.atoms.toarray().T
        np.testing.assert_allclose(copy.correlations, expected, atol=1e-12)


def test_a_problem_is_sent_whole_whenever_another_thread_computes_what_it_keeps():
    """Python runs while the arrays of a problem are pickled for other processes."""
    problem = shared_problem("none")
    sent = cloudpickle.dumps(problem, protocol=5, buffer_callback=lambda _: bool(Meanwhile(problem).sent))
    assert sent
    assert "correlations" in vars(problem)
    codes = solve_active_set(cloudpickle.loads(cloudpickle.dumps(problem))).codes
    np.testing.assert_array_equal(codes, solve_active_set(shared_problem("none")).codes)


@pytest.mark.parametrize("counts_by_thread", [True, False])
def test_a_thread_limits_blas_though_another_has_limited_it_before(counts_by_thread, monkeypatch):
    """MKL has a separate number of threads for each calling thread."""
    numbers = threading.local() if counts_by_thread else SimpleNamespace()
    library = blas.Library(
        "a library",
        lambda: getattr(numbers, "value", 4),
        lambda number: setattr(numbers, "value", number),
        counts_by_thread=counts_by_thread,
    )
    monkeypatch.setattr(blas, "_libraries", lambda with_scipy: (library,))

    def inside_and_after():
        with one_blas_thread():
            inside = library.n_threads()
            with one_blas_thread():
                assert library.n_threads() == inside
            assert library.n_threads() == inside
        return inside, library.n_threads()

    with one_blas_thread():
        assert in_a_thread(inside_and_after) == (1, 4 if counts_by_thread else 1)
        assert library.n_threads() == 1
    assert library.n_threads() == 4
    if counts_by_thread:
        return
    # Threads may leave these contexts in any order.
    one, other = ExitStack(), ExitStack()
    one.enter_context(one_blas_thread())
    other.enter_context(one_blas_thread())
    one.close()
    assert library.n_threads() == 1
    other.close()
    assert library.n_threads() == 4


def end_at_once(_):
    os._exit(1)


def test_a_process_that_dies_ends_in_a_sentence():
    with (
        joblib.parallel_config(backend="loky", n_jobs=2),
        pytest.raises(RuntimeError, match="a worker process died before its batch was solved"),
    ):
        list(spread(end_at_once, range(4), None, 2))


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_error_is_raised_and_no_batch_is_begun_after_it(error):
    begun = []

    def fail(number):
        begun.append(number)
        if number == 1:
            raise error(number)
        time.sleep(1e-2)

    with pytest.raises(error):
        list(spread(fail, range(10_000), 2, 2))
    # To run all batches takes a thread minutes; to discard them takes no time.
    assert len(begun) < 10_000


def test_ctrl_c_ends_a_search():
    """Ctrl-C takes effect between two sweeps, and nothing waits for the end of the search."""
    dictionary = random_dictionary(((200, 200), (8, 8), 2), n_kernels=16)
    image = np.random.default_rng(1).standard_normal((1, dictionary.shape[1]))
    problem = LassoProblem(dictionary, image, 1e-3)
    solve_active_set(problem.with_penalty(1.0))
    main = threading.main_thread().ident
    # A program that runs in the background of a shell ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            solve_active_set(problem)
    finally:
        signal.signal(signal.SIGINT, before)
