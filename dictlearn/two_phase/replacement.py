"""Atoms that learning gives away, one of two that are too similar, and what takes their place."""

import numpy as np

# With fewer atoms nothing is known of how much they differ by chance.
LEAST_ATOMS = 15
# The quantile that a spread is read from, and that of a normal distribution.  A few pairs that share an atom
# do not move it; the many similar pairs of photographs do.
TAIL, NORMAL_TAIL = 0.025, 1.96
# At most one pair for so many atoms is looked at together.
ATOMS_PER_PAIR = 50
# A pattern is drawn towards the samples that miss it too, this many times: an outlier alone is no atom.
ROUNDS = 3


def usual_range(values: np.ndarray) -> tuple[float, float]:
    """Return the range of as many independent normal values with this median and upper spread."""
    # The spread is the one number here that no neuron has by itself.
    median, tail = np.quantile(values, (0.5, 1.0 - TAIL))
    beyond = (tail - median) / NORMAL_TAIL * np.sqrt(2.0 * np.log(len(values)))
    return median - beyond, median + beyond


def similar_atoms(lateral: np.ndarray, n_fired: np.ndarray, *, positive_code: bool) -> list[int]:
    """Return the atom used less of each pair that is too similar, the most similar pairs first."""
    # Their cosine is the lateral weight over the thresholds.  Codes of both signs make c and -c one.
    given: list[int] = []
    if len(lateral) < LEAST_ATOMS:
        return given
    first, second = np.triu_indices(len(lateral), 1)
    thresholds = np.diagonal(lateral)
    cosines = lateral[first, second] / np.sqrt(thresholds[first] * thresholds[second])
    cosines = cosines if positive_code else np.concatenate([cosines, -cosines])
    similar = np.flatnonzero(cosines > usual_range(cosines)[1])
    for pair in similar[np.argsort(-cosines[similar])] % len(first):
        one, other = int(first[pair]), int(second[pair])
        if len(given) < max(len(lateral) // ATOMS_PER_PAIR, 1) and not {one, other} & {*given}:
            given.append(one if n_fired[one] < n_fired[other] else other)
    return given


def patterns(missing: np.ndarray, *, positive_code: bool, least: float) -> np.ndarray:
    """Return a unit pattern for each sample, what it and those like it are missing, the largest first."""
    found = missing[np.argsort(-np.linalg.norm(missing, axis=1), kind="stable")]
    for _ in range(ROUNDS):
        shares = found @ missing.T
        found = np.maximum((np.maximum(shares, 0.0) if positive_code else shares) @ missing, least)
        found = found[found.any(axis=1)]
        found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
