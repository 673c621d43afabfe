"""Settings for every test: tiers, reproducible property tests, and no windows."""

import sys

import matplotlib
import pytest
from hypothesis import settings

from tests.cluster import local_cluster
from tests.processes import LIMIT

matplotlib.use("Agg")
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Close the figures that a test leaves open, such as those of pictures without given axes."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory):
    with local_cluster(tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.fixture
def cluster_client(session_cluster):
    """Return the client of a cluster of two live processes, which tests may kill."""
    session_cluster.wait_for_workers(2, timeout=LIMIT)
    return session_cluster
