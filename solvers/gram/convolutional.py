"""An active-set method for the LASSO with a convolutional dictionary.

The method serves supports of many thousands of atoms, whose Gram matrix G is sparse.  Each round has three
parts:

1.  Sweeps of coordinate descent, position by position, in the image (`solvers._kernels.sweeps`): one sweep
    over all coefficients, then several over the nonzero coefficients.  Hundreds of atoms, all over the grid,
    enter and leave the support S.
2.  A damped step to the solution y of the optimality equations on S::

        (G_SS + diag gamma_S + mu diag g_S) (y - a_S) = b_S - sign lambda_S - (G_SS + diag gamma_S) a_S

    with gamma the curvatures of the penalty and g_i = ||d_i||^2 + gamma_i.  All atoms that would change sign
    leave S together.  The step is undone if the sweeps that follow do not end below the objective at the
    origin of the step, or if the penalty term of y exceeds the objective of the zero code.  After an undone
    step, the code moves towards y only until the first atom vanishes, and the damping mu grows.  After any
    other step, mu depends on the share of the support that changed sign.
3.  If no atom changes sign, the equations are solved without damping, up to rounding errors.  If again no
    atom changes sign, and no atom outside S has a correlation with the residual above its penalty, the code
    is optimal.

The objective falls in every round, because sweeps descend.  Therefore, except for rounding, the method ends
from any start.  Steps are needed if kernels have mean zero, because slow changes of an image are then sums of
many large coefficients, for which sweeps without steps would need thousands of passes.  The equations are
solved by a Cholesky factorisation (`solvers.gram.nested_dissection`).

For a long signal and kernels of one dimension, windows are solved before the first sweep.  The positions of
the grid are cut into windows of equal length, at least twice as long as kernels overlap.  All windows have
the same Gram matrix, and are a batch for the active-set method of an array of atoms.  The signal of a window
is the residual of all coefficients outside the window.  Every second window is solved at the same time.  The
objective falls, because kernels of windows that are not neighbours do not overlap.  A window takes a fraction
of a millisecond, whereas smooth kernels, which overlap their neighbours, would need hundreds of sweeps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.active_set import VIOLATION_ROUNDING
from solvers._kernels.certificate import RowEntries
from solvers._kernels.factor import Terms
from solvers._kernels.products import GramMatrix
from solvers._kernels.sweeps import GramPart, GridProblem, KernelGrid, fill_entries, multiply, sweep
from solvers.gram.nested_dissection import Factor
from solvers.gram.working_set import codes_by_kernel, entries_at, status_of
from solvers.problem.atoms import inverse_norms
from solvers.problem.convolutional_dictionary import ConvolutionalAtoms
from solvers.problem.lasso import LassoProblem
from solvers.results.codes import METHOD, Codes, as_sparse, drive_work, joined, rows_of

# `python -m tests.benchmarks convolution` measures all constants; docs/convolution.md shows their gains.
# Largest number of rounds for one signal.  Photographs need about a dozen rounds, and nearly dependent
# kernels need about forty rounds.
MOST_ROUNDS_OF_SIGNAL = 200
# Number of sweeps in a cycle.  The first sweep is over all coefficients, the others are over the nonzero
# coefficients at positions whose correlations have changed by the share LEAST_DRIFT of the penalty.
CYCLE = 10
LEAST_DRIFT = 3e-3
# Largest number of cycles before the first step, and before each later step.
FIRST_CYCLES, CYCLES = 25, 15
# Number of passes over windows, and largest number of cycles after these passes.  Few cycles are allowed,
# because a step in one dimension is cheap.
WINDOW_PASSES = 4
FIRST_CYCLES_OF_WINDOWS, CYCLES_OF_WINDOWS = 2, 3
# Damping of steps, as a share of the diagonal.
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-8, 1.0
# Factor on the damping after a step: DAMPING_GAIN times the share of the support that changed sign, limited
# to the range from LEAST_CHANGE to MOST_CHANGE.  The factor is NO_CHANGE if no sign changed, and
# CHANGE_UNDONE after a step that was undone.
DAMPING_GAIN = 15.0
NO_CHANGE, LEAST_CHANGE, MOST_CHANGE, CHANGE_UNDONE = 0.1, 0.25, 3.0, 5.0
# Damping of equations that are solved up to rounding errors, as a share of the diagonal.  With this damping,
# atoms may be linearly dependent.  A refinement multiplies the error along an eigenvector by share / (share +
# eigenvalue).
PRECISE_DAMPING = 1e-10
# Largest number of refinements of a solution.  Each refinement gains some digits; usually two or three
# refinements are needed.
MOST_REFINEMENTS = 10
# Atoms count as linearly dependent, so that their equations have no solution, if the remaining defect exceeds
# rounding by this factor.
DEPENDENT_DEFECT = 1e3
# Length of a window, in units of the length of a kernel (both counted in positions of the grid).
OVERLAPS = 2
# Largest number of atoms of a window.  The Gram matrix of a window with this number of atoms takes 134 MB.
MOST_ATOMS = 4096
# A signal is divided into windows only if it has at least this number of windows.  For shorter signals,
# computing the Gram matrix of a window costs more than the windows gain.
FEWEST_WINDOWS = 8
NO_CORRELATIONS = np.empty((0, 0))


def optimal_codes(
    problem: LassoProblem,
    diagonal: np.ndarray,
    signals: np.ndarray,
    start: RowEntries,
    max_rounds: int | None,
) -> Codes:
    """Return the optimal codes of some signals."""
    codes = []
    for signal in signals:
        search = ActiveSetSearch(problem.subset([signal]), diagonal, *entries_at(start, signal))
        status = status_of(np.array([search.run(max_rounds or MOST_ROUNDS_OF_SIGNAL)]))
        values = as_sparse(search.code.reshape(1, -1))
        work = {METHOD: search.n_multiply_adds}
        codes.append(Codes(values, np.array([search.n_rounds]), None, work, status=status))
    return joined(codes)


def gram_part(dictionary: ConvolutionalAtoms, atoms: np.ndarray, curvatures: np.ndarray) -> GramPart:
    """Return the Gram matrix of some atoms, with their curvatures added to its diagonal."""
    stencil, (n_rows, n_columns) = dictionary.stencil, dictionary.grid_shape
    reach_rows, reach_columns = stencil.shape[1] // 2, stencil.shape[2] // 2
    first = np.searchsorted(atoms, dictionary.n_kernels * np.arange(dictionary.n_positions + 1))
    # Count the members in reach of each position, first in each row of the grid, then in all rows.
    rows, columns = np.arange(n_rows), np.arange(n_columns)
    starts = n_columns * rows[:, np.newaxis]
    in_row = first[starts + np.minimum(columns + reach_columns + 1, n_columns)]
    in_row -= first[starts + np.maximum(columns - reach_columns, 0)]
    above = np.zeros((n_rows + 1, n_columns), dtype=np.int64)
    np.cumsum(in_row, axis=0, out=above[1:])
    in_reach = above[np.minimum(rows + reach_rows + 1, n_rows)] - above[np.maximum(rows - reach_rows, 0)]
    pointers = np.zeros(len(first), dtype=np.int64)
    np.cumsum(np.diff(first) * in_reach.ravel(), out=pointers[1:])
    part = GramPart(first, n_rows, n_columns, reach_rows, reach_columns, pointers, np.empty(pointers[-1]))
    fill_entries(part, atoms % dictionary.n_kernels, stencil, curvatures)
    return part


class _Step(NamedTuple):
    """A step to a target: its origin, the target on the support, and the atoms that change sign."""

    code: np.ndarray
    image: np.ndarray
    objective: float
    support: np.ndarray
    target: np.ndarray
    crossed: np.ndarray
    solves: bool  # whether the target solves the equations


class ActiveSetSearch:
    """The method for one signal, which starts from some atoms and their currents."""

    def __init__(
        self, problem: LassoProblem, diagonal: np.ndarray, atoms: np.ndarray, currents: np.ndarray
    ) -> None:
        dictionary = problem.atoms
        assert isinstance(dictionary, ConvolutionalAtoms)
        self.problem, self._dictionary = problem, dictionary
        self.n_rounds = 0
        self.damping = FIRST_DAMPING
        by_position = (dictionary.n_positions, dictionary.n_kernels)
        self._l1_weights = problem.l1_weights.reshape(by_position)
        self._diagonal = diagonal.reshape(by_position)
        self._terms = GridProblem(self._l1_weights, self._diagonal, problem.positive.reshape(by_position))
        norms = np.sqrt(problem.atoms.squared_norms)
        self._least_drift = LEAST_DRIFT / float(np.max(norms / problem.l1_weights))
        reach = np.abs(problem.correlations[0]) * inverse_norms(problem.atoms.squared_norms)
        self._tolerance = VIOLATION_ROUNDING * reach.max() * norms
        self._noise = VIOLATION_ROUNDING * problem.energies[0]
        self._grid = _kernel_grid(dictionary)
        self.n_multiply_adds = self._grid.n_multiply_adds  # an array of one entry, to which kernels add
        self.code = np.zeros(by_position)
        # An atom of norm zero is never in the code.
        self.code.ravel()[atoms] = np.where(norms[atoms] > 0.0, currents / diagonal.ravel()[atoms], 0.0)
        self.image = self._image_left()
        if not self._objective() <= problem.energies[0]:
            self.code[:] = 0.0
            self.image = self._image_left()

    def run(self, max_rounds: int) -> bool:
        """Move to the optimum; return whether the optimum was reached."""
        if not self.code.any() and not self._is_violated():
            return True
        step, precise = None, False
        n_cycles, later_cycles = FIRST_CYCLES, CYCLES
        windows = windows_of(self.problem, self._diagonal)
        if windows is not None:
            self._descend(windows)
            n_cycles, later_cycles = FIRST_CYCLES_OF_WINDOWS, CYCLES_OF_WINDOWS
        for _ in range(max_rounds):
            self.n_rounds += 1
            self._sweep(n_cycles)
            n_cycles = later_cycles
            # Undo a step if sweeps led back to its origin, because otherwise the method would repeat the step
            # without end.
            if step is not None and not self._rise(step) < -self._noise:
                self._take_back(step)
                step, precise = None, False
                continue
            if step is not None:
                self._adapt_damping(step)
            step = self._step(precise)
            if not step.solves and step.crossed.any():
                # The atoms are linearly dependent, so that the code moves downhill until an atom vanishes.
                self._move_to_crossing(step)
                step, n_cycles = None, 0
                continue
            target = np.where(step.crossed, 0.0, step.target)
            # Refuse a target whose penalty term exceeds the objective of the zero code.  If atoms are
            # dependent, a target may be so far away that the residual would lose all its digits.
            if not np.abs(target) @ self._l1_weights.ravel()[step.support] <= self.problem.energies[0]:
                self._take_back(step)
                step, precise = None, False
                continue
            self._move(step.support, target)
            if step.crossed.any() or not step.solves or not self._rise(step) <= self._noise:
                precise = False
                continue
            self._adapt_damping(step)
            step = None
            if precise and not self._is_violated():
                return True
            precise = True
        if step is not None and not self._rise(step) <= self._noise:
            self._take_back(step)
        return False

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of the code, and their values."""
        code = self.code.ravel()
        support = np.flatnonzero(code)
        return support, code[support]

    def _descend(self, windows: Windows) -> None:
        """Solve window after window; each pass is shifted by half a window."""
        # For dependent kernels, rounding may let the objective of a window rise.  A pass that raises the
        # objective is undone.
        for k in range(WINDOW_PASSES):
            code, image, objective = self.code.copy(), self.image, self._objective()
            offset = k % 2 * (windows.n_positions // 2)
            starts = np.arange(offset, len(self.code) - windows.n_positions + 1, windows.n_positions)
            for alternate_starts in (starts[::2], starts[1::2]):
                correlations = self._correlations_with_residual().reshape(self.code.shape)
                self.n_multiply_adds += drive_work(self.problem)
                self.n_multiply_adds += windows.solve(alternate_starts, self.code, correlations)
                self.image = self._image_left()
            if not self._objective() <= objective:
                self.code, self.image = code, image
                return

    def _sweep(self, n_cycles: int) -> None:
        """Do cycles of sweeps until no atom enters or leaves the support."""
        drift = np.zeros(len(self.code))
        for _ in range(n_cycles):
            n_changes = 0
            for k in range(CYCLE):
                least_drift = self._least_drift if k > 0 else 0.0
                n_changes += sweep(self._grid, self._terms, k > 0, least_drift, self.code, self.image, drift)
            if n_changes == 0:
                break

    def _image_left(self) -> np.ndarray:
        """Return the residual, as an image."""
        self.n_multiply_adds += np.count_nonzero(self.code) * self._dictionary.features_of_atom
        image = self.problem.atoms.reconstruct(self.code.reshape(1, -1))
        return (self.problem.signals - image).reshape(self._dictionary.plane_shape)

    def _move(self, support: np.ndarray, target: np.ndarray) -> None:
        self.code.ravel()[support] = target
        self.image = self._image_left()

    def _objective(self) -> float:
        """Return the objective."""
        support, values = self.support()
        image = self.image.ravel()
        self.n_multiply_adds += len(image) + 2 * len(support)
        return (
            0.5 * (image @ image)
            + np.abs(values) @ self._l1_weights.ravel()[support]
            + 0.5 * (values**2 @ self.problem.curvatures[support])
        )

    def _rise(self, step: _Step) -> float:
        """Return the objective minus the objective at the origin of a step."""
        return self._objective() - step.objective

    def _step(self, precise: bool) -> _Step:
        """Return the step to the solution of the optimality equations on the support."""
        support, values = self.support()
        part = gram_part(self._dictionary, support, self.problem.curvatures[support])
        signed_penalty = np.sign(values) * self._l1_weights.ravel()[support]
        correlations = self._correlations_with_residual()[support]
        self.n_multiply_adds += drive_work(self.problem)
        defect = correlations - self.problem.curvatures[support] * values - signed_penalty
        diagonal = self._diagonal.ravel()[support]
        solves = True
        factor = _factor(part, diagonal, PRECISE_DAMPING if precise else self.damping)
        if precise:
            target, largest, n_products = _refined(part, factor, values, defect, self._tolerance[support])
            self.n_multiply_adds += n_products
            solves = largest <= DEPENDENT_DEFECT
        else:
            target = values + factor.solve(defect)
        self.n_multiply_adds += factor.n_multiply_adds
        crossed = np.sign(target) != np.sign(values)
        return _Step(self.code.copy(), self.image.copy(), self._objective(), support, target, crossed, solves)

    def _adapt_damping(self, step: _Step) -> None:
        """Change the damping after a successful step, by the share of its support that changed sign."""
        share = step.crossed.mean() if len(step.crossed) else 0.0
        change = np.clip(DAMPING_GAIN * share, LEAST_CHANGE if share else NO_CHANGE, MOST_CHANGE)
        self.damping = float(np.clip(change * self.damping, LEAST_DAMPING, MOST_DAMPING))

    def _take_back(self, step: _Step) -> None:
        """Return to the origin of a step, and move towards its target until the first atoms vanish."""
        # Damp the next step more.
        self.damping = min(CHANGE_UNDONE * self.damping, MOST_DAMPING)
        self.code, self.image = step.code, step.image
        self._move_to_crossing(step)

    def _move_to_crossing(self, step: _Step) -> None:
        """Move from the origin of a step towards its target until the first atoms vanish, if any do."""
        if step.crossed.any():
            values = step.code.ravel()[step.support]
            shares = values[step.crossed] / (values - step.target)[step.crossed]
            reached = values + shares.min() * (step.target - values)
            reached[np.flatnonzero(step.crossed)[shares == shares.min()]] = 0.0
            self._move(step.support, reached)

    def _correlations_with_residual(self) -> np.ndarray:
        """Return the inner products of all atoms with the residual."""
        return self.problem.atoms.correlate(self.image.reshape(1, -1))[0]

    def _is_violated(self) -> bool:
        """Return whether the correlation of an atom outside the support is above its penalty."""
        correlations = self._correlations_with_residual()
        self.n_multiply_adds += drive_work(self.problem)
        excess = self.problem.penalty.reach(correlations) - self.problem.l1_weights
        return bool(((excess > self._tolerance) & (self.code.ravel() == 0.0)).any())


def _kernel_grid(dictionary: ConvolutionalAtoms) -> KernelGrid:
    kernels = np.ascontiguousarray(dictionary.kernel_rows)
    _, height, width = dictionary.kernel_planes.shape
    stencil = dictionary.stencil
    return KernelGrid(
        *dictionary.grid_shape,
        stencil.shape[1] // 2,
        stencil.shape[2] // 2,
        *dictionary.plane_strides,
        height,
        width,
        kernels,
        np.sqrt(dictionary.squared_norms[: len(kernels)]),
        np.empty(height * width),
        np.zeros(1, dtype=np.int64),
    )


def _factor(part: GramPart, diagonal: np.ndarray, damping: float) -> Factor:
    """Return the factor; increase the damping as long as rounding makes the matrix indefinite."""
    while True:
        try:
            return Factor(part, diagonal, damping)
        except np.linalg.LinAlgError:
            damping *= 10.0


def _refined(
    part: GramPart, factor: Factor, start: np.ndarray, defect: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, float, int]:
    """Return the solution of ``G (y - start) = defect``, the largest remaining defect, and multiply-adds."""
    # Defects are in units of `tolerance`.  If there are many solutions, the result is a solution near the
    # start.  If atoms are dependent and there is no solution, the result is far away from the start, in a
    # direction in which the penalty falls and the image stays the same.
    solution = start
    largest = np.max(np.abs(defect) / tolerance, initial=0.0)
    moved, product = np.zeros((2, len(start)))
    left = defect
    n_products = 0
    for refinement in range(MOST_REFINEMENTS):
        refined = moved + factor.solve(left)
        multiply(part, refined, product)
        n_products += len(part.values)
        refined_left = defect - product
        refined_largest = np.max(np.abs(refined_left) / tolerance, initial=0.0)
        has_not_moved = refinement == 0 and largest > 1.0
        if not (refined_largest < 0.5 * largest or has_not_moved):
            break
        moved, left, largest = refined, refined_left, refined_largest
        solution = start + moved
    return solution, largest, n_products


class Windows:
    """The windows of positions of a problem's grid, with their common Gram matrix."""

    def __init__(self, window: ConvolutionalAtoms, problem: LassoProblem) -> None:
        n_atoms = len(window.squared_norms)
        rows = window.toarray()
        self.n_positions = window.n_positions
        self._atoms = GramMatrix(checks.read_only(rows @ rows.T))
        self._squared_norms = window.squared_norms
        # `solve` sets the correlations, which depend on coefficients outside of a window.
        self._terms = Terms(
            NO_CORRELATIONS,
            checks.read_only(problem.l1_weights[:n_atoms].copy()),
            checks.read_only(problem.curvatures[:n_atoms].copy()),
            inverse_norms(window.squared_norms),
            checks.read_only(problem.positive[:n_atoms].copy()),
        )

    def solve(self, starts: np.ndarray, code: np.ndarray, correlations: np.ndarray) -> int:
        """Minimise over all coefficients of some windows; return the multiply-adds."""
        # `code` and `correlations` have the shape (n_positions, n_kernels).
        n_atoms = len(self._squared_norms)
        positions = starts[:, np.newaxis] + np.arange(self.n_positions)
        old = sparse.csr_array(code[positions].reshape(len(starts), n_atoms))
        drives = correlations[positions].reshape(len(starts), n_atoms)
        drives += old @ self._atoms.gram
        start = rows_of(old)
        start = start._replace(values=start.values * self._squared_norms[start.columns])
        terms = self._terms._replace(correlations=checks.read_only(drives))
        codes = codes_by_kernel(self._atoms, terms, np.arange(len(starts)), start)
        code[positions] = codes.values.toarray().reshape(len(starts), self.n_positions, -1)
        return int(codes.work[METHOD].sum()) + old.nnz * n_atoms


def windows_of(problem: LassoProblem, diagonal: np.ndarray) -> Windows | None:
    """Return the windows of a problem; None if windows gain nothing, or if penalties vary with position."""
    dictionary = problem.atoms
    assert isinstance(dictionary, ConvolutionalAtoms)
    height, length = dictionary.kernels.shape[1:3]
    if dictionary.grid_shape[0] > 1:
        return None
    n_positions = OVERLAPS * -(-length // dictionary.stride)
    n_atoms = n_positions * dictionary.n_kernels
    is_long = dictionary.n_positions >= FEWEST_WINDOWS * n_positions
    if not is_long or n_atoms > MOST_ATOMS or 8 * n_atoms**2 > problem.memory_limit:
        return None
    for values in (problem.l1_weights, problem.positive, diagonal):
        by_position = values.reshape(diagonal.shape)
        if np.any(by_position != by_position[0]):
            return None
    shape = (height, (n_positions - 1) * dictionary.stride + length)
    return Windows(ConvolutionalAtoms(dictionary.kernels, shape, dictionary.stride), problem)
