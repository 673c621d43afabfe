"""The projection of large batches, and machine code on disk; test_batch.py has the other updates."""

import shutil

import numpy as np
import pytest

from dictlearn import rules
from tests.processes import ROOT, run_python

KAPPA = 0.7


@pytest.mark.parametrize("n_signals", [rules.LARGE_BATCH, rules.LARGE_BATCH + 1])
@pytest.mark.parametrize("n_active", [3, 12])
def test_large_batches_are_projected_as_small_ones(n_signals, n_active):
    """The system of the signals, and that of the atoms, beside the equation of the docstring."""
    rng = np.random.default_rng(n_signals + n_active)
    n_atoms = 12
    codes = np.zeros((n_signals, n_atoms))
    codes[1:, :n_active] = np.maximum(rng.standard_normal((n_signals - 1, n_active)), 0.0)
    values = rng.standard_normal((n_signals, n_atoms))
    norms = np.linalg.norm(codes, axis=1)
    inverse = np.diag([1.0 / norm if norm else 0.0 for norm in norms])
    inner = inverse @ codes @ codes.T @ inverse + rules.PROJECTION_RIDGE * np.eye(n_signals)
    start = np.asfortranarray(rng.uniform(0.0, 1.0, (n_atoms, n_atoms)))
    change = 0.5 * values.T @ inverse @ np.linalg.solve(inner, inverse @ codes) / KAPPA
    lateral = start.copy(order="F")
    rules.project_lateral(lateral, codes, values, kappa=KAPPA, gain=0.5)
    np.testing.assert_allclose(lateral, np.maximum(start - change, 0.0), atol=1e-11)
    np.testing.assert_array_equal(lateral[:, n_active:], start[:, n_active:])


PROGRAM = """
import numpy as np
from dictlearn.two_phase._kernels import updates
updates.change_rows(np.ones((2, 3)), np.ones(2), np.ones((1, 2)), np.ones((1, 3)), 0.0)
print(sum(updates.change_rows.stats.cache_hits.values()))
"""


@pytest.mark.thorough
def test_a_change_of_any_kernel_they_depend_on_compiles_them_again(tmp_path):
    """Machine code is used again, and never that of older sources."""
    for package in ("snn", "solvers", "dictlearn"):
        ignored = shutil.ignore_patterns("__pycache__", "*.nb?")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def n_loaded():
        return int(run_python("-c", PROGRAM, cwd=tmp_path, **environment).stdout)

    assert [n_loaded(), n_loaded()] == [0, 1]
    for changed in ("dictlearn/two_phase/_kernels/__init__.py", "snn/_kernels/__init__.py"):
        with (tmp_path / changed).open("a") as file:
            file.write("\n# changed\n")
        assert [n_loaded(), n_loaded()] == [0, 1]
