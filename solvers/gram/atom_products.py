"""Products of atoms for active-set methods and networks, with a class for each of `solvers.plan.Products`."""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy import sparse

from snn import DenseRows, StencilWeights
from snn.base import checks
from snn.base.describe import memory
from snn.base.value import Value, cached_property, replaced
from snn.weights.protocol import Weights
from solvers._kernels.certificate import RowEntries
from solvers._kernels.factor import Terms
from solvers._kernels.products import GramMatrix, WeightedAtoms
from solvers.gram import convolutional
from solvers.gram.working_set import ATOMS_LISTED, codes_by_kernel, codes_of_few, codes_of_many
from solvers.plan import Products, batches_that_share, products_for
from solvers.problem.atoms import inverse_norms
from solvers.problem.convolutional_dictionary import ConvolutionalAtoms
from solvers.problem.largest import largest_ratios
from solvers.problem.lasso import LassoModel, LassoProblem, unit_atoms_of
from solvers.problem.matrix import VALUES_PER_BLOCK
from solvers.results.codes import Codes, compressed_rows

# Number of signals whose codes are computed first, if the choice of products depends on the size of supports.
PILOTS = 4
# Number of rows of the Gram matrix, for each signal of a batch, that are computed before the network runs.
ROWS_PER_SIGNAL = 24


def products_of(problem: LassoProblem, *, on_demand: bool = False, most_signals: int = 1) -> AtomProducts:
    """Return the products of a problem's atoms that `plan.products_for` chooses."""
    match products_for(problem, on_demand=on_demand, most_signals=most_signals, support_of=_mean_support):
        case Products.FULL:
            return problem.cached(FullGram)
        case Products.GRID:
            return problem.cached(ConvolutionalGram)
        case Products.SHARED:
            return SharedProducts(problem)
        case Products.OWN:
            return OwnWeights(problem.model)
        case Products.ON_DEMAND:
            return GramOnDemand(problem.model)


def _mean_support(problem: LassoProblem) -> float:
    """Return the mean number of atoms in the codes of a few signals."""
    pilots = np.unique(np.linspace(0, problem.n_signals - 1, PILOTS).astype(int))
    no_start = RowEntries(np.zeros(problem.n_signals + 1, np.int32), np.empty(0, np.int32), np.empty(0))
    return codes_of_few(problem, pilots, no_start, None).values.nnz / len(pilots)


def count_corrections(start: RowEntries, signals: np.ndarray, codes: sparse.csr_array) -> np.ndarray:
    """Return how many atoms entered or left the support of the start; a changed sign counts twice."""
    if not len(start.values):
        return np.diff(codes.indptr).astype(np.int64)
    if len(start.pointers) == 2:  # for a single signal, sparse arrays would take as long as the solver
        signs = np.zeros(codes.shape[1])
        signs[start.columns] = np.sign(start.values)
        signs[codes.indices] -= np.sign(codes.data)
        return np.array([np.abs(signs).sum()], dtype=np.int64)
    before = compressed_rows((len(start.pointers) - 1, codes.shape[1]), start)[signals]
    return abs(before.sign() - codes.sign()).sum(axis=1).astype(np.int64)


class AtomProducts(Value):
    """Products of atoms for the active-set method and for a network; curvatures are part of the diagonal."""

    def __init__(self, model: LassoModel) -> None:
        # The model may keep an object of this class, so that the object has no reference to the model.
        self._squared_norms = model.seen_atoms.squared_norms
        # The thresholds of neurons.  For an atom of norm zero, the threshold is the largest ||d_i||^2 of all
        # atoms.  The neuron of an atom of norm zero has a negative drive and no weights, and never fires.
        self.diagonal = checks.read_only(model.seen_atoms.positive_squared_norms + model.curvatures)
        # Neurons of a network are in groups: `group_length` positive neurons, then the negative neurons of
        # the same atoms.
        self.group_length = model.n_atoms
        # Multiply-adds of the Gram entries that were computed on demand for the network of one signal.
        self.n_multiply_adds = 0

    @cached_property
    def _inhibition(self) -> DenseRows:
        raise NotImplementedError

    def weights(self, *, positive: bool) -> Weights:
        """Return W = -(G - diag G) if `positive`, otherwise W of the dictionary [D, -D]."""
        return self._inhibition if positive else self._inhibition.sign_pairs(self._squared_norms)

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: RowEntries, max_rounds: int | None = None
    ) -> Codes:
        """Return the optimal codes of some signals of a problem, from the atoms of a start."""
        codes = self._codes(problem, signals, start, max_rounds)
        codes.info["n_corrections"] = count_corrections(start, signals, codes.values)
        return codes

    def _codes(
        self, problem: LassoProblem, signals: np.ndarray, start: RowEntries, max_rounds: int | None
    ) -> Codes:
        norms = inverse_norms(self._squared_norms)
        terms = Terms(problem.correlations, problem.l1_weights, problem.curvatures, norms, problem.positive)
        return codes_by_kernel(self._products(problem), terms, signals, start, max_rounds)

    def _products(self, problem: LassoProblem) -> GramMatrix | WeightedAtoms:
        """Return the products of atoms in the form that the kernel takes."""
        raise NotImplementedError


class FullGram(AtomProducts):
    """The Gram matrix of an array of atoms."""

    def __init__(self, model: LassoModel) -> None:
        super().__init__(model)
        # The Gram matrix is computed in the constructor, before workers share the matrix.
        self._gram = model.gram

    @cached_property
    def _inhibition(self) -> DenseRows:
        return DenseRows(self._gram, -1.0)

    def _products(self, problem: LassoProblem) -> GramMatrix:
        return GramMatrix(self._gram)


