"""The weights of a two-phase network that runs and learns, and their rounding to few bits.

If a format has ``exponent=None``, weights between the layers lie below 1, and lateral weights and
thresholds below 2, because learning keeps atoms at unit norm.  Any other exponent applies to all weights.
"""

import math
from typing import Any

import numpy as np

from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.layers import Layers, Signs
from snn.base import checks
from snn.base.describe import Closed
from snn.digital.format import FixedPoint, round_in_place
from snn.weights import Segments
from solvers.workers.blas import load_scipy_linalg, one_blas_thread

# Smallest threshold of a coding neuron.  Learning keeps thresholds near 1.  A neuron with a threshold of 0
# would spike without end.
LEAST_THRESHOLD = 0.05
# Largest number of columns of the product F B that are computed together.
LATERAL_BLOCK = 128
# F and B lie below 2**LARGEST_FEEDFORWARD, and H lies below 2**LARGEST_LATERAL.
LARGEST_FEEDFORWARD, LARGEST_LATERAL = 0, 1


class Synapses(Closed):
    """The weights F, B and H in one array, which learning changes in place; a pair's neurons share weights.

    Attributes
    ----------
    signs : Signs
        Flags that say whether atoms, codes and signals must not be negative.
    feedforward_rows, feedback_rows, lateral_rows : ndarray
        Matrices F^T, B^T, H^T, shapes (n_inputs, n_atoms), (n_atoms, n_inputs), (n_atoms, n_atoms).
    graded_layers : Layers
        The populations of neurons in a run with graded inputs.
    closed_rows : ndarray, shape (n_atoms, n_atoms), or None
        Rows of H - gamma F B for the last gamma of `close`; None before the first call.
    feedforward, feedback, lateral : ndarray
        Matrices F, B and H, which are transposed views of the same numbers.
    thresholds : ndarray, shape (n_atoms,)
        Firing thresholds of the coding neurons, a view of the diagonal of H.
    """

    _assignable = (
        "n_inputs", "n_atoms", "signs", "values", "feedforward", "feedback", "lateral", "feedforward_rows",
        "feedback_rows", "lateral_rows", "thresholds", "graded_layers", "closed_rows",
    )  # fmt: skip

    def __init__(
        self, feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray, signs: Signs
    ) -> None:
        n_atoms, n_inputs = feedforward.shape
        self.n_inputs, self.n_atoms, self.signs = n_inputs, n_atoms, signs
        self.values = np.concatenate([matrix.T.ravel() for matrix in (feedforward, lateral, feedback)])
        self._offsets = (0, n_inputs * n_atoms, (n_inputs + n_atoms) * n_atoms)
        _, second, third = self._offsets
        self.feedforward_rows = self.values[:second].reshape(n_inputs, n_atoms)
        self.lateral_rows = self.values[second:third].reshape(n_atoms, n_atoms)
        self.feedback_rows = self.values[third:].reshape(n_atoms, n_inputs)
        self.feedforward, self.lateral = self.feedforward_rows.T, self.lateral_rows.T
        self.feedback = self.feedback_rows.T
        self.thresholds = self.values[second : third : n_atoms + 1]
        self.graded_layers = Layers(n_inputs, n_atoms, signs, graded=True)
        self.closed_rows: np.ndarray | None = None
        self._weights: dict[tuple[float, bool, bool], Segments] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # All matrices are views of one array.  A plain copy or pickle would copy each matrix to a separate
        # array.
        matrices = self.feedforward, self.feedback, self.lateral
        return Synapses, (*matrices, self.signs), {"closed_rows": self.closed_rows}

    @property
    def consistency(self) -> float:
        """Agreement of H and F B, 1 - ||H - F B|| / ||H||."""
        mismatch = self._closed(1.0, np.empty_like(self.lateral_rows))
        return 1.0 - float(np.linalg.norm(mismatch) / np.linalg.norm(self.lateral_rows))

    @property
    def symmetry(self) -> float:
        """Agreement of F and B^T, 1 - ||F - B^T|| / ||B||."""
        differences = self.feedforward - self.feedback_rows
        difference, size = (float(np.linalg.norm(each)) for each in (differences, self.feedback_rows))
        # B is zero if every atom has vanished.
        return 1.0 - (difference / size if size > 0.0 else math.inf if difference > 0.0 else 0.0)

    def replace(self, atom: int | np.ndarray, feedforward: np.ndarray, feedback: np.ndarray) -> None:
        """Set the weights F and B of one or more coding neurons, and set their lateral weights to F B."""
        self.feedforward_rows[:, atom] = feedforward
        self.feedback_rows[atom] = feedback
        self.lateral_rows[:, atom] = self.feedback_rows @ feedforward
        self.lateral_rows[atom] = feedback @ self.feedforward_rows
        self.thresholds[atom] = np.maximum(self.thresholds[atom], LEAST_THRESHOLD)

    def close(self, gamma: float) -> None:
        """Compute `closed_rows`: lateral weights and thresholds with the feedback of graded inputs.

        All parts of a batch share `closed_rows`, because BLAS may round differently on other machines.
        """
        known = self.closed_rows
        self.closed_rows = self._closed(gamma, np.empty_like(self.lateral_rows) if known is None else known)

    def _closed(self, gamma: float, closed: np.ndarray) -> np.ndarray:
        """Write the rows of H - gamma F B to the array `closed`, and return the array."""
        forward, back, lateral = self.feedforward_rows, self.feedback_rows, self.lateral_rows
        with one_blas_thread():
            if len(back) <= LATERAL_BLOCK or not updates.is_transpose(forward, back):
                np.matmul(back, forward, out=closed)
                closed *= -gamma
                closed += lateral
                return closed
            load_scipy_linalg()
            from scipy.linalg.blas import dsyrk

            # F B is symmetric, so compute only its lower half, LATERAL_BLOCK columns at a time.
            for first in range(0, len(back), LATERAL_BLOCK):
                block, others = back[first : first + LATERAL_BLOCK], back[first + LATERAL_BLOCK :]
                product = np.empty((len(block) + len(others), len(block)))
                dsyrk(1.0, block.T, c=product[: len(block)].T, trans=True, overwrite_c=True)
                np.matmul(others, block.T, out=product[len(block) :])
                updates.close_columns(closed, lateral, product, first, gamma)
        return closed

    def weights(self, layers: Layers, gamma: float) -> Segments:
        """Return the weights of layers of neurons at feedback gamma, as views that change with learning."""
        key = gamma, layers.predicted, layers.graded
        if key not in self._weights:
            values, offsets = self.values, self._offsets
            if layers.graded and gamma != 0.0:
                assert self.closed_rows is not None
                values, offsets = self.closed_rows.ravel(), (0, 0, 0)
            connections = layers.connections(gamma, offsets)
            self._weights[key] = Segments(layers.n_neurons, connections, values)
        return self._weights[key]

    def round(self, weight_format: FixedPoint, rng: np.random.Generator) -> int:
        """Round F, B and H to the format and its range; return the number of weights outside the range."""
        between, lateral = exponents(weight_format)
        n_saturated = sum(
            round_in_place(weight_format, rows, exponent=exponent, rng=rng)
            for rows, exponent in (
                (self.feedforward_rows, between),
                (self.feedback_rows, between),
                (self.lateral_rows, lateral),
            )
        )
        least = math.ceil(LEAST_THRESHOLD / 2.0**lateral) * 2.0**lateral
        np.maximum(self.thresholds, least, out=self.thresholds)
        return n_saturated


