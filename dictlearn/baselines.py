"""Other methods to compare with: from the same start, samples in the same order, with exact codes.

Both minimise, over non-negative dictionaries D of atoms of norm one (at most) and codes a >= 0, the mean
over the signals x of ``1/2 ||x - a D||^2 + penalty ||a||_1``, as `learn_dictionary` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from dictlearn.atoms import checked_atoms, unit_norm
from dictlearn.resumable import batches_in_order, seed_of_order
from dictlearn.signals import checked_signals
from snn.base import checks
from snn.base.caller_warnings import without_warnings
from snn.base.drawn import Drawn
from snn.base.html import number, value_range
from solvers import LassoProblem, solve_spiking
from solvers.problem.conditioning import IllPosedWarning

# Of the duality gap of codes; the active-set method ends well below it.
TOL = 1e-9
# scikit-learn's sweeps over all atoms for one code: it warns of those that need more.
MAX_SWEEPS = 100_000


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LearningCurve(Drawn):
    """The dictionary at several marks while it is learned.

    Attributes
    ----------
    method : str
        Its name.
    n_samples : ndarray of int, shape (n_marks,)
        Samples learned from at each mark.
    dictionaries : ndarray, shape (n_marks, n_atoms, n_features)
        The dictionary at each.
    seconds : ndarray, shape (n_marks,)
        Seconds spent learning until then; compilation is not counted.

    Notes
    -----
    ``curve.plot(signals=held_out, penalty=penalty)`` draws the mean objective on held-out signals.
    """

    method: str
    n_samples: np.ndarray
    dictionaries: np.ndarray
    seconds: np.ndarray

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

    def _facts(self) -> dict[str, str]:
        n_marks, n_atoms, n_features = self.dictionaries.shape
        return {
            "method": self.method,
            "marks": f"{number(n_marks)}, at {value_range(self.n_samples)} samples",
            "atoms": number(n_atoms),
            "features": number(n_features),
            "seconds": value_range(self.seconds),
        }

    @property
    def dictionary(self) -> np.ndarray:
        """The last of the dictionaries, shape (n_atoms, n_features)."""
        return self.dictionaries[-1]


def learn_by_gradient_descent(
    signals: ArrayLike,
    *,
    start: ArrayLike,
    penalty: float,
    n_samples: int,
    step: float,
    halving: float | None = None,
    batch_size: int = 1,
    marks: Sequence[int] | None = None,
    rng: int | np.random.Generator | None = None,
    progress: bool = False,
) -> LearningCurve:
    """Learn a dictionary by plain stochastic gradient descent, with codes solved exactly.

    For each batch, with A its exact codes as rows, and then for every atom d_i::

        D <- D - eta A^T (A D - X)                eta = step / (1 + n / halving) after n samples
        d_i <- max(d_i, 0) / ||max(d_i, 0)||

    Only atoms in use change, and none vanishes, however large the step.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_features)
        Not negative.  Drawn in the same order as by `learn_dictionary` with the same `rng`.
    start : array_like, shape (n_atoms, n_features)
        Atoms to start from, not negative; they are scaled to unit norm.
    penalty : float
        lambda1, in units of the signals; positive.
    n_samples : int
        How many samples to learn from.
    step : float
        eta at the start; the best is a number of order one over the mean energy ||x||^2 of the signals.
    halving : float, optional
        Samples after which eta is half of that; by default it stays.
    batch_size : int, default 1
        Samples whose codes are of the same dictionary.
    marks : sequence of int, optional
        Numbers of samples, increasing, at which to keep the dictionary: at the end of the batch that
        reaches them.  0 is the start.  By default `n_samples`.
    rng : int or Generator, optional
        For the order of the samples.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    LearningCurve

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    """
    signals, dictionary, penalty = _checked(signals, start, penalty)
    step = checks.positive_number("step", step)
    halving = np.inf if halving is None else checks.positive_number("halving", halving)
    seed = seed_of_order(rng)

    gram = dictionary @ dictionary.T
    n_seen = 0
    _exact_codes(dictionary, signals[:1], penalty, gram)  # compiles

    def learn(batch: np.ndarray) -> np.ndarray:
        nonlocal n_seen
        codes = _exact_codes(dictionary, signals[batch], penalty, gram)
        used = np.flatnonzero(codes.any(axis=0))
        codes = codes[:, used]
        eta = step / (1.0 + n_seen / halving)
        moved = dictionary[used] - eta * (codes.T @ (codes @ dictionary[used] - signals[batch]))
        np.maximum(moved, 0.0, out=moved)
        # Not zero: at an optimal code d_i . (x - a D) = penalty where a_i > 0, so that the gradient of d_i
        # has a negative product with d_i, and some entry of d_i grows.
        dictionary[used] = unit_norm(moved)
        gram[used] = dictionary[used] @ dictionary.T
        gram[:, used] = gram[used].T
        n_seen += len(batch)
        return dictionary

    return _curve(
        "gradient descent", learn, signals, dictionary, n_samples, batch_size, marks, seed, progress
    )


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
) -> LearningCurve:
    """Learn a dictionary with scikit-learn's `MiniBatchDictionaryLearning`, all of it not negative.

    The online algorithm of Mairal and others, codes by coordinate descent.  Its `alpha` is our penalty,
    and its atoms have norm one at most.

    Parameters
    ----------
    signals, start, penalty, n_samples, marks, rng, progress
        As for `learn_by_gradient_descent`; `rng` is for the atoms below as well.
    batch_size : int, default 16
        Samples an update of the dictionary.

    Returns
    -------
    LearningCurve

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.

    Notes
    -----
    scikit-learn replaces atoms that no sample has used so far by noisy samples, from the first batch on:
    of a random start, little is left after a few batches.

    References
    ----------
    Mairal, Bach, Ponce and Sapiro (2009), Online dictionary learning for sparse coding, ICML.
    """
    from sklearn.decomposition import MiniBatchDictionaryLearning  # here: it takes a second to import

    signals, dictionary, penalty = _checked(signals, start, penalty)
    seed = seed_of_order(rng)
    model = MiniBatchDictionaryLearning(
        n_components=len(dictionary),
        alpha=penalty,
        dict_init=dictionary.copy(),
        fit_algorithm="cd",
        positive_dict=True,
        positive_code=True,
        transform_max_iter=MAX_SWEEPS,
        random_state=seed % 2**32,
    )

    def learn(batch: np.ndarray) -> np.ndarray:
        return model.partial_fit(signals[batch]).components_

    return _curve("scikit-learn", learn, signals, dictionary, n_samples, batch_size, marks, seed, progress)


def _checked(signals: ArrayLike, start: ArrayLike, penalty: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the signals, a dictionary of unit-norm atoms that may be written to, and the penalty."""
    signals = checked_signals(signals, None)
    start = checked_atoms("start", start, n_features=signals.shape[1])
    return signals, unit_norm(start), checks.positive_number("penalty", penalty)


