"""The equations of codes on their supports, of many signals, with the Gram matrix.

With S the support of a code, G the Gram matrix and m the curvatures of the penalty, K = G_SS + diag m_S.
Each support has a Cholesky factor of its own, L L^T = K, which is made, used and forgotten.
"""

import math

import numpy as np

from snn._kernels.compiling import compiled, inner
from solvers._kernels.dots import dot, subtract

# A pivot below this share of its diagonal is that of an atom that depends on those before it.
LEAST_PIVOT = 1e-13


@inner
def _factorise(gram, curvatures, atoms, factor):
    """Write L, row by row; return whether the atoms are independent."""
    for i in range(atoms.shape[0]):
        products = gram[atoms[i]]
        row = factor[i]
        for j in range(i):
            row[j] = (products[atoms[j]] - dot(row[:j], factor[j, :j])) / factor[j, j]
        diagonal = products[atoms[i]] + curvatures[atoms[i]]
        square = diagonal - dot(row[:i], row[:i])
        if not square > LEAST_PIVOT * diagonal:
            return False
        row[i] = math.sqrt(square)
    return True


@inner
def _solve(factor, vector):
    """Solve L L^T x = vector in place."""
    size = vector.shape[0]
    for i in range(size):
        vector[i] = (vector[i] - dot(factor[i, :i], vector[:i])) / factor[i, i]
    for i in range(size - 1, -1, -1):
        vector[i] /= factor[i, i]
        subtract(vector[:i], vector[i], factor[i, :i])


@compiled
def solve_on_supports(gram, curvatures, pointers, atoms, signals, right, solution):
    """Write ``K^-1 right`` of the entries of some signals; NaN where atoms depend on each other.

    pointers, atoms : the supports, in compressed rows.
    signals : numbers of those to solve for.
    right, solution : a number for each entry.
    """
    largest = 0
    for signal in signals:
        largest = max(largest, pointers[signal + 1] - pointers[signal])
    factor = np.empty((largest, largest))
    for signal in signals:
        begin, end = pointers[signal], pointers[signal + 1]
        found = solution[begin:end]
        if _factorise(gram, curvatures, atoms[begin:end], factor):
            found[:] = right[begin:end]
            _solve(factor, found)
        else:
            found[:] = math.nan


@compiled
def measure_on_supports(
    gram, correlations, l1_weights, curvatures, norms, positive, lengths, pointers, atoms, signs, values,
    violations, excess, where,
):  # fmt: skip
    """Write by how much codes violate their equations, and how close other atoms are to their bounds.

    norms, lengths : ||d_i|| and ||s||.
    pointers, atoms, signs, values : the codes, in compressed rows.
    violations : of each entry, d_i.r - l_i sign(a_i) - m_i a_i.
    excess, where : of each signal, the largest (|d_i.r| - l_i) / (||d_i|| ||s||) outside of the support, and
        its atom; without an atom there, minus infinity.
    """
    n_atoms = l1_weights.shape[0]
    residual = np.empty(n_atoms)
    for signal in range(correlations.shape[0]):
        residual[:] = correlations[signal]
        begin, end = pointers[signal], pointers[signal + 1]
        for k in range(begin, end):
            subtract(residual, values[k], gram[atoms[k]])
        for k in range(begin, end):
            i = atoms[k]
            violations[k] = residual[i] - l1_weights[i] * signs[k] - curvatures[i] * values[k]
            residual[i] = math.nan
        excess[signal] = -math.inf
        where[signal] = 0
        for i in range(n_atoms):
            distance = (residual[i] if positive else abs(residual[i])) - l1_weights[i]
            # False for members of the support.
            if norms[i] > 0.0 and distance <= math.inf:
                if lengths[signal] > 0.0:
                    distance /= norms[i] * lengths[signal]
                if distance > excess[signal]:
                    excess[signal] = distance
                    where[signal] = i
