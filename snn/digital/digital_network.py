"""A spiking network in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._kernels.digital_neurons import FLOOR, NARROW_CURRENT, NEAREST, TRUNCATE, Rules
from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, cached_property
from snn.digital.format import (
    BITS_ABOVE_THRESHOLD,
    MOST_DELAY,
    MOST_REGISTER_BITS,
    DigitalFormat,
    Mantissas,
    checked_step,
    exponent_for,
    mantissas_of,
)
from snn.network import SpikingNetwork

# Bits of a graded message above those of the threshold: room for four thresholds.
BITS_ABOVE_GRADED = 2
# Largest sums that can reach a neuron in one step: of weights, and of input spikes, exact in float64.
LARGEST_SUM, LARGEST_INPUT = 2**60, 2**53
ROUNDINGS = {"truncate": TRUNCATE, "floor": FLOOR, "nearest": NEAREST}


class DelayedRows(NamedTuple):
    """Weights by source: source j has the entries starts[j] to starts[j + 1] - 1, with one delay."""

    starts: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    delays: np.ndarray  # whole steps, shape (n_neurons,)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalNetwork(Value, Described):
    """A spiking network in integers: `DigitalNetwork.of` rounds a `SpikingNetwork`.

    Let dt be the time step and q the `unit` of potentials, so that the largest threshold of the network is
    ``format.threshold`` units.  The decay of currents is delta / 2^k with k = ``format.decay_bits``::

        delta = round(2^k (1 - e^-dt))                       in [1, 2^k]
        threshold_i = round(theta_i / q)
        bias_i = round(beta_i dt / q)
        weights_ji = round(W_ji message_value_j (delta / 2^k) / q)

    A spike then has its full weight, summed over all steps, if the decay is not rounded.

    Attributes
    ----------
    network : SpikingNetwork
        The network that was rounded.
    format : DigitalFormat
        Widths and rounding.
    time_step : float
        dt, in synaptic time constants.
    unit : float
        q: the potential that the integer 1 stands for.
    current_unit : float
        The synaptic current that the integer 1 stands for.
    firing_threshold : ndarray of int64, shape (n_neurons,)
        Thresholds, in units of q.
    message_value : ndarray, shape (n_neurons,)
        Spikes that one unit of a neuron's message stands for.
    synapses : DelayedRows
        Mantissas of the weights that are not zero, source by source, with their targets, and delays in steps.
    rules : Rules
        Rules of a step, as kernels take them.
    """

    network: SpikingNetwork
    format: DigitalFormat
    time_step: float
    unit: float
    current_unit: float
    firing_threshold: np.ndarray
    message_value: np.ndarray
    synapses: DelayedRows
    rules: Rules

    _shown: ClassVar = ("n_neurons", "format", "time_step", "unit", "firing_threshold")

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
            A delay for the spikes of each neuron, in place of the format's delay.

        Notes
        -----
        Weights of every form become rows of mantissas, 16 bytes a weight.
        """
        checks.instance_of("network", network, SpikingNetwork)
        checks.instance_of("format", format, DigitalFormat)
        time_step = checked_step(time_step)
        threshold = format.threshold or 2 ** max(0, format.potential_bits - BITS_ABOVE_THRESHOLD)
        n_neurons = network.n_neurons
        delays = _checked_delays(np.full(n_neurons, format.delay) if delays is None else delays, n_neurons)
        steps_of_decay = 2**format.decay_bits
        decay = round(steps_of_decay * -math.expm1(-time_step))
        if decay < 1:
            raise ValueError(
                f"time_step must be so long that a current falls by at least half of 2^-{format.decay_bits} "
                f"in a step; got {time_step}: give the format more decay_bits"
            )
        unit = float(network.firing_threshold.max()) / threshold
        thresholds = np.rint(network.firing_threshold / unit).astype(np.int64)
        # The largest threshold is exact, whatever rounding does.
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
                f"message_bits must suffice for a graded message to say the smallest threshold, "
                f"{int(thresholds.min())} units; got {format.message_bits}, whose unit is 2^{shift} of these"
            )
        message_value = 2.0**shift / thresholds if format.graded else np.ones(n_neurons)
        current_unit = unit * steps_of_decay / decay
        rows = network.weights.tocsr()
        real = rows.data * np.repeat(message_value / current_unit, np.diff(rows.indptr))
        mantissas, exponent, n_weights = mantissas_of(format.weights, real, rng=format.seed)
        starts, targets = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        _require_sums_in_range(format, targets, mantissas, exponent)
        _warn_of_saturation(n_weights, "weights")
        return cls(
            network=network,
            format=format,
            time_step=time_step,
            unit=unit,
            current_unit=current_unit,
            firing_threshold=thresholds,
            message_value=message_value,
            synapses=DelayedRows(*map(checks.read_only, (starts, targets, mantissas, delays))),
            rules=_rules(format, steps_of_decay - decay, exponent, shift),
        )

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return self.network.n_neurons

    @property
    def effective_weights(self) -> np.ndarray:
        """The weights that the integers stand for, in real units, shape (n_neurons, n_neurons)."""
        values = self.synapses.weights * (2.0**self.rules.exponent * self.current_unit)
        rows = values, self.synapses.targets, self.synapses.starts
        return sparse.csr_array(rows, (self.n_neurons,) * 2).toarray() / self.message_value[:, np.newaxis]

    def with_faults(
        self,
        *,
        dead_synapses: ArrayLike = 0.0,
        flipped_bits: ArrayLike = 0.0,
        silent_neurons: ArrayLike = 0.0,
        rng: int | np.random.Generator = 0,
    ) -> DigitalNetwork:
        """Return this network with faults of a chip.

        Parameters
        ----------
        dead_synapses : float or array_like of bool, shape (n_synapses,), default 0
            Which of ``synapses.weights`` become zero: a map, or the probability of each.
        flipped_bits : float or array_like of bool, shape (n_synapses,), default 0
            Which mantissas have one bit flipped, chosen at random; a map, or the probability.
        silent_neurons : float or array_like of bool, shape (n_neurons,), default 0
            Which neurons never fire; a map, or the probability.  Potentials must saturate.
        rng : int or numpy.random.Generator, default 0
            Seed of the random faults.
        """
        rng, form = np.random.default_rng(rng), self.format
        weights = self.synapses.weights.copy()
        is_flipped = _fault_map("flipped_bits", flipped_bits, len(weights), rng)
        # Two's complement, or the magnitude of mantissas of one sign.
        bits, sign = form.weights.bits, -1 if form.weights.sign == "non-positive" else 1
        flipped = sign * ((sign * weights) ^ (1 << rng.integers(0, bits, len(weights))))
        if form.weights.sign == "signed":
            half = 2 ** (bits - 1)
            flipped = ((flipped & (2 * half - 1)) ^ half) - half
        weights[is_flipped] = flipped[is_flipped]
        weights[_fault_map("dead_synapses", dead_synapses, len(weights), rng)] = 0
        is_silent = _fault_map("silent_neurons", silent_neurons, self.n_neurons, rng)
        if is_silent.any() and form.potential_overflow == "wrap":
            raise ValueError("silent_neurons need potentials that saturate; got potential_overflow='wrap'")
        # No potential reaches this threshold.
        thresholds = np.where(is_silent, 2 ** (form.potential_bits - 1), self.firing_threshold)
        _require_sums_in_range(form, self.synapses.targets, weights, self.rules.exponent)
        return replace(
            self,
            synapses=self.synapses._replace(weights=checks.read_only(weights)),
            firing_threshold=checks.read_only(thresholds),
        )

    @cached_property
    def out_degree(self) -> np.ndarray:
        """Number of targets of each neuron, shape (n_neurons,), without weights rounded to zero."""
        sources = np.repeat(np.arange(self.n_neurons), np.diff(self.synapses.starts))
        kept = self.synapses.weights != 0
        return checks.read_only(np.bincount(sources[kept], minlength=self.n_neurons))


