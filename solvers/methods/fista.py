"""FISTA, the accelerated proximal gradient method, for many signals at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snn._interrupts import float_errors
from snn.base import checks
from solvers.methods.method import REFUSALS, Method, documented, solve
from solvers.plan import batches_of_iterates, iterates_with_gram
from solvers.problem.atoms import Atoms
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.matrix import sparse_product
from solvers.problem.signals import SMALLEST_WEIGHT
from solvers.results.codes import METHOD, BestCodes, Found
from solvers.results.result import SparseCodingResult, Start

# Number of iterations between two computations of the gap: the larger of CHECK_EVERY and the number of
# iterations so far divided by CHECK_PART.  In long runs, at most a tenth of the iterations come after
# convergence.
CHECK_EVERY = 5
CHECK_PART = 10
# Multiply-adds per atom, in addition to the product with the Gram matrix.  An iteration takes three
# multiply-adds, for the momentum and the two inner products of the restart.  A computation of the gap takes
# four multiply-adds, for four sums.
PRODUCTS_OF_ITERATION, PRODUCTS_OF_CHECK = 3, 4


@dataclass(frozen=True)
class Fista(Method):
    """Take accelerated proximal gradient steps (FISTA) with adaptive restart.

    With P the proximal step of the penalty and atoms scaled to norm one::

        a_k+1 = P(y_k + (b - G y_k) / L)      y_k+1 = a_k+1 + (t_k - 1) / t_k+1 (a_k+1 - a_k)

    where P(x) = argmin over a of 1/2 (a - x)^2 + h(a) / L.  For the LASSO, P is the soft threshold by
    lambda / L, one-sided if the problem is `positive`.  L is the largest eigenvalue of the Gram matrix G.
    The sequence t_k+1 = (1 + sqrt(1 + 4 t_k^2)) / 2 restarts at 1 if the last step opposed the momentum.

    Parameters
    ----------
    max_iter : int, default 10000
        The most iterations for each signal.

    Notes
    -----
    Each signal has its own momentum, and leaves its batch when the signal has converged.  So other signals
    and the number of workers change iterates only by rounding.  Products use the Gram matrix or the
    dictionary, whichever is cheaper.

    References
    ----------
    Beck and Teboulle (2009), SIAM Journal on Imaging Sciences 2, eqs 4.1-4.3; O'Donoghue and Candes
    (2015), Foundations of Computational Mathematics 15, section 3.2, gradient scheme.
    """

    max_iter: int = 10_000

    name = "fista"
    takes = tuple(REFUSALS)
    together = "alike"

    def __post_init__(self) -> None:
        checks.positive_integer("max_iter", self.max_iter)

    def prepare(self, problem: LassoProblem) -> GradientStep | None:
        """Return the gradient step of all signals; None if weights (not masks) differ between signals."""
        weights = problem.feature_weights
        has_own_step = weights is not None and weights.ndim == 2 and weights.dtype != np.bool_
        return None if has_own_step else gradient_step(problem)

    def batches(self, problem: LassoProblem, prepared: GradientStep | None, n_workers: int) -> list[slice]:
        """Return batches of signals, whose size does not depend on the number of workers."""
        if prepared is None:
            return [slice(signal, signal + 1) for signal in range(problem.n_signals)]
        return batches_of_iterates(problem)

    def search(self, best: BestCodes, prepared: GradientStep | None) -> Iterator[Found]:
        """Yield codes whose gaps, as estimated from the iterates, are small enough."""
        problem = best.problem
        step = gradient_step(problem) if prepared is None else prepared
        codes = np.zeros((problem.n_signals, problem.n_atoms))
        iterates = Iterates(problem, step, codes if best.start is None else best.start.values.toarray())
        signals, iteration = best.active, 0
        while len(signals):
            is_last = iteration == self.max_iter
            gaps = iterates.relative_gap()
            best.steps[signals] = iteration
            done = (gaps <= best.tol) | is_last
            if done.any():
                yield signals[done], iterates.codes[done] / step.norms
                leave = np.isin(signals, best.active, invert=True) | is_last
                best.work[METHOD][signals[leave]] += iterates.n_products[leave]
                iterates.drop(np.flatnonzero(leave))
                signals = signals[~leave]
            n_more = min(max(CHECK_EVERY, iteration // CHECK_PART), self.max_iter - iteration)
            for _ in range(n_more if len(signals) else 0):
                iterates.advance()
            iteration += n_more


@documented(Fista)
def solve_fista(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_iter: int = 10_000,
) -> SparseCodingResult:
    """Solve a LASSO by accelerated proximal gradient steps (FISTA) with adaptive restart."""
    return solve(problem, Fista(max_iter), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


class GradientStep(NamedTuple):
    """The gradient step a -> a + (b - G a) / L, for atoms of norm one."""

    norms: np.ndarray
    largest_eigenvalue: float  # L
    atoms: Atoms
    # The matrix 1 - G / L; None if codes are multiplied by the dictionary instead.
    matrix: np.ndarray | None = None
    # True if a step multiplies codes by the atoms, then by the feature weights, then by the atoms again.
    has_weights: bool = False


def gradient_step(problem: LassoProblem) -> GradientStep:
    """Return the gradient step, which is the same for all iterations of a problem."""
    # Weights that all signals share are multiplied into an array of atoms.  Weights that differ between
    # signals are multiplied in each product.  L is then an upper bound on the largest eigenvalue of every
    # signal.
    weights, atoms = problem.feature_weights, _atoms_of_step(problem)
    has_weights = weights is not None and atoms is problem.atoms
    norms = np.sqrt(atoms.positive_squared_norms)
    largest_eigenvalue = problem.cached(_largest_eigenvalue, any_penalty=True)
    if has_weights and weights is not None:
        largest_eigenvalue *= max(1.0 if weights.dtype == np.bool_ else float(weights.max()), SMALLEST_WEIGHT)
    if has_weights or not iterates_with_gram(problem, atoms.shape):
        return GradientStep(norms, largest_eigenvalue, atoms, has_weights=has_weights)
    matrix = problem.gram / (-largest_eigenvalue * norms)
    matrix /= norms[:, np.newaxis]
    matrix[np.diag_indices_from(matrix)] += 1.0
    return GradientStep(norms, largest_eigenvalue, atoms, matrix)


def _atoms_of_step(model: LassoModel) -> Atoms:
    """Return the atoms of a step; shared weights of features are multiplied into an array."""
    return model.atoms if model.has_own_weights or not model.atoms.is_matrix else model.seen_atoms


def _largest_eigenvalue(model: LassoModel) -> float:
    # L is at least 1, because steps are divided by L, and a mask may leave almost nothing of every atom.
    return max(_atoms_of_step(model).largest_eigenvalue(), 1.0)


class Iterates:
    """The iterates of a batch, a row per signal, for atoms of norm one and correlations divided by L."""

    # A gradient step is affine in the code.  So the gradient step from the extrapolated code is the
    # extrapolation of the gradient steps from the last two codes.  An iteration therefore needs one product
    # of matrices, and this product also gives the gap.

    def __init__(self, problem: LassoProblem, step: GradientStep, codes: np.ndarray) -> None:
        self.step = step
        self.penalty = problem.penalty.rescaled(step.norms, step.largest_eigenvalue)
        self.energies = problem.energies / step.largest_eigenvalue
        self.scaled_correlations = problem.correlations / (step.norms * step.largest_eigenvalue)
        # The feature weights in products with the atoms; rows of length zero if products have no weights.
        self.weights = np.empty((problem.n_signals, 0))
        if step.has_weights and problem.feature_weights is not None:
            self.weights = np.broadcast_to(problem.feature_weights, problem.signals.shape)
        self.codes = codes * step.norms
        self.stepped, self.next_codes, self.change, self.next_change = np.zeros((4, *codes.shape))
        self.n_active = np.zeros(len(codes), dtype=np.int64)
        self.n_steps = self.n_iterations = self.n_looks = 0
        if self.codes.any():
            self._step()
        else:
            self.stepped[:] = self.scaled_correlations
        self.previous_stepped = self.stepped.copy()
        self.t = np.ones(problem.n_signals)

    def advance(self) -> None:
        """Do one iteration."""
        next_t = 0.5 + np.sqrt(0.25 + self.t * self.t)
        momentum = (self.t - 1.0) / next_t

        # Restart the momentum if (y_k - a_k+1).(a_k+1 - a_k) > 0.
        extrapolated, next_change = self.previous_stepped, self.next_change
        np.subtract(self.stepped, extrapolated, out=extrapolated)
        extrapolated *= momentum[:, np.newaxis]
        extrapolated += self.stepped
        self.penalty.proximal_step(extrapolated, out=self.next_codes)
        np.subtract(self.next_codes, self.codes, out=next_change)
        along = np.einsum("ij,ij->i", self.change, next_change)
        forward = np.einsum("ij,ij->i", next_change, next_change)
        self.t = np.where(momentum * along > forward, 1.0, next_t)

        self.codes, self.next_codes = self.next_codes, self.codes
        self.change, self.next_change = self.next_change, self.change
        self.stepped, self.previous_stepped = self.previous_stepped, self.stepped
        self._step()
        self.n_iterations += 1

    def relative_gap(self) -> np.ndarray:
        """Return duality_gap / energies of each code, as `optimality.duality_gap` defines it."""
        self.n_looks += 1
        correlations = self.stepped - self.codes
        if self.penalty.has_zeros:  # this estimate of the gap assumes orthogonal atoms
            squared_norm = np.array(1.0 / self.step.largest_eigenvalue)
            violations = self.penalty.violation(self.codes, correlations, squared_norm)
            gap = 0.5 * np.einsum("ij,ij->i", violations, violations) / squared_norm
            return np.divide(gap, self.energies, out=np.zeros_like(gap), where=self.energies > 0.0)
        fitted = np.einsum("ij,ij->i", self.codes, correlations)
        along_signal = 2.0 * self.energies - np.einsum("ij,ij->i", self.scaled_correlations, self.codes)
        squared_residual = np.maximum(along_signal - fitted, 0.0)
        reach = self.penalty.reach(correlations)
        with float_errors(divide="ignore", invalid="ignore", over="ignore"):
            kappa = self.penalty.dual_multiple(reach, along_signal, squared_residual)
            slacks = self.penalty.slack(self.codes, correlations, kappa[:, np.newaxis]).sum(axis=1)
            gap = 0.5 * (1.0 - kappa) ** 2 * squared_residual + slacks
            return np.where(self.energies == 0.0, 0.0, gap / self.energies)

    def _step(self) -> None:
        step, out = self.step, self.stepped
        self.n_steps += 1
        self.n_active += np.count_nonzero(self.codes, axis=1 if len(self.codes) > 1 else None)
        if step.matrix is not None:
            sparse_product(self.codes, step.matrix, out)
        else:
            # Scale the atoms to the norm 1 / sqrt(L).
            factors, scratch = 1.0 / (step.norms * np.sqrt(step.largest_eigenvalue)), self.next_codes
            np.multiply(self.codes, factors, out=scratch)
            step.atoms.normal_product(scratch, out=out, weights=self.weights if step.has_weights else None)
            out *= -factors
            out += self.codes
        out += self.scaled_correlations

    @property
    def n_products(self) -> np.ndarray:
        """The multiply-adds of each signal so far."""
        n_sums = PRODUCTS_OF_ITERATION * self.n_iterations + PRODUCTS_OF_CHECK * self.n_looks
        n_atoms = self.codes.shape[1]
        if self.step.matrix is not None:
            return (self.n_active + n_sums) * n_atoms
        return (self.n_active + self.n_steps * n_atoms) * self.step.atoms.features_of_atom + n_sums * n_atoms

    def drop(self, rows: np.ndarray) -> None:
        """Remove the rows of some signals."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):  # the array has a row or a number for each signal
                setattr(self, name, np.delete(value, rows, axis=0))
