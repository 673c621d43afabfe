"""All solvers of a LASSO with one interface.

A peer is asked a question, a `LassoProblem`, once: it may lay out its data as it likes, and take the Gram
matrix, outside the clock.  What it returns solves the problem to its own tolerance; `calibrated` finds the
loosest one at which the gap wanted is certified.
"""

import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from solvers import (
    METHODS,
    LassoProblem,
    PreparedLasso,
    SparseCodingResult,
    solve_active_set,
    solve_spiking,
)
from tests.benchmarks.lean_fista import largest_eigenvalue, lean_fista
from tests.benchmarks.problems import again
from tests.benchmarks.timing import relative_gaps

Solve = Callable[[float], object]

# A peer's own tolerance falls by this until its gap is certified, down to the least.
LOOSEST_TOL, LEAST_TOL, TOL_FACTOR = 1e-1, 1e-16, 10.0**0.5
MOST_ITERATIONS = 20_000


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A solver of a LASSO."""

    name: str
    ask: Callable[[LassoProblem], Solve]
    package: str | None = None
    """The distribution to install; None for the library itself."""
    takes_gram: bool = True
    takes_batches: bool = False
    """Whether one call answers for many signals."""
    own_scale: bool = False
    """Whether its tolerance means something else than a relative gap, and must be calibrated."""

    @property
    def installed(self) -> bool:
        module = {"scikit-learn": "sklearn", "spams-bin": "spams"}.get(self.package, self.package)
        return module is None or importlib.util.find_spec(module) is not None

    @property
    def version(self) -> str:
        if self.package is None:
            return "this library"
        return importlib.metadata.version(self.package) if self.installed else "not installed"


def calibrated(
    peer: Peer, problem: LassoProblem, tol: float
) -> tuple[Callable[[], object], float] | tuple[None, None]:
    """Return a call that reaches a relative gap of `tol`, and the peer's own tolerance; or None, None."""
    solve = peer.ask(problem)
    own_tol = LOOSEST_TOL if peer.own_scale else tol
    while own_tol >= LEAST_TOL:
        with quiet():
            worst = float(relative_gaps(problem, solve(own_tol)).max())
        if worst <= tol:
            return partial(solve, own_tol), own_tol
        if not peer.own_scale:
            break
        own_tol /= TOL_FACTOR
    return None, None


class quiet(warnings.catch_warnings):
    """No warnings of not having converged, and the like: the certificate decides."""

    def __enter__(self):
        super().__enter__()
        warnings.simplefilter("ignore")
        return self


def _each(problem: LassoProblem, ask: Callable[[LassoProblem], Solve]) -> Solve:
    """Return a solve that goes through the signals one by one."""
    if problem.n_signals == 1:
        return ask(problem)
    solves = [ask(problem.subset([k])) for k in range(problem.n_signals)]
    return lambda tol: np.array([np.ravel(solve(tol)) for solve in solves])


# -- the library ---------------------------------------------------------------------------------


def _named(name: str) -> Callable[[LassoProblem], Solve]:
    """A method of the registry."""

    def ask(problem: LassoProblem) -> Solve:
        return lambda tol: METHODS[name](again(problem), tol=tol).codes

    return ask


def _spiking(**options: object) -> Callable[[LassoProblem], Solve]:
    def ask(problem: LassoProblem) -> Solve:
        return lambda tol: solve_spiking(again(problem), tol=tol, **options).codes

    return ask


def spikes_for(name: str, **options: object) -> Peer:
    """Return spikes alone with options of `solve_spiking`."""
    return Peer(name=name, ask=_spiking(**options), takes_batches=True)


def _prepared(solver: Callable[..., SparseCodingResult]) -> Callable[[LassoProblem], Solve]:
    """The dictionary checked, and all that is computed of it, outside the clock."""

    def ask(problem: LassoProblem) -> Solve:
        prepared = PreparedLasso(
            problem.dictionary, problem.penalty, positive=problem.positive, gram=problem.gram
        )
        return lambda tol: solver(prepared.with_signals(problem.signals), tol=tol).codes

    return ask


def _lean_fista(*, sparse: bool) -> Callable[[LassoProblem], Solve]:
    """FISTA and nothing else, its eigenvalue given."""

    def ask(problem: LassoProblem) -> Solve:
        eigenvalue = largest_eigenvalue(problem.dictionary)

        def solve(tol: float) -> np.ndarray:
            codes = np.empty((problem.n_signals, problem.n_atoms))
            correlations = problem.signals @ problem.dictionary.T
            for k, code in enumerate(codes):
                lean_fista(
                    problem.gram,
                    correlations[k],
                    problem.l1_weights,
                    problem.positive,
                    eigenvalue,
                    problem.energies[k],
                    tol,
                    MOST_ITERATIONS,
                    sparse,
                    code,
                )
            return codes

        return solve

    return ask


