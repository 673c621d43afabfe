"""Tasks on a Dask cluster: in order, with the same bits, and nothing lost where workers die."""

import asyncio
import os
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import joblib
import numpy as np
import pytest

from solvers import METHODS, LassoProblem, penalty_max, solve, solve_spiking
from solvers.methods import method, spiking
from solvers.workers import cluster
from solvers.workers.cluster import MOST_LOSSES, run_on_cluster
from solvers.workers.transport import Shared, opened
from tests.cluster import kill, worker_pids

pytestmark = pytest.mark.thorough

pytest.importorskip("distributed", reason="needs the extra: pip install 'sparsespike[dask]'")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((48, 32))
    signals = (rng.standard_normal((60, 48)) * (rng.random((60, 48)) < 0.1)) @ dictionary + 0.1
    return LassoProblem(dictionary, signals, 0.1 * penalty_max(dictionary, signals).min())


def require_same_bits(result, expected):
    for name in ("codes", "duality_gap", "kkt_violation", "objective", "n_steps"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize(
    "name", ["spiking", "active_set_from_spikes", "active_set", "coordinate_descent", "digital"]
)
def test_codes_have_the_bits_of_one_thread(cluster_client, problem, name):
    expected = solve(problem, METHODS[name])
    with joblib.parallel_config(backend="dask", client=cluster_client):
        require_same_bits(solve(problem.subset(slice(None)), METHODS[name]), expected)


def test_what_batches_share_travels_once(cluster_client, problem):
    """Its tasks are as long as their signals, and each process unpacks what they share once."""
    shared = Shared((solve_spiking, problem.model))
    assert len(shared.task(problem.with_signals(problem.signals[:10])).pickled) < shared.packed.nbytes
    tasks = [(k,) for k in range(12)]
    unpacked = run_on_cluster(cluster_client, _unpacked_by, shared, tasks.__getitem__, 12, lambda _: None)
    assert len({where for _, where in unpacked}) == len({pid for pid, _ in unpacked})


def _unpacked_by(key, packed, number):
    return os.getpid(), (os.getpid(), id(opened(key, packed)))


def test_a_worker_that_is_lost_while_something_is_sent_to_it_stops_nothing(cluster_client, monkeypatch):
    """Dask's scheduler goes on sending to the lost one for half a minute, and sends nothing else to all."""
    monkeypatch.setattr(cluster, "_waits_until", WeakKeyDictionary())
    scatter, calls = cluster_client.scatter, []

    async def scatter_once_to_one_that_dies(data, *, broadcast, **options):
        calls.append(broadcast)
        if len(calls) == 1:
            kill(worker_pids(cluster_client)[0])
            await asyncio.Event().wait()
        return await scatter(data, broadcast=broadcast, **options)

    monkeypatch.setattr(cluster_client, "scatter", scatter_once_to_one_that_dies)
    shared = Shared((solve_spiking, None))
    outcomes = run_on_cluster(cluster_client, _numbered, shared, lambda k: (k,), 5)
    assert outcomes == list(range(5))
    assert calls == [True, False]


def _numbered(key, packed, number):
    return number


class KillingBar:
    """A progress bar that kills workers at its first batch."""

    def __init__(self, pids):
        self.pids = pids
        self.n_batches = 0

    def update(self, n_signals):
        self.n_batches += 1
        while self.pids:
            kill(self.pids.pop())

    def within(self, share, text):
        pass


@pytest.mark.parametrize("n_killed", [1, 2])
def test_killed_workers_lose_nothing(cluster_client, problem, monkeypatch, n_killed):
    """With all of them goes every copy of what batches share, which Dask itself does not bring back."""
    bars = []

    @contextmanager
    def killing_bar(n_batches, **_):
        bars.append(KillingBar(worker_pids(cluster_client)[:n_killed]))
        yield bars[0]

    expected = solve_spiking(problem)
    monkeypatch.setattr(method, "progress_bar", killing_bar)
    monkeypatch.setattr(spiking, "batch_slices", lambda *_: [slice(k, k + 2) for k in range(0, 60, 2)])
    with joblib.parallel_config(backend="dask", client=cluster_client):
        result = solve_spiking(problem.subset(slice(None)))
    require_same_bits(result, expected)
    assert bars[0].n_batches == 30
    assert not bars[0].pids


def fail(number):
    raise KeyError(number)


def test_losses_without_end_are_given_up():
    class LosesEverything:
        n_scattered = 0

        def sync(self, function, *arguments):
            return asyncio.run(function(*arguments))

        async def ncores(self):
            return {"tcp://a-worker": 1}

        async def scatter(self, *_, **__):
            self.n_scattered += 1
            raise OSError("no connection")

    client = LosesEverything()
    with pytest.raises(RuntimeError, match=f"lost {MOST_LOSSES + 1} times"):
        run_on_cluster(client, fail, Shared(None), lambda k: (k,), 3, lambda _: None)
    assert client.n_scattered == MOST_LOSSES + 1
