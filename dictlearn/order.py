"""The order of samples, the same for every learner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def seed_of_order(rng: int | np.random.Generator | None) -> int:
    """Return the number that the order of samples comes from.

    Parameters
    ----------
    rng : int or Generator, optional
        As for `numpy.random.default_rng`.
    """
    return int(np.random.default_rng(rng).integers(2**62))


def batches_in_order(
    n_signals: int, n_samples: int, *, batch_size: int, seed: int, first: int = 0
) -> Iterator[np.ndarray]:
    """Yield which signals are in each batch: all of them in a new random order each epoch.

    Batches end with the epoch.  The order depends on the seed and the epoch alone, so that learning can
    continue from the `first` sample without other state.

    Parameters
    ----------
    n_signals : int
        To choose from.
    n_samples : int
        At which to end.
    batch_size : int
        Of all batches but the last of an epoch, and the very last.
    seed : int
        From `seed_of_order`.
    first : int, default 0
        Sample to continue from; the end of a batch.
    """
    place = first
    while place < n_samples:
        epoch = place // n_signals
        order = np.random.default_rng([seed, epoch]).permutation(n_signals)
        end = min(n_signals, n_samples - epoch * n_signals)
        for start in range(place - epoch * n_signals, end, batch_size):
            yield order[start : min(start + batch_size, end)]
        place = epoch * n_signals + end
