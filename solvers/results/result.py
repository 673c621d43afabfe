"""The result of every solver: codes and their certificates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import counted, number, value_range
from snn.base.locks import cached_property
from solvers._kernels.batch import CompressedRows, nonzero_entries
from solvers.derivatives.code_derivatives import CodeDerivatives, CodeGradients
from solvers.problem.lasso import LassoProblem
from solvers.results.operations import SIGNS, OperationLedger, Work, ledger_of

# The largest of the 32-bit indices of sparse matrices.
LARGEST_INDEX = np.iinfo(np.int32).max


class Status(IntEnum):
    """How the solution of one signal ended."""

    CONVERGED = 0
    """duality_gap <= tol * 1/2 ||signal||^2, as `solvers.certificate.optimality` measures it."""
    LIMIT_REACHED = 1
    """The solver stopped at its limit of steps or time with a larger gap."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SparseCodingResult(Drawn):
    """Codes with their certificates, the figures of `solvers.certificate.optimality`, whatever the solver.

    Attributes
    ----------
    method : str
        The solver.
    tol : float
        The tolerance: ``duality_gap <= tol * 1/2 ||signal||^2``.
    sparse_codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        The non-zero entries of the codes, sorted by atom.
    objective : ndarray, shape (n_signals,)
        E(a).
    duality_gap : ndarray, shape (n_signals,)
        Upper bound on E(a) - min E.
    energies : ndarray, shape (n_signals,)
        1/2 ||signal||^2, the unit of `tol`; of the known features, with their weights.
    kkt_violation : ndarray, shape (n_signals,)
        Largest violation of the optimality conditions, in the units of the correlations.
    status : ndarray of int, shape (n_signals,)
        The `Status` of each signal.
    n_steps : ndarray of int, shape (n_signals,)
        Spikes of the spiking solver, rounds of the active-set solver, iterations of the others.
    work : Work or None
        What `operations` is made of; None of a solver that does not count.
    sparse_average_currents : scipy.sparse.csr_array, shape (n_signals, n_atoms), or None
        Average soma currents of the neurons that fired, in units of correlations; None of a solver without
        neurons.
    steps : str, default "iterations"
        What `n_steps` counts.
    problem : LassoProblem
        What was solved.
    """

    method: str
    tol: float
    sparse_codes: sparse.csr_array
    objective: np.ndarray
    duality_gap: np.ndarray
    energies: np.ndarray
    kkt_violation: np.ndarray
    status: np.ndarray
    n_steps: np.ndarray
    work: Work | None = None
    sparse_average_currents: sparse.csr_array | None = None
    steps: str = "iterations"
    problem: LassoProblem

    def __post_init__(self) -> None:
        for value in vars(self).values():
            # By type: a problem may take no longer than ten questions what its fields are instances of.
            kind = type(value)
            if kind is np.ndarray:
                value.setflags(write=False)
            elif kind is sparse.csr_array:
                for array in (value.data, value.indices, value.indptr):
                    array.setflags(write=False)

    @cached_property
    def codes(self) -> np.ndarray:
        """The codes as a dense array, shape (n_signals, n_atoms)."""
        return checks.read_only(self.sparse_codes.toarray())

    @cached_property
    def operations(self) -> OperationLedger | None:
        """What each signal took, part by part; None of a solver that does not count."""
        return None if self.work is None else ledger_of(self.work)

    @property
    def relative_gap(self) -> np.ndarray:
        """`duality_gap` in the unit of `tol`, shape (n_signals,): of 1/2 ||signal||^2; 0 where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.duality_gap == 0.0, 0.0, self.duality_gap / self.energies)

    @property
    def converged(self) -> bool:
        """True if every signal reached `tol`."""
        return bool((self.status == Status.CONVERGED).all())

    @property
    def support_size(self) -> np.ndarray:
        """Number of non-zero entries of each code, shape (n_signals,)."""
        return np.diff(self.sparse_codes.indptr)

    @cached_property
    def derivatives(self) -> CodeDerivatives:
        """The derivatives of the codes, from which `vjp` and `jvp` are computed."""
        return CodeDerivatives(self.problem, self.sparse_codes)

    def vjp(self, upstream: ArrayLike, *, undefined: str = "refuse") -> CodeGradients:
        """Return the gradients of a loss L of the codes, by the chain rule backwards.

        With S the support of a code a, w the weights of features, m the curvatures of the penalty and
        r = s - a D::

            K = D_S diag(w) D_S^T + diag m_S        q = K^-1 (dL/da)_S

            dL/ds         = w (q D_S)
            dL/dlambda_i  = -q_i sign(a_i)
            dL/dm_i       = -q_i a_i
            dL/dD_S       = q (w r)^T - a_S (w (q D_S))^T
            dL/dw_j       = (q D_S)_j r_j

        and zero outside of S.  They are exact where the support and the signs of a code are those of the
        optimum, whatever its gap.

        Parameters
        ----------
        upstream : array_like, shape (n_signals, n_atoms)
            dL/da, the gradient of the loss with respect to the codes.
        undefined : {"refuse", "leave out"}, default "refuse"
            What to do about codes that have no derivative: where an atom is at its bound, where atoms of the
            support depend on each other, and where the support is not that of the optimum.  Left out, they
            add nothing to sums over signals, and gradients of their own are NaN.

        Returns
        -------
        CodeGradients
            With `signals`, `dictionary`, `l1`, `l2` and `feature_weights`.

        Raises
        ------
        TypeError, ValueError
            If `upstream` is not such an array, a code has no derivative, or the penalty is not an elastic
            net.

        References
        ----------
        Mairal, Bach and Ponce (2012), IEEE Transactions on Pattern Analysis and Machine Intelligence 34,
        Proposition 1.

        Examples
        --------
        >>> import numpy as np
        >>> from solvers import LassoProblem, solve_active_set
        >>> result = solve_active_set(LassoProblem(np.eye(3), [[3.0, 0.2, -2.0]], 1.0))
        >>> gradients = result.vjp([[1.0, 1.0, 10.0]])
        >>> print(gradients.signals, gradients.l1)
        [[ 1.  0. 10.]] [-1.  0. 10.]
        """
        return self.derivatives.vjp(upstream, undefined=undefined)

    def jvp(
        self,
        *,
        signals: ArrayLike | None = None,
        dictionary: ArrayLike | None = None,
        l1: ArrayLike | None = None,
        l2: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
        undefined: str = "refuse",
    ) -> np.ndarray:
        """Return how codes change, for small changes of what they are codes of.

        With the matrices of `vjp`, a change marked by d::

            K da_S = D_S (w ds) + dD_S (w r) - D_S (w (a_S dD_S)) + D_S (dw r)
                     - dlambda_S sign(a_S) - dm_S a_S

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_features), optional
            ds.
        dictionary : array_like, of the shape of the atoms, or of the kernels, optional
            dD.
        l1, l2 : array_like, shape (n_atoms,), optional
            dlambda and dm.
        feature_weights : array_like, of their shape, or (n_signals, n_features) without any, optional
            dw; zero where w is.
        undefined : {"refuse", "leave out"}, default "refuse"
            As of `vjp`; changes of codes that are left out are NaN.

        Returns
        -------
        ndarray, shape (n_signals, n_atoms)
            da.

        Raises
        ------
        TypeError, ValueError
            As `vjp`.
        """
        return self.derivatives.jvp(
            signals=signals,
            dictionary=dictionary,
            l1=l1,
            l2=l2,
            feature_weights=feature_weights,
            undefined=undefined,
        )

    def _facts(self) -> dict[str, str]:
        n_signals, n_atoms = self.sparse_codes.shape
        n_converged = int(np.count_nonzero(self.status == Status.CONVERGED))
        work = {}
        if self.work is not None:
            total = sum(int(np.sum(counts)) for counts in self.work.multiply_adds.values())
            work = {"multiply-adds": SIGNS[self.work.bound] + number(total)}
        return {
            "method": self.method,
            "converged": f"{n_converged:,} of {counted(n_signals, 'signal')}, tol {self.tol:g}",
            "certified gap": f"{value_range(self.relative_gap)} of 1/2 ||signal||²",
            "objective": value_range(self.objective),
            "support": f"{value_range(self.support_size)} of {counted(n_atoms, 'atom')}",
            self.steps: number(int(self.n_steps.sum())),
            **work,
        }


def as_sparse(rows: np.ndarray | sparse.csr_array) -> sparse.csr_array:
    """Return the entries of each row that are not zero, in order.

    Shapes: rows (n_rows, n_columns).
    """
    if isinstance(rows, sparse.csr_array):
        return rows
    if rows.size > LARGEST_INDEX:
        return sparse.csr_array(rows)
    return compressed_rows(rows.shape, entries_of(rows))


def entries_of(rows: np.ndarray) -> CompressedRows:
    """Return the entries of each row that are not zero, in order.

    Shapes: rows (n_rows, n_columns).
    """
    pointers = np.empty(len(rows) + 1, dtype=np.int32)
    values, columns = nonzero_entries(checks.read_only(np.ascontiguousarray(rows)), pointers)
    return CompressedRows(pointers, columns, values)


def compressed_rows(shape: tuple[int, int], rows: CompressedRows) -> sparse.csr_array:
    """Return a `csr_array` of entries that are right by construction; it takes ownership of the arrays."""
    # The constructor and its checks take nine microseconds, a tenth of a small problem.
    matrix = sparse.csr_array.__new__(sparse.csr_array)
    vars(matrix).update(vars(_empty_rows(shape)))
    matrix.indptr, matrix.indices, matrix.data = rows
    return matrix


@lru_cache(maxsize=64)
def _empty_rows(shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array(shape)
    matrix.has_canonical_format = True
    return matrix


def convergence_warning() -> type[Warning]:
    """Return the class of the warning that a signal missed `tol`."""
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes a second to import

    return ConvergenceWarning
