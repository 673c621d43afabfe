"""Without Dask everything else works, and learning on a cluster names the extra."""

from pathlib import Path

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
sys.modules[{missing!r}] = None  # an import of it fails
from dictlearn.distributed import learn_dictionary_on
try:
    learn_dictionary_on(None, "patches.npy", 8, penalty=0.1)
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", ["dask", "distributed"])
def test_a_missing_extra_is_named(missing):
    answer = run_python("-c", PROGRAM.format(missing=missing))
    (line,) = answer.stdout.splitlines()
    assert " must be installed for this" in line
    assert line.endswith("pip install 'sparsespike[dask]'")
