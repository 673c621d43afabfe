"""Derivatives of codes: products of the Jacobian with vectors, from the left and from the right.

If the atoms outside the support S of a code are strictly within their bounds, small changes keep S and the
signs, and the code solves a linear equation.  With w the weights of features, m the curvatures of the penalty
and r = s - a D::

    K a_S = D_S (w s) - lambda_S sign(a_S)            K = D_S diag(w) D_S^T + diag m_S

Differentiating the solution of this equation gives exact derivatives, and no iterations of a solver have to
be stored (implicit differentiation).  A code has no derivative if an atom is at its bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import assign, cached_property
from solvers import plan
from solvers._kernels.factor import solve_on_supports
from solvers.problem.atoms import Atoms
from solvers.problem.convolutional_dictionary import ConvolutionalAtoms
from solvers.problem.lasso import LassoProblem
from solvers.problem.matrix import MatrixAtoms
from solvers.problem.parts import seen_norms
from solvers.workers.blas import load_scipy_linalg

# An atom is at its bound if its correlation is closer to the bound than AT_BOUND ||d_i|| ||s||, or if
# ||d_i||^2 times its entry of the code is smaller than AT_BOUND ||d_i|| ||s||.
AT_BOUND = 1e-10
# The equation of a code is solved again if its error exceeds CODE_ROUNDING ||d_i|| ||s||.  An entry of a code
# is rounding if ||d_i||^2 times the entry is smaller than CODE_ROUNDING ||d_i|| ||s||.
CODE_ROUNDING = 1e-13
# Atoms count as dependent if the solution exceeds the right-hand side by this factor, both scaled by norms.
LARGEST_GROWTH = 1e11
# Maximum number of signals that an error message names.
MOST_NAMED = 5

REFUSE, LEAVE_OUT = "refuse", "leave out"
# Reasons why a code has no derivative.
DIFFERENTIABLE, AT_A_BOUND, NOT_OPTIMAL, DEPENDENT = range(4)
REASONS = {
    AT_A_BOUND: "atom {atom} of signal {signal} is at its bound, where the derivative jumps",
    NOT_OPTIMAL: "the code of signal {signal} is not optimal (atom {atom}): solve it to a smaller tol",
    DEPENDENT: "atoms in the code of signal {signal} depend on each other",
}


class _Supports:
    """The atoms of each code, and the matrices ``K = D_S diag(w) D_S^T + diag m_S`` of their equations."""

    def __init__(self, problem: LassoProblem, pointers: np.ndarray, atoms: np.ndarray) -> None:
        self._problem = problem
        self._pointers = checks.read_only(pointers.astype(np.int64))
        self.atoms = checks.read_only(atoms.astype(np.int64))
        self._sizes = sizes = np.diff(pointers)
        self.signals = np.arange(problem.n_signals).repeat(sizes)
        self._has_gram = plan.differentiates_with_gram(problem, sizes)

    def rows(self, entries: np.ndarray) -> sparse.csr_array:
        """Return values of the entries as a sparse matrix, shape (n_signals, n_atoms)."""
        shape = (self._problem.n_signals, self._problem.n_atoms)
        return sparse.csr_array((entries, self.atoms, self._pointers), shape=shape)

    def sums(self, entries: np.ndarray) -> np.ndarray:
        """Return the sums over signals of values of the entries, shape (n_atoms,)."""
        return np.bincount(self.atoms, entries, self._problem.n_atoms)

    def solve(self, entries: np.ndarray, norms: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return ``K^-1 x`` for values x of the entries; NaN for codes whose atoms depend on each other."""
        solution = np.zeros(len(entries))
        chosen = chosen & (self._sizes > 0)
        is_small = chosen & (self._sizes <= (plan.COSTS.most_in_kernel if self._has_gram else 0))
        if is_small.any():
            solve_on_supports(
                self._problem.gram, self._problem.curvatures, self._pointers, self.atoms,
                checks.read_only(np.flatnonzero(is_small)), checks.read_only(entries), solution,
            )  # fmt: skip
        for signal in np.flatnonzero(chosen & ~is_small):
            part = slice(self._pointers[signal], self._pointers[signal + 1])
            solution[part] = self._solved(signal, self.atoms[part], entries[part])
        if len(entries):
            begins = self._pointers[:-1][self._sizes > 0]
            grown = np.maximum.reduceat(np.abs(solution * norms), begins)
            is_known = grown <= LARGEST_GROWTH * np.maximum.reduceat(np.abs(entries / norms), begins)
            solution[~is_known.repeat(self._sizes[self._sizes > 0])] = np.nan
        return solution

    def _solved(self, signal: int, atoms: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``K^-1 right`` of one signal."""
        load_scipy_linalg()
        from scipy.linalg.lapack import dposv
        from scipy.sparse.linalg import splu

        problem = self._problem
        curvatures = problem.curvatures[atoms]
        if not problem.atoms.is_matrix:
            rows = problem.seen_atoms.take(atoms)
            try:
                return splu(sparse.csc_array(rows @ rows.T + sparse.diags_array(curvatures))).solve(right)
            except RuntimeError:  # the matrix is singular
                return np.full(len(right), np.nan)
        if self._has_gram:
            matrix = problem.gram[atoms[:, np.newaxis], atoms]
        else:
            rows = weighted = problem.atoms.take(atoms)
            weights = problem.feature_weights
            if weights is not None:
                weighted = rows * (weights if weights.ndim == 1 else weights[signal])
            matrix = weighted @ rows.T
        matrix[np.diag_indices(len(atoms))] += curvatures
        _, solution, status = dposv(matrix, right, lower=1, overwrite_a=1)
        return solution if status == 0 else np.full(len(right), np.nan)


class CodeDerivatives(Described):
    """Derivatives of the codes of a problem.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        The codes of the problem, with the supports and signs of optimal codes.  If the values are not
        optimal, the equations are solved again.
    """

    _shown = ("problem", "is_differentiable")
    problem: LassoProblem
    supports: _Supports

    def __init__(self, problem: LassoProblem, codes: sparse.csr_array) -> None:
        if not problem.atoms.is_matrix and problem.feature_weights is not None:
            problem.atoms.weighted(problem.feature_weights)  # raises TypeError
        assign(self, problem=problem)
        # The norms of signals; 1 for a zero signal, which has a zero code.
        self._lengths = np.sqrt(np.where(problem.energies > 0.0, 2.0 * problem.energies, 1.0))
        norms = seen_norms(problem)
        is_zero = norms == 0.0
        # Norms of atoms in the known features, one row, or a row for each signal; 1 for atoms of norm zero.
        self._seen_norms = np.where(is_zero, 1.0, norms)
        # An atom that is zero in the known features is never at its bound.
        self._bounds = np.where(is_zero, np.inf, problem.l1_weights)
        # Remove entries that are rounding.
        signals = np.arange(problem.n_signals).repeat(np.diff(codes.indptr))
        sizes = np.abs(codes.data) * norms[signals if len(norms) > 1 else 0, codes.indices]
        is_rounding = sizes <= CODE_ROUNDING * self._lengths[signals]
        if is_rounding.any():
            codes = codes.copy()
            codes.data[is_rounding] = 0.0
            codes.eliminate_zeros()
        pointers, atoms, self._entries = codes.indptr, codes.indices, codes.data
        # Zero is no bound of an atom without an l1 weight whose code may have either sign: such an atom is
        # always part of the support.
        self._has_bound = (problem.l1_weights > 0.0) | problem.positive
        if not self._has_bound.all():
            rows = codes.toarray()
            belongs = (rows != 0.0) | ~self._has_bound & (problem.atoms.squared_norms > 0.0)
            pointers = np.concatenate([[0], np.cumsum(np.count_nonzero(belongs, axis=1))])
            atoms, self._entries = np.nonzero(belongs)[1], rows[belongs]
        assign(self, supports=_Supports(problem, pointers, atoms))
        self._at = self.supports.signals, self.supports.atoms
        self._signs = np.sign(self._entries)
        row = self.supports.signals if len(norms) > 1 else 0
        self._norms = self._seen_norms[row, self.supports.atoms]
        # For each signal, the reason why its code has no derivative, and the atom concerned.
        self._reasons, self._atoms = np.zeros((2, problem.n_signals), dtype=np.int64)
        self._solve_once_more()

    @property
    def is_differentiable(self) -> np.ndarray:
        """True if a code has a derivative, shape (n_signals,)."""
        return self._reasons == DIFFERENTIABLE

    def vjp(self, upstream: ArrayLike, *, undefined: str = REFUSE) -> CodeGradients:
        """Return the gradients of a loss; see `solvers.SparseCodingResult.vjp`."""
        shape = (self.problem.n_signals, self.problem.n_atoms)
        upstream = checks.real_array("upstream", upstream, shape=shape, meaning="(n_signals, n_atoms)")
        undefined = checks.one_of("undefined", undefined, (REFUSE, LEAVE_OUT))
        adjoint = self._solved(upstream[self._at], undefined)
        return CodeGradients(self, adjoint, checks.read_only(self.is_differentiable))

    def jvp(
        self,
        *,
        signals: ArrayLike | None = None,
        dictionary: ArrayLike | None = None,
        l1: ArrayLike | None = None,
        l2: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
        undefined: str = REFUSE,
    ) -> np.ndarray:
        """Return the changes of codes; see `solvers.SparseCodingResult.jvp`."""
        problem, at = self.problem, self._at
        undefined = checks.one_of("undefined", undefined, (REFUSE, LEAVE_OUT))
        shape: tuple[int, ...] = (problem.n_signals, problem.n_features)
        # `features` collects changes that are then correlated with the atoms.
        features = np.zeros(shape)
        right = np.zeros(len(self._entries))

        if signals is not None:
            changes = checks.real_array(
                "signals", signals, shape=shape, meaning="(n_signals, n_features), as the signals"
            )
            features += self._weighted(changes)
        changed = None if dictionary is None else _changed_dictionary(problem, dictionary)
        if changed is not None:
            right += changed.correlate(self._weighted(self._residuals))[at]
            features -= self._weighted(changed.reconstruct(self._codes))
        for name, change, slope in (("l1", l1, self._signs), ("l2", l2, self._entries)):
            if change is not None:
                numbers = checks.real_array(
                    name, change, shape=(problem.n_atoms,), meaning="(n_atoms,), a change for each atom"
                )
                right -= slope * numbers[at[1]]
        if feature_weights is not None:
            weights = problem.feature_weights
            shape = shape if weights is None else weights.shape
            numbers = checks.real_array(
                "feature_weights", feature_weights, shape=shape, meaning="as the weights"
            )
            if weights is not None and numbers[weights == 0].any():
                raise ValueError(
                    "feature_weights must change by 0 where they are 0, since a signal is not kept there; "
                    f"got {np.abs(numbers[weights == 0]).max()}"
                )
            features += numbers * self._residuals
        right += problem.atoms.correlate(features)[at]
        tangents = np.zeros((problem.n_signals, problem.n_atoms))
        tangents[at] = self._solved(right, undefined)
        tangents[~self.is_differentiable] = np.nan
        return tangents

    def _weighted(self, features: np.ndarray) -> np.ndarray:
        """Return rows of features times the weights of features."""
        weights = self.problem.feature_weights
        return features if weights is None else weights * features

    def _solved(self, right: np.ndarray, undefined: str) -> np.ndarray:
        """Return ``K^-1 right``, with zeros for codes without a derivative, or refuse such codes."""
        solution = self.supports.solve(right, self._norms, self.is_differentiable)
        lost = np.unique(self.supports.signals[np.isnan(solution)])
        self._reasons[lost] = DEPENDENT
        wrong = np.flatnonzero(self._reasons)
        if undefined == REFUSE and len(wrong):
            first = wrong[0]
            why = REASONS[self._reasons[first]].format(signal=first, atom=self._atoms[first])
            named = ", ".join(map(str, wrong[:MOST_NAMED])) + (", ..." if len(wrong) > MOST_NAMED else "")
            raise ValueError(
                f"codes must have a derivative; got {len(wrong)} of {len(self._reasons)} signals without one "
                f"({named}): {why}; pass undefined={LEAVE_OUT!r} to leave such signals out"
            )
        solution[np.isnan(solution)] = 0.0
        return solution

    def _solve_once_more(self) -> None:
        """Solve the equations of inexact codes again; record which codes have no derivative."""
        problem, supports = self.problem, self.supports
        units = self._norms * self._lengths[supports.signals]
        violations, excess, atoms = self._measure()
        off = supports.signals[np.abs(violations) > CODE_ROUNDING * units]
        if len(off):
            is_off = np.zeros(problem.n_signals, dtype=np.bool_)
            is_off[off] = True
            correction = supports.solve(violations, self._norms, is_off)
            self._note(np.isnan(correction), DEPENDENT)
            self._entries = self._entries + np.nan_to_num(correction)
            _, excess, atoms = self._measure()
        has_bound = self._has_bound[supports.atoms]
        self._note(has_bound & (np.abs(self._entries) * self._norms**2 <= AT_BOUND * units), AT_A_BOUND)
        self._note(has_bound & (np.sign(self._entries) != self._signs), NOT_OPTIMAL)
        for wrong, reason in ((excess >= -AT_BOUND, AT_A_BOUND), (excess > AT_BOUND, NOT_OPTIMAL)):
            self._reasons[wrong], self._atoms[wrong] = reason, atoms[wrong]
        # The code of a zero atom without any penalty is undetermined.
        unsaid = (
            (problem.l1_weights == 0.0) & (problem.curvatures == 0.0) & (problem.atoms.squared_norms == 0.0)
        )
        if unsaid.any():
            self._reasons[:], self._atoms[:] = AT_A_BOUND, np.argmax(unsaid)

    def _measure(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Set codes and residuals; return the errors of equations, and each signal's excess with its atom."""
        # The excess of a signal is the largest value of correlation minus bound outside the support, divided
        # by the norms of the atom and the signal.
        problem, at = self.problem, self._at
        self._codes = self.supports.rows(self._entries)
        self._residuals = problem.dense_signals() - problem.atoms.reconstruct(self._codes)
        pulls = problem.atoms.correlate(self._weighted(self._residuals))
        violations = pulls[at] - problem.l1_weights[at[1]] * self._signs
        violations -= problem.curvatures[at[1]] * self._entries
        excess = problem.penalty.reach(pulls, out=pulls)
        excess -= self._bounds
        excess /= self._seen_norms
        excess[at] = -np.inf
        atoms = np.argmax(excess, axis=1)
        return violations, excess[np.arange(len(atoms)), atoms] / self._lengths, atoms

    def _note(self, wrong: np.ndarray, reason: int) -> None:
        """Record `reason` for the codes with entries that are marked in `wrong`."""
        self._reasons[self.supports.signals[wrong]] = reason
        self._atoms[self.supports.signals[wrong]] = self.supports.atoms[wrong]


@dataclass(frozen=True, eq=False, repr=False)
class CodeGradients(Described):
    """Gradients of a loss; each gradient is computed at its first use.

    Attributes
    ----------
    is_differentiable : ndarray of bool, shape (n_signals,)
        True if a code has a derivative; sums are over the signals of these codes.
    """

    _derivatives: CodeDerivatives = field(repr=False)
    # ``q = K^-1 (dL/da)_S`` for the entries of the codes; zero if a code has no derivative.
    _adjoint: np.ndarray = field(repr=False)
    is_differentiable: np.ndarray

    @cached_property
    def signals(self) -> np.ndarray:
        """``dL/ds = w (q D_S)``, shape (n_signals, n_features); NaN for codes without a derivative."""
        return self._defined(np.array(self._derivatives._weighted(self._reconstruction)))

    @cached_property
    def dictionary(self) -> np.ndarray:
        """``dL/dD_S = q (w r)^T - a_S (w (q D_S))^T``, summed over signals, of the shape of the atoms.

        For a convolutional dictionary, this is the gradient with respect to the kernels.
        """
        of = self._derivatives
        # -a, or zero if a code has no derivative.
        codes = of.supports.rows(-of._entries * self.is_differentiable[of.supports.signals])
        slopes = of._weighted(self._reconstruction)
        return checks.read_only(
            _products(of.problem.atoms, self._adjoint_rows, of._weighted(of._residuals))
            + _products(of.problem.atoms, codes, slopes)
        )

    @cached_property
    def l1(self) -> np.ndarray:
        """``dL/dlambda_i = -q_i sign(a_i)``, summed over signals, shape (n_atoms,).

        If all atoms have one penalty, the derivative with respect to this penalty is the sum of the array.
        """
        return checks.read_only(-self._derivatives.supports.sums(self._adjoint * self._derivatives._signs))

    @cached_property
    def l2(self) -> np.ndarray:
        """``dL/dm_i = -q_i a_i``, summed over signals, shape (n_atoms,)."""
        return checks.read_only(-self._derivatives.supports.sums(self._adjoint * self._derivatives._entries))

    @cached_property
    def feature_weights(self) -> np.ndarray:
        """``dL/dw_j = (q D_S)_j r_j``, of the shape of the weights; without weights (n_signals, n_features).

        The gradient is NaN for weights of zero, because a problem does not keep features of weight zero.
        """
        weights = self._derivatives.problem.feature_weights
        gradient = self._reconstruction * self._derivatives._residuals
        if weights is not None and weights.ndim == 1:
            gradient = gradient.sum(axis=0)
        else:
            self._defined(gradient)
        if weights is not None:
            gradient[weights == 0] = np.nan
        return checks.read_only(gradient)

    @property
    def _adjoint_rows(self) -> sparse.csr_array:
        return self._derivatives.supports.rows(self._adjoint)

    @cached_property
    def _reconstruction(self) -> np.ndarray:
        """q D_S, shape (n_signals, n_features)."""
        return self._derivatives.problem.atoms.reconstruct(self._adjoint_rows)

    def _defined(self, gradient: np.ndarray) -> np.ndarray:
        gradient[~self.is_differentiable] = np.nan
        return checks.read_only(gradient)


def _products(atoms: Atoms, codes: sparse.csr_array, signals: np.ndarray) -> np.ndarray:
    """Return the sum over signals of products of code and signal, of the shape of the atoms or kernels."""
    if not isinstance(atoms, ConvolutionalAtoms):
        return codes.T @ signals
    down, right = atoms.plane_strides
    total = np.zeros(atoms.kernels.shape)
    for code, features in zip(codes.toarray(), signals, strict=True):
        windows = sliding_window_view(features.reshape(atoms.plane_shape), atoms.kernel_planes.shape[1:])
        by_position = code.reshape(*atoms.grid_shape, -1)
        products = np.tensordot(by_position, windows[::down, ::right], axes=((0, 1), (0, 1)))
        total += products.reshape(total.shape)
    return total


def _changed_dictionary(problem: LassoProblem, changes: ArrayLike) -> Atoms | None:
    """Return the changes of atoms or kernels as a dictionary of changes; None if nothing changes."""
    atoms = problem.atoms
    if isinstance(atoms, ConvolutionalAtoms):
        shape, meaning = atoms.kernels.shape, "as the kernels"
        numbers = checks.real_array("dictionary", changes, shape=shape, meaning=meaning)
        return ConvolutionalAtoms(numbers, atoms.image_shape, atoms.stride) if numbers.any() else None
    numbers = checks.real_array("dictionary", changes, shape=atoms.shape, meaning="(n_atoms, n_features)")
    return MatrixAtoms(numbers) if numbers.any() else None
