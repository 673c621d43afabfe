"""Tasks on a Dask cluster: in order, with the same bits, and nothing is lost if workers die."""

import joblib
import numpy as np
import pytest

from solvers import METHODS, LassoProblem, penalty_max, solve, solve_spiking
from solvers.methods import method
from tests.cluster import kill, worker_pids
from tests.reference.costs import costs

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


class KillingBar:
    """A progress bar that kills workers at its first batch."""

    def __init__(self, pids):
        self.pids = pids
        self.n_batches = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def update(self, n_signals):
        self.n_batches += 1
        while self.pids:
            kill(self.pids.pop())


@pytest.mark.parametrize("n_killed", [1, 2])
def test_killed_workers_lose_nothing(cluster_client, problem, monkeypatch, n_killed):
    """If all workers die, the shared data are lost with all copies, and Dask does not restore the data."""
    bar = KillingBar(worker_pids(cluster_client)[:n_killed])
    expected = solve_spiking(problem)
    monkeypatch.setattr(method, "tqdm", lambda **_: bar)
    with (
        costs(values_per_batch=2 * problem.n_atoms),
        joblib.parallel_config(backend="dask", client=cluster_client),
    ):
        result = solve_spiking(problem.subset(slice(None)), progress=True)
    require_same_bits(result, expected)
    assert bar.n_batches == 30
    assert not bar.pids
