"""Derivatives of codes: products with the Jacobian, from either side.

Where the atoms outside of the support S of a code are strictly within their bounds, S and the signs stay for
small changes, and the code solves a linear equation.  With w the weights of features, m the curvatures of the
penalty and r = s - a D::

    K a_S = D_S (w s) - lambda_S sign(a_S)            K = D_S diag(w) D_S^T + diag m_S

Its derivative is exact, and needs no iteration of a solver to be kept (implicit differentiation).  Elsewhere,
where an atom is at its bound, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described
from snn.base.locks import cached_property
from solvers.derivatives.supports import Supports
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.dictionary import Dictionary
from solvers.problem.lasso import LassoProblem, seen_norms
from solvers.problem.matrix import MatrixDictionary

# In units of ||d_i|| ||s||: how close to its bound a correlation, or an entry of a code times ||d_i||^2, is
# taken to be there.
AT_BOUND = 1e-10
# In the same units: a code is solved for once more where its equation is off by more, and smaller entries are
# rounding.
ROUNDING = 1e-13
# Signals that a message names.
MOST_NAMED = 5

REFUSE, LEAVE_OUT = "refuse", "leave out"
# Why a code has no derivative.
DIFFERENTIABLE, AT_A_BOUND, NOT_OPTIMAL, DEPENDENT = range(4)
REASONS = {
    AT_A_BOUND: "atom {atom} of signal {signal} is at its bound, where the derivative jumps",
    NOT_OPTIMAL: "the code of signal {signal} is not optimal (atom {atom}): solve it to a smaller tol",
    DEPENDENT: "atoms in the code of signal {signal} depend on each other",
}


class CodeDerivatives(Described):
    """Derivatives of the codes of a problem.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        Its codes.  Their supports and signs must be those of optimal codes; numbers are solved for once more
        where they are not.
    """

    _shown = ("problem", "is_differentiable")

    def __init__(self, problem: LassoProblem, codes: sparse.csr_array) -> None:
        if not problem.atoms.is_matrix and problem.feature_weights is not None:
            problem.atoms.weighted(problem.feature_weights)  # which refuses them
        self.problem = problem
        self._lengths = np.sqrt(2.0 * problem.energies)
        norms = seen_norms(problem)
        is_zero = norms == 0.0
        # As each signal sees the atoms, a row for all or for each; 1 for atoms of norm zero.
        self._seen_norms = np.where(is_zero, 1.0, norms)
        # An atom that is not seen is never at its bound.
        self._bounds = np.where(is_zero, np.inf, problem.l1_weights)
        # Entries of rounding are none.
        signal = np.arange(problem.n_signals).repeat(np.diff(codes.indptr))
        sizes = np.abs(codes.data) * norms[signal if len(norms) > 1 else 0, codes.indices]
        is_rounding = sizes <= ROUNDING * self._lengths[signal]
        if is_rounding.any():
            codes = codes.copy()
            codes.data[is_rounding] = 0.0
            codes.eliminate_zeros()
        pointers, atoms, self._entries = codes.indptr, codes.indices, codes.data
        # Without a penalty zero is no bound.
        self._has_bound = (problem.l1_weights > 0.0) | problem.positive
        if not self._has_bound.all():
            rows = codes.toarray()
            belongs = (rows != 0.0) | ~self._has_bound & (problem.squared_norms > 0.0)
            pointers = np.concatenate([[0], np.cumsum(np.count_nonzero(belongs, axis=1))])
            atoms, self._entries = np.nonzero(belongs)[1], rows[belongs]
        self.supports = Supports(problem, pointers, atoms)
        self._signs = np.sign(self._entries)
        weights = problem.feature_weights
        self._weights = None if weights is None else weights.astype(np.float64, copy=False)
        row = self.supports.signals if len(norms) > 1 else 0
        self._norms = self._seen_norms[row, self.supports.atoms]
        self._reasons = np.zeros(problem.n_signals, dtype=np.int64)
        self._atoms = np.zeros(problem.n_signals, dtype=np.int64)
        self._solve_once_more()

    @property
    def is_differentiable(self) -> np.ndarray:
        """True where a code has a derivative, shape (n_signals,)."""
        return self._reasons == DIFFERENTIABLE

    def vjp(self, upstream: ArrayLike, *, undefined: str = REFUSE) -> CodeGradients:
        """Return the gradients of a loss: `solvers.SparseCodingResult.vjp`."""
        problem, supports = self.problem, self.supports
        shape = (problem.n_signals, problem.n_atoms)
        upstream = checks.real_array("upstream", upstream, shape=shape, meaning="(n_signals, n_atoms)")
        undefined = checks.one_of("undefined", undefined, (REFUSE, LEAVE_OUT))
        adjoint = self._solved(upstream[supports.signals, supports.atoms], undefined)
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
        """Return the changes of codes: `solvers.SparseCodingResult.jvp`."""
        problem, supports = self.problem, self.supports
        undefined = checks.one_of("undefined", undefined, (REFUSE, LEAVE_OUT))
        shape = problem.n_signals, problem.n_features
        right = np.zeros(len(supports.atoms))

        def correlated(changes: np.ndarray) -> np.ndarray:
            return problem.atoms.correlate(changes)[supports.signals, supports.atoms]

        if signals is not None:
            changes = checks.real_array(
                "signals", signals, shape=shape, meaning="(n_signals, n_features), as the signals"
            )
            right += correlated(self.weighted(changes))
        changed = None if dictionary is None else _changed_dictionary(problem, dictionary)
        if changed is not None:
            right += changed.correlate(self.weighted(self.residuals))[supports.signals, supports.atoms]
            right -= correlated(self.weighted(changed.reconstruct(self.codes)))
        for name, change, slope in (("l1", l1, self._signs), ("l2", l2, self._entries)):
            if change is not None:
                numbers = checks.real_array(
                    name, change, shape=(problem.n_atoms,), meaning="(n_atoms,), a change for each atom"
                )
                right -= slope * numbers[supports.atoms]
        if feature_weights is not None:
            numbers = _like_weights(problem, feature_weights)
            right += correlated(numbers * self.residuals)
        tangents = np.zeros((problem.n_signals, problem.n_atoms))
        tangents[supports.signals, supports.atoms] = self._solved(right, undefined)
        tangents[~self.is_differentiable] = np.nan
        return tangents

    def weighted(self, features: np.ndarray) -> np.ndarray:
        """Return rows of features times the weights of features."""
        return features if self._weights is None else self._weights * features

    @cached_property
    def codes(self) -> sparse.csr_array:
        """The codes, solved on their supports."""
        return self.supports.rows(self._entries)

    @cached_property
    def residuals(self) -> np.ndarray:
        """s - a D, shape (n_signals, n_features)."""
        return self.problem.dense_signals() - self.problem.atoms.reconstruct(self.codes)

    def _solved(self, right: np.ndarray, undefined: str) -> np.ndarray:
        """Return ``K^-1 right`` of each entry, zero where a code has no derivative; or refuse those."""
        solution = self.supports.solve(right, self._norms, self.is_differentiable)
        lost = np.unique(self.supports.signals[np.isnan(solution)])
        self._reasons[lost] = DEPENDENT
        if undefined == REFUSE:
            self._require_differentiable()
        solution[np.isnan(solution)] = 0.0
        return solution

    def _solve_once_more(self) -> None:
        """Solve for the numbers of codes on their supports, and note which codes have no derivative."""
        problem, supports = self.problem, self.supports
        units = self._norms * self._lengths[supports.signals]
        violations, excess, atoms = self._violations()
        off = supports.signals[np.abs(violations) > ROUNDING * units]
        if len(off):
            is_off = np.zeros(problem.n_signals, dtype=np.bool_)
            is_off[off] = True
            correction = supports.solve(violations, self._norms, is_off)
            self._note(np.isnan(correction), DEPENDENT)
            self._entries = self._entries + np.nan_to_num(correction)
            for name in ("codes", "residuals"):
                vars(self).pop(name, None)
            _, excess, atoms = self._violations()
        has_bound = self._has_bound[supports.atoms]
        self._note(has_bound & (np.abs(self._entries) * self._norms**2 <= AT_BOUND * units), AT_A_BOUND)
        self._note(has_bound & (np.sign(self._entries) != self._signs), NOT_OPTIMAL)
        for wrong, reason in ((excess >= -AT_BOUND, AT_A_BOUND), (excess > AT_BOUND, NOT_OPTIMAL)):
            self._reasons[wrong], self._atoms[wrong] = reason, atoms[wrong]
        # Nothing determines the code of a zero atom without any penalty.
        unsaid = (problem.l1_weights == 0.0) & (problem.curvatures == 0.0) & (problem.squared_norms == 0.0)
        if unsaid.any():
            self._reasons[:], self._atoms[:] = AT_A_BOUND, np.argmax(unsaid)

    def _violations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how far entries are off their equations, and the atom outside of each support that exceeds
        its bound most, or comes closest to it, with its excess in units of norms."""
        problem, at = self.problem, (self.supports.signals, self.supports.atoms)
        pulls = problem.atoms.correlate(self.weighted(self.residuals))
        violations = pulls[at] - problem.l1_weights[at[1]] * self._signs
        violations -= problem.curvatures[at[1]] * self._entries
        excess = problem.penalty.reach(pulls, out=pulls)
        excess -= self._bounds
        excess /= self._seen_norms
        excess[at] = -np.inf
        atoms = np.argmax(excess, axis=1)
        lengths = np.where(self._lengths > 0.0, self._lengths, 1.0)
        return violations, excess[np.arange(len(atoms)), atoms] / lengths, atoms

    def _note(self, wrong: np.ndarray, reason: int) -> None:
        """Note why codes with some entries have no derivative."""
        self._reasons[self.supports.signals[wrong]] = reason
        self._atoms[self.supports.signals[wrong]] = self.supports.atoms[wrong]

    def _require_differentiable(self) -> None:
        wrong = np.flatnonzero(self._reasons)
        if not len(wrong):
            return
        first = wrong[0]
        why = REASONS[self._reasons[first]].format(signal=first, atom=self._atoms[first])
        named = ", ".join(map(str, wrong[:MOST_NAMED])) + (", ..." if len(wrong) > MOST_NAMED else "")
        raise ValueError(
            f"codes must have a derivative; got {len(wrong)} of {len(self._reasons)} signals without one "
            f"({named}): {why}; pass undefined={LEAVE_OUT!r} to leave such signals out"
        )


