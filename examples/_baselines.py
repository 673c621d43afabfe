"""Other methods of dictionary learning, with the start and the order of samples of `learn_dictionary`.

All methods minimise the mean over signals x of ``1/2 ||x - a D||^2 + penalty ||a||_1``, over non-negative
codes a and dictionaries D whose atoms have norm at most one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning
from tqdm import tqdm

from dictlearn.atoms import unit_norm
from dictlearn.resumable import batches_in_order, seed_of_order
from solvers import METHODS, IllPosedWarning, LassoProblem, solve

# Tolerance of the duality gap of codes; the active-set method ends well below this tolerance.
TOL = 1e-9
# Largest number of sweeps over all atoms for one code; scikit-learn warns if a code needs more sweeps.
MAX_SWEEPS = 100_000


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningCurve:
    """The course of learning: the dictionary after several numbers of samples.

    For each mark, `dictionaries` has the dictionary, `n_samples` the number of samples learned from, and
    `seconds` the time of learning, without compilation.
    """

    method: str
    n_samples: np.ndarray
    dictionaries: np.ndarray
    seconds: np.ndarray

    @property
    def dictionary(self) -> np.ndarray:
        """The dictionary at the last mark, shape (n_atoms, n_features)."""
        return self.dictionaries[-1]


def learn_by_gradient_descent(
    signals: np.ndarray,
    *,
    start: np.ndarray,
    penalty: float,
    n_samples: int,
    step: float,
    batch_size: int = 1,
    marks: Sequence[int] | None = None,
    rng: int | np.random.Generator | None = None,
    progress: bool = False,
) -> LearningCurve:
    """Learn a dictionary by plain stochastic gradient descent, with codes solved exactly.

    A batch of signals X with exact codes A first changes D, and then scales every atom d_i::

        D <- D - step A^T (A D - X)
        d_i <- max(d_i, 0) / ||max(d_i, 0)||

    Only atoms in use change, and no atom vanishes, whatever the step.  The best step is of the order of one
    over the mean energy ||x||^2 of the signals.  Samples have the order in which `learn_dictionary` takes
    them with the same `rng`.  `marks` are increasing numbers of samples; the dictionary is kept at the end of
    the batch that reaches a mark.  The mark 0 stands for the first dictionary.
    """
    dictionary = unit_norm(start)
    gram = dictionary @ dictionary.T
    _exact_codes(dictionary, signals[:1], penalty, gram)  # compiles

    def learn(batch: np.ndarray) -> np.ndarray:
        codes = _exact_codes(dictionary, signals[batch], penalty, gram)
        used = np.flatnonzero(codes.any(axis=0))
        codes = codes[:, used]
        moved = dictionary[used] - step * (codes.T @ (codes @ dictionary[used] - signals[batch]))
        np.maximum(moved, 0.0, out=moved)
        # No atom becomes zero: if a_i > 0 at an optimal code, d_i . (x - a D) = penalty, so the gradient of
        # d_i has a negative product with d_i, and some entry of d_i grows.
        dictionary[used] = unit_norm(moved)
        gram[used] = dictionary[used] @ dictionary.T
        gram[:, used] = gram[used].T
        return dictionary

    batches = batches_in_order(len(signals), n_samples, batch_size=batch_size, seed=seed_of_order(rng))
    return _curve("gradient descent", learn, batches, dictionary, n_samples, marks, progress)


def learn_with_scikit_learn(
    signals: np.ndarray,
    *,
    start: np.ndarray,
    penalty: float,
    n_samples: int,
    batch_size: int = 16,
    marks: Sequence[int] | None = None,
    rng: int | np.random.Generator | None = None,
    progress: bool = False,
    positive_atoms: bool = True,
) -> LearningCurve:
    """Learn a dictionary with scikit-learn's `MiniBatchDictionaryLearning` and non-negative codes.

    The method is the online algorithm of Mairal, Bach, Ponce and Sapiro (2009), with codes by coordinate
    descent.  scikit-learn's `alpha` is the penalty; atoms have norm one at most.  From the first batch on,
    noisy samples replace atoms that no sample has used: after a few batches little of a random start is left.
    With `positive_atoms`, atoms are non-negative too.
    """
    dictionary, seed = unit_norm(start), seed_of_order(rng)
    model = MiniBatchDictionaryLearning(
        n_components=len(dictionary),
        alpha=penalty,
        dict_init=dictionary.copy(),
        fit_algorithm="cd",
        positive_dict=positive_atoms,
        positive_code=True,
        transform_max_iter=MAX_SWEEPS,
        random_state=seed % 2**32,
    )

    def learn(batch: np.ndarray) -> np.ndarray:
        return model.partial_fit(signals[batch]).components_

    batches = batches_in_order(len(signals), n_samples, batch_size=batch_size, seed=seed)
    return _curve("scikit-learn", learn, batches, dictionary, n_samples, marks, progress)


def _exact_codes(dictionary: np.ndarray, signals: np.ndarray, penalty: float, gram: np.ndarray) -> np.ndarray:
    problem = LassoProblem(dictionary, signals, penalty, positive=True, gram=gram)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IllPosedWarning)  # a warning may concern a single batch
        return solve(problem, METHODS["active_set_from_spikes"], tol=TOL).codes


def _curve(
    method: str,
    learn: Callable[[np.ndarray], np.ndarray],
    batches: Iterator[np.ndarray],
    start: np.ndarray,
    n_samples: int,
    marks: Sequence[int] | None,
    progress: bool,
) -> LearningCurve:
    """Learn batch by batch with `learn`, and keep the dictionary that it returns at each mark."""
    wanted = [n_samples] if marks is None else list(marks)
    kept: list[tuple[int, np.ndarray, float]] = []
    n_seen, seconds, dictionary = 0, 0.0, start
    with tqdm(total=n_samples, disable=not progress, unit="sample", desc=method) as bar:
        while True:
            while len(kept) < len(wanted) and n_seen >= wanted[len(kept)]:
                kept.append((n_seen, dictionary.copy(), seconds))
            if len(kept) == len(wanted):
                break
            batch = next(batches)
            started = time.perf_counter()
            dictionary = learn(batch)
            seconds += time.perf_counter() - started
            n_seen += len(batch)
            bar.update(len(batch))
    counts, dictionaries, times = map(np.array, zip(*kept, strict=True))
    return LearningCurve(method=method, n_samples=counts, dictionaries=dictionaries, seconds=times)
