"""Batches spread over workers: every one once, in order, with the same bits; an error ends it soon."""

import ast
import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from joblib.parallel import LokyBackend
from threadpoolctl import threadpool_info, threadpool_limits
from tqdm import tqdm

from solvers import METHODS, LassoProblem, penalty_max, solve, solve_spiking
from solvers.workers import blas
from solvers.workers.blas import one_blas_thread
from solvers.workers.progress import Progress
from solvers.workers.spread import spread
from tests.processes import LIMIT, run_python


class AllAtOnce(LokyBackend):
    """As joblib's "multiprocessing", and unlike its others, it cannot say of each batch that it is done."""

    supports_return_generator = False


joblib.register_parallel_backend("all at once", AllAtOnce)
BACKENDS = ("sequential", "threading", "loky", "all at once")


def square(number):
    return number * number


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.parametrize("n_batches", [1, 3, 40])
def test_outcomes_come_in_the_order_of_the_batches(backend, n_workers, n_batches):
    with (
        joblib.parallel_config(backend=backend, n_jobs=n_workers),
        tqdm(total=n_batches, leave=False, file=io.StringIO()) as bar,
    ):
        outcomes = spread(square, range(n_batches), None, n_workers, Progress(bar))
        assert bar.n == n_batches
    assert outcomes == [k * k for k in range(n_batches)]


@pytest.mark.thorough
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    "name", ["spiking", "active_set_from_spikes", "active_set", "fista", "coordinate_descent"]
)
def test_processes_give_the_bits_of_threads_for_long_signals(name, n_threads):
    """So long that BLAS divides an inner product among its threads, and rounds it differently."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((64, 20_000))
    signals = (rng.standard_normal((8, 64)) * (rng.random((8, 64)) < 0.1)) @ dictionary
    problem = LassoProblem(dictionary, signals, 0.1 * penalty_max(dictionary, signals).min())
    with threadpool_limits(limits=n_threads, user_api="blas"):
        expected = solve(problem, METHODS[name], n_jobs=1)
        for backend in ("threading", "loky"):
            with joblib.parallel_config(backend=backend, n_jobs=2):
                result = solve(problem.subset(slice(None)), METHODS[name])
            if METHODS[name].blas_threads:
                np.testing.assert_allclose(result.codes, expected.codes, rtol=0, atol=1e-10)
                continue
            for field in ("codes", "duality_gap", "kkt_violation", "objective", "n_steps"):
                np.testing.assert_array_equal(getattr(result, field), getattr(expected, field))


def blas_threads(_):
    pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    # A library on OpenMP, which a peer may bring, has a number for each thread of the caller; NumPy has none.
    return {pool["num_threads"] for pool in pools if pool.get("threading_layer") != "openmp"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_workers_use_one_thread_of_blas_and_the_caller_has_its_own_again(backend):
    with (
        threadpool_limits(limits=2, user_api="blas"),
        joblib.parallel_config(backend=backend, n_jobs=2),
    ):
        assert spread(blas_threads, range(4), None, 1 if backend == "sequential" else 2, None) == [{1}] * 4
        assert blas_threads(None) == {2}


def test_threads_that_overlap_leave_blas_as_the_first_found_it():
    with threadpool_limits(limits=2, user_api="blas"):
        one, other = one_blas_thread(), one_blas_thread()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert blas_threads(None) == {1}
        other.__exit__(None, None, None)
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
        assert "scipy.linalg" not in sys.modules
        load_scipy_linalg()
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


def test_a_thread_limits_blas_though_another_has_limited_it_before():
    def threads_inside():
        with one_blas_thread():
            return blas_threads(None)

    with threadpool_limits(limits=2, user_api="blas"):
        assert threads_inside() == {1}
        assert in_a_thread(threads_inside) == {1}
        assert blas_threads(None) == {2}


def test_each_thread_limits_a_library_that_counts_by_thread(monkeypatch):
    """As MKL does: its number of threads is that of the thread that asks."""
    numbers = threading.local()
    library = blas.Library(
        "mkl",
        lambda: getattr(numbers, "value", 4),
        lambda number: setattr(numbers, "value", number),
        counts_by_thread=True,
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
        assert in_a_thread(inside_and_after) == (1, 4)
        assert library.n_threads() == 1
    assert library.n_threads() == 4


def test_a_thread_gives_the_bits_of_another_with_rows_on_demand():
    """Rows of the Gram matrix come of one product, which BLAS rounds by the number of its threads."""
    rng = np.random.default_rng(2)
    dictionary, signals = rng.standard_normal((900, 40)), rng.standard_normal((1, 40))
    penalty = 0.3 * penalty_max(dictionary, signals).max()

    def codes():
        return solve_spiking(LassoProblem(dictionary, signals, penalty), tol=1e-4).codes

    with threadpool_limits(limits=2, user_api="blas"):
        np.testing.assert_array_equal(in_a_thread(codes), codes())
        np.testing.assert_array_equal(in_a_thread(codes), codes())


def end_at_once(_):
    os._exit(1)


def test_a_process_that_dies_ends_in_a_sentence():
    with (
        joblib.parallel_config(backend="loky", n_jobs=2),
        pytest.raises(RuntimeError, match="a worker process died before its batch was solved"),
    ):
        spread(end_at_once, range(4), None, 2, None)


def test_both_threads_work_and_one_is_the_callers():
    together = threading.Barrier(2, timeout=LIMIT)

    def worker(_):
        together.wait()
        return threading.current_thread()

    workers = spread(worker, range(2), 2, 2, None)
    assert len(set(workers)) == 2
    assert threading.current_thread() in workers


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
@pytest.mark.parametrize("in_caller", [True, False])
def test_an_error_is_raised_and_no_batch_is_begun_after_it(in_caller, error):
    caller = threading.current_thread()
    failed = threading.Event()
    begun = []

    def fail(number):
        begun.append(number)
        if (threading.current_thread() is caller) == in_caller:
            failed.set()
            raise error(number)
        failed.wait(LIMIT)
        time.sleep(1e-2)

    with pytest.raises(error):
        spread(fail, range(10_000), 2, 2, None)
    # The other thread takes minutes to get through them all; throwing them away takes no time.
    assert len(begun) < 10_000


def test_an_error_does_not_wait_for_what_others_are_at():
    caller = threading.current_thread()
    begun, raised, ended = (threading.Event() for _ in range(3))

    def fail_or_linger(number):
        if threading.current_thread() is caller:
            begun.wait(LIMIT)
            raise KeyError(number)
        begun.set()
        raised.wait(60.0)
        ended.set()

    with pytest.raises(KeyError):
        spread(fail_or_linger, range(10), 2, 2, None)
    assert not ended.is_set()
    raised.set()
    assert ended.wait(LIMIT)


def test_threads_tell_the_bar_one_at_a_time():
    with tqdm(total=20, file=io.StringIO()) as bar:
        spread(square, range(20), 4, 4, Progress(bar))
        assert bar.n == 20