@dataclass(frozen=True, eq=False, repr=False)
class CodeGradients(Described):
    """Gradients of a loss; each is computed when it is asked for.

    Attributes
    ----------
    derivatives : CodeDerivatives
        The derivatives of the codes.
    adjoint : ndarray
        ``q = K^-1 (dL/da)_S`` of the entries of the codes; zero where there is no derivative.
    is_differentiable : ndarray of bool, shape (n_signals,)
        Whether each code has a derivative; sums are over these signals.
    """

    derivatives: CodeDerivatives
    adjoint: np.ndarray
    is_differentiable: np.ndarray

    @cached_property
    def signals(self) -> np.ndarray:
        """``dL/ds = w (q D_S)``, shape (n_signals, n_features); NaN of codes without derivative."""
        return self._defined(np.array(self.derivatives.weighted(self._reconstruction)))

    @cached_property
    def dictionary(self) -> np.ndarray:
        """``dL/dD_S = q (w r)^T - a_S (w (q D_S))^T``, summed over signals, of the shape of the atoms.

        Of a convolutional dictionary it is the gradient with respect to its kernels.
        """
        of = self.derivatives
        # -a, zero where a code has no derivative.
        codes = of.supports.rows(-of._entries * self.is_differentiable[of.supports.signals])
        slopes = np.where(self.is_differentiable[:, np.newaxis], self.signals, 0.0)
        rows = sparse.vstack([self._adjoint_rows, codes])
        features = np.concatenate([of.weighted(of.residuals), slopes])
        atoms = of.problem.atoms
        if isinstance(atoms, ConvolutionalDictionary):
            return checks.read_only(_kernel_products(atoms, rows, features))
        return checks.read_only(rows.T @ features)

    @cached_property
    def l1(self) -> np.ndarray:
        """``dL/dlambda_i = -q_i sign(a_i)``, summed over signals, shape (n_atoms,).

        Of a penalty that is one number for all atoms, the derivative is the sum of these.
        """
        return checks.read_only(-self.derivatives.supports.sums(self.adjoint * self.derivatives._signs))

    @cached_property
    def l2(self) -> np.ndarray:
        """``dL/dm_i = -q_i a_i``, summed over signals, shape (n_atoms,)."""
        return checks.read_only(-self.derivatives.supports.sums(self.adjoint * self.derivatives._entries))

    @cached_property
    def feature_weights(self) -> np.ndarray:
        """``dL/dw_j = (q D_S)_j r_j``, of the shape of the weights, or (n_signals, n_features) without any.

        NaN where a weight is zero: what a signal is there, a problem does not keep.
        """
        weights = self.derivatives.problem.feature_weights
        gradient = self._reconstruction * self.derivatives.residuals
        if weights is not None and weights.ndim == 1:
            gradient = gradient.sum(axis=0)
        else:
            self._defined(gradient)
        if weights is not None:
            gradient[weights == 0] = np.nan
        return checks.read_only(gradient)

    @property
    def _adjoint_rows(self) -> sparse.csr_array:
        return self.derivatives.supports.rows(self.adjoint)

    @cached_property
    def _reconstruction(self) -> np.ndarray:
        """q D_S, shape (n_signals, n_features)."""
        return self.derivatives.problem.atoms.reconstruct(self._adjoint_rows)

    def _defined(self, gradient: np.ndarray) -> np.ndarray:
        gradient[~self.is_differentiable] = np.nan
        return checks.read_only(gradient)


