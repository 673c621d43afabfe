"""Atoms that learning gives away: the dead, and one of two that are too similar."""

import numpy as np

# With fewer pairs of atoms nothing is known of how similar they are by chance.
LEAST_PAIRS = 100
# The quantile of cosines that their spread is read from, and that of a normal distribution.  A few pairs that
# share an atom do not move it; the many similar pairs of photographs do.
TAIL, NORMAL_TAIL = 0.025, 1.96
# At most one pair for so many atoms is looked at together.
ATOMS_PER_PAIR = 50
# A pattern is drawn towards the samples that miss it too, this many times: an outlier alone is no atom.
ROUNDS = 3


def similar_atoms(lateral: np.ndarray, n_fired: np.ndarray, *, positive_code: bool) -> list[int]:
    """Return the atom used less of each pair that is too similar, the most similar pairs first."""
    # Their cosine, the lateral weight over the thresholds, is too large beyond the largest of as many
    # independent normal cosines with this spread.  Codes of both signs make c and -c one.  The spread is the
    # one number here that no neuron has by itself.
    n_atoms = len(lateral)
    given: list[int] = []
    first, second = np.triu_indices(n_atoms, 1)
    if len(first) < LEAST_PAIRS:
        return given
    thresholds = np.diagonal(lateral)
    cosines = lateral[first, second] / np.sqrt(thresholds[first] * thresholds[second])
    if not positive_code:
        cosines = np.concatenate([cosines, -cosines])
    median, tail = np.quantile(cosines, (0.5, 1.0 - TAIL))
    limit = median + (tail - median) / NORMAL_TAIL * np.sqrt(2.0 * np.log(len(cosines)))
    similar = np.flatnonzero(cosines > limit)
    for pair in similar[np.argsort(-cosines[similar])] % len(first):
        one, other = int(first[pair]), int(second[pair])
        if len(given) < max(n_atoms // ATOMS_PER_PAIR, 1) and not {one, other} & {*given}:
            given.append(one if n_fired[one] < n_fired[other] else other)
    return given


def patterns(missing: np.ndarray, *, positive_code: bool, least: float) -> np.ndarray:
    """Return a unit pattern for each sample, what it and those like it are missing, the largest first."""
    norms = np.linalg.norm(missing, axis=1)
    found = missing[np.argsort(-norms, kind="stable")]
    for _ in range(ROUNDS):
        shares = found @ missing.T
        found = np.maximum((np.maximum(shares, 0.0) if positive_code else shares) @ missing, least)
        found = found[found.any(axis=1)]
        found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