# -- scikit-learn --------------------------------------------------------------------------------


def _sklearn_descent(*, with_gram: bool) -> Callable[[LassoProblem], Solve]:
    """`lasso_path` at one alpha, the leanest door to it; its objective is ours over n_features."""

    def ask(problem: LassoProblem) -> Solve:
        from sklearn.linear_model import lasso_path

        design = np.array(problem.dictionary.T, order="F")
        alphas = np.array([problem.l1_weights[0] / problem.n_features])

        def solve_one(question: LassoProblem) -> Solve:
            signal = question.signals[0].copy()

            def solve(tol: float) -> np.ndarray:
                given = {}
                if with_gram:
                    given = {"precompute": question.gram, "Xy": question.dictionary @ signal}
                _, codes, _ = lasso_path(
                    design,
                    signal,
                    alphas=alphas,
                    positive=question.positive,
                    tol=tol,
                    max_iter=100_000,
                    check_input=False,
                    **({"precompute": False} | given),
                )
                return codes

            return solve

        return _each(problem, solve_one)

    return ask


def _sklearn_lars(with_gram: bool) -> Callable[[LassoProblem], Solve]:
    """`lars_path` and `lars_path_gram`; both swap columns of what they are given, and so copy it first."""

    def ask_one(problem: LassoProblem) -> Solve:
        from sklearn.linear_model import lars_path, lars_path_gram

        alpha = problem.l1_weights[0] / problem.n_features
        signal = problem.signals[0].copy()
        options = {
            "alpha_min": alpha,
            "method": "lasso",
            "positive": problem.positive,
            "max_iter": 10 * problem.n_features,
            "return_path": False,
        }
        if with_gram:
            return lambda tol: lars_path_gram(
                problem.dictionary @ signal, problem.gram, n_samples=problem.n_features, **options
            )[2]
        design = np.array(problem.dictionary.T, order="F")
        return lambda tol: lars_path(design, signal, Gram=None, **options)[2]

    return lambda problem: _each(problem, ask_one)