def _kernel_products(
    atoms: ConvolutionalDictionary, codes: sparse.csr_array, images: np.ndarray
) -> np.ndarray:
    """Return the sum over positions and images of entries of codes times patches, of the kernels' shape."""
    total = np.zeros(atoms.kernels.shape)
    for code, image in zip(codes.toarray(), images, strict=True):
        pixels = image.reshape(atoms.signal_shape)
        height, width = atoms.kernels.shape[1:3]
        windows: np.ndarray = sliding_window_view(pixels, (height, width), axis=(0, 1))  # type: ignore[call-overload]
        by_position = code.reshape(*atoms.grid_shape, atoms.n_kernels)
        products = np.tensordot(by_position, windows[:: atoms.stride, :: atoms.stride], axes=((0, 1), (0, 1)))
        # Channels come before the pixels of a window.
        total += products if total.ndim == 3 else np.moveaxis(products, 1, -1)
    return total


def _changed_dictionary(problem: LassoProblem, changes: ArrayLike) -> Dictionary | None:
    """Return changes of atoms or kernels as a dictionary, for its products; None if nothing changes."""
    atoms = problem.atoms
    if isinstance(atoms, ConvolutionalDictionary):
        shape, meaning = atoms.kernels.shape, "as the kernels"
        numbers = checks.real_array("dictionary", changes, shape=shape, meaning=meaning)
        return ConvolutionalDictionary(numbers, atoms.image_shape, atoms.stride) if numbers.any() else None
    numbers = checks.real_array("dictionary", changes, shape=atoms.shape, meaning="(n_atoms, n_features)")
    return MatrixDictionary(numbers) if numbers.any() else None


def _like_weights(problem: LassoProblem, changes: ArrayLike) -> np.ndarray:
    weights = problem.feature_weights
    shape = (problem.n_signals, problem.n_features) if weights is None else weights.shape
    numbers = checks.real_array("feature_weights", changes, shape=shape, meaning="as the weights")
    if weights is not None and numbers[weights == 0].any():
        raise ValueError(
            "feature_weights must change by 0 where they are 0, since a signal is not kept there; got "
            f"{np.abs(numbers[weights == 0]).max()}"
        )
    return numbers
