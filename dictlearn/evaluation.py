"""Evaluation of dictionaries: the objective on held-out signals, and cosines with given atoms."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from dictlearn.atoms import require_positive_norms, unit_norm
from snn.base import checks
from snn.base.describe import Described, Drawn
from snn.base.value import Value
from solvers import METHODS, LassoProblem, plan, solve
from solvers.problem.messages import IllPosedWarning, warn_if_ill_posed

# Least cosine of two atoms that count as similar, or as the same atom in two dictionaries.
FOUND = 0.9
# Largest relative duality gap of codes; the active-set method ends well below this gap.
TOL = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DictionaryScore(Described):
    """The mean objective of signals that are coded exactly in a dictionary.

    Attributes
    ----------
    objective : float
        Mean over the signals of ``1/2 ||x - a D||^2 + penalty ||a||_1``.
    worst_gap : float
        Largest duality gap of a code, as a share of ``1/2 ||x||^2``.  A small gap certifies that the codes
        are optimal.
    nonzeros : float
        Mean number of atoms in a code.
    usage : ndarray of int, shape (n_atoms,)
        For each atom, the number of signals whose codes use the atom.
    """

    objective: float
    worst_gap: float
    nonzeros: float
    usage: np.ndarray

    _shown: ClassVar = ("objective", "worst_gap", "nonzeros")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AtomMatch(Value, Drawn):
    """Cosines between given atoms and the atoms of a dictionary; equal directions have the cosine 1.

    Attributes
    ----------
    best_cosine, best_atom : ndarray, shape (n_others,)
        For each given atom, the largest cosine with any atom of the dictionary, and the index of that atom.
    assigned_cosine, assigned_atom : ndarray, shape (n_others,)
        Cosine and index of the assigned atom.  Each atom of the dictionary is assigned to at most one given
        atom, so that the sum of cosines is largest.  A given atom without a partner has the cosine 0 and the
        index -1.
    """

    best_cosine: np.ndarray
    best_atom: np.ndarray
    assigned_cosine: np.ndarray
    assigned_atom: np.ndarray


def mean_objective(
    dictionary: ArrayLike,
    signals: ArrayLike,
    *,
    penalty: float | ArrayLike,
    positive_code: bool = True,
    normalise: bool = True,
    n_jobs: int | None = None,
    progress: bool = False,
) -> DictionaryScore:
    """Return the mean of ``1/2 ||x - a D||^2 + sum_i penalty_i |a_i|`` over held-out signals x, with exact codes a.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features)
        The dictionary D; atoms that are zero are left out.
    signals : array_like, shape (n_signals, n_features)
        The held-out signals x.
    penalty : float or array_like, shape (n_atoms,)
        The penalty, positive: one number for all atoms, or one number for each atom.
    positive_code : bool, default True
        Whether codes must not be negative.  Pass False for dictionaries learned with codes of either sign,
        the default of `SpikingDictionaryLearning`.
    normalise : bool, default True
        Whether to scale the atoms to unit norm first.  Without scaling, penalties have little effect on large
        atoms.
    n_jobs : int, optional
        Number of joblib workers; the result does not depend on this number.
    progress : bool, default False
        Whether to show a progress bar.
    """  # noqa: E501
    signals = checks.real_array("signals", signals, shape=(None, None), meaning="(n_signals, n_features)")
    dictionary = checks.real_array(
        "dictionary", dictionary, shape=(None, signals.shape[1]), meaning="(n_atoms, n_features)"
    )
    penalty = checks.positive_array("penalty", penalty, len(dictionary))
    positive_code = checks.flag("positive_code", positive_code)
    checks.flag("progress", progress)
    used = dictionary.any(axis=1)
    if not used.any():
        raise ValueError("dictionary must have an atom that is not zero; got only zeros")
    atoms, penalty = dictionary[used], penalty[used]
    if checks.flag("normalise", normalise):
        atoms = unit_norm(atoms)
    gram = atoms @ atoms.T
    size = max(1, plan.COSTS.codes_held // max(atoms.shape))
    objectives, gaps, usage = [], [], np.zeros(len(dictionary), dtype=np.int64)
    for start in tqdm(range(0, len(signals), size), disable=not progress, desc="evaluating"):
        problem = LassoProblem(
            atoms, signals[start : start + size], penalty, positive=positive_code, gram=gram
        )
        if start == 0:
            warn_if_ill_posed(problem)
        with checks.without_warnings(IllPosedWarning):  # the codes of a single batch may all be zero
            result = solve(problem, METHODS["active_set_from_spikes"], tol=TOL, n_jobs=n_jobs)
        objectives.append(result.objective)
        gaps.append(result.relative_gap)
        usage[used] += np.bincount(result.sparse_codes.indices, minlength=len(atoms))
    return DictionaryScore(
        objective=float(np.concatenate(objectives).mean()),
        worst_gap=float(np.concatenate(gaps).max()),
        nonzeros=usage.sum().item() / len(signals),
        usage=usage,
    )


def match_atoms(dictionary: ArrayLike, other: ArrayLike) -> AtomMatch:
    """Return the cosines that tell whether a dictionary has the atoms of `other`, for example planted atoms.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features)
        Atoms of any norm; a zero atom has the cosine 0 with every atom.
    other : array_like, shape (n_others, n_features)
        The atoms to find; none may be zero.
    """
    other = checks.real_array("other", other, shape=(None, None), meaning="(n_others, n_features)")
    dictionary = checks.real_array(
        "dictionary", dictionary, shape=(None, other.shape[1]), meaning="(n_atoms, n_features)"
    )
    require_positive_norms("other", other)
    from scipy.optimize import linear_sum_assignment  # imported here, because scipy.optimize is large

    cosines = unit_norm(other) @ unit_norm(dictionary).T
    best = cosines.argmax(axis=1)
    assigned, assigned_cosine = np.full(len(other), -1), np.zeros(len(other))
    rows, partners = linear_sum_assignment(cosines, maximize=True)
    assigned[rows], assigned_cosine[rows] = partners, cosines[rows, partners]
    return AtomMatch(
        best_cosine=cosines[np.arange(len(other)), best],
        best_atom=best,
        assigned_cosine=assigned_cosine,
        assigned_atom=assigned,
    )