def _batch_descent(problem: LassoProblem) -> Solve:
    """What `sparse_encode(algorithm="lasso_cd")` calls, which takes no tolerance."""
    from sklearn.linear_model import Lasso

    model = Lasso(
        alpha=problem.l1_weights[0] / problem.n_features,
        fit_intercept=False,
        precompute=problem.gram,
        positive=problem.positive,
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


def _batch_lars(problem: LassoProblem) -> Solve:
    """`sparse_encode(algorithm="lasso_lars")`; its alpha is our penalty."""
    from sklearn.decomposition import sparse_encode

    return lambda tol: sparse_encode(
        problem.signals,
        problem.dictionary,
        gram=problem.gram,
        algorithm="lasso_lars",
        alpha=float(problem.l1_weights[0]),
        positive=problem.positive,
        max_iter=1000,
        check_input=False,
    )


# -- celer, skglm, SPAMS -------------------------------------------------------------------------


def _celer(problem: LassoProblem) -> Solve:
    from celer import celer_path

    design = np.array(problem.dictionary.T, order="F")
    alphas = np.array([problem.l1_weights[0] / problem.n_features])

    def solve_one(question: LassoProblem) -> Solve:
        signal = question.signals[0].copy()
        return lambda tol: celer_path(
            design, signal, "lasso", alphas=alphas, tol=tol, positive=question.positive, max_iter=100
        )[1]

    return _each(problem, solve_one)


def _skglm(with_gram: bool) -> Callable[[LassoProblem], Solve]:
    def ask(problem: LassoProblem) -> Solve:
        from skglm.datafits import Quadratic, QuadraticHessian
        from skglm.penalties import L1
        from skglm.solvers import AndersonCD
        from skglm.utils.jit_compilation import compiled_clone

        solver = AndersonCD(fit_intercept=False, max_iter=200)
        datafit = compiled_clone(QuadraticHessian() if with_gram else Quadratic())
        penalty = problem.l1_weights[0] if with_gram else problem.l1_weights[0] / problem.n_features
        cost = compiled_clone(L1(float(penalty), positive=problem.positive))
        # A symmetric matrix in C order is one in Fortran order, transposed.
        design = problem.gram.T if with_gram else np.array(problem.dictionary.T, order="F")

        def solve_one(question: LassoProblem) -> Solve:
            signal = question.signals[0].copy()

            def solve(tol: float) -> np.ndarray:
                target = -(question.dictionary @ signal) if with_gram else signal
                solver.tol = tol
                # `solve` would compile datafit and penalty again.
                return solver._solve(design, target, datafit, cost)[0]

            return solve

        return _each(problem, solve_one)

    return ask


def _spams(*, with_gram: bool) -> Callable[[LassoProblem], Solve]:
    """LARS, exact whatever the tolerance; SPAMS wants signals and atoms in columns, in Fortran order."""

    def ask(problem: LassoProblem) -> Solve:
        import spams

        signals = np.array(problem.signals.T, order="F")
        dictionary = np.array(problem.dictionary.T, order="F")
        options = {
            "lambda1": float(problem.l1_weights[0]),
            "mode": 2,
            "pos": problem.positive,
            "numThreads": 1,
        }
        if not with_gram:
            return lambda tol: spams.lasso(signals, dictionary, **options).T
        gram = np.array(problem.gram, order="F")
        rows = problem.dictionary
        return lambda tol: spams.lasso(signals, Q=gram, q=np.asfortranarray(rows @ signals), **options).T

    return ask


# Spikes alone: everything is done by the network, and what is read out of it.
SPIKES = Peer(name="spikes alone", ask=_named("spiking"), takes_batches=True)
ONE_WINDOW = Peer(name="spikes alone, one window", ask=_named("spiking_one_window"), takes_batches=True)
CURRENT = Peer(name="spikes alone, current", ask=_named("spiking_current"), takes_batches=True)
RATE = Peer(name="spikes alone, rate", ask=_named("spiking_rate"), takes_batches=True)
PREPARED_SPIKES = Peer(name="spikes alone, prepared", ask=_prepared(solve_spiking), takes_batches=True)
ALONE = (SPIKES, ONE_WINDOW, CURRENT, RATE)
# The active-set method, and where it starts.
ACTIVE_SET = Peer(name="active set", ask=_named("active_set"), takes_batches=True)
FROM_FISTA = Peer(
    name="active set, from ten FISTA steps", ask=_named("active_set_from_fista"), takes_batches=True
)
FROM_SPIKES = Peer(name="active set, from spikes", ask=_named("active_set_from_spikes"), takes_batches=True)
PREPARED_ACTIVE_SET = Peer(name="active set, prepared", ask=_prepared(solve_active_set), takes_batches=True)
ACTIVE_SETS = (ACTIVE_SET, FROM_FISTA, FROM_SPIKES)
FISTA = Peer(name="FISTA", ask=_named("fista"), takes_batches=True)
LEAN_FISTA = Peer(name="FISTA, lean", ask=_lean_fista(sparse=True))
DENSE_FISTA = Peer(name="FISTA, dense products", ask=_lean_fista(sparse=False))

SKLEARN = (
    Peer(
        name="scikit-learn coordinate descent",
        ask=_sklearn_descent(with_gram=True),
        package="scikit-learn",
        own_scale=True,
    ),
    Peer(
        name="scikit-learn LARS",
        ask=_sklearn_lars(with_gram=False),
        package="scikit-learn",
        takes_gram=False,
    ),
    Peer(name="scikit-learn LARS with Gram", ask=_sklearn_lars(with_gram=True), package="scikit-learn"),
)
SKLEARN_WITHOUT_GRAM = Peer(
    name="scikit-learn coordinate descent, no Gram",
    ask=_sklearn_descent(with_gram=False),
    package="scikit-learn",
    takes_gram=False,
    own_scale=True,
)
CELER = Peer(name="celer", ask=_celer, package="celer", takes_gram=False, own_scale=True)
SKGLM = (
    Peer(name="skglm", ask=_skglm(with_gram=False), package="skglm", takes_gram=False, own_scale=True),
    Peer(name="skglm with Gram", ask=_skglm(with_gram=True), package="skglm", own_scale=True),
)
SPAMS = (
    Peer(
        name="SPAMS",
        ask=_spams(with_gram=False),
        package="spams-bin",
        takes_gram=False,
        takes_batches=True,
    ),
    Peer(
        name="SPAMS with Gram",
        ask=_spams(with_gram=True),
        package="spams-bin",
        takes_batches=True,
    ),
)
SKLEARN_BATCH = (
    Peer(
        name="scikit-learn lasso_cd",
        ask=_batch_descent,
        package="scikit-learn",
        takes_batches=True,
        own_scale=True,
    ),
    Peer(
        name="scikit-learn lasso_lars",
        ask=_batch_lars,
        package="scikit-learn",
        takes_batches=True,
    ),
)
CLASSICAL = (*SKLEARN, CELER, *SKGLM, *SPAMS)
"""The solvers compared where one signal is solved to high accuracy."""


def present(peers: Iterable[Peer]) -> list[Peer]:
    """Return those that are installed."""
    return [peer for peer in peers if peer.installed]


def missing(peers: Iterable[Peer]) -> list[str]:
    """Return the distributions to install for the others."""
    return sorted({peer.package for peer in peers if not peer.installed})
