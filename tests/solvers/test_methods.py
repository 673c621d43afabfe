"""What every method of `METHODS` says, takes and refuses, and what it costs to add one."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from examples.lava_lca import LCA1Layer
from snn import Exact
from snn.digital import Digital
from solvers import (
    L1,
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    SparseCodingStream,
    compare,
    held_out_score,
    lasso_network,
    path,
    problem_to_nir,
    solve,
    solve_active_set,
    solve_fista,
)
from solvers.methods import Method, OneRun, Solved, Stages, Takes
from solvers.problem.penalty import Penalty
from tests.processes import run_python
from tests.reference.methods import methods, takers
from tests.reference.problems import random_problem

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


class Quartic(Penalty):
    """h(a) = l |a| + q a^4, which only its proximal step knows."""

    def __init__(self, l1, q):
        self.l1, self.q = l1, q

    l1_weights = property(lambda self: self.l1)
    curvatures = property(lambda self: np.zeros(len(self.l1)))

    def bound_to(self, squared_norms):
        each = np.ones(len(squared_norms))
        return Quartic(self.l1 * each, self.q * each)

    def at(self, atoms):
        return Quartic(self.l1[atoms], self.q[atoms])

    def rescaled(self, units, objective_unit):
        return Quartic(self.l1 / (units * objective_unit), self.q / units**4 / objective_unit)

    def value(self, codes):
        return self.l1 * np.abs(codes) + self.q * codes**4

    def _step(self, points, slope, positive):
        """The root of slope a + 4 q a^3 = |x| - l, by Newton's method from above."""
        pull = np.maximum((points if positive else np.abs(points)) - self.l1, 0.0)
        a = pull / slope if slope else np.cbrt(pull / (4.0 * self.q)) * 2.0
        for _ in range(60):
            a = a - (slope * a + 4.0 * self.q * a**3 - pull) / (slope + 12.0 * self.q * a**2 + 1e-300)
        return a * np.sign(points)

    def proximal_step(self, points, *, positive, out):
        out[:] = self._step(points, 1.0, positive)

    def _conjugate(self, points, positive):
        a = self._step(points, 0.0, positive)
        return np.maximum(a * points - self.value(a), 0.0)

    def dual_multiple(self, reach, along_signal, squared_residual):
        return np.ones(len(reach))

    def slack(self, codes, correlations, multiples, *, positive, errors=0.0):
        points = multiples * correlations
        return np.maximum(self.value(codes) + self._conjugate(points, positive) - codes * points, 0.0)

    def conjugate(self, reach, multiples, *, without):
        terms = self._conjugate(multiples[:, np.newaxis] * reach, True)
        terms.put(without, 0.0)
        return terms.sum(axis=1)


def quartic_problem():
    rng = np.random.default_rng(0)
    return LassoProblem(rng.standard_normal((12, 8)), rng.standard_normal((3, 8)), Quartic(0.3, 0.5))


# -- every method ----------------------------------------------------------------------------------


def test_names_are_those_of_the_methods():
    assert list(METHODS) == [method.name for method in METHODS.values()]


@every_method
def test_result_says_which_method_and_what_it_counts(method):
    problem = random_problem(share=0.3)
    result = solve(problem, method, tol=0.05)
    assert result.method == method.name
    assert result.steps == method.steps
    assert result.operations is not None
    assert {"drive", "certificate"} <= set(result.operations)
    assert result.operations.bound == method.bound
    assert type(result) is method.result
    assert solve(problem.subset([0]), method).tol == method.usual_tol


@pytest.mark.thorough
@every_method
@pytest.mark.parametrize("n_jobs", [2, 5])
def test_workers_change_nothing(method, n_jobs):
    problem = random_problem(n_signals=7, share=0.3)
    one, many = (solve(problem, method, tol=0.02, n_jobs=n) for n in (1, n_jobs))
    if method.blas_threads:
        np.testing.assert_allclose(many.codes, one.codes, rtol=0, atol=1e-10)
    else:
        np.testing.assert_array_equal(many.codes, one.codes)
    np.testing.assert_array_equal(many.n_steps, one.n_steps)
    np.testing.assert_allclose(many.duality_gap, one.duality_gap, rtol=1e-6, atol=1e-13)


@every_method
def test_bar_counts_signals(method, capsys):
    solve(random_problem(share=0.3), method, tol=0.05, progress=True)
    assert "3/3" in capsys.readouterr().err


@every_method
def test_one_warning_of_missed_tolerances(method):
    with pytest.warns(ConvergenceWarning, match=rf"^{method.name}: ") as caught:
        solve(random_problem(share=0.3), _impatient(method), tol=1e-22)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def _impatient(method):
    """The method with few steps, if it has a limit."""
    return replace(method, **{field.name: 1 for field in fields(method) if field.name.startswith("max_")})


