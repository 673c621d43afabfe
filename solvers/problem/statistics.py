"""LASSO problems made of statistics: the Gram matrix, the correlations and the energies of signals."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.value import assign
from solvers.problem.penalty import ElasticNet
from solvers.workers.blas import load_scipy_linalg

# The energy that correlations imply may exceed the passed energy by this share, because sums are rounded.
ENERGY_ROUNDING = 1e-6
# A Cholesky factor (of a Gram matrix with unit diagonal) loses few digits if no diagonal entry is smaller.
LEAST_ROOT = 1e-3


class FromStatistics:
    """The base of problems that can be made from statistics instead of a dictionary and signals."""

    # The errors ||L L^T - G|| / ||G|| and ||L s - b|| / ||b||, and the rank of G, of a problem from
    # statistics.
    _factor: ClassVar[tuple[float, float, int] | None] = None

    @classmethod
    def from_statistics(
        cls,
        gram: ArrayLike,
        correlations: ArrayLike,
        energy: ArrayLike | None,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool | ArrayLike = False,
    ) -> Self:
        """Return a problem with the codes, objectives and gaps of a dictionary that is not available.

        For a regression the statistics are ``X.T @ X``, ``X.T @ y`` and ``y @ y``.  The sums over
        observations may be added up in parts, on several computers, or over more observations than fit into
        memory.  The atoms of the problem are the rows of a factor L of the Gram matrix, ``L @ L.T = G``.  The
        signal has one more feature, for the energy that no atom explains.

        Parameters
        ----------
        gram : array_like, shape (n_atoms, n_atoms)
            ``G = D @ D.T``, a positive semidefinite matrix, which may be singular.
        correlations : array_like, shape (n_atoms,) or (n_signals, n_atoms)
            ``b = signals @ D.T``, in the range of `gram`.
        energy : float or array_like, shape (n_signals,), or None
            ``||s||^2`` of each signal, on which the objective and `tol` depend.  The energy must be at least
            the energy that the correlations imply, ``b @ pinv(G) @ b``.  None sets the energy of each signal
            to the smallest possible value.
        penalty, positive
            See `LassoProblem`.

        Notes
        -----
        Certificates hold for the factor, not for the statistics.  The objective of a code a with the factor
        differs from its objective with the statistics by at most
        ``1/2 ||L L^T - G|| ||a||^2 + ||L s - b|| ||a||``.  ``print(problem)`` shows both errors of the
        factor, relative to ||G|| and ||b||.  An eigenvalue of the Gram matrix (at unit diagonal) counts as
        zero if its ratio to the largest eigenvalue is below n_atoms times the rounding error of the dtype.  A
        Gram matrix that was computed as a difference, for example to centre columns with large means, has
        lost digits that no factor restores.

        Examples
        --------
        >>> import numpy as np
        >>> from solvers import LassoProblem, solve_active_set
        >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 2.0, 3.0])
        >>> problem = LassoProblem.from_statistics(X.T @ X, X.T @ y, y @ y, 1.0)
        >>> solve_active_set(problem).codes.round(6), solve_active_set(problem).objective.round(6)
        (array([[0.666667, 1.666667]]), array([2.666667]))
        """
        atoms, signals, product, factor = _factored(gram, correlations, energy)
        made: Any = cls
        return assign(made(atoms, signals, penalty, positive=positive, gram=product), _factor=factor)

    def _facts(self) -> dict[str, str]:
        facts: dict[str, str] = super()._facts()  # type: ignore[misc]
        if self._factor is not None:
            of_gram, of_correlations, rank = self._factor
            facts["from statistics"] = (
                f"a factor of rank {rank:,}, off by {of_gram:.1g} of the Gram matrix and "
                f"{of_correlations:.1g} of the correlations"
            )
        return facts


def _factored(
    gram: Any, correlations: Any, energy: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[float, float, int]]:
    """Return atoms and signals with the given statistics, the Gram matrix of the atoms, and `_factor`."""
    is_single = getattr(gram, "dtype", None) == np.float32
    precision = float(np.finfo(np.float32 if is_single else np.float64).eps)
    given = checks.real_array("gram", gram, shape=(None, None), meaning="(n_atoms, n_atoms)")
    n_atoms, diagonal = len(given), np.diagonal(given)
    if given.shape != (n_atoms, n_atoms):
        raise ValueError(f"gram must be square, D @ D.T; got shape {given.shape}")
    if not diagonal.min() >= 0.0 or not diagonal.any():
        raise ValueError(f"gram must have squared norms on its diagonal, not all 0; got {diagonal.min()}")
    norms = np.sqrt(diagonal)
    units = np.where(norms > 0.0, norms, norms.max())
    scaled = given / units / units[:, np.newaxis]
    cut = n_atoms * precision * n_atoms
    asymmetry = np.abs(scaled - scaled.T).max()
    if asymmetry > cut:
        raise ValueError(
            f"gram must be symmetric; got entries that differ by {asymmetry:.2g} of the norms"
            ": for sums that are noisy, pass (gram + gram.T) / 2"
        )
    rows = np.atleast_2d(correlations) if np.ndim(correlations) == 1 else correlations
    rows = checks.real_array("correlations", rows, shape=(None, n_atoms), meaning="a row for each signal")
    factor, signals, roots = _split(scaled, rows / units, precision)
    implied = np.einsum("ij,ij->i", signals, signals)
    energies = implied if energy is None else checks.positive_array("energy", energy, len(rows), zero=True)
    norms_of_signals = np.sqrt(np.maximum(energies, implied))
    # With atoms at norm one, correlations are at most the norm of a signal, with which `beyond` is compared.
    beyond = np.abs(rows / units - signals @ factor.T).max(axis=1)
    wrong = beyond > 4.0 * np.sqrt(cut) * norms_of_signals
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"correlations must lie in the range of gram, as signals @ D.T do; got {beyond[k]:.2g} outside "
            f"of it for signal {k}, at atoms of norm one: pass sums over the same observations"
        )
    # Effects of the rounding of the Gram matrix and of correlations on the implied energies, in units of
    # n_atoms * precision, with a value for each column of the factor.
    lengths = np.abs(signals) / roots
    rounding = lengths**2 + 2.0 * lengths * norms_of_signals[:, np.newaxis]
    wrong = implied > (1.0 + ENERGY_ROUNDING) * energies + n_atoms * precision * rounding.sum(axis=1)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"energy must be at least what correlations imply, {implied[k]:.6g} for signal {k}; got "
            f"{energies[k]:.6g}: pass ||s||^2, the sum of squares of the same observations"
        )
    rest = np.sqrt(np.maximum(energies - implied, 0.0))
    atoms = np.column_stack([units[:, np.newaxis] * factor, np.zeros(n_atoms)])
    product = atoms @ atoms.T
    of_gram = np.linalg.norm(product - given) / np.linalg.norm(given)
    signals = np.column_stack([signals, rest])
    size = np.linalg.norm(rows)
    of_correlations = np.linalg.norm(signals @ atoms.T - rows) / size if size else 0.0
    return atoms, signals, product, (float(of_gram), float(of_correlations), len(roots))


def _split(
    gram: np.ndarray, correlations: np.ndarray, precision: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return L with L L^T = gram, s with s L^T = correlations, and lower bounds on norms of columns of L."""
    load_scipy_linalg()
    from scipy import linalg

    with suppress(linalg.LinAlgError):
        lower = linalg.cholesky(gram, lower=True)
        if lower.diagonal().min() > LEAST_ROOT:
            signals = linalg.solve_triangular(lower, correlations.T, lower=True).T
            return lower, signals, np.full(len(lower), LEAST_ROOT)
    values, vectors = linalg.eigh(gram)
    if values[0] < -(len(gram) ** 2) * precision:
        raise ValueError(
            "gram must be positive semidefinite, as D @ D.T is; got the eigenvalue "
            f"{values[0]:.2g} at unit diagonal: for sums that are noisy, add a ridge to the diagonal, "
            f"gram + {-2.0 * values[0]:.2g} * np.diag(gram.diagonal())"
        )
    kept = values > len(gram) * precision * values[-1]
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return vectors * roots, correlations @ vectors / roots, roots
