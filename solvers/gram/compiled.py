"""Calls of the compiled active-set method, some milliseconds at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solvers._kernels.active_set import ENDED, N_CORRECTIONS, N_MULTIPLY_ADDS, N_REPORTED, N_ROUNDS
from solvers._kernels.batch import CompressedRows
from solvers._kernels.factor import Terms
from solvers.gram.protocol import ActiveSets

# Signals times atoms in one call of a kernel: some milliseconds, so that Ctrl-C is quick.
VALUES_PER_CALL = 100_000
# Most rounds for one signal, a multiple of the number of atoms.  It is never reached unless rounding errors
# make a support come back.
ROUNDS_PER_ATOM = 10


def codes_by_kernel(
    kernel: Callable[..., None],
    products: tuple[np.ndarray, ...],
    terms: Terms,
    signals: np.ndarray,
    start: CompressedRows,
    max_rounds: int | None,
) -> ActiveSets:
    """Return what a kernel of the active-set method writes."""
    n_atoms = len(terms.l1_weights)
    if max_rounds is None:
        max_rounds = ROUNDS_PER_ATOM * n_atoms
    codes = np.zeros((len(signals), n_atoms))
    report = np.zeros((len(signals), N_REPORTED), dtype=np.int64)
    step = max(1, VALUES_PER_CALL // n_atoms)
    for first in range(0, len(signals), step):
        part = slice(first, first + step)
        kernel(*products, *terms, signals[part], start, max_rounds, codes[part], report[part])
    return ActiveSets(
        codes,
        report[:, N_CORRECTIONS],
        report[:, N_ROUNDS],
        report[:, ENDED].astype(np.bool_),
        report[:, N_MULTIPLY_ADDS],
        np.zeros(len(signals), dtype=np.int64),
    )
