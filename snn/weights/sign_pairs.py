"""Weights of pairs of neurons of opposite sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from snn._kernels.forms import Rows
from snn.base import checks
from snn.weights.dense import DenseWeights
from snn.weights.protocol import Weights, same_type


@dataclass(frozen=True, eq=False, repr=False)
class SignPairWeights(Weights):
    """Weights of n sign pairs: two neurons that receive one lateral current with opposite signs.

    Neuron i < n is the positive neuron of pair i, neuron n + i its negative neuron.  With L the lateral
    weights and X the diagonal matrix of the cross weights, the 2n x 2n weights are::

        [[  L,  X - L ],
         [ X - L,  L  ]]

    They are never built: a spike reads one row of L.

    Parameters
    ----------
    lateral : array_like, DenseWeights, LateralInhibition or InhibitionOnDemand, shape (n_pairs, n_pairs)
        L: weights [source pair, target pair] between neurons of one sign; zero diagonal.
    cross : array_like, shape (n_pairs,)
        X: weight from either neuron of a pair to the other.

    Raises
    ------
    TypeError, ValueError
        If an array does not hold finite real numbers or has a wrong shape, the diagonal is not zero, or
        the lateral weights are of a form without dense rows.
    """

    lateral: Weights
    cross: np.ndarray

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, lateral: Weights | ArrayLike, cross: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        lateral = self.lateral
        if not isinstance(lateral, Weights):
            lateral = DenseWeights.from_argument("lateral", lateral)
        form = lateral.kernel_form()
        if not isinstance(form, Rows) or len(form.cross):
            raise TypeError(
                f"lateral must have one dense row for each pair; got {type(lateral).__name__}: "
                "pass its toarray()"
            )
        cross = checks.real_array(
            "cross", self.cross, shape=(lateral.shape[0],), meaning="one weight for each pair"
        )
        vars(self).update(lateral=lateral, cross=checks.read_only(cross))

    @property
    def layout(self) -> tuple[int, int]:
        """(2, n_pairs): all positive neurons, then all negative ones."""
        return 2, len(self.cross)

    def kernel_form(self) -> Rows:
        form = self.lateral.kernel_form()
        assert isinstance(form, Rows)
        return form._replace(cross=same_type(self.cross, np.float64))

    def toarray(self) -> np.ndarray:
        """Return the 2n x 2n weights as a dense array, for small networks and tests."""
        lateral = self.lateral.toarray()
        opposite = np.diag(self.cross) - lateral
        return np.block([[lateral, opposite], [opposite, lateral]])

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        positive, negative = np.split(amounts, 2, axis=-1)
        lateral = self.lateral.transpose_product(positive - negative)
        return np.concatenate([lateral + self.cross * negative, self.cross * positive - lateral], axis=-1)

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        pairs = sources % len(self.cross)
        return 2 * self.lateral.out_degrees(pairs) + (self.cross[pairs] != 0.0)

    def largest_magnitudes(self) -> np.ndarray:
        return np.tile(np.maximum(self.lateral.largest_magnitudes(), np.abs(self.cross)), 2)

    def column(self, target: int, sources: np.ndarray) -> np.ndarray:
        n_pairs = len(self.cross)
        pair = target % n_pairs
        lateral = self.lateral.column(pair, sources % n_pairs)
        same_sign = (sources < n_pairs) == (target < n_pairs)
        cross = np.where(sources % n_pairs == pair, self.cross[pair], 0.0)
        return np.where(same_sign, lateral, cross - lateral)

    def prepare(
        self, sources: np.ndarray, *, at_most: int | None = None, priority: np.ndarray | None = None
    ) -> None:
        if priority is not None:
            priority = priority.reshape(self.layout).max(axis=0)
        pairs = np.unique(sources % len(self.cross))
        self.lateral.prepare(pairs, at_most=at_most, priority=priority)
