"""A score for the choice of a penalty: how well codes of some features predict the other features."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from solvers.methods.active_set import solve_active_set
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import IllPosedWarning

# Number of signals that are predicted together, which bounds the memory.
SIGNALS_AT_ONCE = 4096


def held_out_score(
    problem: LassoProblem,
    *,
    n_folds: int = 5,
    fold_of: ArrayLike | None = None,
    tol: float = 1e-6,
    n_jobs: int | None = None,
) -> float:
    """Return the share of the signals' energy that codes predict in features they have not seen.

    The features are divided into random folds, with a fixed seed.  For each fold F, the signals are coded
    without the features of F, and the codes predict these features::

        score = 1 - sum over F of ||s_F - a_F D_F||^2 / ||s||^2

    Norms are summed over all signals.  The codes a_F are optimal for the features outside F, at the penalty
    times the share of these features.  A perfect prediction has the score 1, codes of zero have the score 0,
    and a bad prediction has a negative score.  Unlike the objective, the score can be compared between
    penalties.

    Parameters
    ----------
    problem : LassoProblem
        Signals, penalty, and a dictionary that is an array of atoms.  With a mask or weights of features, the
        energy is that of the known features, or is weighted.
    n_folds : int, default 5
        Number of folds, at most one for each feature.
    fold_of : array_like of int, shape (n_features,), optional
        The fold of each feature, if some features belong together.
    tol : float, default 1e-6
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    n_jobs : int, optional
        See `solve`.

    Returns
    -------
    float
        The score, at most 1.  The score is 0 if there is only one feature, or if all signals are zero.

    Examples
    --------
    The best penalty for noisy signals is neither the smallest nor the largest:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> dictionary = rng.standard_normal((20, 40)) / np.sqrt(40)
    >>> codes = rng.exponential(size=(30, 20)) * (rng.random((30, 20)) < 0.2)
    >>> problem = LassoProblem(dictionary, codes @ dictionary + 0.1 * rng.standard_normal((30, 40)), 1.0)
    >>> [round(held_out_score(problem.with_penalty(penalty)), 2) for penalty in (0.001, 0.1, 1.0)]
    [0.52, 0.63, 0.14]
    """
    checks.instance_of("problem", problem, LassoProblem)
    if not problem.atoms.is_matrix:
        raise TypeError(
            "problem must have an array of atoms for held_out_score; got a ConvolutionalDictionary: for a "
            "small image pass the problem of its toarray()"
        )
    n_folds = checks.positive_integer("n_folds", n_folds)
    if fold_of is None:
        fold_of = np.random.default_rng(0).permutation(problem.n_features) % n_folds
    fold_of = np.asarray(fold_of)
    if fold_of.dtype.kind not in "iu":
        raise TypeError(f"fold_of must be an array of integers; got dtype {fold_of.dtype}")
    if fold_of.shape != (problem.n_features,):
        raise ValueError(
            f"fold_of must have shape ({problem.n_features},), a fold for each feature; got {fold_of.shape}"
        )
    energy, folds = float(problem.energies.sum()), np.unique(fold_of)
    if energy == 0.0 or len(folds) == 1:
        return 0.0
    return 1.0 - sum(_missed_energy(problem, fold_of == fold, tol, n_jobs) for fold in folds) / energy


def _missed_energy(problem: LassoProblem, hidden: np.ndarray, tol: float, n_jobs: int | None) -> float:
    """Return 1/2 ||s_F - a_F D_F||^2 in the hidden features F, summed over the signals."""
    rows, signals, weights = problem.atoms.matrix, problem.signals, problem.feature_weights
    seen = ~hidden
    codes = sparse.csr_array((problem.n_signals, problem.n_atoms))
    # If all atoms are zero in the visible features, codes are zero; a problem needs a nonzero atom.
    visible = rows[:, seen]
    if visible.max() > 0.0 or visible.min() < 0.0:
        kind = "mask" if weights is not None and weights.dtype == np.bool_ else "feature_weights"
        part = LassoProblem(
            visible,
            signals[:, seen],
            problem.penalty.rescaled(1.0, 1.0 / seen.mean()),
            positive=problem.positive,
            **{kind: None if weights is None else weights[..., seen]},
        )
        with checks.without_warnings(IllPosedWarning):  # a low score shows an unsuitable problem
            codes = solve_active_set(part, tol=tol, n_jobs=n_jobs).sparse_codes
    missed, covered = 0.0, rows[:, hidden]
    for start in range(0, problem.n_signals, SIGNALS_AT_ONCE):
        block = slice(start, start + SIGNALS_AT_ONCE)
        squares = np.square(np.asarray(signals[block][:, hidden] - codes[block] @ covered))
        if weights is not None:
            squares = squares * (weights if weights.ndim == 1 else weights[block])[..., hidden]
        missed += 0.5 * float(squares.sum())
    return missed