def integer_drive(network: DigitalNetwork, soma_bias: np.ndarray) -> Mantissas:
    """Return the integers of a drive, or of several in rows: the charge of each neuron in a step."""
    format, lowest = network.format.bias, network.format.lowest_drive
    if lowest is not None:
        largest = np.maximum(soma_bias.max(axis=-1, keepdims=True), 0.0)
        soma_bias = np.maximum(soma_bias, -lowest * largest)
    amounts = soma_bias * (network.time_step / network.unit)
    exponent = max(0, exponent_for(format, amounts))
    if format.bits + exponent > MOST_REGISTER_BITS:
        raise ValueError(
            f"soma_bias must be at most 2^{MOST_REGISTER_BITS} units of the potential in a step; got "
            f"{np.abs(amounts).max():.3g}"
        )
    integers = mantissas_of(replace(format, exponent=exponent), amounts)
    _warn_of_saturation(integers.n_saturated, "drives")
    return integers


def require_in_potential(name: str, integers: np.ndarray, network: DigitalNetwork) -> None:
    """Raise ValueError unless integers fit into the register of a potential."""
    least, largest = integers.min(), integers.max()
    if least < network.rules.least_potential or largest > network.rules.largest_potential:
        bits = network.format.potential_bits
        raise ValueError(f"{name} must fit into the {bits} bits of the potential; got {least} to {largest}")


