"""Problems in which each signal has a mask: groups of signals with equal masks, solved one after the other.

A mask, or other weights of features, that all signals share makes a problem with a Gram matrix of its own
(`LassoProblem.weighted_setup`), and solvers take it as any other.  Where each signal has its own, FISTA and
the active-set method need no matrix.  All other solvers call `solve_groups`: a group of signals with equal
masks is one problem with a shared mask, so that its matrix is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from snn.base.caller_warnings import without_warnings
from solvers._kernels.batch import CompressedRows
from solvers.certificate.optimality import Optimality
from solvers.problem.lasso import LassoProblem
from solvers.problem.masks import groups_of, with_shared_mask
from solvers.results.joining import joined_values
from solvers.results.result import Result, certified_result, compressed_rows
from solvers.workers.progress import progress_bar
from solvers.workers.spread import spread

FIGURES = {field.name for field in fields(Optimality)}


def solve_groups(
    solve: Callable[..., Result],
    problem: LassoProblem,
    *,
    start: sparse.csr_array | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    limit: str,
) -> Result:
    """Return the result of a solver that is called once for each mask.

    Parameters
    ----------
    solve : callable
        Called as ``solve(problem)``, or ``solve(problem, start=codes)``, with problems of shared masks.
    problem : LassoProblem
        A problem with weights for each signal.
    start : scipy.sparse.csr_array, shape (n_signals, n_atoms), optional
        Codes to start from.
    n_jobs : int, optional
        Groups are spread over so many workers.
    progress : bool, default False
        Show a progress bar, in groups.
    limit : str
        What ends the solver, for the warning.
    """
    groups = groups_of(problem)
    batches = [(problem.subset(group), None if start is None else start[group]) for group in groups]
    n_workers = effective_n_jobs(n_jobs) if len(groups) > 1 else 1
    with progress_bar(len(batches), unit="mask", description="masks", shown=progress) as bar:
        results = spread(
            partial(_solve_group, solve=solve), batches, n_jobs, n_workers, bar, common=problem.setup
        )
    return _joined(problem, groups, results, limit)


def _solve_group(batch: tuple[LassoProblem, sparse.csr_array | None], solve: Callable[..., Result]) -> Result:
    problem, start = batch
    shared = with_shared_mask(problem)
    # There is one warning for all, of the caller.  Set here, because workers do not know what it has set.
    with without_warnings():
        result = solve(shared) if start is None else solve(shared, start=start)
    # The problem of the group has a Gram matrix by now, and there may be thousands of groups.
    return replace(result, problem=problem) if hasattr(result, "problem") else result  # type: ignore[call-arg]


def _joined(problem: LassoProblem, groups: list[np.ndarray], results: list[Result], limit: str) -> Result:
    """Return the results of groups as one, in the order of the signals."""
    place = np.argsort(np.concatenate(groups))
    kind = type(results[0])
    joined: dict[str, Any] = {}
    for field in fields(kind):
        values = [getattr(result, field.name) for result in results]
        joined[field.name] = _joined_values(values, place)
    if "problem" in joined:
        joined["problem"] = problem
    works = [result.work for result in results if result.work is not None]
    if works:
        # The numbers of each part, as those of the result.
        parts = {
            name: _joined_values([np.asarray(work.multiply_adds[name]) for work in works], place)
            for name in works[0].multiply_adds
        }
        joined["work"] = works[0]._replace(multiply_adds=parts)
    optimality = Optimality(**{name: joined[name] for name in FIGURES})
    known = FIGURES | {"status", "sparse_codes", "energies"}
    more = {name: value for name, value in joined.items() if name not in known}
    return certified_result(
        problem,
        joined["sparse_codes"],
        limit=limit,
        optimality=optimality,
        kind=kind,
        **more,
    )


def _joined_values(values: list[Any], place: np.ndarray) -> Any:
    """Return values of groups as one: rows in the order of the signals, or what is the same for all."""
    first = values[0]
    if isinstance(first, (np.ndarray, sparse.csr_array)):
        return joined_values(values)[place]
    if isinstance(first, CompressedRows):
        rows = joined_values(values)
        n_columns = int(rows.columns.max(initial=0)) + 1
        ordered = compressed_rows((len(place), n_columns), rows)[place]
        return CompressedRows(ordered.indptr, ordered.indices, ordered.data)
    return first
