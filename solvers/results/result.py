"""The result of every solver: codes and their certificates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn import OperationCounts
from snn._interrupts import float_errors
from snn.base import checks
from snn.base.describe import Drawn, counted, number, value_range
from snn.base.value import assign, cached_property
from solvers.certificate.compiled import certificates_of
from solvers.certificate.optimality import checked_codes
from solvers.derivatives import CodeDerivatives, CodeGradients
from solvers.problem.lasso import LassoProblem
from solvers.results.codes import (
    AT_LIMIT,
    CERTIFICATE,
    DRIVE,
    PARTS,
    TOL_REACHED,
    Codes,
    certificate_work,
    drive_work,
)

EXACT, AT_MOST = "exact", "at most"
SIGNS = {EXACT: "", AT_MOST: "<= "}


class OperationLedger(Drawn, dict[str, OperationCounts]):
    """The counts of a solver's operations, a count for each part of the work.

    Counts are arrays with an entry for each signal.  The Gram matrix is counted only if it is computed for a
    single signal, not if signals share it.

    Parameters
    ----------
    parts : mapping of str to OperationCounts
        The counts.  The names are "drive" (correlations of the signals with the atoms), "gram" (entries of
        the Gram matrix computed for a single signal), "network" (the spiking network), "read-out" (codes read
        from spikes, the gaps of these codes, and the drives of later stages), "method" (any other solver),
        "polish" (the active-set method after spikes), "start" (the start of a stream) and "certificate".
    bound : {"exact", "at most"}, default "exact"
        Whether counts of the method are exact, or upper bounds because a library does not report them.
    """

    _assignable = ("bound",)

    def __init__(self, parts: Mapping[str, OperationCounts], *, bound: str = EXACT) -> None:
        super().__init__({name: parts[name] for name in PARTS if name in parts})
        self.bound = bound

    def _facts(self) -> dict[str, str]:
        totals = {name: counts.total()._facts().items() for name, counts in self.items()}
        return {"counts": self.bound} | {
            name: ", ".join(f"{number} {kind}" for kind, number in facts if number != "0") or "nothing"
            for name, facts in totals.items()
        }

    def without(self, *names: str) -> OperationCounts:
        """Return the sum of all parts except `names`; use ``without("certificate")`` to compare methods."""
        for name in names:
            checks.one_of("name", name, PARTS)
        return sum((counts for name, counts in self.items() if name not in names), OperationCounts())


@dataclass(frozen=True, eq=False, repr=False)
class SparseCodingResult(Drawn):
    """The result of every solver: codes with their certificates.

    Attributes
    ----------
    problem : LassoProblem
        The problem that was solved.
    method : str
        The name of the solver.
    tol : float
        The tolerance: a signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    steps : str
        The unit of `n_steps`.
    bound : {"exact", "at most"}
        Whether multiply-adds are exact counts, or upper bounds because a library does not report them.
    sparse_codes : csr_array, shape (n_signals, n_atoms)
        The non-zero entries of the codes, sorted by atom.
    n_steps : ndarray of int, shape (n_signals,)
        The number of spikes of a spiking solver, rounds of an active set, or iterations of other solvers.
    objective : ndarray, shape (n_signals,)
        E(a), the objective of each code.
    duality_gap : ndarray, shape (n_signals,)
        Upper bound on E(a) - min E.
    kkt_violation : ndarray, shape (n_signals,)
        Largest violation of the optimality conditions, in units of correlations.
    info : mapping of str to (ndarray or csr_array)
        Figures of one method, with a row for each signal.

        Active-set methods have `n_corrections`, the number of atoms that left or entered the support of the
        start; an atom that changed its sign counts twice.  The methods "spiking_rate", "spiking_current" and
        "active_set_from_spikes" have `average_currents`, a csr_array of the average currents of the neurons
        that fired, in units of correlations; negative averages are set to zero.  Networks of integers have
        `saturations`, the number of times that a register was too narrow (for potentials below and above,
        currents, and messages); `ran_away`, True if the network was stopped because potentials reached the
        end of their registers; and `network`, the network itself.

        All networks have `n_stages`, the number of runs, which is 0 if the start or the zero code reached
        `tol`; `duration`, the simulated time of all stages in synaptic time constants; `scale`, the value of
        a code for one unit of spike rate in the last stage; and `spike_counts`, a csr_array with positive
        neurons before negative neurons.  Networks on a clock have `n_clock_steps`, the number of steps of all
        stages.
    """

    problem: LassoProblem
    _found: Codes
    method: str
    tol: float
    steps: str
    bound: str = EXACT

    sparse_codes: sparse.csr_array = field(init=False)
    n_steps: np.ndarray = field(init=False)
    objective: np.ndarray = field(init=False)
    duality_gap: np.ndarray = field(init=False)
    kkt_violation: np.ndarray = field(init=False)
    info: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        found, figures = self._found, vars(self._found.certificate)
        assign(self, sparse_codes=found.values, n_steps=found.steps, info=found.info, **figures)
        extra = (*found.work.values(), *found.info.values())
        for value in (found.values, found.steps, *figures.values(), *extra):
            # Compare types: `isinstance` on all fields would take as long as a small problem.
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

    @property
    def relative_gap(self) -> np.ndarray:
        """`duality_gap` / (1/2 ||signal||^2), the unit of `tol`, shape (n_signals,); 0 if both are 0."""
        with float_errors(divide="ignore", invalid="ignore"):
            return np.where(self.duality_gap == 0.0, 0.0, self.duality_gap / self.problem.energies)

    @property
    def reached(self) -> np.ndarray:
        """True if the gap of a signal is within `tol`, shape (n_signals,); False if the gap is NaN."""
        return self.duality_gap <= self.tol * self.problem.energies

    @property
    def status(self) -> np.ndarray:
        """The `Status` of each signal, as a number, says why its search ended; shape (n_signals,)."""
        return np.where(
            self.reached, TOL_REACHED, AT_LIMIT if self._found.status is None else self._found.status
        )

    @property
    def converged(self) -> bool:
        """True if every signal reached `tol`."""
        return bool(self.reached.all())

    @property
    def support_size(self) -> np.ndarray:
        """Number of non-zero entries of each code, shape (n_signals,)."""
        return np.diff(self.sparse_codes.indptr)

    @cached_property
    def operations(self) -> OperationLedger:
        """The numbers of operations of each signal, for each part of the work."""
        drive = {DRIVE: [drive_work(self.problem)] * self.problem.n_signals}
        parts = {
            name: OperationCounts(multiply_adds=np.asarray(counts))
            for name, counts in {**drive, **self._found.work}.items()
        }
        return OperationLedger(parts | self._network_operations(), bound=self.bound)

    def _network_operations(self) -> dict[str, OperationCounts]:
        return {}

    @cached_property
    def derivatives(self) -> CodeDerivatives:
        """The derivatives of the codes, from which `vjp` and `jvp` are computed."""
        return CodeDerivatives(self.problem, self.sparse_codes)

    def vjp(self, upstream: ArrayLike, *, undefined: str = "refuse") -> CodeGradients:
        """Return the gradients of a loss L, a function of the codes, for all inputs of the problem.

        With S the support of a code a, w the weights of features, m the curvatures of the penalty and
        r = s - a D::

            K = D_S diag(w) D_S^T + diag m_S        q = K^-1 (dL/da)_S

            dL/ds         = w (q D_S)
            dL/dlambda_i  = -q_i sign(a_i)
            dL/dm_i       = -q_i a_i
            dL/dD_S       = q (w r)^T - a_S (w (q D_S))^T
            dL/dw_j       = (q D_S)_j r_j

        and zero outside S.  The gradients are exact if a code has the support and the signs of the optimum,
        even if the gap is large.

        Parameters
        ----------
        upstream : array_like, shape (n_signals, n_atoms)
            dL/da, the gradient of the loss with respect to the codes.
        undefined : {"refuse", "leave out"}, default "refuse"
            The rule for codes that have no derivative.  A code has no derivative if an atom is at its bound,
            if atoms of the support are linearly dependent, or if the support is not optimal.  Codes that are
            left out add nothing to sums over signals, and have NaN in the gradients for each signal.

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

    def jvp(self, *, undefined: str = "refuse", **changes: ArrayLike | None) -> np.ndarray:
        """Return the changes of the codes for small changes of the problem, shape (n_signals, n_atoms).

        With the matrices of `vjp`, and d for a small change::

            K da_S = D_S (w ds) + dD_S (w r) - D_S (w (a_S dD_S)) + D_S (dw r)
                     - dlambda_S sign(a_S) - dm_S a_S

        Parameters
        ----------
        undefined : {"refuse", "leave out"}, default "refuse"
            See `vjp`; changes of codes that are left out are NaN.
        **changes : array_like
            The changes: `signals` (ds), `dictionary` (dD, of the shape of the atoms or kernels), `l1` and
            `l2` (dlambda and dm, a number for each atom), and `feature_weights` (dw, of the shape of the
            weights, or of the signals if there are none; zero for weights that are zero).
        """
        return self.derivatives.jvp(undefined=undefined, **changes)

    def _facts(self) -> dict[str, str]:
        n_signals, n_atoms = self.sparse_codes.shape
        total = sum(int(np.sum(counts)) for counts in self._found.work.values())
        total += n_signals * drive_work(self.problem)
        return {
            "method": self.method,
            "converged": f"{int(self.reached.sum()):,} of {counted(n_signals, 'signal')}, tol {self.tol:g}",
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


def certify(
    problem: LassoProblem, codes: ArrayLike | sparse.csr_array, *, tol: float = 1e-6
) -> SparseCodingResult:
    """Certify codes from any source, such as a greedy pursuit or a trained encoder.

    Most of the time is spent on one product of the residuals with the dictionary.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like or sparse matrix, shape (n_signals, n_atoms)
        One code for each signal, not negative for atoms that are `positive`.  A sparse matrix may have any
        format of SciPy.
    tol : float, default 1e-6
        The result's `reached` is True for signals with ``duality_gap <= tol * 1/2 ||signal||^2``.  Codes that
        miss `tol` cause no warning.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoProblem, certify
    >>> problem = LassoProblem(np.eye(2), [[3.0, 0.5]], 1.0)
    >>> certify(problem, [[2.2, 0.0]]).duality_gap.round(3)
    array([0.22])
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    given = checked_codes(problem, codes).copy()
    given.eliminate_zeros()
    found = Codes(given, np.zeros(problem.n_signals, dtype=np.int64), certificates_of(problem, given))
    found.work[CERTIFICATE] = certificate_work(problem, np.diff(given.indptr))
    return SparseCodingResult(problem, found, "given", tol, "steps")


# The type of the argument `start` of solvers; None means the zero code.
Start: TypeAlias = ArrayLike | sparse.csr_array | SparseCodingResult | None


def start_codes(problem: LassoProblem, start: Start) -> Codes | None:
    """Return the codes that the signals of a problem start from; None without a start."""
    if start is None:
        return None
    info = {}
    if isinstance(start, SparseCodingResult):
        if "average_currents" in start.info:
            info["average_currents"] = start.info["average_currents"]
        start = start.sparse_codes
    codes = checked_codes(problem, start, name="start")
    # Remove entries of atoms with norm zero, because such entries only increase the penalty.
    is_nothing = (problem.atoms.squared_norms[codes.indices] == 0.0) | (codes.data == 0.0)
    if is_nothing.any():
        codes = codes.copy()
        codes.data[is_nothing] = 0.0
        codes.eliminate_zeros()
    return Codes(codes, np.zeros(problem.n_signals, dtype=np.int64), info=info)
