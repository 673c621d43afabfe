"""Descriptions, problems and refusals of every method of `METHODS`, and a method that is added."""

from dataclasses import dataclass, fields, replace

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

from snn import Clock
from snn.digital import DigitalFormat
from solvers import (
    METHODS,
    LassoProblem,
    Status,
    certify,
    compare,
    path,
    solve,
    solve_active_set,
    solve_fista,
)
from solvers.methods import CoordinateDescent, Rates, Stages
from solvers.methods.method import Method
from solvers.methods.spiking import OneRun
from solvers.results.codes import Codes
from tests.processes import run_python
from tests.reference.problems import random_problem

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@every_method
def test_results_say_how_they_came_about(method, capsys):
    problem = random_problem(n_signals=7, share=0.3)
    with joblib.parallel_config(backend="threading"):
        result = solve(problem, method, tol=0.05, n_jobs=2)
    assert (result.method, result.steps, result.tol) == (method.name, method.steps, 0.05)
    assert result.problem is problem
    assert {"drive", "certificate"} <= set(result.operations)
    assert result.operations.bound == method.bound
    assert solve(problem.subset([0]), method).tol == method.usual_tol
    assert "7/7" not in capsys.readouterr().err
    solve(problem, method, tol=0.05, progress=True)
    assert "7/7" in capsys.readouterr().err


@every_method
def test_one_warning_of_missed_tolerances(method):
    limits = {field.name: 1 for field in fields(method) if field.name.startswith("max_")}
    with pytest.warns(ConvergenceWarning, match=rf"^{method.name}: ") as caught:
        result = solve(random_problem(share=0.3), replace(method, **limits), tol=1e-22)
    for array in (result.codes, result.duality_gap, result.n_steps):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert len(caught) == 1
    assert caught[0].filename == __file__
    missed = result.duality_gap > 1e-22 * result.problem.energies
    np.testing.assert_array_equal(result.reached, ~missed)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        # Weights would be rounded for each batch, and saturations would not be reported.
        (lambda: Rates(time=Clock(0.25, DigitalFormat())), TypeError, "time .*spiking_rate"),
        (lambda: Stages(time=0.25), TypeError, "time"),
        (lambda: Stages(0.0), ValueError, "max_duration"),
        (lambda: CoordinateDescent(0), ValueError, "max_iter"),
    ],
)
def test_nonsense_is_refused(call, error, name):
    with pytest.raises(error, match=f"^{name}"):
        call()


# -- scikit-learn's coordinate descent ---------------------------------------------------------------


def test_coordinate_descent_tightens_the_tol_until_the_certificate_agrees(monkeypatch):
    """The test replaces scikit-learn's solver by a solver with a tolerance a hundred times too large."""
    tols = []

    class Sloppy(linear_model.Lasso):
        def fit(self, X, y, **options):
            tols.append(self.tol)
            self.tol *= 100.0
            return super().fit(X, y, **options)

    monkeypatch.setattr(linear_model, "Lasso", Sloppy)
    assert METHODS["coordinate_descent"](random_problem(n_signals=1, share=0.01), tol=1e-6).converged
    assert len(tols) > 1
    np.testing.assert_allclose(tols, 0.5e-6 * 10.0 ** -np.arange(len(tols)))


# -- what it costs to add one: a class, and a line in the registry -----------------------------------


@dataclass(frozen=True)
class Proximal(Method):
    """A toy solver: plain proximal gradient steps."""

    name = "proximal"
    takes = ("start", "own_weights")

    def search(self, best, prepared):
        problem, start = best.problem, best.start
        codes = np.zeros((problem.n_signals, problem.n_atoms)) if start is None else start.values.toarray()
        lipschitz = np.linalg.norm(problem.gram, ord=2)
        while len(best.active) and best.steps[0] < 3000:
            points = codes + (problem.correlations - codes @ problem.gram) / lipschitz
            codes = np.sign(points) * np.maximum(np.abs(points) - problem.l1_weights / lipschitz, 0.0)
            best.steps += 1
            if best.steps[0] % 100 == 0:
                yield np.arange(problem.n_signals), codes


@dataclass(frozen=True)
class Hopeless(Method):
    """A toy solver that finds nothing."""

    max_time: float | None = None
    max_iter: int | None = None
    name = "hopeless"

    def search(self, best, prepared):
        yield from ()