class GramOnDemand(AtomProducts):
    """The rows of the Gram matrix of an array of atoms that a few signals need."""

    def __init__(self, model: LassoModel) -> None:
        super().__init__(model)
        self._atoms = model.seen_atoms

    @cached_property
    def _inhibition(self) -> DenseRows:
        return DenseRows.on_demand(self.group_length, self._rows, -1.0)

    def _rows(self, atoms: np.ndarray) -> np.ndarray:
        self.n_multiply_adds += len(atoms) * self._atoms.shape[0] * self._atoms.features_of_atom
        return self._atoms.gram_rows(atoms)

    _codes = staticmethod(codes_of_few)


class SharedProducts(GramOnDemand):
    """Products of the residuals of many signals with all atoms, if the Gram matrix would be too large."""

    # A network computes a row when the neuron of the row first fires.  All signals use the row, so that its
    # multiply-adds are not counted for any signal.

    def __init__(self, problem: LassoProblem) -> None:
        self._unit_atoms = problem.cached(unit_atoms_of, any_penalty=True)
        # Signals with different weights of features have no network.
        super().__init__(problem.model)
        self._memory_limit = problem.memory_limit

    def of_batch(self, problem: LassoProblem) -> SharedProducts:
        """Return a copy for the network of one batch, whose rows are freed with the batch."""
        # Computing the rows of the most driven atoms together takes a quarter of the time.
        other = replaced(self, without=("_inhibition",))
        signals, weights = problem.dense_signals(), problem.feature_weights
        largest = largest_ratios(
            self._unit_atoms,
            problem.atoms.norms / problem.l1_weights,
            signals if weights is None else signals * weights,
            ROWS_PER_SIGNAL,
            positive=problem.positive,
        )
        n_rows = problem.memory_limit // (16 * problem.n_atoms)
        driven = np.unique(largest.atoms[largest.ratios >= 1.0])[:n_rows]
        if len(driven):
            other._inhibition.compute_rows(driven)
        return other

    def _rows(self, atoms: np.ndarray) -> np.ndarray:
        """Return rows of the Gram matrix; raise MemoryError if all rows exceed the memory limit."""
        n_bytes = 8 * self.group_length * (self._inhibition.n_stored + len(atoms))
        if n_bytes > self._memory_limit:
            raise MemoryError(
                f"the rows of the Gram matrix of {self.group_length:,} atoms, for neurons that fire in one "
                f"batch, take {memory(n_bytes)} or more, and memory_limit allows "
                f"{memory(self._memory_limit)}: use solve_active_set, which needs no rows, or raise the "
                f"limit for problems made afterwards, with solvers.memory_limit({4.0 * n_bytes:.3g})"
            )
        return self._atoms.gram_rows(atoms)

    def _codes(
        self, problem: LassoProblem, signals: np.ndarray, start: RowEntries, max_rounds: int | None
    ) -> Codes:
        return codes_of_many(problem, self._unit_atoms, signals, start, max_rounds)

    def batches(self, problem: LassoProblem, n_workers: int) -> list[slice]:
        """Return batches of signals that share products, limited by speed and by memory."""
        # Size of the buffers for the residual, the products and the lists of one signal.
        bytes_per_signal = (
            8 * (8 * problem.n_features + 8 * ATOMS_LISTED) + 4 * VALUES_PER_BLOCK // problem.n_features
        )
        converts = not self._unit_atoms.is_kept
        return batches_that_share(problem, n_workers, bytes_per_signal, converts=converts)


class OwnWeights(AtomProducts):
    """Products without a Gram matrix, for signals with different weights of features."""

    # Products are computed from the atoms when they are needed, signal by signal, and their multiply-adds
    # count as part of the method.  Therefore, the masks of other signals do not change the bits of a code.

    def _products(self, problem: LassoProblem) -> WeightedAtoms:
        assert problem.feature_weights is not None
        weights = checks.read_only(problem.feature_weights.astype(np.float64, copy=False))
        return WeightedAtoms(problem.atoms.array, problem.signals, weights, np.empty(problem.n_features))


class ConvolutionalGram(AtomProducts):
    """The Gram matrix of a convolutional dictionary, of which only parts are ever computed."""

    # The parts consist of inner products of kernels, which all signals share.  Each position of the grid has
    # a channel for each kernel.  For codes of either sign, the channels of the positive neurons of all
    # kernels come first, followed by the channels of the negative neurons.

    def __init__(self, model: LassoModel) -> None:
        super().__init__(model)
        self._dictionary = cast(ConvolutionalAtoms, model.atoms)
        self.group_length = self._dictionary.n_kernels

    def weights(self, *, positive: bool) -> StencilWeights:
        """Return convolutional weights, which are equal at all positions."""
        values = -self._dictionary.stencil
        if not positive:
            values = np.concatenate([values, -values], axis=3)
            values = np.concatenate([values, -values], axis=0)
        n_channels, n_row_offsets, n_column_offsets, _ = values.shape
        channels = np.arange(n_channels)
        values[channels, n_row_offsets // 2, n_column_offsets // 2, channels] = 0.0
        return StencilWeights(values, self._dictionary.grid_shape)

    def _codes(
        self, problem: LassoProblem, signals: np.ndarray, start: RowEntries, max_rounds: int | None
    ) -> Codes:
        return convolutional.optimal_codes(problem, self.diagonal, signals, start, max_rounds)
