"""Lines in the cone of atoms without a penalty; dual points are exactly orthogonal to these lines.

If a combination of atoms with positive coefficients is zero, none of these atoms may have a positive
correlation with a dual point.  Therefore, all atoms of the combination have correlations of zero with a dual
point (`docs/theory.md`, section 8, *Atoms that cancel each other*).
"""

from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from solvers._kernels.precision import QUANTUM, WITHIN
from solvers.problem.lasso import LassoModel
from solvers.problem.parts import seen_features

# A remainder of an atom at norm one, or a distance of a hull from zero, counts as rounding if it is smaller
# than this number.
CONE_ROUNDING = 1e-10
# Largest denominator of coefficients, so that ratios of small integers are recovered without rounding.
LARGEST_DENOMINATOR = 10**6
# Largest number of products of rational numbers, each of which takes one to three microseconds.  If more
# products are needed, no lines are returned.
MOST_PRODUCTS = 2**18
# Largest number of passes that compute coefficients.  Each pass reduces the remainder by about the rounding
# error of float64.
MOST_PASSES = 8


class Lines(NamedTuple):
    """Atoms whose correlations with a dual point are zero, or as small as their penalties."""

    # Linearly independent atoms that span the lines.
    basis: np.ndarray
    # The other atoms, and a row for each of them: the remainder (zero, or rounding) after subtraction of a
    # combination of the basis.
    others: np.ndarray
    rests: np.ndarray
    # Correlations of the combinations of the basis (at most zero), if the correlation of each basis atom is
    # equal to its penalty.
    rooms: np.ndarray


def nearest_of_hull(units: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weights (up to a factor) of the point of a hull nearest to zero, and its rough distance."""
    from scipy.optimize import nnls

    target = np.append(np.zeros(units.shape[1]), 1.0)
    with suppress(RuntimeError):  # the error of `nnls` after too many iterations
        if len(units):
            return nnls(np.vstack([units.T, np.ones(len(units))]), target)
    return np.empty(0), np.inf


def lines_of(model: LassoModel, atoms: np.ndarray) -> Lines:
    """Return the lines in the cone of some atoms, where atoms that are not `positive` have both signs."""
    # Modified Gram-Schmidt takes the atoms on lines in the order of their penalties, from the smallest.
    # Among atoms with equal penalties, the largest remainder comes first.  If zero lies in the convex hull of
    # the other atoms, the atoms that combine to zero are on lines, too.
    exponents = np.frexp(model.seen_atoms.norms[atoms])[1]
    left = units = np.ldexp(model.seen_atoms.take(atoms), -exponents[:, np.newaxis])
    is_on, penalties = ~model.positive[atoms], model.l1_weights[atoms]
    basis: list[int] = []
    while True:
        lengths = np.linalg.norm(left, axis=1)
        left_on = np.where(is_on & (lengths > CONE_ROUNDING), penalties, np.inf)
        if left_on.min(initial=np.inf) < np.inf:
            first = int(np.argmax(np.where(left_on == left_on.min(), lengths, 0.0)))
            basis.append(first)
            unit = left[first] / lengths[first]
            left = left - np.outer(left @ unit, unit)
            continue
        is_on |= lengths <= CONE_ROUNDING
        outside = np.flatnonzero(~is_on)
        weights, distance = nearest_of_hull(left[outside] / lengths[outside, np.newaxis])
        if distance > CONE_ROUNDING:
            break
        is_on[outside[weights > CONE_ROUNDING]] = True
    is_on[basis] = False
    others = np.flatnonzero(is_on)
    coefficients = np.linalg.lstsq(units[basis].T, units[others].T, rcond=None)[0].T
    coefficients[np.abs(coefficients) < 0.5 / LARGEST_DENOMINATOR] = 0.0
    if np.count_nonzero(coefficients) * model.n_features > MOST_PRODUCTS:
        return Lines(atoms[:0], atoms[:0], units[:0], penalties[:0])
    rests, rooms = np.empty((len(others), model.n_features)), np.zeros(len(others))
    # The penalties of basis atoms that have no positive coefficient; zero for the other basis atoms.
    turned = np.where(model.positive[atoms[others], np.newaxis], coefficients, np.abs(coefficients))
    limits = np.where((turned <= 0.0).all(axis=0), penalties[basis], 0.0)
    rows = model.atoms.take(atoms)
    for i, (j, row) in enumerate(zip(others, coefficients, strict=True)):
        rest, room = np.array([Fraction(x) for x in rows[j]]), Fraction(0)
        parts = [Fraction(x).limit_denominator(LARGEST_DENOMINATOR) for x in row]
        for _ in range(MOST_PASSES):
            for k in filter(parts.__getitem__, range(len(basis))):
                part = parts[k] * Fraction(2) ** int(exponents[j] - exponents[basis[k]])
                rest -= part * np.array([Fraction(x) for x in rows[basis[k]]])
                room += part * Fraction(limits[k])
            # If numbers have very different sizes, the remainder is itself a combination of the basis.
            left = np.ldexp(seen_features(model, rest.astype(np.float64)), -exponents[j])
            row = np.linalg.lstsq(units[basis].T, left, rcond=None)[0]
            if not np.linalg.norm(left - row @ units[basis]) < CONE_ROUNDING * np.linalg.norm(left):
                break
            parts = [Fraction(x) for x in row]
        # A nonzero rational number must not round to zero.
        rests[i] = [x and (float(x) or QUANTUM) for x in rest]
        rooms[i] = min(float(room) * WITHIN + QUANTUM, 0.0)
    return Lines(atoms[basis], atoms[others], rests, rooms)
