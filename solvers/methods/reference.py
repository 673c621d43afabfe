"""scikit-learn's coordinate descent with the interface of the others, which are compared with it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snn.base import checks
from solvers.certificate.optimality import measure
from solvers.methods.method import Method, Takes, solve
from solvers.problem.lasso import LassoProblem
from solvers.results.operations import AT_MOST, CERTIFICATE, METHOD, certificate_work
from solvers.results.result import SparseCodingResult, convergence_warning
from solvers.results.solved import Solved
from solvers.results.start import Start, StartPoint

# scikit-learn is imported where it is called: it takes longer to import than all else.
# Tasks of each of several workers, so that they end together and the progress bar moves.
TASKS_PER_WORKER = 8
# Terms of the sums in scikit-learn's duality gap, for each atom.
PRODUCTS_OF_GAP = 3


def solve_coordinate_descent(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    n_jobs: int | None = None,
    progress: bool = False,
) -> SparseCodingResult:
    """Solve by cyclic coordinate descent, scikit-learn's `Lasso` with a precomputed Gram matrix.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver; by default zero.
    tol : float, default 1e-3
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``; see Notes.
    max_iter : int, default 10000
        Most sweeps over all atoms for each signal.
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.
    progress : bool, default False
        Show a progress bar, in signals.

    Returns
    -------
    SparseCodingResult
        `n_steps` counts sweeps.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal misses `tol`.

    Notes
    -----
    `Lasso` divides the objective by n_features, so its alpha is ``penalty / n_features``, and it stops
    at a gap, not divided, of its own tol times ``||signal||^2``: that is ``tol / 2``.  Where the
    certified gap is still too large, it goes on from there with a tol ten times smaller.

    Penalties that differ are made equal by rescaling the atoms, ``lambda_i |a_i| = |lambda_i a_i|``, and
    signals are scaled to norm one.  An elastic net is the LASSO whose Gram matrix has the quadratic penalty
    added to its diagonal.

    References
    ----------
    Friedman, Hastie and Tibshirani (2010), Journal of Statistical Software 33(1), section 2.
    """
    method = CoordinateDescent(max_iter)
    return solve(problem, method, start=start, tol=tol, n_jobs=n_jobs, progress=progress)


class _ScaledAtoms(NamedTuple):
    """Atoms d_i * penalty / lambda_i, of norm one at most, all with one penalty."""

    design: np.ndarray
    """scikit-learn's X, shape (n_features, n_atoms), in Fortran order."""
    factors: np.ndarray
    """penalty / lambda_i: a code of the problem is factors times a code of the scaled one."""
    penalty: float
    gram: np.ndarray
    """Of the scaled atoms, with the quadratic penalties on its diagonal."""


def _scaled_atoms(problem: LassoProblem) -> _ScaledAtoms:
    curvatures = problem.curvatures
    dictionary = problem.weighted_model.atoms
    penalty = float((problem.l1_weights / np.sqrt(dictionary.positive_squared_norms + curvatures)).min())
    factors = penalty / problem.l1_weights
    gram = problem.gram * factors * factors[:, np.newaxis]
    gram[np.diag_indices_from(gram)] += curvatures * factors * factors
    return _ScaledAtoms((dictionary.array * factors[:, np.newaxis]).T, factors, penalty, gram)


class _SolvedOne(NamedTuple):
    """One signal, solved."""

    code: np.ndarray
    n_steps: int
    n_products: int
    """A bound on the multiply-adds of the library."""
    n_certificate_products: int = 0


