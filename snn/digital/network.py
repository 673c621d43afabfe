"""A spiking network in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, cached_property
from snn.digital.fixed_point import FixedPoint, FixedPointArray
from snn.digital.format import (
    BITS_ABOVE_THRESHOLD,
    MOST_DELAY,
    MOST_REGISTER_BITS,
    DigitalFormat,
    checked_step,
)
from snn.network import SpikingNetwork
from snn.weights import SparseWeights

# Thresholds that a graded message has room for.
BITS_ABOVE_GRADED = 2
# Sums of all that can reach a neuron in one step; those of input spikes are exact as floats.
LARGEST_SUM, LARGEST_INPUT = 2**60, 2**53


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalNetwork(Value, Described):
    """A spiking network in integers: `DigitalNetwork.of` makes it of a `SpikingNetwork`.

    Let q be the `unit` of potentials, so that the largest threshold of the network is ``format.threshold``
    units, and
    dt the time step.  The decay of currents is delta / 2^k with k = ``format.decay_bits``::

        delta = round(2^k (1 - e^-dt))                       in [1, 2^k]
        threshold_i = round(theta_i / q)
        bias_i = round(beta_i dt / q)
        weights_ji = round(W_ji message_value_j (delta / 2^k) / q)

    A spike then brings its weight in full over all steps, as long as the decay is not rounded.

    Attributes
    ----------
    network : SpikingNetwork
        What it was made of.
    format : DigitalFormat
        Widths and rounding.
    time_step : float
        dt, in synaptic time constants.
    unit : float
        q: the potential that the integer 1 stands for.
    decay : int
        delta.
    firing_threshold : ndarray of int64, shape (n_neurons,)
        Thresholds.
    weights : FixedPointArray
        The mantissas of the weights that are not zero, source by source, and their exponent.
    targets, starts : ndarray of int64
        ``targets[starts[j] : starts[j + 1]]`` are those of neuron j.
    delays : ndarray of int64, shape (n_neurons,)
        Steps that the spikes of a neuron take besides the one in which they are sent.
    message_shift : int
        Low bits of a potential that a graded message leaves out; 0 if messages are numbers of spikes.
    """

    network: SpikingNetwork
    format: DigitalFormat
    time_step: float
    unit: float
    decay: int
    firing_threshold: np.ndarray
    weights: FixedPointArray
    targets: np.ndarray
    starts: np.ndarray
    delays: np.ndarray
    message_shift: int

    _shown: ClassVar = ("n_neurons", "format", "time_step", "unit", "firing_threshold", "delays")

    @classmethod
    def of(
        cls,
        network: SpikingNetwork,
        format: DigitalFormat,
        *,
        time_step: float,
        delays: ArrayLike | None = None,
    ) -> DigitalNetwork:
        """Make a network of integers.

        Parameters
        ----------
        network : SpikingNetwork
            The network in real numbers.
        format : DigitalFormat
            Widths and rounding.
        time_step : float
            dt, in synaptic time constants.
        delays : array_like of int, shape (n_neurons,), optional
            A delay for the spikes of each neuron, in place of that of the format.

        Notes
        -----
        Weights of every form become rows of mantissas, 16 bytes a weight.  Unless they are sparse they are
        written out as an array first.
        """
        checks.instance_of("network", network, SpikingNetwork)
        checks.instance_of("format", format, DigitalFormat)
        time_step = checked_step(time_step)
        threshold = format.threshold or 2 ** max(0, format.potential_bits - BITS_ABOVE_THRESHOLD)
        delays = _checked_delays(delays, network.n_neurons, format)
        steps_of_decay = 2**format.decay_bits
        decay = round(steps_of_decay * -math.expm1(-time_step))
        if decay < 1:
            raise ValueError(
                f"time_step must be so long that a current falls by at least half of 2^-{format.decay_bits} "
                f"in a step; got {time_step}: give the format more decay_bits"
            )
        unit = float(network.firing_threshold.max()) / threshold
        thresholds = np.rint(network.firing_threshold / unit).astype(np.int64)
        # Also where the quotient is rounded.
        thresholds = np.minimum(thresholds, threshold)
        thresholds[network.firing_threshold == network.firing_threshold.max()] = threshold
        if thresholds.min() < 1:
            raise ValueError(
                f"threshold must be so large that every threshold is at least one unit; got "
                f"{threshold}, and thresholds {network.firing_threshold.min():.3g} to "
                f"{network.firing_threshold.max():.3g}"
            )
        shift = 0
        if format.graded:
            shift = max(0, threshold.bit_length() + BITS_ABOVE_GRADED - format.message_bits)
        if int(thresholds.min()) >> shift < 1:
            raise ValueError(
                f"message_bits must be so many that a graded message can say the smallest threshold, "
                f"{int(thresholds.min())} units; got {format.message_bits}, whose unit is 2^{shift} of these"
            )
        rows = _rows(network)
        # What one unit of a message stands for, in spikes.
        values = 2.0**shift / thresholds if format.graded else np.ones(network.n_neurons)
        scale = decay / steps_of_decay / unit
        per_source = np.repeat(values * scale, np.diff(rows.indptr))
        weights = _quantised(format.weights, rows.data * per_source, format.seed)
        made = cls(
            network=network,
            format=format,
            time_step=time_step,
            unit=unit,
            decay=decay,
            firing_threshold=checks.read_only(thresholds),
            weights=weights,
            targets=checks.read_only(rows.indices.astype(np.int64)),
            starts=checks.read_only(rows.indptr.astype(np.int64)),
            delays=delays,
            message_shift=shift,
        )
        made._require_sums_in_range()
        made.drive(network.soma_bias)
        return made

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return self.network.n_neurons

    @property
    def current_unit(self) -> float:
        """The synaptic current that the integer 1 stands for."""
        return self.unit / (self.decay / 2**self.format.decay_bits)

    @property
    def message_value(self) -> np.ndarray:
        """How many spikes one unit of a neuron's message stands for, shape (n_neurons,)."""
        if not self.format.graded:
            return np.ones(self.n_neurons)
        return 2.0**self.message_shift / self.firing_threshold

    @property
    def effective_weights(self) -> np.ndarray:
        """The weights that the integers stand for, in real units, shape (n_neurons, n_neurons)."""
        scale = self.decay / 2**self.format.decay_bits / self.unit
        weights = sparse.csr_array(
            (self.weights.to_float(), self.targets, self.starts), (self.n_neurons, self.n_neurons)
        ).toarray()
        return weights / (scale * self.message_value[:, np.newaxis])

    @cached_property
    def out_degree(self) -> np.ndarray:
        """Number of targets of each neuron, shape (n_neurons,): its weights that are not rounded to zero."""
        sources = np.repeat(np.arange(self.n_neurons), np.diff(self.starts))
        kept = self.weights.mantissas != 0
        return checks.read_only(np.bincount(sources[kept], minlength=self.n_neurons))

    def drive(self, soma_bias: np.ndarray) -> FixedPointArray:
        """Return the integers of a drive, what it adds to each potential in a step.

        Parameters
        ----------
        soma_bias : ndarray, shape (n_neurons,)
            In the units of the network.
        """
        amounts = soma_bias * (self.time_step / self.unit)
        exponent = max(0, self.format.bias.exponent_for(amounts))
        if self.format.bias.bits + exponent > MOST_REGISTER_BITS:
            raise ValueError(
                f"soma_bias must be at most 2^{MOST_REGISTER_BITS} units of the potential in a step; got "
                f"{np.abs(amounts).max():.3g}"
            )
        return replace(self.format.bias, exponent=exponent).quantise(amounts)

    def input_mantissas(self, weights: np.ndarray) -> np.ndarray:
        """Return the integers of weights of input spikes, with the exponent of those of the network.

        Parameters
        ----------
        weights : ndarray, any shape
            In the units of the real network.
        """
        form = replace(self.format.weights, exponent=self.weights.exponent)
        if form.rounding == "stochastic":
            form = replace(form, rounding="nearest")
        scale = self.decay / 2**self.format.decay_bits / self.unit
        rounded = form.quantise(weights * scale)
        if rounded.n_saturated:
            raise ValueError(
                f"weights of stimulus must fit into the {form.bits} bits of the network's weights, which end "
                f"at {form.largest * 2.0**self.weights.exponent / scale:.3g}; got magnitudes up to "
                f"{np.abs(weights).max():.3g}"
            )
        return rounded.mantissas

    def _require_sums_in_range(self) -> None:
        """ValueError if all that can reach a neuron in one step could leave 64 bits."""
        largest = np.zeros(self.n_neurons)
        # Sums of magnitudes in float64 are right to 2^-40 of themselves; the bound leaves a factor of 8.
        np.add.at(largest, self.targets, np.abs(self.weights.mantissas).astype(np.float64))
        exponent = self.weights.exponent
        most = float(largest.max()) * self.format.largest_message * 2.0 ** max(exponent, 0)
        if most > LARGEST_SUM or abs(exponent) > MOST_REGISTER_BITS:
            raise ValueError(
                f"weights times messages must sum to at most 2^60 in a step; got {most:.3g} with an exponent "
                f"of {exponent}: use fewer bits for weights or messages, or a smaller threshold"
            )


