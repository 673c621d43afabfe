"""The leanest FISTA: one signal, a given Gram matrix with its largest eigenvalue, and only the loop.

Users call `solvers.solve_fista`; spikes are measured against the loop of this module. An iteration reads only
the rows of the Gram matrix for which the code is not zero, and allocates nothing.
"""

import math

import numpy as np
from numba import njit
from scipy.sparse.linalg import LinearOperator, eigsh

# Number of iterations between two checks of the duality gap.
CHECK_EVERY = 5


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _product(gram, code, active, product):
    """Write G a. Four rows of G are added at a time: the sum is loaded and stored a quarter as often."""
    n_active = 0
    for i in range(code.shape[0]):
        if code[i] != 0.0:
            active[n_active] = i
            n_active += 1
    product[:] = 0.0
    k = 0
    while k + 4 <= n_active:
        first, second, third, fourth = active[k], active[k + 1], active[k + 2], active[k + 3]
        for i in range(product.shape[0]):
            product[i] += (
                code[first] * gram[first, i]
                + code[second] * gram[second, i]
                + code[third] * gram[third, i]
                + code[fourth] * gram[fourth, i]
            )
        k += 4
    while k < n_active:
        for i in range(product.shape[0]):
            product[i] += code[active[k]] * gram[active[k], i]
        k += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _gap(correlations, penalty, positive, energy, code, product):
    """Return the duality gap from the correlations; its error is a rounding error of the signal's energy."""
    along_signal = 2.0 * energy
    squared_residual = 2.0 * energy
    cost = 0.0
    fitted = 0.0
    largest = 0.0
    for i in range(code.shape[0]):
        rest = correlations[i] - product[i]
        along_signal -= correlations[i] * code[i]
        squared_residual -= code[i] * (correlations[i] + rest)
        cost += penalty[i] * abs(code[i])
        fitted += code[i] * rest
        largest = max(largest, (rest if positive else abs(rest)) / penalty[i])
    kappa = min(max(along_signal / squared_residual, 0.0), 1.0 / largest if largest > 0.0 else math.inf)
    return 0.5 * (1.0 - kappa) ** 2 * squared_residual + cost - kappa * fitted


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def lean_fista(gram, correlations, penalty, positive, largest_eigenvalue, energy, tol, max_iter, code):
    """Write the solution to `code`, and return the number of iterations."""
    n_atoms = code.shape[0]
    code[:] = 0.0
    before = np.zeros(n_atoms)
    product, product_before, active = np.zeros(n_atoms), np.zeros(n_atoms), np.empty(n_atoms, np.int64)
    t = 1.0
    for iteration in range(max_iter):
        looked_at = iteration % CHECK_EVERY == 0
        if looked_at and _gap(correlations, penalty, positive, energy, code, product) <= tol * energy:
            return iteration
        next_t = 0.5 + math.sqrt(0.25 + t * t)
        momentum = (t - 1.0) / next_t
        uphill = 0.0
        for i in range(n_atoms):
            # The gradient is affine, so the gradient at the extrapolated code is the extrapolated gradient.
            start = code[i] + momentum * (code[i] - before[i])
            slope = product[i] + momentum * (product[i] - product_before[i]) - correlations[i]
            step = start - slope / largest_eigenvalue
            width = penalty[i] / largest_eigenvalue
            after = max(step - width, 0.0)
            if not positive and step < -width:
                after = step + width
            uphill += (start - after) * (after - code[i])
            before[i] = code[i]
            code[i] = after
        t = 1.0 if uphill > 0.0 else next_t
        product, product_before = product_before, product
        _product(gram, code, active, product)
    return max_iter


def largest_eigenvalue(dictionary: np.ndarray) -> float:
    """Return an upper bound of the Gram matrix's largest eigenvalue, at most a thousandth above it."""
    n_features = dictionary.shape[1]
    accuracy = 1e-3
    operator = LinearOperator(
        (n_features, n_features), matvec=lambda vector: dictionary.T @ (dictionary @ vector), dtype=float
    )
    start = np.random.default_rng(0).standard_normal(n_features)
    value = eigsh(operator, k=1, tol=accuracy, v0=start, return_eigenvectors=False)[0]
    return float(value) * (1.0 + accuracy)
