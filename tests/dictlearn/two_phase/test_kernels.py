"""Machine code of the kernels on disk: used again, and never that of older sources."""

import shutil

import pytest

from tests.processes import ROOT, run_python

pytestmark = pytest.mark.thorough

PROGRAM = """
import numpy as np
from dictlearn.two_phase._kernels import updates
updates.change_rows(np.ones((2, 3)), np.ones(2), np.ones((1, 2)), np.ones((1, 3)), 0.0)
print(sum(updates.change_rows.stats.cache_hits.values()))
"""


@pytest.fixture
def sources(tmp_path):
    """A copy of the packages."""
    for package in ("snn", "solvers", "dictlearn"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
        )
    return tmp_path


def n_loaded(sources):
    """Return how many kernels a new process loads from disk instead of compiling them."""
    environment = {"NUMBA_CACHE_DIR": str(sources / "cache"), "PYTHONPATH": str(sources)}
    return int(run_python("-c", PROGRAM, cwd=sources, **environment).stdout)


def test_a_change_of_any_kernel_they_depend_on_compiles_them_again(sources):
    assert n_loaded(sources) == 0
    assert n_loaded(sources) == 1
    for changed in ("dictlearn/two_phase/_kernels/__init__.py", "snn/_kernels/__init__.py"):
        with (sources / changed).open("a") as file:
            file.write("\n# changed\n")
        assert n_loaded(sources) == 0
        assert n_loaded(sources) == 1
