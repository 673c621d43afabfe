"""The kinds of Gram matrices, as active-set methods and networks use them (`solvers.gram.protocol`).

- `FullGram`: the matrix of an array of atoms;
- `GramOnDemand`: as much of it as few signals need;
- `SharedProducts`: none, of many atoms whose products with residuals many signals share;
- `OwnWeights`: none, where each signal has weights of features of its own;
- `ConvolutionalGram`: parts of that of a convolutional dictionary.

`gram_of` chooses the kind.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from snn import DenseRows, StencilWeights
from snn.base import checks
from snn.base.describe import memory
from snn.base.locks import cached_property
from snn.weights.protocol import Weights
from solvers._kernels.active_set import solve_active_sets, solve_weighted_active_sets
from solvers._kernels.batch import CompressedRows
from solvers._kernels.factor import Terms
from solvers.gram import convolutional_active_set, shared_products, working_set
from solvers.gram.compiled import ROUNDS_PER_ATOM, codes_by_kernel
from solvers.gram.convolutional_network import Stencils
from solvers.gram.protocol import ActiveSets, NetworkGram
from solvers.problem.dictionary import inverse_norms
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.matrix import UnitAtoms
from solvers.problem.screening import largest_ratios

# Atoms from which on the Gram matrix is not computed for a single signal.  The full matrix of fewer atoms
# takes a millisecond or two.
FEWEST_ON_DEMAND = 512
# In a large dictionary, codes of one signal for each so many atoms take less time without the Gram matrix
# than the matrix takes alone.
ATOMS_PER_SIGNAL = 100
# Signals from which on products of matrices pay, where they share them.
FEWEST_SHARING = 4
# Signals that share products: at least, whatever the limit; as many as products of matrices need to run at
# full speed; and where the atoms are converted each time, so many that this is not the cost.
LEAST_SHARING, SHARING, SHARING_CONVERTED = 16, 512, 4096
# Rows of the Gram matrix that a network has from the beginning, for each signal that shares them.
ROWS_PER_SIGNAL = 24


def gram_of(problem: LassoProblem, *, on_demand: bool = False, most_signals: int = 1) -> NetworkGram:
    """Return the Gram matrix of a problem's atoms, with the weights of features that all signals share."""
    model = problem.weighted_model
    if not model.atoms.is_matrix:
        return model.once(ConvolutionalGram)
    if on_demand and shares_products(problem, most_signals):
        return SharedProducts(problem)
    is_too_large = not (problem.has_gram or problem.model.gram_fits)
    if on_demand and (is_too_large or not uses_full_gram(problem, most_signals)):
        return GramOnDemand(model)
    return model.once(FullGram)


def uses_full_gram(problem: LassoProblem, most_signals: int = 1) -> bool:
    """Return True if all of the Gram matrix of an array is used where parts of it might do."""
    return problem.n_signals > most_signals or problem.n_atoms < FEWEST_ON_DEMAND or problem.has_gram


def shares_products(problem: LassoProblem, most_signals: int = 1) -> bool:
    """Return True if products of residuals take the place of a Gram matrix that is too large.

    Up to `most_signals` are solved one by one, unless they are enough to share products, or others follow.
    """
    if problem.atoms.rows is None or problem.has_gram or problem.model.gram_fits:
        return False
    # Screening counts in units of penalties.
    if problem.penalty.has_zeros:
        return False
    return problem.n_signals > min(most_signals, FEWEST_SHARING - 1) or problem.model.is_prepared


def with_shared_conversion(problem: LassoProblem, n_penalties: int) -> LassoProblem:
    """Return the problem of which many will be made with other penalties, one after the other.

    Where the Gram matrix is too large, they share the atoms in single precision, even of a single signal.
    """
    if n_penalties >= FEWEST_SHARING:
        problem = problem.prepared()
    if shares_products(problem):
        problem.model.once(UnitAtoms, whatever_penalty=True)
    return problem


def _terms(problem: LassoProblem, inverse_norms: np.ndarray) -> Terms:
    return Terms(
        problem.correlations, problem.l1_weights, problem.curvatures, inverse_norms, problem.positive
    )


