"""Dictionary and penalty of problems, with what solvers compute of these alone."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.html import Described, memory, value_range
from snn.base.unchanging import Unchanging
from solvers.problem.budget import current_memory
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.dictionaries import dictionary_of
from solvers.problem.penalty import ElasticNet, penalty_of
from solvers.problem.signals import feature_weights, require_weighted_norms

Made = TypeVar("Made")


class CodingModel(Unchanging, Described):
    """What problems share: dictionary and penalty, checked, and what solvers compute of these alone.

    Shapes: mask, weights (n_features,).

    Attributes
    ----------
    atoms : Dictionary
        The dictionary by its products.
    penalty : ElasticNet
        With one number an atom.
    positive : bool
        Whether codes must not be negative.
    feature_weights : ndarray, shape (n_features,), or None
        Weights of features that hold for all signals.
    is_prepared : bool
        Whether it is there for batches of signals that come one after the other.
    memory : Memory
        What solvers may take for what they compute of the dictionary: the `memory_limit` of its making.
    """

    def __init__(
        self,
        dictionary: ArrayLike | ConvolutionalDictionary,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool,
        gram: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        self.atoms = dictionary_of(dictionary)
        self.atoms.require_norms()
        self.penalty = self._checked_penalty(penalty)
        self.positive = checks.flag("positive", positive)
        self._gram = None if gram is None else checks.read_only(self.atoms.checked_gram(gram))
        self.feature_weights = feature_weights(mask, weights, n_features=self.atoms.shape[1])
        if self.feature_weights is not None:
            require_weighted_norms(self.atoms, self.feature_weights)
        self.is_prepared = False
        self.memory = current_memory()
        self._weighted: CodingModel | None = None
        # What was made of all of it, and of what is there whatever the penalty.
        self._kept: dict[Callable[..., Any], Any] = {}
        self._kept_of_atoms: dict[Callable[..., Any], Any] = {}

    def _facts(self) -> dict[str, str]:
        penalty = value_range(self.penalty.l1_weights)
        if self.curvatures.any():
            penalty += f", quadratic {value_range(self.curvatures)}"
        facts = {
            **self.atoms._facts(),
            "penalty": penalty,
            "codes": "not negative" if self.positive else "of any sign",
        }
        if self.feature_weights is not None:
            facts["mask" if self.feature_weights.dtype == np.bool_ else "feature weights"] = (
                f"one for all signals, {int(np.count_nonzero(self.feature_weights)):,} of "
                f"{self.feature_weights.size:,} features known"
            )
        if self.has_gram or self.weighted_has_gram:
            facts["Gram matrix"] = memory(8 * self.n_atoms**2)
        elif self.atoms.is_matrix and not self.gram_fits:
            facts["Gram matrix"] = (
                f"none: {memory(8 * self.n_atoms**2)} exceed the memory limit of {memory(self.memory.limit)}"
            )
        return facts

    @property
    def gram(self) -> np.ndarray:
        """G = dictionary @ dictionary.T, whatever the weights of features; computed once."""
        if self._gram is None:
            if self.atoms.is_matrix and not self.gram_fits:
                raise MemoryError(
                    f"the Gram matrix of {self.n_atoms:,} atoms takes {memory(8 * self.n_atoms**2)}, and "
                    f"memory_limit allows {memory(self.memory.limit)}: use solve_active_set or solve_fista, "
                    "which do without it, pass gram, or raise the limit for problems made after that, with "
                    f"solvers.memory_limit({8.08 * self.n_atoms**2:.3g})"
                )
            self._gram = checks.read_only(self.atoms.gram())
        return self._gram

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        return self._gram is not None

    @property
    def gram_fits(self) -> bool:
        """True if the Gram matrix is no larger than the memory limit."""
        return self.memory.fits(8 * self.n_atoms**2)

    @property
    def weighted_has_gram(self) -> bool:
        """True if `weighted` has been made, and its Gram matrix computed."""
        return self._weighted is not None and self._weighted.has_gram

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.atoms.shape[0]

    @property
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2, shape (n_atoms,)."""
        return self.atoms.squared_norms

    @property
    def curvatures(self) -> np.ndarray:
        """m, the quadratic penalty that adds to the diagonal of the Gram matrix, shape (n_atoms,)."""
        return self.penalty.curvatures

    def copy(self) -> CodingModel:
        """Return a model that knows what this one does; what is computed later is its own."""
        other = copy(self)
        other._kept, other._kept_of_atoms = dict(self._kept), dict(self._kept_of_atoms)
        if self._weighted is not None:
            other._weighted = self._weighted.copy()
        return other

    @property
    def weighted(self) -> CodingModel:
        """The model of the atoms as the weights of features leave them: see `of_weights`; made once."""
        if self.feature_weights is None:
            return self
        if self._weighted is None:
            self._weighted = self.of_weights(self.feature_weights)
        return self._weighted

    def of_weights(self, weights: np.ndarray) -> CodingModel:
        """Return the model of the dictionary D diag(sqrt(w)), without features of weight zero.

        All its atoms may be zero.

        Shapes: weights (n_features,).
        """
        other = copy(self)
        other.atoms = self.atoms.weighted(weights)
        other.feature_weights = other._weighted = other._gram = None
        other._kept, other._kept_of_atoms = {}, {}
        return other

    def with_weights(self, weights: np.ndarray) -> CodingModel:
        """Return a model with weights of features for all signals, shape (n_features,)."""
        other = self.copy()
        other.feature_weights, other._weighted = weights, None
        return other

    def with_penalty(self, penalty: float | ArrayLike | ElasticNet) -> CodingModel:
        """Return a model with another penalty, and the Gram matrix if there is one.

        Shapes: penalty (n_atoms,).
        """
        other = self.copy()
        other.penalty = self._checked_penalty(penalty)
        other._kept = {}
        if other._weighted is not None:
            other._weighted = other._weighted.with_penalty(other.penalty)
        return other

    def _checked_penalty(self, penalty: float | ArrayLike | ElasticNet) -> ElasticNet:
        checked = penalty_of(penalty, self.squared_norms)
        if not self.atoms.is_matrix and checked.has_zeros:
            raise ValueError(
                f"penalty must be positive for a {type(self.atoms).__name__}; got 0 for atom "
                f"{int(np.argmin(checked.l1_weights))}: pass a small one"
            )
        return checked

    def has_made(self, make: Callable[[CodingModel], Any]) -> bool:
        """Return True if `once` has been asked for what `make` returns."""
        return make in self._kept or make in self._kept_of_atoms

    def once(self, make: Callable[[CodingModel], Made], *, whatever_penalty: bool = False) -> Made:
        """Return what `make` returns of this model; it is called once, and what it makes is kept."""
        kept = self._kept_of_atoms if whatever_penalty else self._kept
        if make not in kept:
            kept[make] = make(self)
        return kept[make]
