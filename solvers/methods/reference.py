"""The coordinate descent of scikit-learn with the interface of our methods, for comparisons."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from snn._interrupts import fork_safe_lock, undone
from snn.base import checks
from solvers.methods.method import Method
from solvers.problem.lasso import LassoProblem
from solvers.results.codes import METHOD, BestCodes, Found
from solvers.results.result import AT_MOST, convergence_warning

# scikit-learn is imported inside functions, because its import takes longer than all others.
# Multiply-adds of scikit-learn's duality gap, for each atom.
TERMS_OF_GAP = 3
# Warning filters belong to the process: without a lock, threads would restore each other's filters.
_FILTERS = fork_safe_lock()


class ScaledAtoms(NamedTuple):
    """Atoms d_i * penalty / lambda_i, of norm at most one, so that all have the same penalty."""

    # The X of scikit-learn, shape (n_features, n_atoms), in Fortran order.
    design: np.ndarray
    # penalty / lambda_i: a code of the problem is `factors` times a code of the scaled problem.
    factors: np.ndarray
    penalty: float
    # The Gram matrix of the scaled atoms, with the quadratic penalties on its diagonal.
    gram: np.ndarray


@dataclass(frozen=True)
class CoordinateDescent(Method):
    """Use the cyclic coordinate descent of scikit-learn's `Lasso`, with a precomputed Gram matrix.

    Parameters
    ----------
    max_iter : int, default 10000
        The most sweeps over all atoms for each signal.

    Notes
    -----
    `Lasso` divides the objective by n_features, so that its alpha is ``penalty / n_features``.  `Lasso` stops
    when its duality gap is at most its tol times ``||signal||^2``.  The tol of `Lasso` is therefore half of
    our `tol`.  If the certified gap is still too large, `Lasso` continues with a tol ten times smaller.

    Penalties that differ are made equal by rescaling the atoms, ``lambda_i |a_i| = |lambda_i a_i|``, and
    signals are scaled to norm one.  An elastic net is the LASSO whose Gram matrix has the quadratic penalty
    added to its diagonal.

    References
    ----------
    Friedman, Hastie and Tibshirani (2010), Journal of Statistical Software 33(1), section 2.
    """

    max_iter: int = 10_000

    name = "coordinate_descent"
    takes = ("start", "own_weights")
    steps = "sweeps"
    bound = AT_MOST
    # scikit-learn holds the GIL for much of its time.
    workers = "processes"

    def __post_init__(self) -> None:
        checks.positive_integer("max_iter", self.max_iter)

    def prepare(self, problem: LassoProblem) -> ScaledAtoms:
        """Return the scaled atoms, with their Gram matrix."""
        curvatures = problem.curvatures
        dictionary = problem.seen_atoms
        largest = np.sqrt(dictionary.positive_squared_norms + curvatures)
        penalty = float((problem.l1_weights / largest).min())
        factors = penalty / problem.l1_weights
        gram = problem.gram * factors * factors[:, np.newaxis]
        gram[np.diag_indices_from(gram)] += curvatures * factors * factors
        return ScaledAtoms((dictionary.array * factors[:, np.newaxis]).T, factors, penalty, gram)

    def search(self, best: BestCodes, prepared: ScaledAtoms) -> Iterator[Found]:
        """Yield the codes of one signal after another, except signals that the start or zero solves."""
        from sklearn.linear_model import Lasso

        best.work[METHOD][best.active] += 0
        # The zero code solves zero signals.  scikit-learn would divide by the norm of such a signal.
        best.fall_back()
        # scikit-learn has no feature weights, so that it solves an equivalent problem without weights.
        whole, scaled = best.problem.ordinary(), prepared
        # Upper bounds on multiply-adds.  A sweep uses a row of the Gram matrix for every coefficient, and
        # computes a gap.  A fit starts with the correlations, one product with the Gram matrix, and a row for
        # each dropped atom.
        n_features, n_atoms = whole.n_features, whole.n_atoms
        work_of_sweep = n_atoms * (n_atoms + 1) + TERMS_OF_GAP * n_atoms
        work_of_fit = n_atoms * (n_features + 2 * n_atoms) + TERMS_OF_GAP * n_atoms
        for signals in best.active[:, np.newaxis]:
            problem = whole.subset(signals)
            length = np.sqrt(2.0 * problem.energies[0])
            model = Lasso(
                alpha=scaled.penalty / length / n_features,
                fit_intercept=False,
                precompute=scaled.gram,
                positive=problem.penalty.is_positive,
                copy_X=False,
                warm_start=True,
            )
            if best.start is not None:
                model.coef_ = best.start.values[signals].toarray()[0] / (scaled.factors * length)
            tol, n_left = 0.5 * best.tol, self.max_iter
            # Below a tol of 1e-17, the gap that scikit-learn computes is only rounding.
            while len(best.missed(signals)) and n_left > 0 and tol >= 1e-17:
                model.set_params(tol=tol, max_iter=n_left)
                # Ignore scikit-learn's warning of convergence, because `solve` itself warns if a certified
                # gap is too large.
                filters: Any = warnings.filters
                before = partial(filters.__setitem__, slice(None), list(filters))
                with _FILTERS, undone(before, warnings.simplefilter, "ignore", convergence_warning()):
                    model.fit(scaled.design, problem.signals[0] / length, check_input=False)
                n_left -= int(model.n_iter_)
                best.steps[signals] += model.n_iter_
                best.work[METHOD][signals] += work_of_fit + int(model.n_iter_) * work_of_sweep
                yield signals, (model.coef_ * scaled.factors * length)[np.newaxis]
                tol *= 0.1
