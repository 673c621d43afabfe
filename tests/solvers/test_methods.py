"""What every method of `METHODS` says, takes and refuses, and what it costs to add one."""

import warnings
from dataclasses import dataclass, fields, replace

import joblib
import numpy as np
import pytest
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

from snn import Exact
from snn.digital import Digital
from solvers import (
    METHODS,
    LassoProblem,
    Status,
    compare,
    path,
    solve,
    solve_active_set,
    solve_coordinate_descent,
    solve_fista,
)
from solvers.methods import CoordinateDescent, Method, OneRun, Solved, Stages, Takes
from tests.processes import run_python
from tests.reference.methods import methods, takers
from tests.reference.problems import optimal_codes, random_problem, require_certified

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def require_same(many, one):
    """Equal bits, or, of a method whose products use all threads of BLAS, rounding."""
    if METHODS.get(one.method) is not None and METHODS[one.method].blas_threads:
        np.testing.assert_allclose(many.codes, one.codes, rtol=0, atol=1e-10)
        np.testing.assert_allclose(many.duality_gap, one.duality_gap, rtol=1e-6, atol=1e-13)
    else:
        for name in ("codes", "duality_gap", "kkt_violation", "objective"):
            np.testing.assert_array_equal(getattr(many, name), getattr(one, name), err_msg=name)
    np.testing.assert_array_equal(many.n_steps, one.n_steps)


def test_names_are_those_of_the_methods():
    assert list(METHODS) == [method.name for method in METHODS.values()]


@every_method
@pytest.mark.parametrize("positive", [True, False])
def test_results_say_how_they_came_about_whatever_the_workers(method, positive, capsys):
    problem = random_problem(n_signals=7, share=0.3, positive=positive)
    if method.takes.own_weights != "refused":
        known = np.random.default_rng(0).random(problem.signals.shape) < 0.8
        arguments = problem.dictionary, problem.signals, problem.penalty
        problem = LassoProblem(*arguments, positive=positive, mask=known)
    with joblib.parallel_config(backend="threading"):
        one, two, five = (solve(problem, method, tol=0.05, n_jobs=n) for n in (1, 2, 5))
    require_same(two, one)
    require_same(five, one)
    assert (one.method, one.steps, one.tol, type(one)) == (method.name, method.steps, 0.05, method.result)
    assert one.problem is problem
    assert {"drive", "certificate"} <= set(one.operations)
    assert one.operations.bound == method.bound
    require_certified(problem, one)
    assert solve(problem.subset([0]), method).tol == method.usual_tol
    assert "7/7" not in capsys.readouterr().err
    require_same(solve(problem, method, tol=0.05, progress=True), one)
    assert "7/7" in capsys.readouterr().err


@every_method
def test_one_warning_of_missed_tolerances(method):
    limits = {field.name: 1 for field in fields(method) if field.name.startswith("max_")}
    with pytest.warns(ConvergenceWarning, match=rf"^{method.name}: ") as caught:
        result = solve(random_problem(share=0.3), replace(method, **limits), tol=1e-22)
    for array in (result.codes, result.duality_gap, result.status, result.n_steps):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert len(caught) == 1
    assert caught[0].filename == __file__
    missed = result.duality_gap > 1e-22 * result.energies
    np.testing.assert_array_equal(result.status == Status.LIMIT_REACHED, missed)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: solve(np.eye(3), METHODS["fista"]), TypeError, "problem"),
        (lambda: solve(random_problem(), "fista"), TypeError, "method"),
        (lambda: solve(random_problem(), METHODS["fista"], tol=0.0), ValueError, "tol"),
        (lambda: solve(random_problem(), METHODS["fista"], n_jobs=0), ValueError, "n_jobs"),
        (lambda: solve(random_problem(), METHODS["fista"], progress="yes"), TypeError, "progress"),
        (lambda: solve(random_problem(), METHODS["fista"], start=np.ones((3, 2))), ValueError, "start"),
        # Weights would be rounded for each batch, and saturations would not be reported.
        (lambda: Stages(how=Digital(0.25)), TypeError, "how .*DigitalStages"),
        (lambda: Stages(how=0.25), TypeError, "how"),
        (lambda: Stages(0.0), ValueError, "max_duration"),
        (lambda: CoordinateDescent(0), ValueError, "max_iter"),
    ],
)
def test_nonsense_is_refused(call, error, name):
    with pytest.raises(error, match=f"^{name}"):
        call()


# -- scikit-learn's coordinate descent ---------------------------------------------------------------


@pytest.mark.parametrize("positive", [True, False])
def test_codes_of_coordinate_descent_are_those_of_scikit_learn_itself(positive):
    """Scaling, penalties of their own and norms are undone rightly."""
    penalty = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    problem = random_problem(positive=positive, penalty=penalty, unit_norm=False)
    result = solve_coordinate_descent(problem, tol=1e-12)
    # Gaps of g leave sqrt(2 g) in the reconstruction; the factor is for atoms that are not orthogonal.
    atol = 30.0 * np.sqrt(2e-10 * problem.energies.max())
    np.testing.assert_allclose(result.codes, optimal_codes(problem), rtol=0, atol=atol)
    zero = solve_coordinate_descent(LassoProblem(np.eye(2), [[0.0, 0.0], [1.0, -1.0], [3.0, 0.0]], 1.0))
    np.testing.assert_array_equal(zero.codes[:2], 0.0)
    np.testing.assert_array_equal(zero.n_steps[:2], 0)
    np.testing.assert_allclose(zero.codes[2], [2.0, 0.0], atol=0.1)