def _exact_codes(dictionary: np.ndarray, signals: np.ndarray, penalty: float, gram: np.ndarray) -> np.ndarray:
    problem = LassoProblem(dictionary, signals, penalty, positive=True, gram=gram)
    with without_warnings(IllPosedWarning):  # of one batch nothing is said
        return solve_spiking(problem, polish=True, tol=TOL).codes


def _curve(
    method: str,
    learn: Callable[[np.ndarray], np.ndarray],
    signals: np.ndarray,
    start: np.ndarray,
    n_samples: int,
    batch_size: int,
    marks: Sequence[int] | None,
    seed: int,
    progress: bool,
) -> LearningCurve:
    """Give `learn` one batch after the other; keep at the marks the dictionary that it returns."""
    n_samples = checks.positive_integer("n_samples", n_samples)
    batch_size = checks.positive_integer("batch_size", batch_size)
    progress = checks.flag("progress", progress)
    wanted = _checked_marks(marks, n_samples)
    kept: list[tuple[int, np.ndarray, float]] = []
    n_seen, seconds, dictionary = 0, 0.0, start
    batches = batches_in_order(len(signals), n_samples, batch_size=batch_size, seed=seed)
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
    counts, dictionaries, times = zip(*kept, strict=True)
    return LearningCurve(
        method=method,
        n_samples=np.array(counts),
        dictionaries=np.array(dictionaries),
        seconds=np.array(times),
    )


def _checked_marks(marks: Sequence[int] | None, n_samples: int) -> list[int]:
    if marks is None:
        return [n_samples]
    if isinstance(marks, str) or not isinstance(marks, (Sequence, np.ndarray)):
        raise TypeError(f"marks must be a sequence of integers; got {type(marks).__name__}")
    wanted = [checks.integer(f"marks[{k}]", mark) for k, mark in enumerate(marks)]
    if not wanted:
        raise ValueError("marks must not be empty")
    if wanted[0] < 0 or wanted[-1] > n_samples or any(a >= b for a, b in pairwise(wanted)):
        raise ValueError(f"marks must increase from 0 or more to {n_samples} at most; got {wanted}")
    return wanted
