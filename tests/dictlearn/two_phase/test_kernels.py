"""Machine code of the kernels on disk: used again, and never that of older sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
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
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(sources / "cache"), "PYTHONPATH": str(sources)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=sources,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_a_change_of_any_kernel_they_depend_on_compiles_them_again(sources):
    assert n_loaded(sources) == 0
    assert n_loaded(sources) == 1
    for changed in ("dictlearn/two_phase/_kernels/__init__.py", "snn/_kernels/__init__.py"):
        with (sources / changed).open("a") as file:
            file.write("\n# changed\n")
        assert n_loaded(sources) == 0
        assert n_loaded(sources) == 1
