"""Choice of the number of atoms: dictionaries of several sizes, each learned from several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from tqdm import tqdm

from dictlearn.atoms import unit_norm
from dictlearn.evaluation import FOUND, DictionaryScore, mean_objective
from dictlearn.two_phase.fit import checked_settings, learn_dictionary
from dictlearn.two_phase.samples import Samples, samples_of
from dictlearn.two_phase.settings import LearningSettings
from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SizeComparison(Value, Drawn):
    """Dictionaries of several sizes, each learned from several seeds, and their scores on held-out signals.

    Arrays of results have a row for each size and a column for each seed.

    Attributes
    ----------
    dictionaries : ndarray of object, shape (n_sizes, n_seeds)
        The dictionaries, arrays of shape (n_atoms, n_features).
    scores : ndarray of object, shape (n_sizes, n_seeds)
        The result of `mean_objective` for each dictionary.
    positive_code : bool
        If True, codes are not negative.  If False, codes have either sign, and an atom and its negative count
        as the same atom.
    """

    dictionaries: np.ndarray
    scores: np.ndarray
    positive_code: bool

    _shown: ClassVar = ("sizes", "objective", "unused", "similar")

    @property
    def sizes(self) -> np.ndarray:
        """Numbers of atoms, shape (n_sizes,)."""
        return np.array([len(dictionary) for dictionary in self.dictionaries[:, 0]])

    @property
    def objective(self) -> np.ndarray:
        """Mean of ``1/2 ||x - a D||^2 + penalty ||a||_1`` over the held-out signals."""
        return np.vectorize(lambda score: score.objective)(self.scores)

    @property
    def unused(self) -> np.ndarray:
        """Share of the atoms that no code of a held-out signal uses."""
        return np.vectorize(lambda score: np.mean(score.usage == 0))(self.scores)

    @property
    def similar(self) -> np.ndarray:
        """Share of the atoms with a cosine of 0.9 or more with another atom of their dictionary."""
        rows = ([self._cosines(atoms, atoms) >= FOUND for atoms in row] for row in self.dictionaries)
        return np.array([[np.mean(alike.sum(axis=1) > 1) for alike in row] for row in rows])

    @property
    def agreement(self) -> np.ndarray:
        """Share of a seed's atoms that another seed has too (cosine 0.9 or more), for each pair of seeds."""
        rows = ([self._cosines(*pair) for pair in permutations(row, 2)] for row in self.dictionaries)
        return np.array([[np.mean(cosines.max(axis=1) >= FOUND) for cosines in row] for row in rows])

    def _cosines(self, atoms: np.ndarray, others: np.ndarray) -> np.ndarray:
        cosines = unit_norm(atoms) @ unit_norm(others).T
        return cosines if self.positive_code else np.abs(cosines)


def compare_sizes(
    signals: ArrayLike | Samples,
    sizes: Sequence[int],
    *,
    held_out: ArrayLike,
    penalty: float | None = None,
    settings: LearningSettings | None = None,
    n_samples: int | None = None,
    n_seeds: int = 3,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> SizeComparison:
    """Learn dictionaries of several sizes, and return their scores on held-out signals.

    More atoms give a smaller objective.  There are enough atoms when the objective hardly falls any more,
    when atoms begin to be unused or similar, or when seeds no longer agree on the atoms.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_features)
        The signals to learn from.
    sizes : sequence of int
        The numbers of atoms, in ascending order.
    held_out : array_like, shape (n_held_out, n_features)
        Other signals, on which dictionaries are scored.
    penalty, settings
        See `learn_dictionary`.  In a comparison of sizes, the penalty is one number for all atoms.
    n_samples : int, optional
        Number of samples that each dictionary learns from; see `learn_dictionary`.
    n_seeds : int, default 3
        Number of dictionaries of each size, with different random starts and orders of the samples.
    rng : int or Generator, optional
        Source of the seeds, which are the same for all sizes.
    n_jobs : int, optional
        Number of joblib workers for the dictionaries; the result does not depend on this number.
    progress : bool, default False
        Whether to show a progress bar that counts dictionaries.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> signals = np.eye(4)[rng.integers(4, size=400)]  # four true atoms, one for each signal
    >>> result = compare_sizes(signals[:300], [2, 4], held_out=signals[300:], penalty=0.1, n_seeds=2, rng=0)
    >>> result.objective.mean(axis=1).round(3)
    array([0.3  , 0.095])
    """
    settings = checked_settings(settings, penalty)
    samples = samples_of(signals, None, settings)
    if np.ndim(settings.penalty):
        raise ValueError(
            f"penalty must be one number for dictionaries of several sizes; got {settings.penalty}"
        )
    sizes = [checks.positive_integer("a number of sizes", size) for size in sizes]
    if not sizes or sorted(set(sizes)) != sizes:
        raise ValueError(f"sizes must be in ascending order without repeats, and not empty; got {sizes}")
    n_seeds, progress = checks.positive_integer("n_seeds", n_seeds), checks.flag("progress", progress)
    held_out = checks.real_array(
        "held_out", held_out, shape=(None, samples.n_inputs), meaning="(n_held_out, n_features)"
    )
    samples.warn_if_ill_scaled("signals")
    seeds = np.random.default_rng(rng).integers(2**62, size=n_seeds)
    workers = Parallel(n_jobs=checks.worker_count("n_jobs", n_jobs), return_as="generator")
    learned = workers(
        delayed(_learned)(samples, size, held_out, settings=settings, n_samples=n_samples, rng=int(seed))
        for size in sizes
        for seed in seeds
    )
    total = len(sizes) * n_seeds
    dictionaries, scores = np.empty((2, len(sizes), n_seeds), dtype=object)
    bar = tqdm(learned, total=total, desc="learning", unit="dictionary", disable=not progress)
    for k, (dictionary, score) in enumerate(bar):
        dictionaries.flat[k], scores.flat[k] = dictionary, score
    return SizeComparison(dictionaries=dictionaries, scores=scores, positive_code=settings.positive_code)


def _learned(
    samples: Samples, size: int, held_out: np.ndarray, **options: Any
) -> tuple[np.ndarray, DictionaryScore]:
    """Learn a dictionary; return the dictionary and its score on held-out signals."""
    with checks.without_warnings():  # the scores already show unused atoms and atoms that learn noise
        learner = learn_dictionary(samples, size, **options)
        penalty, positive = learner.settings.penalty, learner.settings.positive_code
        score = mean_objective(learner.dictionary, held_out, penalty=penalty, positive_code=positive)
    return learner.dictionary, score
