"""What active-set methods and networks ask of a Gram matrix, whatever its kind."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from snn.weights.protocol import Weights
from solvers._kernels.batch import CompressedRows
from solvers.certificate.optimality import Optimality
from solvers.problem.lasso import LassoProblem


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
    optimality: Optimality | None = None
    """The certificates of these codes, where they were needed to know that all is done."""


class Gram(Protocol):
    """The products of atoms that an active-set method needs.

    The curvatures of the penalty (those of an elastic net) are part of the diagonal.
    """

    def optimal_codes(
        self, problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int | None = None
    ) -> ActiveSets:
        """Return the optimal codes of some signals of a problem.

        Shapes: signals (n_solved,).
        """


class NetworkGram(Gram, Protocol):
    """A Gram matrix of which the weights of a network are made, too.

    Attributes
    ----------
    diagonal : ndarray, shape (n_atoms,)
        ||d_i||^2 plus the curvature of the penalty: the thresholds of neurons.  An atom of norm zero has the
        largest ||d_i||^2 instead.  Its neuron has a negative drive and no weights, and never fires.
    group_length : int
        Neurons of a network are in groups of so many positive ones, followed by their negative ones.
    """

    diagonal: np.ndarray
    group_length: int

    @property
    def n_multiply_adds(self) -> int:
        """Of entries that were computed on demand for a network of one signal."""

    def weights(self, *, positive: bool) -> Weights:
        """Return W = -(G - diag G), or that of the dictionary [D, -D] unless `positive`."""

    def store(self, atoms: np.ndarray) -> None:
        """Compute the rows of some atoms for a network, if they are computed on demand."""
