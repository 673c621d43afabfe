"""Online dictionary learning by SPAMS, an independent program of the inventors of the method.

SPAMS is under the GPL; the library neither contains nor needs SPAMS.  Install it by `pip install spams-bin`.
"""

import ctypes
import time

import numpy as np
import spams
from tqdm import tqdm

from dictlearn.resumable import batches_in_order, seed_of_order
from examples._baselines import LearningCurve

PENALTY_MODE = (
    2  # minimise 1/2 ||x - D a||^2 + lambda1 ||a||_1 + lambda2 / 2 ||a||^2 over codes; lambda2 is tiny
)


def learn_with_spams(
    signals,
    *,
    start,
    penalty,
    n_samples,
    batch_size=16,
    marks=None,
    rng=None,
    progress=False,
    positive_atoms=True,
    positive_code=True,
):
    """Learn like `learn_with_scikit_learn`; each mark is a run, rounded up to whole batches if possible.

    Atoms that SPAMS has learned by a mark do not depend on later samples, except that SPAMS replaces an atom
    that no sample uses by any of the samples.  A batch may include samples of two epochs.
    """
    signals = np.asarray(signals, dtype=np.float64)
    batches = batches_in_order(len(signals), n_samples, batch_size=batch_size, seed=seed_of_order(rng))
    order = np.concatenate(list(batches))
    # SPAMS always shuffles samples in the same way, so place each sample where SPAMS reads it in turn.
    shuffled = np.empty((signals.shape[1], n_samples), order="F")
    shuffled[:, spams_order(n_samples)] = signals[order].T
    columns = np.asfortranarray(np.asarray(start, dtype=np.float64).T)
    counts, dictionaries, seconds = [], [], []
    for mark in tqdm([n_samples] if marks is None else marks, desc="SPAMS", disable=not progress):
        n_batches = min(-(-mark // batch_size), n_samples // batch_size)
        started = time.perf_counter()
        learned = columns
        if n_batches:
            learned = spams.trainDL(
                shuffled,
                D=columns.copy(order="F"),
                mode=PENALTY_MODE,
                lambda1=penalty,
                posAlpha=positive_code,
                posD=positive_atoms,
                batchsize=batch_size,
                iter=n_batches,
                numThreads=1,
                verbose=False,
            )
        seconds.append(time.perf_counter() - started)
        counts.append(n_batches * batch_size)
        dictionaries.append(np.ascontiguousarray(learned.T))
    return LearningCurve(
        method="SPAMS",
        n_samples=np.array(counts),
        dictionaries=np.array(dictionaries),
        seconds=np.array(seconds),
    )


def spams_order(n_signals):
    """Return the order in which SPAMS takes signals: draws without replacement by the C library, seed 0."""
    library = ctypes.CDLL(None)
    library.random.restype = ctypes.c_long
    library.srandom(0)
    left = list(range(n_signals))
    order = []
    while left:
        place = library.random() % len(left)
        order.append(left[place])
        left[place] = left[-1]
        left.pop()
    return np.array(order)
