"""The best codes met so far, with their certificates."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from scipy import sparse

from solvers.certificate.compiled import certify
from solvers.certificate.optimality import Optimality
from solvers.problem.lasso import LassoProblem
from solvers.results.operations import certificate_work
from solvers.results.result import as_sparse

FIGURES = tuple(field.name for field in fields(Optimality))


class BestCodes:
    """The codes of a batch of signals and their certificates.

    Attributes
    ----------
    has_codes : bool
        False before the first `put`.
    codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        The codes.
    optimality : Optimality
        The certificates of these codes.
    n_multiply_adds : ndarray of int, shape (n_signals,)
        Of all certificates so far.
    """

    def __init__(self, problem: LassoProblem) -> None:
        self.problem = problem
        self.has_codes = False
        self.codes: sparse.csr_array
        self.optimality: Optimality
        self.n_multiply_adds = np.zeros(problem.n_signals, dtype=np.int64)

    def put(
        self,
        signals: np.ndarray,
        codes: np.ndarray | sparse.csr_array,
        *,
        if_better: bool | np.ndarray,
        optimality: Optimality | None = None,
    ) -> np.ndarray:
        """Measure codes of some signals and keep them; return for which they are kept.

        Shapes: signals (n_put,); codes (n_put, n_atoms); if_better (n_put,).
        """
        all_signals = len(signals) == self.problem.n_signals
        codes = as_sparse(codes)
        if optimality is None:
            optimality = certify(self.problem if all_signals else self.problem.subset(signals), codes)
        self.n_multiply_adds[signals] += certificate_work(self.problem, np.diff(codes.indptr))
        must_be_better = np.broadcast_to(if_better, len(signals))
        if not self.has_codes or (all_signals and not must_be_better.any()):
            self.has_codes, self.codes, self.optimality = True, codes, optimality
            return np.ones(len(signals), dtype=np.bool_)
        kept = ~must_be_better | (optimality.duality_gap < self.optimality.duality_gap[signals])
        if not kept.any():
            return kept
        if all_signals and kept.all():
            self.codes = codes
        else:
            rows = np.arange(self.problem.n_signals)
            rows[signals[kept]] = self.problem.n_signals + np.flatnonzero(kept)
            self.codes = sparse.vstack([self.codes, codes], format="csr")[rows]
        for name in FIGURES:
            getattr(self.optimality, name)[signals[kept]] = getattr(optimality, name)[kept]
        return kept

    def missed(self, signals: np.ndarray, tol: float) -> np.ndarray:
        """Return for which of some signals the gap is above ``tol * 1/2 ||signal||^2``, or not a number."""
        return ~(self.optimality.duality_gap[signals] <= tol * self.problem.energies[signals])