@pytest.mark.parametrize(
    ("method", "limit"),
    [
        (Hopeless(), "its limit"),
        (Hopeless(None, 1234567), "max_iter=1234567"),
        (Hopeless(0.5), "max_time=0.5"),
    ],
)
def test_a_limit_is_named_in_full_where_there_is_one(method, limit):
    with pytest.warns(ConvergenceWarning, match=f"within {limit};"):
        solve(random_problem(n_signals=1, share=0.3), method)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_the_status_says_why_each_signal_missed_its_tolerance(n_jobs):
    """Batches keep the order of signals; a gap from rounding only is not reported as a lack of rounds."""
    problem = random_problem(n_signals=600, share=0.3)
    result = solve_fista(problem, tol=1e-4, max_iter=20, n_jobs=n_jobs)
    assert 0 < result.reached.sum() < 600
    np.testing.assert_array_equal(result.status, np.where(result.reached, Status.REACHED, Status.AT_LIMIT))
    assert (solve_active_set(problem, tol=1e-300, n_jobs=n_jobs).status == Status.AT_PRECISION).all()
    given = certify(problem, np.zeros((600, problem.n_atoms)))
    assert (given.status == np.where(given.reached, Status.REACHED, Status.AT_LIMIT)).all()


@dataclass(frozen=True)
class Mixed(Hopeless):
    """A toy solver that ends its signals with different statuses."""

    def search(self, best, prepared):
        status = np.where(best.active % 2, Status.AT_PRECISION, Status.AT_LIMIT)
        codes = sparse.csr_array((len(status), best.problem.n_atoms))
        yield best.active, Codes(codes, 0 * status, status=status)


def test_several_reasons_are_counted():
    with pytest.warns(
        ConvergenceWarning, match=r": 4 within its limit; 3 within the precision of the method;"
    ):
        solve(random_problem(n_signals=7, share=0.3), Mixed())


class LateRates(OneRun):
    """A toy read-out: spikes per unit of time since the first time constant."""

    name = "late_rates"

    def _read(self, batch, signals):
        run, later = batch.run, np.maximum(batch.run.time - 1.0, 0.5)
        return batch.codes_of(run.spike_counts[signals] / later[signals, np.newaxis], signals)


def test_a_new_solver_and_a_new_read_out_are_everywhere(monkeypatch):
    toys = {toy.name: toy for toy in (Proximal(), LateRates())}
    for name, toy in toys.items():
        monkeypatch.setitem(METHODS, name, toy)
    problem = random_problem(n_signals=2, share=0.3)
    best = solve_active_set(problem, tol=1e-10)
    for record in compare(problem, list(toys), tol=0.1):
        assert record["n_converged"] == 2
    followed = path(problem, [2.0, 1.0], method="proximal", tol=1e-6)
    np.testing.assert_allclose(followed.objective[-1], best.objective, rtol=1e-6)
    # One new method refuses a start, and the message suggests the other new method.
    with pytest.raises(ValueError, match=r"start .*late_rates.*'proximal'"):
        solve(problem, METHODS["late_rates"], start=best)
    masked = LassoProblem(problem.dictionary, problem.signals, 1.0, mask=np.eye(2, problem.n_features) == 0)
    found, expected = METHODS["proximal"](masked, n_jobs=2, tol=1e-6), solve_active_set(masked)
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-6)


INTERPRETED = """
from solvers import METHODS, solve
from tests.reference.problems import random_problem
for positive in (True, False):
    for name, method in METHODS.items():
        tol = 0.1 if name in ("spiking_rate", "spiking_current", "analog") else 1e-3
        result = solve(random_problem(n_signals=2, share=0.5, positive=positive), method, tol=tol)
        print(name, result.converged, result.n_steps.tolist(), (result.codes.round(6) + 0.0).tolist())
"""


@pytest.mark.thorough
def test_methods_run_without_being_compiled():
    """Users may debug kernels without compiling: codes and numbers of steps stay the same."""
    runs = [run_python("-W", "error", "-c", INTERPRETED, NUMBA_DISABLE_JIT=off) for off in ("1", "0")]
    assert runs[0].stdout == runs[1].stdout
