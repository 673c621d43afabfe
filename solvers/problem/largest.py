"""Atoms with the largest correlations: products in single precision, with bounds on their errors.

A product of matrices in single precision takes half the time and half the memory of a product in double
precision.  Single precision is accurate enough to show that the correlations of most atoms are below their
penalties.  Callers compute the correlations of the few remaining atoms again, in double precision.
"""

from typing import NamedTuple

import numpy as np

from solvers._kernels.largest import list_largest
from solvers._kernels.precision import SLACK, SMALLEST, SPARE_OPERATIONS, gamma
from solvers.problem.matrix import UnitAtoms

# Number of products of vectors and atoms that are computed together.  These products take 4 MB, and stay in
# cache until they are read.
PRODUCTS_PER_BLOCK = 2**20
# The largest relative error of one operation in single precision.
SINGLE_ROUNDOFF = 2.0**-24
# An atom is strong if ||d_i|| / lambda_i exceeds STRONG times the median, for example the atom of an
# intercept with a tiny penalty.  Products with strong atoms are in double precision, unless more than
# MOST_STRONG atoms are strong.
STRONG, MOST_STRONG = 64.0, 64
# Upper bound on the error of a product that underflows in single precision.
SINGLE_QUANTUM = 2.0**-125


class Largest(NamedTuple):
    """Atoms with the largest ratios for vectors r: |d_i.r| / lambda_i, or d_i.r / lambda_i if `positive`."""

    # Number of atoms that are listed for each vector, shape (n_vectors,).
    counts: np.ndarray
    # The listed atoms, in no order, and their ratios, shape (n_vectors, capacity).  Entries after the first
    # `counts` have no meaning.
    atoms: np.ndarray
    ratios: np.ndarray
    # Upper bounds on the ratios of the atoms that are not listed, -inf if all are listed, shape (n_vectors,).
    others: np.ndarray
    # Bounds on the errors of `ratios` and of `others`, shape (n_vectors,).
    errors: np.ndarray


def largest_ratios(
    unit_atoms: UnitAtoms, factors: np.ndarray, vectors: np.ndarray, n_listed: int, *, positive: np.ndarray
) -> Largest:
    """Return the atoms with the largest ratios for vectors of shape (n_vectors, n_features)."""
    strong = np.flatnonzero(factors > STRONG * np.median(factors))
    if not 0 < len(strong) <= MOST_STRONG:
        return _largest_ratios(unit_atoms, factors, vectors, n_listed, positive=positive)
    # Strong atoms are left out here, because errors in single precision are proportional to the largest
    # factor.
    others = factors.copy()
    others[strong] = 0.0
    largest = _largest_ratios(unit_atoms, others, vectors, n_listed, positive=positive)
    return _with_strong(largest, strong, unit_atoms, factors, vectors, positive=positive)


def _with_strong(
    largest: Largest,
    strong: np.ndarray,
    unit_atoms: UnitAtoms,
    factors: np.ndarray,
    vectors: np.ndarray,
    *,
    positive: np.ndarray,
) -> Largest:
    """Return the lists of atoms with all strong atoms added, which have ratios in double precision."""
    n_features = unit_atoms.shape[1]
    correlations = vectors @ unit_atoms.in_full(strong).T
    ratios = np.where(positive[strong], correlations, np.abs(correlations)) * factors[strong]
    is_strong = np.zeros(len(factors), dtype=np.bool_)
    is_strong[strong] = True
    shape = len(vectors), largest.atoms.shape[1] + len(strong)
    atoms, values, counts = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.empty_like(largest.counts)
    for k, count in enumerate(largest.counts):
        kept = np.flatnonzero(~is_strong[largest.atoms[k, :count]])
        counts[k] = end = len(kept) + len(strong)
        atoms[k, : len(kept)], values[k, : len(kept)] = largest.atoms[k, kept], largest.ratios[k, kept]
        atoms[k, len(kept) : end], values[k, len(kept) : end] = strong, ratios[k]
    errors = gamma(n_features + 2) * factors[strong].max() * norms_of(vectors)
    return Largest(counts, atoms, values, largest.others, np.maximum(largest.errors, errors))


def _largest_ratios(
    unit_atoms: UnitAtoms, factors: np.ndarray, vectors: np.ndarray, n_listed: int, *, positive: np.ndarray
) -> Largest:
    n_atoms, n_features = unit_atoms.shape
    n_vectors, n_listed = len(vectors), min(n_listed, n_atoms)
    norms = norms_of(vectors)
    scale = np.divide(1.0, norms, out=np.zeros(n_vectors), where=norms > SMALLEST)
    units = (vectors * scale[:, np.newaxis]).astype(np.float32)
    unit = float(factors.max()) or 1.0  # the maximum is zero if all remaining atoms have norm zero
    relative, signed = (factors / unit).astype(np.float32), ~positive
    counts = np.zeros(n_vectors, dtype=np.int64)
    others = np.full(n_vectors, -np.inf, dtype=np.float32)
    capacity = min(n_listed + n_listed // 2, n_atoms)
    atoms = np.zeros((n_vectors, capacity), dtype=np.int64)
    values = np.zeros((n_vectors, capacity), dtype=np.float32)
    room = np.empty(0, dtype=np.float32)
    for first, block in unit_atoms.blocks():
        step = max(PRODUCTS_PER_BLOCK // n_vectors, 256)
        for start in range(0, len(block), step):
            part = block[start : start + step]
            if len(room) < n_vectors * len(part):
                room = np.empty(n_vectors * len(part), dtype=np.float32)
            products = room[: n_vectors * len(part)].reshape(n_vectors, len(part))
            np.matmul(units, part.T, out=products)
            begin = first + start
            chosen = slice(begin, begin + len(part))
            if signed.any():
                np.abs(products, out=products, where=signed[chosen])
            list_largest(products, relative[chosen], begin, n_listed, counts, others, atoms, values)
    units_of_ratio = unit * norms
    # Bound on the error of an inner product of two vectors of norm one that is multiplied by a factor <= 1.
    error = SLACK * SINGLE_ROUNDOFF * (n_features + SPARE_OPERATIONS) + n_features * SINGLE_QUANTUM
    return Largest(
        counts,
        atoms,
        values * units_of_ratio[:, np.newaxis],
        np.where(np.isneginf(others), -np.inf, np.maximum(others, -1.0) * units_of_ratio),
        error * units_of_ratio,
    )


def norms_of(vectors: np.ndarray) -> np.ndarray:
    """Return the norm of each vector, even if the squared norm underflows."""
    largest = np.abs(vectors).max(axis=1)
    scaled = vectors / np.where(largest > 0.0, largest, 1.0)[:, np.newaxis]
    return largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
