"""FISTA, the accelerated proximal gradient method, many signals at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from tqdm import tqdm

from snn import checks
from solvers.convolution import ConvolutionalDictionary
from solvers.optimality import judge
from solvers.problem import LassoProblem
from solvers.result import SparseCodingResult, certified_result

# Iterations from one look at the duality gap to the next, and as a part of those done so far: a look costs
# less than an iteration, and at most about a tenth of the iterations is wasted.
CHECK_EVERY = 5
CHECK_PART = 10
# Codes worked on together: seven buffers of 2 MB stay in cache, and products of matrices run at speed.
BLOCK_ENTRIES = 2**18
# Entries of each code worked on together, so that those buffers stay in cache where one code is larger.
ENTRIES_PER_PASS = 2**15
# Iterations a signal is expected to take, in the choice between Gram and dictionary.
EXPECTED_ITERATIONS = 100


def solve_fista(
    problem: LassoProblem, *, tol: float = 1e-3, max_iter: int = 10_000, progress: bool = False
) -> SparseCodingResult:
    """Solve by accelerated proximal gradient steps (FISTA) with adaptive restart.

    With T the soft threshold, one-sided if the problem is `positive`, and atoms scaled to norm one::

        a_k+1 = T(y_k + (b - G y_k) / L, lambda / L)      y_k+1 = a_k+1 + (t_k - 1) / t_k+1 (a_k+1 - a_k)

    where L is the largest eigenvalue of the Gram matrix G, and t_k+1 = (1 + sqrt(1 + 4 t_k^2)) / 2 is
    set back to 1 whenever the last step went against the momentum.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    tol : float, default 1e-3
        A signal is done when ``duality_gap <= tol * 1/2 ||signal||^2``, by the judge's reckoning.
    max_iter : int, default 10000
        Iterations at most, for each signal.
    progress : bool, default False
        Whether to show a progress bar, in signals.

    Returns
    -------
    SparseCodingResult
        `n_steps` counts iterations.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.

    Warns
    -----
    ConvergenceWarning
        If a signal has not reached `tol` within `max_iter` iterations.

    Notes
    -----
    Each signal has its own momentum and leaves when it is done, so that its iterates depend on the
    other signals by rounding at most.  Products go through the Gram matrix or through the dictionary,
    whichever is cheaper.

    References
    ----------
    Beck and Teboulle (2009), SIAM Journal on Imaging Sciences 2, eqs 4.1-4.3; O'Donoghue and Candes
    (2015), Foundations of Computational Mathematics 15, section 3.2, gradient scheme.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    max_iter = checks.positive_integer("max_iter", max_iter)
    progress = checks.flag("progress", progress)

    codes = np.zeros((problem.n_signals, problem.n_atoms))
    n_steps = np.zeros(problem.n_signals, dtype=np.int64)
    step = gradient_step(problem)

    size = max(1, BLOCK_ENTRIES // problem.n_atoms)
    with tqdm(total=problem.n_signals, desc="fista", unit="signal", disable=not progress) as bar:
        for start in range(0, problem.n_signals, size):
            block = slice(start, start + size)
            _solve_block(problem.subset(block), step, tol, max_iter, codes[block], n_steps[block], bar)

    return certified_result(
        problem, codes, method="fista", tol=tol, n_steps=n_steps, limit=f"max_iter={max_iter} iterations"
    )


def _solve_block(
    problem: LassoProblem,
    step: GradientStep,
    tol: float,
    max_iter: int,
    codes: np.ndarray,
    n_steps: np.ndarray,
    bar: tqdm,
) -> None:
    """Fill `codes` and `n_steps`."""
    iterates = Iterates(problem, step)
    signals = np.arange(problem.n_signals)
    iteration = 0
    while True:
        n_steps[signals] = iteration
        done = np.flatnonzero(iterates.relative_gap() <= tol)
        if len(done):
            # A signal leaves when the judge agrees: the gap above is a difference of large numbers.
            leaving = problem.subset(signals[done])
            candidates = iterates.codes[done] / step.norms
            agreed = judge(leaving, candidates).duality_gap <= tol * leaving.energies
            done = done[agreed]
            codes[signals[done]] = candidates[agreed]
            signals = np.delete(signals, done)
            iterates.drop(done)
            bar.update(len(done))
        if iteration == max_iter or not len(signals):
            break
        n_more = min(max(CHECK_EVERY, iteration // CHECK_PART), max_iter - iteration)
        for _ in range(n_more):
            iterates.advance()
        iteration += n_more
    codes[signals] = iterates.codes / step.norms
    bar.update(len(signals))


class GradientStep(NamedTuple):
    """The gradient step a -> a + (b - G a) / L, for atoms of norm one."""

    norms: np.ndarray
    largest_eigenvalue: float
    """L."""
    operator: np.ndarray | ConvolutionalDictionary
    """1 - G / L, or the dictionary / sqrt(L)."""
    through_gram: bool

    def __call__(self, codes: np.ndarray, scaled_correlations: np.ndarray, out: np.ndarray) -> None:
        """Write the step from `codes` to `out`; `scaled_correlations` are b / L."""
        if self.through_gram:
            _sparse_product(codes, self.operator, out)
            out += scaled_correlations
            return
        if isinstance(self.operator, ConvolutionalDictionary):
            self.operator.correlate(self.operator.reconstruct(codes), out=out)
        else:
            np.matmul(_sparse_product(codes, self.operator, None), self.operator.T, out=out)
        for part in _parts(codes.shape[1]):
            np.subtract(codes[:, part], out[:, part], out=out[:, part])
            out[:, part] += scaled_correlations[:, part]


def _parts(n_atoms: int) -> list[slice]:
    """Return the slices of a code that are worked on one after the other."""
    return [slice(start, start + ENTRIES_PER_PASS) for start in range(0, n_atoms, ENTRIES_PER_PASS)]


def gradient_step(problem: LassoProblem) -> GradientStep:
    """Return the step of all iterations of a problem."""
    norms = np.sqrt(problem.squared_norms)
    largest_eigenvalue = _largest_eigenvalue(problem.dictionary, norms)
    if isinstance(problem.dictionary, ConvolutionalDictionary):
        dictionary = problem.dictionary
        kernel_scales = norms[: dictionary.n_kernels, np.newaxis, np.newaxis] * np.sqrt(largest_eigenvalue)
        scaled = ConvolutionalDictionary(
            dictionary.kernels / kernel_scales, dictionary.image_shape, dictionary.stride
        )
        return GradientStep(norms, largest_eigenvalue, scaled, through_gram=False)
    # Products for each code in an iteration, plus those that make the Gram matrix, a symmetric one.
    n_iterations = EXPECTED_ITERATIONS * problem.n_signals
    making = 0.0 if problem.has_gram else 0.5 * problem.n_atoms * problem.n_features
    through_gram = n_iterations * problem.n_atoms + making < n_iterations * 2.0 * problem.n_features
    if through_gram:
        matrix = problem.gram / (-largest_eigenvalue * norms)
        matrix /= norms[:, np.newaxis]
        matrix[np.diag_indices_from(matrix)] += 1.0
    else:
        matrix = problem.dictionary / (norms * np.sqrt(largest_eigenvalue))[:, np.newaxis]
    return GradientStep(norms, largest_eigenvalue, matrix, through_gram)


def _largest_eigenvalue(dictionary: np.ndarray | ConvolutionalDictionary, norms: np.ndarray) -> float:
    """Return L, the largest eigenvalue of the Gram matrix of the atoms at norm one, or a little more."""
    n_atoms, n_features = dictionary.shape
    convolutional = isinstance(dictionary, ConvolutionalDictionary)
    if min(n_atoms, n_features) <= 64:
        atoms = (dictionary.toarray() if convolutional else dictionary) / norms[:, np.newaxis]
        square = atoms @ atoms.T if n_atoms <= n_features else atoms.T @ atoms
        return float(np.linalg.eigvalsh(square)[-1])

    def multiply(vector: np.ndarray) -> np.ndarray:
        if convolutional:
            return dictionary.reconstruct(dictionary.correlate(vector.reshape(1, -1)) / norms**2)[0]
        return dictionary.T @ ((dictionary @ vector) / norms**2)

    # Lanczos from a vector that is the same every time; the value is off by less than `accuracy` of it.
    accuracy = 1e-3
    operator = LinearOperator((n_features, n_features), matvec=multiply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n_features)
    value = eigsh(operator, k=1, tol=accuracy, v0=start, return_eigenvectors=False)[0]
    return float(value) * (1.0 + accuracy)


def _sparse_product(codes: np.ndarray, matrix: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Return codes @ matrix; of a single sparse code, read only the rows of the matrix that it uses."""
    if len(codes) == 1:
        active = np.flatnonzero(codes[0])
        if 4 * len(active) < codes.shape[1]:
            return np.matmul(codes[:, active], matrix[active], out=out)
    return np.matmul(codes, matrix, out=out)


class Iterates:
    """Codes on their way, a row each; atoms of norm one, correlations and penalties in units of L.

    A gradient step is affine in the code, so that the step from the extrapolated code is the
    extrapolation of the steps from the last two codes: one product of matrices an iteration, which
    gives the duality gap at the code as well.
    """

    def __init__(self, problem: LassoProblem, step: GradientStep) -> None:
        scale = step.norms * step.largest_eigenvalue
        self.step = step
        self.positive = problem.positive
        self.penalty = problem.penalty / scale
        self.energies = problem.energies / step.largest_eigenvalue
        self.scaled_correlations = problem.correlations / scale
        self.stepped = self.scaled_correlations.copy()
        self.previous_stepped = self.stepped.copy()
        self.codes, self.next_codes, self.change, self.next_change = np.zeros((4, *self.stepped.shape))
        self.t = np.ones(problem.n_signals)

    def advance(self) -> None:
        """Do one iteration."""
        next_t = 0.5 + np.sqrt(0.25 + self.t * self.t)
        momentum = (self.t - 1.0) / next_t

        # Restart where (y_k - a_k+1).(a_k+1 - a_k) > 0.
        along, forward = np.zeros((2, len(self.codes)))
        for part in _parts(self.codes.shape[1]):
            stepped, extrapolated = self.stepped[:, part], self.previous_stepped[:, part]
            next_codes, next_change = self.next_codes[:, part], self.next_change[:, part]
            penalty = self.penalty[part]
            np.subtract(stepped, extrapolated, out=extrapolated)
            extrapolated *= momentum[:, np.newaxis]
            extrapolated += stepped
            if self.positive:
                np.subtract(extrapolated, penalty, out=next_codes)
                np.maximum(next_codes, 0.0, out=next_codes)
            else:
                np.clip(extrapolated, -penalty, penalty, out=next_codes)
                np.subtract(extrapolated, next_codes, out=next_codes)
            np.subtract(next_codes, self.codes[:, part], out=next_change)
            along += np.einsum("ij,ij->i", self.change[:, part], next_change)
            forward += np.einsum("ij,ij->i", next_change, next_change)
        self.t = np.where(momentum * along > forward, 1.0, next_t)

        self.codes, self.next_codes = self.next_codes, self.codes
        self.change, self.next_change = self.next_change, self.change
        self.stepped, self.previous_stepped = self.previous_stepped, self.stepped
        self.step(self.codes, self.scaled_correlations, out=self.stepped)

    def relative_gap(self) -> np.ndarray:
        """Return duality_gap / energies of each code, as `optimality.duality_gap` defines it."""
        correlations = self.stepped - self.codes
        fitted = self.codes * correlations
        along_signal = 2.0 * self.energies - np.einsum("ij,ij->i", self.scaled_correlations, self.codes)
        squared_residual = np.maximum(along_signal - fitted.sum(axis=1), 0.0)
        reach = correlations if self.positive else np.abs(correlations)
        with np.errstate(divide="ignore", invalid="ignore"):
            largest = 1.0 / np.maximum((reach / self.penalty).max(axis=1), 0.0)
            kappa = np.clip(np.nan_to_num(along_signal / squared_residual), 0.0, largest)
            gap = (
                0.5 * (1.0 - kappa) ** 2 * squared_residual
                + np.abs(self.codes) @ self.penalty
                - kappa * fitted.sum(axis=1)
            )
            return np.where(self.energies == 0.0, 0.0, gap / self.energies)

    def drop(self, rows: np.ndarray) -> None:
        """Forget some rows."""
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray) and name != "penalty":
                self.__dict__[name] = np.delete(value, rows, axis=0)
