"""scikit-learn's coordinate descent with the interface of the others, which are compared with it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers.methods.method import Found, Method, Takes
from solvers.problem.lasso import LassoProblem
from solvers.results.codes import BestCodes
from solvers.results.operations import AT_MOST, METHOD
from solvers.results.result import convergence_warning

# scikit-learn is imported where it is called: it takes longer to import than all else.
# Tasks of each of several workers, so that they end together and the progress bar moves.
TASKS_PER_WORKER = 8
# Terms of the sums in scikit-learn's duality gap, for each atom.
PRODUCTS_OF_GAP = 3


class _ScaledAtoms(NamedTuple):
    """Atoms d_i * penalty / lambda_i, of norm one at most, all with one penalty."""

    design: np.ndarray
    """scikit-learn's X, shape (n_features, n_atoms), in Fortran order."""
    factors: np.ndarray
    """penalty / lambda_i: a code of the problem is factors times a code of the scaled one."""
    penalty: float
    gram: np.ndarray
    """The Gram matrix of the scaled atoms, with the quadratic penalties on its diagonal."""


def _scaled_atoms(problem: LassoProblem) -> _ScaledAtoms:
    curvatures = problem.curvatures
    dictionary = problem.weighted_model.atoms
    penalty = float((problem.l1_weights / np.sqrt(dictionary.positive_squared_norms + curvatures)).min())
    factors = penalty / problem.l1_weights
    gram = problem.gram * factors * factors[:, np.newaxis]
    gram[np.diag_indices_from(gram)] += curvatures * factors * factors
    return _ScaledAtoms((dictionary.array * factors[:, np.newaxis]).T, factors, penalty, gram)


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
class CoordinateDescent(Method):
    """Use cyclic coordinate descent, scikit-learn's `Lasso` with a precomputed Gram matrix.

    Parameters
    ----------
    max_iter : int, default 10000
        Most sweeps over all atoms for each signal.

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

    def search(self, best: BestCodes, prepared: _ScaledAtoms) -> Iterator[Found]:
        """Yield the start, or zero, of all signals, and codes of each that is not done."""
        # The loop certifies in the problem itself; scikit-learn knows no weights of features.
        problem = best.problem.ordinary()
        best.count(METHOD, best.active, 0)
        starts = sparse.csr_array((problem.n_signals, problem.n_atoms))
        if best.start is not None:
            yield best.active, best.start.values, None
            starts = best.start.values
        if len(best.active):
            yield best.active, sparse.csr_array((len(best.active), problem.n_atoms)), None
        # In another process there is no caller's.
        with self.context():
            # A zero signal is done; scikit-learn would divide by its norm.
            for signal in best.active.tolist():
                one = problem.subset(slice(signal, signal + 1))
                yield from self._search_one(best, one, signal, starts[[signal]].toarray()[0], prepared)

    def _search_one(
        self, best: BestCodes, problem: LassoProblem, signal: int, start: np.ndarray, scaled: _ScaledAtoms
    ) -> Iterator[Found]:
        from sklearn.linear_model import Lasso

        length = np.sqrt(2.0 * problem.energies[0])
        model = Lasso(
            alpha=scaled.penalty / length / problem.n_features,
            fit_intercept=False,
            precompute=scaled.gram,
            positive=problem.is_positive,
            copy_X=False,
            warm_start=True,
        )
        model.coef_ = start / (scaled.factors * length)
        sklearn_tol, signals = 0.5 * best.tol, np.array([signal])
        # At most: in a sweep every coefficient changes, each with a row of the Gram matrix, and the gap is
        # looked at.  A fit begins with correlations and one product; each atom that its screening drops is a
        # row more.
        n_atoms = problem.n_atoms
        work_of_sweep = n_atoms * (n_atoms + 1) + PRODUCTS_OF_GAP * n_atoms
        work_of_fit = n_atoms * (problem.n_features + 2 * n_atoms) + PRODUCTS_OF_GAP * n_atoms
        # Below 1e-17 scikit-learn's gap is only rounding error.
        while len(best.missed(signals)) and best.steps[signal] < self.max_iter and sklearn_tol >= 1e-17:
            model.set_params(tol=sklearn_tol, max_iter=self.max_iter - int(best.steps[signal]))
            model.fit(scaled.design, problem.signals[0] / length, check_input=False)
            best.steps[signal] += int(model.n_iter_)
            best.count(METHOD, signals, work_of_fit + int(model.n_iter_) * work_of_sweep)
            yield signals, (model.coef_ * scaled.factors * length)[np.newaxis], None
            sklearn_tol *= 0.1
