"""Inner products of atoms, from a Gram matrix, or from the atoms if signals have different weights."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, record
from solvers._kernels.dots import copy, correlate, dot, subtract, write_weighted_squares
from solvers._kernels.precision import SMALLEST_SQUARED_NORM


@partial(inner, fastmath={"contract"})
def _subtract_four(target, factors, first, second, third, fourth):
    for i in range(target.shape[0]):
        target[i] -= (
            factors[0] * first[i] + factors[1] * second[i] + factors[2] * third[i] + factors[3] * fourth[i]
        )


@inner
def _subtract_rows(rows, work, size, target):
    """Subtract the rows of the atoms in S, times their values, from `target`."""
    factors = work.residual
    for k in range(size):
        factors[k] = work.sign[k] * work.value[k]
    work.n_multiply_adds[0] += size * target.shape[0]
    whole = size - size % 4
    # Four rows are subtracted at a time, so that `target` is read and written a quarter as often.
    for k in range(0, whole, 4):
        _subtract_four(
            target,
            factors[k : k + 4],
            rows[work.atoms[work.active[k]]],
            rows[work.atoms[work.active[k + 1]]],
            rows[work.atoms[work.active[k + 2]]],
            rows[work.atoms[work.active[k + 3]]],
        )
    for k in range(whole, size):
        subtract(target, factors[k], rows[work.atoms[work.active[k]]])


@record
class GramMatrix(NamedTuple):
    """All inner products of atoms."""

    gram: np.ndarray

    def write_products(self, signal, atom, work, n_members):
        """Write the inner products of an atom with the members of W, then its product with itself."""
        row, products = self.gram[atom], work.gram[n_members]
        for k in range(n_members):
            products[k] = row[work.atoms[k]]
        products[n_members] = row[atom]

    def write_residuals(self, signal, work, size, correlations, residual):
        """Write the correlations of all atoms with the residual of x to `residual`."""
        copy(residual, correlations)
        _subtract_rows(self.gram, work, size, residual)

    def write_inverse_norms(self, signal, inverse_norms):
        """Write 1 / ||d_i|| in weighted features, if signals differ in weights; return the multiply-adds."""
        return 0


@record
class WeightedAtoms(NamedTuple):
    """Atoms for signals with different weights of features, so that each signal has its own products."""

    array: np.ndarray  # shape (n_atoms, n_features)
    signals: np.ndarray  # shape (n_signals, n_features)
    weights: np.ndarray  # shape (n_signals, n_features)
    row: np.ndarray  # work array with an entry for each feature

    def write_products(self, signal, atom, work, n_members):
        array, row, products = self.array, self.row, work.gram[n_members]
        work.n_multiply_adds[0] += (n_members + 2) * row.shape[0]
        for j in range(row.shape[0]):
            row[j] = self.weights[signal, j] * array[atom, j]
        for k in range(n_members):
            products[k] = dot(array[work.atoms[k]], row)
        products[n_members] = dot(array[atom], row)

    def write_residuals(self, signal, work, size, correlations, residual):
        array, row = self.array, self.row
        if size == 0:
            copy(residual, correlations)
            return
        copy(row, self.signals[signal])
        _subtract_rows(array, work, size, row)
        weights = self.weights[signal]
        for j in range(row.shape[0]):
            row[j] = weights[j] * row[j] if weights[j] > 0.0 else 0.0
        work.n_multiply_adds[0] += (array.shape[0] + 1) * row.shape[0]
        correlate(array, row, residual)

    def write_inverse_norms(self, signal, inverse_norms):
        write_weighted_squares(self.array, self.weights[signal], inverse_norms)
        for i in range(inverse_norms.shape[0]):
            # An atom with a tiny norm in the weighted features counts as an atom of norm zero.
            squared_norm = inverse_norms[i] if inverse_norms[i] >= SMALLEST_SQUARED_NORM else math.inf
            inverse_norms[i] = 1.0 / math.sqrt(squared_norm)
        return 2 * self.array.size
