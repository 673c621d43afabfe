"""All solvers of a LASSO with one interface.

A peer gets its question, a `LassoProblem`, once. Outside the clock it may lay out the data as it likes, and
take the Gram matrix. The returned `Solve` solves the problem to the peer's own tolerance; `calibrated` finds
the loosest tolerance at which the wanted gap is certified.
"""

import importlib.util
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from snn import Clock
from solvers import METHODS, LassoModel, LassoProblem, SparseCodingResult, solve_active_set, solve_spiking
from tests.benchmarks.lean_fista import largest_eigenvalue, lean_fista
from tests.benchmarks.problems import again
from tests.benchmarks.timing import largest_gap

Solve = Callable[[float], object]

# The tolerance of a peer falls from LOOSEST_TOL by TOL_FACTOR until its gap is certified, but not below
# LEAST_TOL.
LOOSEST_TOL, LEAST_TOL, TOL_FACTOR = 1e-1, 1e-16, 10.0**0.5
MOST_ITERATIONS = 20_000


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A solver of a LASSO."""

    name: str
    ask: Callable[[LassoProblem], Solve]
    package: str | None = None
    """The distribution to install; None for the library itself."""
    takes_batches: bool = False
    """Whether one call answers for many signals."""
    own_scale: bool = False
    """Whether its tolerance is not a relative gap and must be calibrated."""

    @property
    def installed(self) -> bool:
        module = {"scikit-learn": "sklearn", "spams-bin": "spams"}.get(self.package, self.package)
        return module is None or importlib.util.find_spec(module) is not None


def calibrated(
    peer: Peer, problem: LassoProblem, tol: float
) -> tuple[Callable[[], object], float] | tuple[None, None]:
    """Return a call that reaches a relative gap of `tol`, and the peer's own tolerance, or two None."""
    solve = peer.ask(problem)
    own_tol = LOOSEST_TOL if peer.own_scale else tol
    while own_tol >= LEAST_TOL:
        with quiet():
            worst = largest_gap(problem, solve(own_tol))
        if worst <= tol:
            return partial(solve, own_tol), own_tol
        if not peer.own_scale:
            break
        own_tol /= TOL_FACTOR
    return None, None


class quiet(warnings.catch_warnings):
    """Context without warnings, for example of convergence: the certificate decides."""

    def __enter__(self):
        super().__enter__()
        warnings.simplefilter("ignore")
        return self


def _each(problem: LassoProblem, ask: Callable[[LassoProblem], Solve]) -> Solve:
    """Return a `Solve` that codes the signals one by one."""
    if problem.n_signals == 1:
        return ask(problem)
    solves = [ask(problem.subset([k])) for k in range(problem.n_signals)]
    return lambda tol: np.array([np.ravel(solve(tol)) for solve in solves])


# -- the library ---------------------------------------------------------------------------------


def _named(name: str) -> Callable[[LassoProblem], Solve]:
    """Return a peer that calls a method of `METHODS`."""

    def ask(problem: LassoProblem) -> Solve:
        return lambda tol: METHODS[name](again(problem), tol=tol).codes

    return ask


def _prepared(solver: Callable[..., SparseCodingResult]) -> Callable[[LassoProblem], Solve]:
    """Return a peer that checks and prepares the dictionary outside the clock."""

    def ask(problem: LassoProblem) -> Solve:
        prepared = LassoModel(
            problem.dictionary, problem.penalty, positive=problem.penalty.is_positive, gram=problem.gram
        )
        return lambda tol: solver(prepared.with_signals(problem.signals), tol=tol).codes

    return ask


def _on_a_clock(problem: LassoProblem) -> Solve:
    return lambda tol: solve_spiking(again(problem), tol=tol, time=Clock(0.25)).codes


def _lean_fista(problem: LassoProblem) -> Solve:
    """FISTA and nothing else, its eigenvalue given."""
    eigenvalue = largest_eigenvalue(problem.dictionary)

    def solve(tol: float) -> np.ndarray:
        codes = np.empty((problem.n_signals, problem.n_atoms))
        correlations = problem.signals @ problem.dictionary.T
        for k, code in enumerate(codes):
            lean_fista(
                problem.gram,
                correlations[k],
                problem.l1_weights,
                problem.penalty.is_positive,
                eigenvalue,
                problem.energies[k],
                tol,
                MOST_ITERATIONS,
                code,
            )
        return codes

    return solve


# -- others --------------------------------------------------------------------------------------


def _along_path(problem: LassoProblem, path: Callable[..., Any]) -> Solve:
    """Return a call of a path function with scikit-learn's interface, at a single alpha."""
    design = np.array(problem.dictionary.T, order="F")
    alphas = np.array([problem.l1_weights[0] / problem.n_features])

    def solve_one(question: LassoProblem) -> Solve:
        options = {"alphas": alphas, "positive": question.penalty.is_positive}
        call = partial(path, design, question.signals[0].copy(), **options)
        return lambda tol: call(tol=tol)[1]

    return _each(problem, solve_one)