class FullGram:
    """The Gram matrix of an array of atoms."""

    n_multiply_adds = 0

    def __init__(self, model: LassoModel) -> None:
        # Not the model, which keeps this.  The matrix is computed before workers share it.
        self._gram = model.gram
        self._squared_norms = model.squared_norms
        self._inverse_norms = inverse_norms(model.squared_norms)
        self.diagonal = model.atoms.positive_squared_norms + model.curvatures
        self.group_length = model.n_atoms

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy forgets that they are read-only, for which kernels are compiled.
        frozen = {name: checks.read_only(state[name]) for name in ("_gram", "_squared_norms")}
        vars(self).update(state, **frozen)

    @cached_property
    def _inhibition(self) -> DenseRows:
        return DenseRows(self._gram, -1.0)

    def weights(self, *, positive: bool) -> Weights:
        """Return lateral inhibition."""
        return self._inhibition if positive else self._inhibition.sign_pairs(self._squared_norms)

    def store(self, atoms: np.ndarray) -> None:
        """Do nothing: all rows are there."""

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """See `Gram`."""
        terms = _terms(problem, self._inverse_norms)
        return codes_by_kernel(solve_active_sets, (self._gram,), terms, signals, start, max_rounds)


class GramOnDemand:
    """As much of the Gram matrix of an array of atoms as few signals need: none for an active-set method, and
    rows of atoms whose neurons fire for a network."""

    def __init__(self, model: LassoModel) -> None:
        self._atoms = model.atoms
        self._inhibition = DenseRows.on_demand(model.n_atoms, model.atoms.gram_rows, -1.0)
        self.diagonal = model.atoms.positive_squared_norms + model.curvatures
        self.group_length = model.n_atoms

    @property
    def n_multiply_adds(self) -> int:
        """Of the rows that were computed for a network."""
        return self._inhibition.n_stored * self._atoms.shape[0] * self._atoms.features_of_atom

    def weights(self, *, positive: bool) -> Weights:
        """Return lateral inhibition whose rows are computed when they are used."""
        return self._inhibition if positive else self._inhibition.sign_pairs(self._atoms.squared_norms)

    def store(self, atoms: np.ndarray) -> None:
        """Compute the rows of some atoms, unless they are stored."""
        self._inhibition.prepare(atoms)

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """See `Gram`."""
        if max_rounds is None:
            max_rounds = ROUNDS_PER_ATOM * problem.n_atoms
        return working_set.optimal_codes(problem, signals, start, max_rounds)


