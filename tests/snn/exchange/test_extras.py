"""Without NIR or Brian2 everything else works, and each function that needs them names the extra."""

import tomllib
from pathlib import Path

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
sys.modules["nir"] = sys.modules["brian2"] = None  # an import of them fails
import numpy as np
from snn import SpikeTrain, SpikingNetwork
from snn.exchange import *
network = SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0])
spikes = SpikeTrain(times=[], neurons=[], n_neurons=1, start=0.0, stop=1.0)
calls = [
    lambda: to_nir(network),
    lambda: from_nir(None),
    lambda: to_event_data(spikes),
    lambda: from_event_data(None),
    lambda: to_brian2(network, time_step=0.1),
]
for call in calls:
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_a_missing_extra_is_named():
    answer = run_python("-c", PROGRAM)
    lines = answer.stdout.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("nir must be installed for this") for line in lines[:4])
    assert all(line.endswith("pip install 'sparsespike[nir]'") for line in lines[:4])
    assert lines[4].endswith("pip install 'sparsespike[brian2]'")


def test_importing_the_package_imports_neither():
    program = "import sys, snn.exchange; print(*{'nir', 'h5py', 'brian2'} & set(sys.modules))"
    assert run_python("-c", program).stdout.strip() == ""


def test_the_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert {"nir", "brian2"} <= set(extras)