def _checked_delays(delays: ArrayLike | None, n_neurons: int, format: DigitalFormat) -> np.ndarray:
    if delays is None:
        return checks.read_only(np.full(n_neurons, format.delay, dtype=np.int64))
    array = checks.real_array("delays", delays, shape=(n_neurons,), meaning="whole steps for each neuron")
    if (array != np.rint(array)).any() or array.min() < 0 or array.max() > MOST_DELAY:
        raise ValueError(f"delays must be whole numbers of steps from 0 to {MOST_DELAY}")
    return checks.read_only(array.astype(np.int64))


def _rows(network: SpikingNetwork) -> sparse.csr_array:
    """Return the weights that are not zero, without those of a neuron to itself."""
    weights = network.weights
    rows = weights.matrix if isinstance(weights, SparseWeights) else weights.toarray()
    entries = sparse.coo_array(rows)
    kept = (entries.row != entries.col) & (entries.data != 0.0)
    pairs = entries.row[kept], entries.col[kept]
    return sparse.csr_array((entries.data[kept], pairs), shape=entries.shape)


def _quantised(format: FixedPoint, values: np.ndarray, seed: int) -> FixedPointArray:
    if len(values):
        return format.quantise(values, rng=seed)
    exponent = 0 if format.exponent is None else format.exponent
    empty = np.zeros(0, dtype=np.int64)
    return FixedPointArray(mantissas=empty, exponent=exponent, n_saturated=0, format=format)
