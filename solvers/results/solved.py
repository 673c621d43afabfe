"""What a method has to say of a batch of signals, of several batches as one, and the result of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from snn.base.caller_warnings import warn_caller
from solvers.certificate.compiled import certify
from solvers.certificate.optimality import Optimality
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import warn_if_all_zero, warn_if_intercept_is_cut
from solvers.results.operations import CERTIFICATE, DRIVE, EXACT, Work, certificate_work, drive_work
from solvers.results.result import SparseCodingResult, Status, as_sparse, convergence_warning

Result = TypeVar("Result", bound=SparseCodingResult)


class Solved(NamedTuple):
    """What a method has to say of a batch of signals: one row, or entry, for each signal.

    Attributes
    ----------
    codes : ndarray or csr_array, shape (n_signals, n_atoms)
        The codes.
    n_steps : ndarray of int, shape (n_signals,)
        What the method counts: its `Method.steps`.
    multiply_adds : mapping of str to ndarray
        By parts of an `OperationLedger`, the drive apart.
    optimality : Optimality, optional
        The certificates of these codes, if they were measured; `multiply_adds` then counts them.
    stopped : ndarray of bool, shape (n_signals,), optional
        Whether the method stopped before its limit, and not because `tol` was reached.
    signal_fields : mapping of str to (ndarray or csr_array)
        Further fields of the result.
    """

    codes: np.ndarray | sparse.csr_array
    n_steps: np.ndarray
    multiply_adds: Mapping[str, np.ndarray]
    optimality: Optimality | None = None
    stopped: np.ndarray | None = None
    signal_fields: Mapping[str, Any] = {}

    def certified(self, problem: LassoProblem) -> Solved:
        """Return it with sparse codes, and with their certificates.

        Parameters
        ----------
        problem : LassoProblem
            The problem of these signals.
        """
        codes = as_sparse(self.codes)
        if self.optimality is not None:
            return self._replace(codes=codes)
        work = certificate_work(problem, np.diff(codes.indptr)) + self.multiply_adds.get(CERTIFICATE, 0)
        return self._replace(
            codes=codes,
            optimality=certify(problem, codes),
            multiply_adds={**self.multiply_adds, CERTIFICATE: work},
        )

    def at(self, signals: np.ndarray) -> Solved:
        """Return what is said of some signals, in their order.

        Parameters
        ----------
        signals : ndarray of int
            Their numbers.
        """
        return _combined(lambda values: values[0][signals], [self])


def joined(batches: Sequence[Solved]) -> Solved:
    """Return what is said of several batches as one."""
    return batches[0] if len(batches) == 1 else _combined(_stacked, batches)


def _combined(combine: Callable[[list[Any]], Any], batches: Sequence[Solved]) -> Solved:
    """Return the record of what `combine` makes of each kind of values, one of each batch."""

    def combined(*of_batches: Mapping[str, Any]) -> dict[str, Any]:
        return {name: combine([values[name] for values in of_batches]) for name in of_batches[0]}

    first = batches[0]
    optimality = None
    if first.optimality is not None:
        figures = combined(*(vars(batch.optimality) for batch in batches))
        optimality = Optimality(**{field.name: figures[field.name] for field in fields(Optimality)})
    return Solved(
        combine([batch.codes for batch in batches]),
        combine([batch.n_steps for batch in batches]),
        combined(*(batch.multiply_adds for batch in batches)),
        optimality,
        None if first.stopped is None else combine([batch.stopped for batch in batches]),
        combined(*(batch.signal_fields for batch in batches)),
    )


def _stacked(values: list[Any]) -> Any:
    return sparse.vstack(values, format="csr") if sparse.issparse(values[0]) else np.concatenate(values)


def certified_result(
    problem: LassoProblem,
    solved: Solved,
    /,
    *,
    method: str,
    tol: float,
    limit: Callable[[np.ndarray | None], str] | None,
    kind: type[Result],
    bound: str = EXACT,
    steps: str = "iterations",
    **more: Any,
) -> Result:
    """Return the result for what was solved; warn of signals that missed `tol`, and if all codes are zero."""
    codes, optimality = solved.codes, solved.optimality
    assert optimality is not None
    # A gap that is not a number misses `tol`, too.
    missed = ~(optimality.duality_gap <= tol * problem.energies)
    status = np.where(missed, int(Status.LIMIT_REACHED), int(Status.CONVERGED))
    if limit is not None:
        warn_if_all_zero(problem, codes)
        warn_if_intercept_is_cut(problem, codes)
        if np.count_nonzero(missed):
            with np.errstate(divide="ignore", invalid="ignore"):
                worst = np.max((optimality.duality_gap / problem.energies)[missed])
            warn_caller(
                f"{method}: {int(missed.sum())} of {problem.n_signals} signals did not reach "
                f"duality_gap <= {tol:g} * 1/2 ||signal||^2 within {limit(solved.stopped)}; the worst has "
                f"{worst:.2g}",
                convergence_warning(),
            )
    return kind(
        method=method,
        tol=tol,
        sparse_codes=codes,
        objective=optimality.objective,
        duality_gap=optimality.duality_gap,
        kkt_violation=optimality.kkt_violation,
        energies=problem.energies,
        status=status,
        n_steps=solved.n_steps,
        steps=steps,
        problem=problem,
        work=Work({DRIVE: [drive_work(problem)] * problem.n_signals, **solved.multiply_adds}, bound),
        **solved.signal_fields,
        **more,
    )