def checked_format(weight_format: FixedPoint, signs: Signs) -> FixedPoint:
    """Check that a number format can hold the weights of a network, and return the format."""
    checks.instance_of("weight_format", weight_format, FixedPoint)
    if weight_format.sign == "non-positive":
        raise ValueError(
            "weight_format must have numbers that are not negative, since inhibition is stored as its "
            "magnitude; got the sign 'non-positive'"
        )
    if weight_format.sign != "signed" and not signs.positive_atoms:
        raise ValueError(
            "weight_format must be signed if atoms may be negative (positive_atoms=False); got the sign "
            f"{weight_format.sign!r}"
        )
    largest = weight_format.largest * 2.0 ** exponents(weight_format)[1]
    if largest < LEAST_THRESHOLD:
        raise ValueError(
            f"weight_format must reach {LEAST_THRESHOLD}, the smallest threshold; got numbers up to "
            f"{largest}: choose a larger exponent"
        )
    return weight_format


def exponents(weight_format: FixedPoint) -> tuple[int, int]:
    """Return the exponent of F and B, and the exponent of H."""
    if weight_format.exponent is not None:
        return weight_format.exponent, weight_format.exponent
    bits = (weight_format.largest + 1).bit_length() - 1
    return LARGEST_FEEDFORWARD - bits, LARGEST_LATERAL - bits