def _sklearn_descent(problem: LassoProblem) -> Solve:
    """`lasso_path` at a single alpha has the least overhead; its objective is ours over n_features."""
    from sklearn.linear_model import lasso_path

    gram = problem.gram if problem.has_gram else False

    def path(design: np.ndarray, signal: np.ndarray, **options: Any) -> Any:
        common = {"max_iter": 100_000, "check_input": False, "precompute": gram}
        return lasso_path(design, signal, Xy=problem.dictionary @ signal, **common, **options)

    return _along_path(problem, path)


def _batch_descent(problem: LassoProblem) -> Solve:
    """The solver of `sparse_encode(algorithm="lasso_cd")`, which takes no tolerance."""
    from sklearn.linear_model import Lasso

    model = Lasso(
        alpha=problem.l1_weights[0] / problem.n_features,
        fit_intercept=False,
        precompute=problem.gram,
        positive=problem.penalty.is_positive,
        max_iter=100_000,
        warm_start=True,
    )
    design = np.array(problem.dictionary.T, order="F")
    targets = np.array(problem.signals.T, order="F")

    def solve(tol: float) -> np.ndarray:
        model.set_params(tol=tol)
        model.coef_ = np.zeros((problem.n_signals, problem.n_atoms))
        return model.fit(design, targets, check_input=False).coef_

    return solve


def _celer(problem: LassoProblem) -> Solve:
    from celer import celer_path

    return _along_path(problem, partial(celer_path, pb="lasso", max_iter=100))


def _skglm(problem: LassoProblem) -> Solve:
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    solver = AndersonCD(fit_intercept=False, max_iter=200)
    datafit = compiled_clone(Quadratic())
    penalty = problem.l1_weights[0] / problem.n_features
    cost = compiled_clone(L1(float(penalty), positive=problem.penalty.is_positive))
    design = np.array(problem.dictionary.T, order="F")

    def solve_one(question: LassoProblem) -> Solve:
        signal = question.signals[0].copy()

        def solve(tol: float) -> np.ndarray:
            solver.tol = tol
            # The public method `solve` would compile the datafit and the penalty again.
            return solver._solve(design, signal, datafit, cost)[0]

        return solve

    return _each(problem, solve_one)


def _spams(problem: LassoProblem) -> Solve:
    """LARS, which is exact for any tolerance; SPAMS takes signals and atoms as columns, in Fortran order."""
    import spams

    gram, rows = np.array(problem.gram, order="F"), problem.dictionary
    signals = np.array(problem.signals.T, order="F")
    options = {
        "lambda1": float(problem.l1_weights[0]),
        "mode": 2,
        "pos": problem.penalty.is_positive,
        "numThreads": 1,
    }
    return lambda tol: spams.lasso(signals, Q=gram, q=np.asfortranarray(rows @ signals), **options).T


def _nnls(problem: LassoProblem) -> Solve:
    """Solve non-negative least squares without a penalty, with one call for each signal."""
    from scipy.optimize import nnls

    design = np.array(problem.dictionary.T, order="F")
    return lambda tol: np.array([nnls(design, signal)[0] for signal in problem.signals])


SPIKES = Peer(name="spikes alone", ask=_named("spiking"), takes_batches=True)
CLOCKED_SPIKES = Peer(name="spikes alone, clock of 1/4", ask=_on_a_clock, takes_batches=True)
ONE_WINDOW = Peer(name="spikes alone, one window", ask=_named("spiking_one_window"))
RATE = Peer(name="spikes alone, rate", ask=_named("spiking_rate"))
PREPARED_SPIKES = Peer(name="spikes alone, prepared", ask=_prepared(solve_spiking), takes_batches=True)
ACTIVE_SET = Peer(name="active set", ask=_named("active_set"), takes_batches=True)
PREPARED_ACTIVE_SET = Peer(name="active set, prepared", ask=_prepared(solve_active_set), takes_batches=True)
FROM_SPIKES = Peer(name="active set, from spikes", ask=_named("active_set_from_spikes"), takes_batches=True)
FISTA = Peer(name="FISTA", ask=_named("fista"), takes_batches=True)
OURS = (SPIKES, CLOCKED_SPIKES, PREPARED_SPIKES, ACTIVE_SET, PREPARED_ACTIVE_SET, FROM_SPIKES, FISTA)
LEAN_FISTA = Peer(name="FISTA, lean", ask=_lean_fista)
SKLEARN = Peer(
    name="scikit-learn coordinate descent", ask=_sklearn_descent, package="scikit-learn", own_scale=True
)
SKLEARN_BATCH = Peer(
    name="scikit-learn lasso_cd",
    ask=_batch_descent,
    package="scikit-learn",
    takes_batches=True,
    own_scale=True,
)
CELER = Peer(name="celer", ask=_celer, package="celer", own_scale=True)
SKGLM = Peer(name="skglm", ask=_skglm, package="skglm", own_scale=True)
SPAMS = Peer(name="SPAMS", ask=_spams, package="spams-bin", takes_batches=True)
NNLS = Peer(name="SciPy nnls", ask=_nnls, takes_batches=True)
PEERS = (LEAN_FISTA, SKLEARN, SKLEARN_BATCH, CELER, SKGLM, SPAMS)


def present(peers: Iterable[Peer]) -> list[Peer]:
    """Return the peers that are installed."""
    return [peer for peer in peers if peer.installed]