def integer_inputs(
    network: DigitalNetwork, weights: sparse.csr_array, spike_counts: np.ndarray
) -> sparse.csr_array:
    """Return the mantissas of the weights of input spikes, for the exponent of the network's weights."""
    exponent = network.rules.exponent
    form = replace(network.format.weights, exponent=exponent)
    if form.rounding == "stochastic":
        form = replace(form, rounding="nearest")
    mantissas, _, n_saturated = mantissas_of(form, weights.data / network.current_unit)
    if n_saturated:
        raise ValueError(
            f"weights of stimulus must fit into the {form.bits} bits of the network's weights, which end "
            f"at {form.largest * 2.0**exponent * network.current_unit:.3g}; got magnitudes up to "
            f"{np.abs(weights.data).max():.3g}"
        )
    rows = weights.copy()
    rows.data = mantissas.astype(np.float64)
    if (spike_counts @ abs(rows)).max() * 2.0 ** max(exponent, 0) > LARGEST_INPUT:
        raise ValueError("weights of stimulus times its spikes must sum to at most 2^53 units of a current")
    return rows


def _warn_of_saturation(n_saturated: int, noun: str) -> None:
    if n_saturated:
        checks.warn_caller(
            f"{n_saturated} {noun} are beyond the range of their mantissas, and became its nearest end: give "
            "the format more bits, a larger exponent or none, or a sign",
            UserWarning,
        )


def warn_of_narrow_currents(saturations: np.ndarray) -> None:
    """Warn if a synaptic current was beyond its register; `saturations` has the counts in its last axis."""
    if saturations[..., NARROW_CURRENT].any():
        checks.warn_caller(
            "synaptic currents were beyond their registers, and saturated or wrapped around: give the format "
            "more current_bits, or a smaller threshold",
            UserWarning,
        )


def _require_sums_in_range(
    format: DigitalFormat, targets: np.ndarray, mantissas: np.ndarray, exponent: int
) -> None:
    """Raise ValueError if the largest possible input of a neuron in one step needs more than 64 bits."""
    # A sum of magnitudes has a relative error below 2^-40 in float64; the bound leaves a factor of 8.
    largest = np.bincount(targets, np.abs(mantissas), minlength=1).max()
    most = float(largest) * format.largest_message * 2.0 ** max(exponent, 0)
    if most > LARGEST_SUM:
        raise ValueError(
            f"weights times messages must sum to at most 2^60 in a step; got {most:.3g} with an exponent "
            f"of {exponent}: use fewer bits for weights or messages, or a smaller threshold"
        )
    if abs(exponent) > MOST_REGISTER_BITS:
        raise ValueError(
            f"weights must have an exponent of at most {MOST_REGISTER_BITS} in size; got {exponent}, of sums "
            f"of {largest * 2.0**exponent:.3g} units of the current: scale weights or thresholds until both "
            "are of one size"
        )


