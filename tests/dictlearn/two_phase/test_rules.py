"""The updates that learning runs, beside equations 11 and 12, finite differences and their guarantees."""

import shutil

import numpy as np
import pytest

from dictlearn import rules
from tests.processes import ROOT, run_python

KAPPA = 0.7


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def weights(rng, *shape):
    """As learning has them, one row of memory for each source."""
    return np.asfortranarray(rng.uniform(0.2, 1.0, shape))


def sparse(rng, *shape):
    """Codes of which most are zero, as those of learning."""
    return rng.uniform(0.5, 1.5, shape) * (rng.uniform(size=shape) < 0.4)


def differences(function, matrix):
    """The gradient of a quadratic function: central differences have no error but rounding."""
    gradient = np.empty(matrix.shape)
    for index in np.ndindex(matrix.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = matrix.copy()
            moved[index] += sign * 0.5
            values.append(function(moved))
        gradient[index] = values[0] - values[1]
    return gradient


def test_updates_follow_finite_differences_of_the_objective(rng):
    """With g_D = kappa (B a - x): F and B descend 1/2 ||x - B a||^2 + lambda2 / 2 ||B||^2 in B."""
    feedback, codes, signals = weights(rng, 4, 5), sparse(rng, 3, 5), rng.uniform(size=(3, 4))
    step, decay = 0.01, 0.3
    gradient = differences(
        lambda b: 0.5 * ((signals - codes @ b.T) ** 2).sum() + 0.5 * decay * (b**2).sum(), feedback
    )
    g_d = KAPPA * (codes @ feedback.T - signals)
    feedforward, before = feedback.T.copy(order="F"), feedback.copy()
    options = {"kappa": KAPPA, "step": step, "keep": 1.0 - step * decay, "least": -np.inf}
    rules.update_feedback(feedback, codes, g_d, **options)
    rules.update_feedforward(feedforward, codes, g_d, **options)
    np.testing.assert_allclose((before - feedback) / step, gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose((before - feedforward.T) / step, gradient, rtol=0, atol=1e-12)


def test_the_lateral_update_follows_finite_differences_of_the_mismatch(rng):
    """With g_H = kappa (H - F B) a: H descends 1/2 ||(H - F B) a||^2."""
    lateral, product, codes = weights(rng, 5, 5), weights(rng, 5, 5), sparse(rng, 3, 5)
    gradient = differences(lambda h: 0.5 * ((codes @ (h - product).T) ** 2).sum(), lateral)
    before = lateral.copy()
    g_h = KAPPA * codes @ (lateral - product).T
    rules.update_lateral(lateral, codes, g_h, kappa=KAPPA, step=0.01, least=-np.inf)
    np.testing.assert_allclose((before - lateral) / 0.01, gradient, rtol=0, atol=1e-12)


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


# -- machine code on disk ------------------------------------------------------------------------

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
