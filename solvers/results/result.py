"""The result of every solver: codes and their certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.caller_warnings import warn_caller
from snn.base.describe import Drawn, counted, number, value_range
from snn.base.locks import cached_property
from solvers.certificate import compiled
from solvers.certificate.optimality import checked_codes
from solvers.derivatives.code_derivatives import CodeDerivatives, CodeGradients
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import warn_if_all_zero, warn_if_intercept_is_cut
from solvers.results.codes import Codes, as_sparse
from solvers.results.operations import (
    CERTIFICATE,
    DRIVE,
    EXACT,
    SIGNS,
    OperationLedger,
    certificate_work,
    drive_work,
)


class Status(IntEnum):
    """The end of the solution of one signal."""

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
    steps : str
        The unit of `n_steps`.
    multiply_adds : mapping of str to ndarray of int, shape (n_signals,) each
        Multiply-adds by part of `operations`, the drive apart.
    bound : {"exact", "at most"}
        Whether the multiply-adds are exact, or bounds where a library hides them.
    info : mapping
        Figures of one method, with a row for each signal: `n_corrections` (atoms that left or entered the
        support of the start; an atom that changed its sign counts twice), `polished` (the code is the
        active-set method's, and not the network's), `average_currents` (a csr_array of the currents of the
        neurons that fired, in units of correlations; negative averages are zero), `saturations` (for
        potentials below and above, currents and messages, how often a register was too narrow) and `ran_away`
        (the network was stopped, because potentials came to the end of their registers), with the `network`
        of integers.
    problem : LassoProblem
        The problem that was solved.
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
    steps: str
    multiply_adds: Mapping[str, np.ndarray]
    bound: str
    info: Mapping[str, Any]
    problem: LassoProblem
    own_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for value in (*vars(self).values(), *self.info.values(), *self.multiply_adds.values()):
            # `isinstance` on all fields takes as long as a small problem, so compare types.
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
    def operations(self) -> OperationLedger:
        """The operations of each signal, part by part."""
        drive = {DRIVE: [drive_work(self.problem)] * self.problem.n_signals}
        parts = {
            name: OperationCounts(multiply_adds=np.asarray(counts))
            for name, counts in {**drive, **self.multiply_adds}.items()
        }
        return OperationLedger(parts | self._network_operations(), bound=self.bound)

    def _network_operations(self) -> dict[str, OperationCounts]:
        return {}

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
        total = sum(int(np.sum(counts)) for counts in self.multiply_adds.values())
        total += n_signals * drive_work(self.problem)
        return {
            "method": self.method,
            "converged": f"{n_converged:,} of {counted(n_signals, 'signal')}, tol {self.tol:g}",
            "certified gap": f"{value_range(self.relative_gap)} of 1/2 ||signal||²",
            "objective": value_range(self.objective),
            "support": f"{value_range(self.support_size)} of {counted(n_atoms, 'atom')}",
            self.steps: number(int(self.n_steps.sum())),
            "multiply-adds": SIGNS[self.bound] + number(total),
        }


def convergence_warning() -> type[Warning]:
    """Return the class of the warning that a signal missed `tol`."""
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes a second to import

    return ConvergenceWarning


def certified_result(
    problem: LassoProblem,
    codes: Codes,
    *,
    method: str,
    tol: float,
    steps: str,
    bound: str = EXACT,
    limit: Callable[[np.ndarray | None], str] | None = None,
    kind: type[SparseCodingResult] = SparseCodingResult,
    **shared: Any,
) -> Any:
    """Return the result of codes; with a `limit`, warn of signals that missed `tol`, and if all are zero."""
    certificate = codes.certificate
    assert certificate is not None
    # A gap that is not a number misses `tol`, too.
    missed = ~(certificate.duality_gap <= tol * problem.energies)
    info = {**codes.info, **shared}
    stopped = info.pop("stopped", None)
    if limit is not None:
        warn_if_all_zero(problem, codes.values)
        warn_if_intercept_is_cut(problem, codes.values)
        if np.count_nonzero(missed):
            with np.errstate(divide="ignore", invalid="ignore"):
                worst = np.max((certificate.duality_gap / problem.energies)[missed])
            warn_caller(
                f"{method}: {int(missed.sum())} of {problem.n_signals} signals did not reach "
                f"duality_gap <= {tol:g} * 1/2 ||signal||^2 within {limit(stopped)}; the worst has "
                f"{worst:.2g}",
                convergence_warning(),
            )
    return kind(
        method=method,
        tol=tol,
        sparse_codes=codes.values,
        objective=certificate.objective,
        duality_gap=certificate.duality_gap,
        kkt_violation=certificate.kkt_violation,
        energies=problem.energies,
        status=np.where(missed, int(Status.LIMIT_REACHED), int(Status.CONVERGED)),
        n_steps=codes.steps,
        steps=steps,
        multiply_adds=codes.work,
        bound=bound,
        problem=problem,
        **{name: info.pop(name) for name in kind.own_fields},
        info=info,
    )


def certify(
    problem: LassoProblem, codes: ArrayLike | sparse.csr_array, *, tol: float = 1e-6
) -> SparseCodingResult:
    """Return the codes of any program with certificates: how far each is from the best.

    The codes of a greedy pursuit, of a trained encoder or of another program get the figures of a solver's
    codes: objective, an upper bound on the gain of the best code, and the violation of the optimality
    conditions.  For many atoms this takes one product of the residuals with the dictionary.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like or sparse matrix, shape (n_signals, n_atoms)
        One code for each signal, of SciPy in any format; not negative where the problem is `positive`.
    tol : float, default 1e-6
        `status` says for which signals ``duality_gap <= tol * 1/2 ||signal||^2``.

    Returns
    -------
    SparseCodingResult
        With `n_steps` zero, and no warning of codes that are not optimal.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoProblem, certify
    >>> problem = LassoProblem(np.eye(2), [[3.0, 0.5]], 1.0)
    >>> certify(problem, [[2.0, 0.0]]).relative_gap.round(12)
    array([0.])
    >>> certify(problem, [[2.2, 0.0]]).duality_gap.round(3)
    array([0.22])
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    given = checked_codes(problem, codes).copy()
    given.eliminate_zeros()
    codes = Codes(given, np.zeros(problem.n_signals, dtype=np.int64), compiled.certify(problem, given))
    codes.work[CERTIFICATE] = certificate_work(problem, np.diff(given.indptr))
    result: SparseCodingResult = certified_result(problem, codes, method="given", tol=tol, steps="steps")
    return result