# -- what methods do not take ------------------------------------------------------------------------


@every_method
def test_other_penalties_are_solved_or_refused(method):
    problem = quartic_problem()
    if method.takes.any_penalty:
        result = solve(problem, method, tol=1e-8)
        assert result.converged
        assert (result.objective <= problem.energies).all()
        return
    with pytest.raises(
        TypeError, match=rf"penalty for {method.name}; got a Quartic: {takers('any_penalty')}$"
    ):
        solve(problem, method)


@pytest.mark.parametrize(
    "use",
    [
        lasso_network,
        held_out_score,
        path,
        problem_to_nir,
        LCA1Layer.of,
        lambda problem: SparseCodingStream(problem.dictionary, problem.penalty),
    ],
    ids=["network", "held out", "path", "NIR", "LCA", "stream"],
)
def test_what_reads_weights_and_curvatures_alone_refuses_other_penalties(use):
    # What is below the methods does not know their names.
    takes_it = f"({takers('any_penalty')}|methods of solvers.METHODS with takes.any_penalty take it)"
    with pytest.raises(TypeError, match=rf"penalty.*; got a Quartic: {takes_it}$"):
        use(quartic_problem())


@pytest.mark.parametrize("kind", [L1, ElasticNet])
def test_penalties_whose_parameters_are_read_have_no_subclasses(kind):
    with pytest.raises(TypeError, match=f"{kind.__name__} must not be subclassed, .*: subclass Penalty"):
        type("Mine", (kind,), {})


def test_stages_refuse_integers():
    # Weights would be rounded for each batch, and saturations would not be reported.
    with pytest.raises(TypeError, match=r"^how must be .*; got Digital: use DigitalStages$"):
        Stages(how=Digital(0.25))


@pytest.mark.parametrize("method", methods(convolution=True, weights_with_convolution=False).values())
def test_masked_convolutions_are_refused_by_name(method):
    dictionary = ConvolutionalDictionary(np.ones((1, 3, 3)), (5, 5), 2)
    problem = LassoProblem(dictionary, np.ones((1, 25)), 0.5, mask=np.arange(25) > 0)
    takes_it = takers("weights_with_convolution")
    with pytest.raises(TypeError, match=rf"array of atoms for {method.name} where .*: {takes_it}$"):
        solve(problem, method)


# -- what it costs to add one: a class, and a line in the registry -----------------------------------


@dataclass(frozen=True)
class Proximal(Method):
    """A toy solver: plain proximal gradient steps."""

    name = "proximal"
    takes = Takes(start=True, any_penalty=True)

    def solve(self, problem, prepared, start, tol):
        codes = np.zeros((problem.n_signals, problem.n_atoms)) if start is None else start.codes.toarray()
        lipschitz = np.linalg.norm(problem.dictionary, ord=2) ** 2
        penalty = problem.penalty.rescaled(np.ones(problem.n_atoms), lipschitz)
        for _ in range(3000):
            points = codes + (problem.correlations - codes @ problem.gram) / lipschitz
            penalty.proximal_step(points, positive=problem.positive, out=codes)
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


TOYS = {toy.name: toy for toy in (Proximal(), LateRates())}


def test_a_new_solver_read_out_penalty_and_kind_of_run_are_everywhere(monkeypatch):
    for name, toy in TOYS.items():
        monkeypatch.setitem(METHODS, name, toy)
    problem = random_problem(n_signals=2, share=0.3)
    best = solve_active_set(problem, tol=1e-10)
    for record in compare(problem, list(TOYS), tol=0.1):
        assert record["n_converged"] == 2
    followed = path(problem, [2.0, 1.0], method="proximal", tol=1e-6)
    np.testing.assert_allclose(followed.objective[-1], best.objective, rtol=1e-6)
    # The parameters of the suites.
    assert set(methods()) >= set(TOYS)
    assert "proximal" in methods(start=True)
    assert "late_rates" in methods(start=False)
    # What is new is refused, and named by those that refuse, as any other.
    assert takers("any_penalty").endswith("'proximal' take it")
    with pytest.raises(TypeError, match=rf"got a Quartic: {takers('any_penalty')}$"):
        solve(quartic_problem(), METHODS["late_rates"])
    with pytest.raises(ValueError, match=r"method must be one of .*; got 'late_rates'"):
        path(problem, method="late_rates")
    new, fista = (solve(quartic_problem(), METHODS[name], tol=1e-8) for name in ("proximal", "fista"))
    np.testing.assert_allclose(new.objective, fista.objective, rtol=1e-7)
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
