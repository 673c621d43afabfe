"""Settings for every test: tiers, what runs side by side, reproducible property tests, and no windows."""

import sys
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

from tests.cluster import local_cluster

matplotlib.use("Agg")
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")

# What shows, measures, packs or breaks the packages on purpose: for `make check`, not for `make test`.
THOROUGH = (
    "benchmarks/",
    "docs/test_code_blocks.py",
    "examples/",
    "release/test_distribution.py",
    "release/test_lowest.py",
    "scikit_learn/",
    "stress/",
)
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        place = item.path.relative_to(FOLDER).as_posix()
        if place.startswith(THOROUGH):
            item.add_marker(pytest.mark.thorough)
        # Tests that share a fixture run in one process, which makes it once.
        definitions = [fixture for each in item._fixtureinfo.name2fixturedefs.values() for fixture in each]
        if any(fixture.scope == "session" and fixture.baseid == "tests" for fixture in definitions):
            item.add_marker(pytest.mark.xdist_group("cluster"))
        elif any(fixture.scope == "module" and fixture.baseid.startswith("tests") for fixture in definitions):
            item.add_marker(pytest.mark.xdist_group(place))


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Close the figures that a test leaves open: a display makes one where it is given no axes."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory):
    with local_cluster(tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.fixture
def cluster_client(session_cluster):
    """A client of a cluster of two processes, both alive; tests may kill them."""
    session_cluster.wait_for_workers(2, timeout=120)
    return session_cluster
