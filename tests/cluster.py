"""A Dask cluster of two processes for tests, and functions that kill these processes."""

import os
import signal
from contextlib import contextmanager

import pytest

from tests.processes import LIMIT


@contextmanager
def local_cluster(folder):
    """Yield a client, which is not the default client, of two worker processes with one thread each."""
    reason = "needs the extra: pip install 'sparsespike[dask]'"
    distributed = pytest.importorskip("distributed", reason=reason)
    dask = pytest.importorskip("dask", reason=reason)
    with (
        # A killed worker may take long to restart, but by default Dask gives up after 15 s.
        dask.config.set({"distributed.deploy.lost-worker-timeout": LIMIT}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            local_directory=str(folder),
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def worker_pids(client):
    # Do not ask the workers, because one that was just killed would not answer.
    return [nanny.pid for nanny in client.cluster.workers.values() if nanny.pid is not None]


def kill(pid):
    os.kill(pid, signal.SIGKILL)
