"""The Gram matrix of a dictionary, as active-set solvers and networks use it.

There is one class for each kind of dictionary.  Both have the same methods, so that solvers do not ask which
kind they have.  The curvatures of the penalty (those of an elastic net) are part of the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from snn import InhibitionOnDemand, LateralInhibition, SignPairWeights, StencilWeights
from snn.base import checks
from solvers._kernels.active_set import (
    ENDED,
    N_CORRECTIONS,
    N_MULTIPLY_ADDS,
    N_REPORTED,
    N_ROUNDS,
    solve_active_sets,
    solve_weighted_active_sets,
)
from solvers._kernels.batch import CompressedRows
from solvers.gram import convolutional_active_set, convolutional_network, working_set
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.lasso import LassoProblem
from solvers.problem.norms import inverse_norms
from solvers.problem.setup import ProblemSetup

# Atoms from which on the Gram matrix is not computed for a single signal.  The full matrix of fewer atoms
# takes a millisecond or two: `python -m tests.benchmarks size`.
FEWEST_ON_DEMAND = 512
# In a large dictionary, codes of one signal for each so many atoms take less time without the Gram matrix
# than the matrix takes alone.
ATOMS_PER_SIGNAL = 100
# Signals times atoms in one call of the kernel: some milliseconds, so that Ctrl-C is quick.
VALUES_PER_CALL = 100_000
# Most rounds for one signal, a multiple of the number of atoms.  It is never reached unless rounding errors
# make a support come back.
ROUNDS_PER_ATOM = 10


class ActiveSets(NamedTuple):
    """Optimal codes of some signals, one row or entry each."""

    codes: np.ndarray | sparse.csr_array
    n_corrections: np.ndarray
    """Atoms that left or entered the support of the start; an atom that changed its sign counts twice."""
    n_rounds: np.ndarray
    ended: np.ndarray
    """Whether no atom is left that violates its condition by more than rounding."""
    n_multiply_adds: np.ndarray
    n_gram_multiply_adds: np.ndarray
    """Of entries of the Gram matrix that were computed for these signals."""


def gram_of(
    problem: LassoProblem, *, on_demand: bool = False, most_signals: int = 1
) -> DenseGram | ConvolutionalGram:
    """Return the Gram matrix of a problem's dictionary, with the weights that features have for all signals.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    on_demand : bool, default False
        For few signals, compute only the entries of a large matrix that are used, unless the problem has the
        matrix.  Bits of a code depend on whether they are few, not on what they are; codes of few and of many
        signals agree to rounding.
    most_signals : int, default 1
        Signals that are few.
    """
    setup = problem.weighted_setup
    if isinstance(problem.dictionary, ConvolutionalDictionary):
        return ConvolutionalGram(problem)
    if on_demand and not uses_full_gram(problem, most_signals):
        return DenseGram(setup, on_demand=True)
    return setup.once(DenseGram)


def uses_full_gram(problem: LassoProblem, most_signals: int = 1) -> bool:
    """Return True if all of the Gram matrix of an array is used where parts of it might do."""
    return problem.n_signals > most_signals or problem.n_atoms < FEWEST_ON_DEMAND or problem.has_gram


def codes_by_kernel(
    kernel: Callable[..., None],
    products: tuple[np.ndarray, ...],
    inverse_norms: np.ndarray,
    problem: LassoProblem,
    signals: np.ndarray,
    start: CompressedRows,
    max_rounds: int | None,
) -> ActiveSets:
    """Return what a kernel of the active-set method writes, some milliseconds at a time.

    Parameters
    ----------
    kernel : callable
        The kernel.
    products : tuple of ndarray
        What it takes inner products of atoms from: its first arguments.
    inverse_norms : ndarray, shape (n_atoms,)
        1 / ||d_i||.
    problem, signals, start, max_rounds
        As of `DenseGram.optimal_codes`.
    """
    if max_rounds is None:
        max_rounds = ROUNDS_PER_ATOM * problem.n_atoms
    codes = np.zeros((len(signals), problem.n_atoms))
    report = np.zeros((len(signals), N_REPORTED), dtype=np.int64)
    step = max(1, VALUES_PER_CALL // problem.n_atoms)
    for first in range(0, len(signals), step):
        part = slice(first, first + step)
        kernel(
            *products,
            problem.correlations,
            problem.l1_weights,
            problem.curvatures,
            inverse_norms,
            problem.positive,
            signals[part],
            start,
            max_rounds,
            codes[part],
            report[part],
        )
    return ActiveSets(
        codes,
        report[:, N_CORRECTIONS],
        report[:, N_ROUNDS],
        report[:, ENDED].astype(np.bool_),
        report[:, N_MULTIPLY_ADDS],
        np.zeros(len(signals), dtype=np.int64),
    )


class DenseGram:
    """The Gram matrix of an array of atoms: the full matrix, or as much of it as few signals need.

    Attributes
    ----------
    diagonal : ndarray, shape (n_atoms,)
        ||d_i||^2 plus the curvature of the penalty: the thresholds of neurons.  An atom of norm zero has the
        largest ||d_i||^2 instead.  Its neuron has a negative drive and no weights, and never fires.
    group_length : int
        Neurons of a network are in groups of so many positive ones, followed by their negative ones.
    """

    def __init__(self, setup: ProblemSetup, *, on_demand: bool = False) -> None:
        self._on_demand = on_demand
        # Not the setup, which keeps this.
        self._atoms = setup.atoms
        # Before workers share it.
        self._gram = None if on_demand else setup.gram
        self._inverse_norms = inverse_norms(setup.squared_norms)
        self.diagonal = setup.atoms.positive_squared_norms + setup.curvatures
        self.group_length = setup.n_atoms

    @cached_property
    def _inhibition(self) -> LateralInhibition | InhibitionOnDemand:
        if self._gram is None:
            return InhibitionOnDemand(self._atoms.shape[0], self._atoms.gram_rows)
        return LateralInhibition.unchecked(self._gram)

    def weights(self, *, positive: bool) -> LateralInhibition | InhibitionOnDemand | SignPairWeights:
        """Return W = -(G - diag G), or that of the dictionary [D, -D] unless `positive`."""
        if positive:
            return self._inhibition
        return SignPairWeights(self._inhibition, self._atoms.squared_norms)

    def store(self, atoms: np.ndarray) -> None:
        """Compute the rows of some atoms for a network, unless they are stored."""
        if self._on_demand:
            self._inhibition.prepare(atoms)

    @property
    def n_multiply_adds(self) -> int:
        """Of the rows that were computed on demand, for one signal."""
        if not self._on_demand:
            return 0
        assert isinstance(self._inhibition, InhibitionOnDemand)
        return self._inhibition.n_stored * self._atoms.shape[0] * self._atoms.features_of_atom

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """Return the optimal codes of some signals of a problem.

        Parameters
        ----------
        problem : LassoProblem
            The problem.
        signals : ndarray of int, shape (n_solved,)
            Which signals.
        start : CompressedRows
            Where each signal of the problem starts: atoms and their currents, ||d_i||^2 a_i or a multiple of
            it.
        max_rounds : int, optional
            Most rounds for each signal; 10 for each atom by default.
        """
        if self._on_demand:
            if max_rounds is None:
                max_rounds = ROUNDS_PER_ATOM * problem.n_atoms
            return ActiveSets(*working_set.optimal_codes(problem, signals, start, max_rounds))

        assert self._gram is not None
        return codes_by_kernel(
            solve_active_sets, (self._gram,), self._inverse_norms, problem, signals, start, max_rounds
        )


class OwnWeights:
    """Where each signal has weights of features, in the place of a Gram matrix.

    The products that are used are computed from the atoms, signal by signal, and count as part of the method.
    So a code has the same bits whatever masks the others have.
    """

    def __init__(self, problem: LassoProblem) -> None:
        if problem.atoms.rows is None:
            problem.atoms.refuse_weights()
        self._inverse_norms = inverse_norms(problem.squared_norms)

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """As `DenseGram.optimal_codes`."""
        assert problem.feature_weights is not None
        weights = checks.read_only(problem.feature_weights.astype(np.float64, copy=False))
        assert problem.atoms.rows is not None
        products = (problem.atoms.rows, problem.signals, weights)
        return codes_by_kernel(
            solve_weighted_active_sets, products, self._inverse_norms, problem, signals, start, max_rounds
        )


class ConvolutionalGram:
    """The Gram matrix of a convolutional dictionary, of which only parts are ever computed.

    Attributes
    ----------
    diagonal, group_length
        As of `DenseGram`.
    """

    def __init__(self, problem: LassoProblem) -> None:
        assert isinstance(problem.dictionary, ConvolutionalDictionary)
        self._dictionary = problem.dictionary
        self.diagonal = problem.atoms.positive_squared_norms + problem.curvatures
        self.group_length = problem.dictionary.n_kernels

    def weights(self, *, positive: bool) -> StencilWeights:
        """Return W = -(G - diag G), or that of the dictionary [D, -D] unless `positive`."""
        return convolutional_network.stencil_weights(self._dictionary, positive=positive)

    def store(self, atoms: np.ndarray) -> None:
        """Do nothing: parts are computed where they are used."""

    @property
    def n_multiply_adds(self) -> int:
        """None: inner products of kernels are shared by all signals."""
        return 0

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """As `DenseGram.optimal_codes`; at most 200 rounds by default."""
        solved = convolutional_active_set.optimal_codes(problem, self.diagonal, signals, start, max_rounds)
        return ActiveSets(*solved, np.zeros(len(signals), dtype=np.int64))