Start: TypeAlias = ArrayLike | sparse.csr_array | SparseCodingResult | None
"""The `start` of solvers; None is the zero code."""


def start_codes(problem: LassoProblem, start: Start) -> Codes | None:
    """Return the codes that the signals of a problem start from; None without a start."""
    if start is None:
        return None
    shape = (problem.n_signals, problem.n_atoms)
    info = {}
    if isinstance(start, SparseCodingResult):
        codes = start.sparse_codes
        if "average_currents" in start.info:
            info["average_currents"] = start.info["average_currents"]
    elif not sparse.issparse(start):
        codes = as_sparse(checks.real_array("start", start, shape=shape, meaning="(n_signals, n_atoms)"))
    elif not isinstance(start, sparse.csr_array):
        raise TypeError(
            f"start must be an array, a csr_array or a result; got a {type(start).__name__}: "
            "pass csr_array(start)"
        )
    elif start.dtype.kind not in "fiub":
        raise TypeError(f"start must hold real numbers; got dtype {start.dtype}")
    else:
        codes = start.astype(np.float64)
        checks.require_finite("start", codes.data)
        codes.sum_duplicates()
        codes.eliminate_zeros()
    if codes.shape != shape:
        raise ValueError(f"start must have shape {shape}, (n_signals, n_atoms); got shape {codes.shape}")
    of_zero_atoms = problem.squared_norms[codes.indices] == 0.0
    if of_zero_atoms.any():
        # They change nothing but the penalty.
        codes = codes.copy()
        codes.data[of_zero_atoms] = 0.0
        codes.eliminate_zeros()
    if problem.is_positive and codes.data.min(initial=0.0) < 0.0:
        raise ValueError(f"start must not be negative for a positive problem; got {codes.data.min()}")
    return Codes(codes, np.zeros(len(codes.indptr) - 1, dtype=np.int64), info=info)
