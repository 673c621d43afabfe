"""Settings for every test: property tests are reproducible, and figures never open a window."""

import matplotlib
import pytest
from hypothesis import settings

from tests.cluster import local_cluster

matplotlib.use("Agg")
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")


@pytest.fixture(scope="session")
def cluster_client(tmp_path_factory):
    with local_cluster(tmp_path_factory.mktemp("dask")) as client:
        yield client
