"""The files for benchopt run without benchopt, whose classes are replaced by minimal ones."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent
LEARNING = HERE / "dictionary_learning"


class Stub:
    """Parameters of benchopt's base classes: each is an attribute."""

    parameters = {}  # noqa: RUF012 - as benchopt has it

    def __init__(self, **chosen):
        for name, values in {**self.parameters, **{key: [value] for key, value in chosen.items()}}.items():
            setattr(self, name, values[0])

    def run_once(self, stop_val):
        self.run(stop_val)


@pytest.fixture
def load(monkeypatch):
    """Import a file by its place, as benchopt does."""
    benchopt = types.ModuleType("benchopt")
    benchopt.BaseSolver = benchopt.BaseDataset = benchopt.BaseObjective = Stub
    benchopt.stopping_criterion = types.ModuleType("benchopt.stopping_criterion")
    benchopt.stopping_criterion.SufficientProgressCriterion = dict
    monkeypatch.setitem(sys.modules, "benchopt", benchopt)
    monkeypatch.setitem(sys.modules, "benchopt.stopping_criterion", benchopt.stopping_criterion)

    def load_file(path):
        spec = importlib.util.spec_from_file_location("file_of_benchopt", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load_file


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 60)) + 0.5, rng.standard_normal(40) + 3.0
    return X, y, 0.1 * np.abs(X.T @ (y - y.mean())).max()


@pytest.mark.parametrize("method", ["spikes", "active_set"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_lasso_solver_has_the_codes_of_scikit_learn(load, problem, method, fit_intercept):
    from sklearn.linear_model import Lasso

    X, y, penalty = problem
    solver = load(HERE / "lasso_solvers" / "sparsespike.py").Solver(method=method)
    assert solver.skip(X, y, penalty, fit_intercept) == (False, None)
    solver.set_objective(X, y, penalty, fit_intercept)
    solver.warm_up()
    solver.run(1e-12 if method == "active_set" else 1e-9)
    lasso = Lasso(penalty / len(y), fit_intercept=fit_intercept, tol=1e-14, max_iter=100_000).fit(X, y)
    wanted = np.append(lasso.coef_, lasso.intercept_) if fit_intercept else lasso.coef_
    np.testing.assert_allclose(solver.get_result()["beta"], wanted, rtol=0, atol=1e-4)
    # benchopt begins with a tolerance that is larger than any gap.
    solver.run(3e38)
    assert np.isfinite(solver.get_result()["beta"]).all()
    assert solver.skip(sparse.csc_array(X), y, penalty, False)[0]


@pytest.mark.parametrize("name", ["digits", "photographs", "planted"])
def test_data_are_not_negative_and_none_is_held_out_twice(load, name):
    data = load(LEARNING / "datasets" / f"{name}.py").Dataset().get_data()
    assert data["signals"].shape[1] == data["held_out"].shape[1]
    assert min(signals.min() for signals in data.values()) >= 0.0
    assert not {row.tobytes() for row in data["signals"]} & {row.tobytes() for row in data["held_out"]}


@pytest.mark.parametrize("name", ["sparsespike", "scikit_learn", "spams"])
def test_learners_end_below_their_start(load, name):
    if name == "spams":
        pytest.importorskip("spams", reason="needs the extra: pip install 'sparsespike[peers]'")
    data = load(LEARNING / "datasets" / "digits.py").Dataset().get_data()
    objective = load(LEARNING / "objective.py").Objective(n_atoms=30)
    objective.set_data(data["signals"], data["held_out"][:100])
    start = objective.evaluate_result(**objective.get_one_result())
    solver = load(LEARNING / "solvers" / f"{name}.py").Solver()
    solver.set_objective(**objective.get_objective())
    solver.run(0)
    assert objective.evaluate_result(**solver.get_result()) == start
    solver.run(8)
    end = objective.evaluate_result(**solver.get_result())
    assert end["value"] < 0.8 * start["value"]
    for measured in (start, end):
        assert 0.0 <= measured["largest_relative_gap"] < 1e-2