class SharedProducts:
    """Where many signals share products with many atoms, in the place of a Gram matrix that is too large.

    The active-set method is that of `solvers.gram.shared_products`.  A network has rows that are computed
    when a neuron fires, for all signals; as all that they share, these are not counted.
    """

    n_multiply_adds = 0

    def __init__(self, problem: LassoProblem) -> None:
        self._unit_atoms = problem.model.once(UnitAtoms, whatever_penalty=True)
        # Without the Gram matrix of anything: a network is made of it when one is asked for.
        self._of_network = None if problem.has_own_weights else problem.weighted_model
        model = problem.model if self._of_network is None else self._of_network
        self.diagonal = model.atoms.positive_squared_norms + model.curvatures
        self.group_length = model.n_atoms

    def of_batch(self, problem: LassoProblem) -> SharedProducts:
        """Return one with rows for a network of the signals of a problem, which are forgotten with them.

        Rows of the atoms that are driven most are computed together, which takes a quarter of the time.
        """
        other = copy(self)
        vars(other).pop("_inhibition", None)
        largest = largest_ratios(
            self._unit_atoms,
            problem.atoms.norms / problem.l1_weights,
            _pulls(problem),
            ROWS_PER_SIGNAL,
            positive=problem.positive,
        )
        n_rows = problem.model.memory_limit // (16 * problem.n_atoms)
        driven = np.unique(largest.atoms[largest.ratios >= 1.0])[:n_rows]
        if len(driven):
            other.store(driven)
        return other

    @cached_property
    def _inhibition(self) -> DenseRows:
        return DenseRows.on_demand(self.group_length, self._rows, -1.0)

    def _rows(self, atoms: np.ndarray) -> np.ndarray:
        """Return rows of the Gram matrix, as long as all of them are within the limit."""
        assert self._of_network is not None
        n_bytes = 8 * self.group_length * (self._inhibition.n_stored + len(atoms))
        if not self._of_network.fits(n_bytes):
            raise MemoryError(
                f"rows of the Gram matrix, of {self.group_length:,} atoms, for the neurons that fire in one "
                f"batch take {memory(n_bytes)} and more, and memory_limit allows "
                f"{memory(self._of_network.memory_limit)}: use "
                "solve_active_set, which needs none, or raise the limit for problems made after that, with "
                f"solvers.memory_limit({4.0 * n_bytes:.3g})"
            )
        return self._of_network.atoms.gram_rows(atoms)

    def weights(self, *, positive: bool) -> Weights:
        """Return lateral inhibition whose rows are computed when they are used."""
        if positive:
            return self._inhibition
        assert self._of_network is not None
        return self._inhibition.sign_pairs(self._of_network.squared_norms)

    def store(self, atoms: np.ndarray) -> None:
        """Compute the rows of some atoms, unless they are stored."""
        self._inhibition.prepare(atoms)

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """See `Gram`."""
        if max_rounds is None:
            max_rounds = ROUNDS_PER_ATOM * problem.n_atoms
        return shared_products.optimal_codes(problem, self._unit_atoms, signals, start, max_rounds)

    def batches(self, problem: LassoProblem, n_workers: int) -> list[slice]:
        """Return which signals share products: as many as pay, and memory holds."""
        most = SHARING if self._unit_atoms.is_kept else SHARING_CONVERTED
        share = problem.model.memory_limit // (8 * n_workers)
        size = min(most, share // shared_products.bytes_per_signal(problem.n_features))
        if n_workers > 1:
            size = min(size, -(-problem.n_signals // n_workers))
        size = max(size, LEAST_SHARING)
        return [slice(first, first + size) for first in range(0, problem.n_signals, size)]


def _pulls(problem: LassoProblem) -> np.ndarray:
    """Return the signals times the weights of features."""
    signals, weights = problem.dense_signals(), problem.feature_weights
    return signals if weights is None else signals * weights


class OwnWeights:
    """Where each signal has weights of features, in the place of a Gram matrix.

    The products that are used are computed from the atoms, signal by signal, and count as part of the method.
    So a code has the same bits whatever masks the others have.
    """

    def __init__(self, problem: LassoProblem) -> None:
        self._inverse_norms = inverse_norms(problem.squared_norms)

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """See `Gram`."""
        assert problem.feature_weights is not None
        weights = checks.read_only(problem.feature_weights.astype(np.float64, copy=False))
        products = (problem.atoms.array, problem.signals, weights)
        terms = _terms(problem, self._inverse_norms)
        return codes_by_kernel(solve_weighted_active_sets, products, terms, signals, start, max_rounds)


class ConvolutionalGram:
    """The Gram matrix of a convolutional dictionary, of which only parts are ever computed.

    Inner products of kernels, of which they are made, are shared by all signals.
    """

    n_multiply_adds = 0

    def __init__(self, model: LassoModel) -> None:
        self._stencils = model.once(Stencils, whatever_penalty=True)
        self.diagonal = model.atoms.positive_squared_norms + model.curvatures
        self.group_length = self._stencils.n_kernels

    def weights(self, *, positive: bool) -> StencilWeights:
        """Return weights that are the same at every position."""
        return self._stencils.positive if positive else self._stencils.signed

    def store(self, atoms: np.ndarray) -> None:
        """Do nothing: parts are computed where they are used."""

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """See `Gram`."""
        return convolutional_active_set.optimal_codes(problem, self.diagonal, signals, start, max_rounds)