def test_coordinate_descent_tightens_the_tol_until_the_certificate_agrees(monkeypatch):
    """A scikit-learn that stops a hundred times too early is sent back."""
    tols = []

    class Sloppy(linear_model.Lasso):
        def fit(self, X, y, **options):
            tols.append(self.tol)
            self.tol *= 100.0
            return super().fit(X, y, **options)

    monkeypatch.setattr(linear_model, "Lasso", Sloppy)
    assert solve_coordinate_descent(random_problem(n_signals=1, share=0.01), tol=1e-6).converged
    assert len(tols) > 1
    np.testing.assert_allclose(tols, 0.5e-6 * 10.0 ** -np.arange(len(tols)))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_only_our_warning_tells_of_a_missed_tol(n_jobs):
    problem = random_problem(n_signals=20, share=0.01)
    with warnings.catch_warnings(record=True) as caught, joblib.parallel_config(backend="threading"):
        warnings.simplefilter("always")
        result = solve_coordinate_descent(problem, tol=1e-9, max_iter=2, n_jobs=n_jobs)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert (result.n_steps <= 2).all()
    with pytest.warns(ConvergenceWarning, match="coordinate_descent"):
        rounding = solve_coordinate_descent(random_problem(), tol=1e-30, max_iter=1000)
    assert (rounding.relative_gap <= 1e-13).all()


# -- what it costs to add one: a class, and a line in the registry -----------------------------------


@dataclass(frozen=True)
class Proximal(Method):
    """A toy solver: plain proximal gradient steps."""

    name = "proximal"
    takes = Takes(start=True)

    def solve(self, problem, prepared, start, tol):
        codes = np.zeros((problem.n_signals, problem.n_atoms)) if start is None else start.codes.toarray()
        lipschitz = np.linalg.norm(problem.gram, ord=2)
        for _ in range(3000):
            points = codes + (problem.correlations - codes @ problem.gram) / lipschitz
            codes = np.sign(points) * np.maximum(np.abs(points) - problem.l1_weights / lipschitz, 0.0)
        return Solved(codes, np.full(problem.n_signals, 3000), {})


class LateRates(OneRun):
    """A toy read-out: spikes per unit of time since the first time constant."""

    name = "late_rates"
    readout = "late"

    def read(self, batch, signals, memory):
        return batch.rates(signals) * (batch.duration / np.maximum(batch.duration - 1.0, 0.5))[signals, None]


class Halves(Exact):
    """A toy kind of run: exact, and paused half way whenever it is advanced."""

    def start(self, network, soma_bias, state=None, **options):
        run = super().start(network, soma_bias, state, **options)
        advance = run.advance
        run.advance = lambda until, **more: [advance(t, **more) for t in (0.5 * (run.time + until), until)][1]
        return run


def test_a_new_solver_read_out_and_kind_of_run_are_everywhere(monkeypatch):
    toys = {toy.name: toy for toy in (Proximal(), LateRates())}
    for name, toy in toys.items():
        monkeypatch.setitem(METHODS, name, toy)
    problem = random_problem(n_signals=2, share=0.3)
    best = solve_active_set(problem, tol=1e-10)
    for record in compare(problem, list(toys), tol=0.1):
        assert record["n_converged"] == 2
    followed = path(problem, [2.0, 1.0], method="proximal", tol=1e-6)
    np.testing.assert_allclose(followed.objective[-1], best.objective, rtol=1e-6)
    # The parameters of the suites.
    assert "proximal" in methods(start=True)
    assert "late_rates" in methods(start=False)
    # What is new is refused, and named by those that refuse, as any other.
    assert "'proximal'" in takers("start")
    with pytest.raises(ValueError, match=r"method must be one of .*; got 'late_rates'"):
        path(problem, method="late_rates")
    with pytest.raises(ValueError, match=r"start must be None for late_rates.*'proximal'"):
        solve(problem, METHODS["late_rates"], start=best)
    # A kind of run, where a method takes one.
    spikes, in_halves = (solve(problem, Stages(how=how)) for how in (Exact(), Halves()))
    np.testing.assert_allclose(in_halves.codes, spikes.codes, rtol=0, atol=1e-9)
    (record,) = compare(problem, {"in halves": Stages(how=Halves())})
    assert record["n_steps"] == spikes.n_steps.sum()
    masked = LassoProblem(problem.dictionary, problem.signals, 1.0, mask=np.eye(2, problem.n_features) == 0)
    np.testing.assert_allclose(
        METHODS["proximal"](masked, n_jobs=2, tol=1e-6).objective,
        solve_fista(masked, tol=1e-8).objective,
        rtol=1e-6,
    )


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
    """For those who debug their kernels: the same codes in the same number of steps."""
    runs = [run_python("-W", "error", "-c", INTERPRETED, NUMBA_DISABLE_JIT=off) for off in ("1", "0")]
    assert runs[0].stdout == runs[1].stdout
