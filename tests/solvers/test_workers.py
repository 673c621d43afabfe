"""Batches spread over workers: every one once, in order; an error ends it soon."""

import threading
import time

import joblib
import pytest
from tqdm import tqdm

from solvers.workers import spread


def square(number):
    return number * number


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.parametrize("n_batches", [1, 3, 40])
def test_outcomes_come_in_the_order_of_the_batches(backend, n_workers, n_batches):
    with (
        joblib.parallel_config(backend=backend, n_jobs=n_workers),
        tqdm(total=n_batches, leave=False) as bar,
    ):
        outcomes = spread(square, range(n_batches), None, n_workers, bar)
        assert bar.n == n_batches
    assert outcomes == [k * k for k in range(n_batches)]


def test_both_threads_work_and_one_is_the_callers():
    together = threading.Barrier(2, timeout=30.0)

    def who(_):
        together.wait()
        return threading.current_thread()

    workers = spread(who, range(2), 2, 2, None)
    assert len(set(workers)) == 2
    assert threading.current_thread() in workers


@pytest.mark.parametrize("in_caller", [True, False])
def test_an_error_is_raised_and_after_one_of_the_caller_no_batch_is_begun(in_caller):
    caller = threading.current_thread()
    failed = threading.Event()
    begun = []

    def fail(number):
        begun.append(number)
        if (threading.current_thread() is caller) == in_caller:
            failed.set()
            raise KeyError(number)
        failed.wait(30.0)
        time.sleep(1e-3)

    with pytest.raises(KeyError):
        spread(fail, range(1000), 2, 2, None)
    if in_caller:
        # The other thread takes a second to get through them all; throwing them away takes no time.
        assert len(begun) < 1000