@contextmanager
def _without_convergence_warnings() -> Iterator[None]:
    """Suppress scikit-learn's warnings: the certificate decides, and has a warning of its own.

    Filters belong to the process.  They are set by the caller of the solver, and by the main thread of
    another process, but not by worker threads, which would restore each other's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", convergence_warning())
        yield


@dataclass(frozen=True)
class CoordinateDescent(Method[SparseCodingResult]):
    """Coordinate descent: `solve_coordinate_descent`.

    Parameters
    ----------
    max_iter : int, default 10000
        Most sweeps for each signal.
    """

    max_iter: int = 10_000

    name = "coordinate_descent"
    takes = Takes(start=True)
    steps = "sweeps"
    bound = AT_MOST
    # scikit-learn holds the GIL for much of its time.
    workers = "processes"

    def __post_init__(self) -> None:
        checks.positive_integer("max_iter", self.max_iter)

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return the sweeps."""
        return f"max_iter={self.max_iter} sweeps"

    def prepare(self, problem: LassoProblem) -> _ScaledAtoms:
        """Return the scaled atoms, with their Gram matrix."""
        return _scaled_atoms(problem)

    def batches(self, problem: LassoProblem, prepared: _ScaledAtoms, n_workers: int) -> list[slice]:
        """Return a few batches for each worker."""
        size = 1 if n_workers == 1 else -(-problem.n_signals // (TASKS_PER_WORKER * n_workers))
        return [slice(first, first + size) for first in range(0, problem.n_signals, size)]

    def context(self) -> AbstractContextManager[object]:
        """Return a context without scikit-learn's warnings."""
        return _without_convergence_warnings()

    def solve(
        self, problem: LassoProblem, prepared: _ScaledAtoms, start: StartPoint | None, tol: float
    ) -> Solved:
        """Return the codes of some signals."""
        problem = problem.ordinary()
        codes = np.zeros((problem.n_signals, problem.n_atoms))
        n_steps, n_products = np.zeros((2, problem.n_signals), dtype=np.int64)
        n_certificate_products = np.full(problem.n_signals, certificate_work(problem, 0))
        violations_at_zero = measure(problem, codes).kkt_violation
        # In another process there is no caller's.
        with self.context():
            # Where the zero code is optimal there is nothing to do; scikit-learn would divide by its norm.
            for signal in np.flatnonzero(violations_at_zero > 0.0):
                one = problem.subset(slice(signal, signal + 1))
                first = codes[signal] if start is None else start.codes[[signal]].toarray()[0]
                code, *counts = self._solve_one(one, first, prepared, tol)
                codes[signal], n_steps[signal], n_products[signal] = code, counts[0], counts[1]
                n_certificate_products[signal] += counts[2]
        return Solved(codes, n_steps, {METHOD: n_products, CERTIFICATE: n_certificate_products})

    def _solve_one(
        self, problem: LassoProblem, start: np.ndarray, scaled: _ScaledAtoms, tol: float
    ) -> _SolvedOne:
        from sklearn.linear_model import Lasso

        n_certificate_products = certificate_work(problem, int(np.count_nonzero(start)))
        if measure(problem, start[np.newaxis]).duality_gap[0] <= tol * problem.energies[0]:
            return _SolvedOne(start, 0, 0, n_certificate_products)
        length = np.sqrt(2.0 * problem.energies[0])
        model = Lasso(
            alpha=scaled.penalty / length / problem.n_features,
            fit_intercept=False,
            precompute=scaled.gram,
            positive=problem.positive,
            copy_X=False,
            warm_start=True,
        )
        model.coef_ = start / (scaled.factors * length)
        sklearn_tol = 0.5 * tol
        n_sweeps = n_products = 0
        # At most: in a sweep every coefficient changes, each with a row of the Gram matrix, and the gap is
        # looked at.  A fit begins with correlations and one product; each atom that its screening drops is a
        # row more.
        n_atoms = problem.n_atoms
        work_of_sweep = n_atoms * (n_atoms + 1) + PRODUCTS_OF_GAP * n_atoms
        work_of_fit = n_atoms * (problem.n_features + 2 * n_atoms) + PRODUCTS_OF_GAP * n_atoms
        while True:
            model.set_params(tol=sklearn_tol, max_iter=self.max_iter - n_sweeps)
            model.fit(scaled.design, problem.signals[0] / length, check_input=False)
            n_sweeps += int(model.n_iter_)
            n_products += work_of_fit + int(model.n_iter_) * work_of_sweep
            code = model.coef_ * scaled.factors * length
            n_certificate_products += certificate_work(problem, int(np.count_nonzero(code)))
            gap = measure(problem, code[np.newaxis]).duality_gap[0]
            sklearn_tol *= 0.1
            # Below 1e-17 scikit-learn's gap is only rounding error.
            if gap <= tol * problem.energies[0] or n_sweeps >= self.max_iter or sklearn_tol < 1e-17:
                return _SolvedOne(code, n_sweeps, n_products, n_certificate_products)
