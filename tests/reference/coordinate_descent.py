"""Coordinate descent with the Gram matrix, counted: the plain twin of scikit-learn's.

scikit-learn says how many sweeps it did, and not how many coefficients changed.  This does the same sweeps,
with the same safe screening, in the order of the atoms, and counts the multiply-adds but for
correlations of the signal with the atoms, which every method needs.
"""

from typing import NamedTuple

import numpy as np

from solvers.certificate.optimality import measure

SUMS_OF_GAP = 2  # inner products of a gap, each of one entry an atom


class Descent(NamedTuple):
    code: np.ndarray
    n_sweeps: int
    n_multiply_adds: int


def descend(problem, tol, *, max_sweeps=10_000):
    """Solve for the only signal of a problem with one penalty, to a certified gap.

    A fit ends at scikit-learn's gap; where the certificate disagrees, the next one goes on with a tenth of
    it.
    """
    length = np.sqrt(2.0 * problem.energies[0])
    drive, alpha = problem.correlations[0] / length, float(problem.l1_weights[0]) / length
    assert (problem.l1_weights == problem.l1_weights[0]).all()
    code, n_sweeps, count, own_tol = np.zeros(problem.n_atoms), 0, 0, 0.5 * tol
    while True:
        n_sweeps, count = _fit(problem, code, drive, alpha, own_tol, n_sweeps, max_sweeps, count)
        gap = measure(problem, code[np.newaxis] * length).duality_gap[0]
        own_tol *= 0.1
        if gap <= tol * problem.energies[0] or n_sweeps >= max_sweeps:
            return Descent(code * length, n_sweeps, count)


def _fit(problem, code, drive, alpha, tol, n_sweeps, max_sweeps, count):
    gram, positive = problem.gram, problem.positive
    n_atoms = len(code)
    fitted = gram @ code
    count += n_atoms * np.count_nonzero(code)
    screened = np.flatnonzero(gram.diagonal() > 0.0)
    gap, pulls, largest = _gap(code, drive, fitted, alpha, positive)
    count += SUMS_OF_GAP * n_atoms
    if 0.0 <= gap <= tol:
        return n_sweeps, count
    while True:
        # Screening: correlations with the dual point say which atoms cannot be in the code.
        radius = np.sqrt(2.0 * abs(gap)) / alpha
        distance = 1.0 - np.abs(pulls[screened]) / max(alpha, largest)
        keeps = distance / np.sqrt(gram[screened, screened]) <= radius
        for atom in screened[~keeps]:
            if code[atom] != 0.0:
                fitted -= code[atom] * gram[atom]
                count += n_atoms
                code[atom] = 0.0
        screened = screened[keeps]
        while n_sweeps < max_sweeps:
            n_sweeps += 1
            largest_change = 0.0
            for atom in screened:
                old = code[atom]
                stepped = drive[atom] - fitted[atom] + old * gram[atom, atom]
                count += 1
                size = max((stepped if positive else abs(stepped)) - alpha, 0.0)
                new = np.sign(stepped) * size / gram[atom, atom]
                if new != old:
                    fitted += (new - old) * gram[atom]
                    count += n_atoms
                    code[atom] = new
                largest_change = max(largest_change, abs(new - old))
            largest_code = np.abs(code[screened]).max(initial=0.0)
            if largest_code == 0.0 or largest_change / largest_code <= tol:
                break
        gap, pulls, largest = _gap(code, drive, fitted, alpha, positive)
        count += SUMS_OF_GAP * n_atoms
        if gap <= tol or n_sweeps >= max_sweeps:
            return n_sweeps, count


def _gap(code, drive, fitted, alpha, positive):
    """Return the gap of a code for a signal of norm one, its correlations, and the largest of them."""
    pulls = drive - fitted
    largest = pulls.max() if positive else np.abs(pulls).max()
    squared_residual = 1.0 + code @ fitted - 2.0 * code @ drive
    along = 1.0 - code @ drive
    scale = min(alpha / largest, 1.0) if largest > alpha else 1.0
    gap = 0.5 * (1.0 + scale**2) * squared_residual - scale * along
    return gap + alpha * np.abs(code).sum(), pulls, largest