def _rules(form: DigitalFormat, kept: int, exponent: int, message_shift: int) -> Rules:
    """Return the rules of a step, as kernels take them; perfect neurons do not leak."""
    return Rules(
        kept=kept,
        leak=0,
        decay_bits=form.decay_bits,
        decay_rounding=ROUNDINGS[form.decay_rounding],
        exponent=exponent,
        input_rounding=ROUNDINGS[form.input_rounding],
        least_potential=-(2 ** (form.potential_bits - 1)),
        largest_potential=2 ** (form.potential_bits - 1) - 1,
        potential_wraps=form.potential_overflow == "wrap",
        least_current=-(2 ** (form.current_bits - 1)),
        largest_current=2 ** (form.current_bits - 1) - 1,
        current_wraps=form.current_overflow == "wrap",
        largest_message=form.largest_message,
        is_graded=form.graded,
        message_shift=message_shift,
        subtract=form.reset == "subtract",
        least_drive=float(form.bias.smallest),
        largest_drive=float(form.bias.largest),
        drive_exponent=-1 if form.bias.exponent is None else form.bias.exponent,
        drive_rounding=ROUNDINGS[form.bias.rounding],
        lowest_drive=math.inf if form.lowest_drive is None else form.lowest_drive,
    )


def _fault_map(name: str, faults: ArrayLike, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return which of n synapses or neurons are faulty, from a map or a probability."""
    array = np.asarray(faults)
    if array.dtype == bool and array.shape == (n,):
        return array
    if array.ndim or array.dtype.kind not in "fiu" or not 0.0 <= array <= 1.0:
        raise ValueError(
            f"{name} must be a probability from 0 to 1, or an array of bool of shape ({n},); got "
            f"{array.item() if array.size == 1 else f'shape {array.shape}, {array.dtype}'}"
        )
    return rng.random(n) < array


def _checked_delays(delays: ArrayLike, n_neurons: int) -> np.ndarray:
    """Return delays as whole steps."""
    array = checks.real_array("delays", delays, shape=(n_neurons,), meaning="whole steps for each neuron")
    if (array != np.rint(array)).any() or array.min() < 0 or array.max() > MOST_DELAY:
        raise ValueError(f"delays must be whole numbers of steps from 0 to {MOST_DELAY}")
    return array.astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Registers(Value, Described):
    """The integers of a run: `SimulationResult.registers`.

    Attributes
    ----------
    network : DigitalNetwork
        The network that ran.
    membrane_potential, synaptic_current : ndarray of int, shape (n_neurons,)
        The registers at the end; ``result.state`` has them in the units of the real network.
    messages : ndarray of int, shape (n_neurons,)
        The sum of each neuron's messages.
    spike_messages : ndarray of int, shape (n_spikes,), or None
        The number in each message, if spikes were recorded.
    saturations : ndarray of int, shape (n_neurons, 4)
        Steps in which a register was too narrow: the potential below and above what it holds, the synaptic
        current, and the message.  The register then saturated, or wrapped around.  The potential of a neuron
        that is driven downwards falls to the lower end, and stays there.  Messages of one bit that are not
        graded only say that a neuron fired, and are never too narrow.
    """

    network: DigitalNetwork = field(repr=False)
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    messages: np.ndarray
    spike_messages: np.ndarray | None = field(repr=False)
    saturations: np.ndarray

    _shown: ClassVar = ("messages", "saturations")
