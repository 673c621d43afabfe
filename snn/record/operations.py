"""What a run costs in operations, by the names of NeuroBench, whatever machine it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import counted, number

if TYPE_CHECKING:
    from snn.network import SpikingNetwork
    from snn.weights import Weights

Count: TypeAlias = int | np.ndarray

# Counts are integers of 64 bits.
LARGEST_COUNT = 2**63 - 1
# Less than this part of a step too long is rounding, and not another step.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OperationCounts(Drawn):
    """Operations of a network, or of a program, for one signal or for several.

    Counts add up: ``first + second``, or ``sum(many)``.  They are those of the network, not of this
    simulator.  All are integers, or arrays of one shape with an entry for each signal.

    Attributes
    ----------
    spikes : int or ndarray
        Spikes of all neurons.
    synaptic_operations : int or ndarray
        Deliveries of a spike to a target by a weight that is not zero; NeuroBench's effective ACs.
    membrane_updates : int or ndarray
        How often a potential is brought up to date.  In an exact run a potential has a closed form between
        two events: when a spike reaches its neuron, and when it fires.  On a clock: every neuron at each
        step.
    neuron_updates : int or ndarray
        Neurons times steps of a clock.  An exact run has no steps, and none of these.
    dense_synaptic_operations : int or ndarray
        Entries of the weight matrix times steps of a clock; NeuroBench's dense synaptic operations.
    multiply_adds : int or ndarray
        Products of two numbers that are added up, where neither is known to be zero; NeuroBench's effective
        MACs.
    neuron_time : float or ndarray
        Neurons times simulated time that no clock has counted.
    synapse_time : float or ndarray
        Entries of the weight matrix times simulated time that no clock has counted.

    References
    ----------
    Yik et al. (2025), Nature Communications 16: NeuroBench.
    """

    spikes: Count = 0
    synaptic_operations: Count = 0
    membrane_updates: Count = 0
    neuron_updates: Count = 0
    dense_synaptic_operations: Count = 0
    multiply_adds: Count = 0
    neuron_time: float | np.ndarray = 0.0
    synapse_time: float | np.ndarray = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            is_time = field.name.endswith("_time")
            object.__setattr__(
                self, field.name, _checked(field.name, getattr(self, field.name), is_time=is_time)
            )

    @classmethod
    def of_exact_run(
        cls, *, n_neurons: int, spikes: Count, synaptic_operations: Count, duration: float | np.ndarray
    ) -> OperationCounts:
        """Return the counts of exact runs of so many neurons."""
        return cls(
            spikes=spikes,
            synaptic_operations=synaptic_operations,
            membrane_updates=_added(
                "membrane_updates",
                _checked("spikes", spikes),
                _checked("synaptic_operations", synaptic_operations),
            ),
            neuron_time=n_neurons * duration,
            synapse_time=n_neurons * n_neurons * duration,
        )

    @classmethod
    def of_clock(
        cls, *, n_neurons: int, spikes: Count, synaptic_operations: Count, n_steps: Count
    ) -> OperationCounts:
        """Return the counts of runs of so many neurons on a clock."""
        n_neurons, n_steps = checks.integer("n_neurons", n_neurons), _checked("n_steps", n_steps)
        updates = _product("neuron_updates", n_neurons, n_steps)
        return cls(
            spikes=spikes,
            synaptic_operations=synaptic_operations,
            membrane_updates=updates,
            neuron_updates=updates,
            dense_synaptic_operations=_product("dense_synaptic_operations", n_neurons**2, n_steps),
        )

    def __add__(self, other: OperationCounts) -> OperationCounts:
        if not isinstance(other, OperationCounts):
            return NotImplemented
        names = (field.name for field in fields(self))
        return OperationCounts(
            **{name: _added(name, getattr(self, name), getattr(other, name)) for name in names}
        )

    def __radd__(self, other: int) -> OperationCounts:
        # `sum` starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _facts(self) -> dict[str, str]:
        total = self.total()
        counts = {
            field.name.replace("_", " "): number(getattr(total, field.name))
            for field in fields(self)
            if getattr(total, field.name)
        }
        sizes = {np.size(getattr(self, field.name)) for field in fields(self)}
        of_many = {"of": counted(max(sizes), "signal")} if max(sizes) > 1 else {}
        return {**of_many, **counts} or {"operations": "none"}

    def total(self) -> OperationCounts:
        """Return the counts of all signals together."""
        return OperationCounts(**{field.name: _total(getattr(self, field.name)) for field in fields(self)})

    def on_clock(self, time_step: float) -> OperationCounts:
        """Return what a clock would do in the simulated time of an exact run, with the same spikes.

        Parameters
        ----------
        time_step : float
            Length of a step, in synaptic time constants.  It is a choice: docs/theory.md, section 7, says
            which steps code as well as exact time.

        Returns
        -------
        OperationCounts
            Every neuron is updated at each step; the updates of all runs together are rounded up.

        Raises
        ------
        TypeError, ValueError
            If `time_step` is not a positive number, or so small that a clock would do more than 2^63 - 1
            updates, or these are the counts of an exact run and of one on a clock added up.
        """
        time_step = checks.positive_number("time_step", time_step)
        is_exact = np.asarray(self.neuron_time) > 0.0
        if np.any(is_exact & (np.asarray(self.neuron_updates) > 0)):
            raise ValueError(
                "on_clock must be asked of exact runs before their counts are added to those of a clock; "
                "got a sum of both"
            )
        neuron_updates = _added("neuron_updates", self.neuron_updates, _steps(self.neuron_time, time_step))
        return OperationCounts(
            spikes=self.spikes,
            synaptic_operations=self.synaptic_operations,
            membrane_updates=np.where(is_exact, neuron_updates, self.membrane_updates),
            neuron_updates=neuron_updates,
            dense_synaptic_operations=_added(
                "dense_synaptic_operations",
                self.dense_synaptic_operations,
                _steps(self.synapse_time, time_step),
            ),
            multiply_adds=self.multiply_adds,
        )

    @property
    def activation_sparsity(self) -> float | np.ndarray:
        """The part of the neurons, at all steps, that did not fire; NeuroBench's activation sparsity.

        Two spikes of a neuron in one step count as two, so that it is a lower bound where that happens.
        """
        if np.any(self.neuron_time) or not np.all(self.neuron_updates):
            raise ValueError(
                "activation_sparsity must be asked of counts of a clock; got those of a run without steps: "
                "call on_clock(time_step) first"
            )
        return 1.0 - self.spikes / self.neuron_updates


def exact_operations(
    weights: Weights, spike_counts: np.ndarray, duration: float | np.ndarray, n_input_deliveries: int = 0
) -> OperationCounts:
    """Return the operations of an exact run, or of several runs of one network.

    Shapes: spike_counts (..., n_neurons); duration (...).
    """
    return OperationCounts.of_exact_run(
        n_neurons=weights.shape[0],
        spikes=spike_counts.sum(axis=-1),
        synaptic_operations=weights.n_deliveries(spike_counts) + n_input_deliveries,
        duration=duration,
    )


def clocked_operations(
    weights: Weights, spike_counts: np.ndarray, n_steps: Count, n_input_deliveries: int = 0
) -> OperationCounts:
    """Return the operations of a run on a clock, or of several runs of one network.

    Shapes: spike_counts (..., n_neurons); n_steps (...).
    """
    return OperationCounts.of_clock(
        n_neurons=weights.shape[0],
        spikes=spike_counts.sum(axis=-1),
        synaptic_operations=weights.n_deliveries(spike_counts) + n_input_deliveries,
        n_steps=n_steps,
    )


def footprint(network: SpikingNetwork) -> int:
    """Return the bytes of a network: its weights as they are stored, drive, thresholds, and state.

    NeuroBench's footprint: parameters and buffers.  The state is a potential and a current for each neuron.
    Of weights that are computed on demand, those known so far are counted.

    Parameters
    ----------
    network : SpikingNetwork
        The network.
    """
    stored = [part for part in network.weights.kernel_form() if isinstance(part, np.ndarray)]
    state = 2 * network.n_neurons * np.dtype(np.float64).itemsize
    arrays = [*stored, network.soma_bias, network.firing_threshold]
    return sum(array.nbytes for array in arrays) + state


def connection_sparsity(network: SpikingNetwork) -> float:
    """Return the part of the entries of the weight matrix that are zero, the diagonal among them.

    Parameters
    ----------
    network : SpikingNetwork
        The network.

    Notes
    -----
    NeuroBench rounds it to four digits.
    """
    return 1.0 - int(network.out_degree.sum()) / network.n_neurons**2


def require_counts(counts: Any) -> None:
    """Raise TypeError unless these are the counts of operations; of a ledger, say how to choose a part."""
    hint = ""
    if isinstance(counts, Mapping) and any(isinstance(part, OperationCounts) for part in counts.values()):
        part = "network" if "network" in counts else next(iter(counts))
        hint = f': pass one part, such as ledger["{part}"]'
    elif hasattr(counts, "operations"):
        hint = ": pass its operations"
    checks.instance_of("counts", counts, OperationCounts, hint=hint)


def _steps(time: float | np.ndarray, time_step: float) -> Count:
    with np.errstate(over="ignore"):
        steps = np.ceil(np.asarray(time) / time_step * (1.0 - ROUNDING))
    if not (steps < LARGEST_COUNT).all():
        raise ValueError(
            f"time_step must be so long that counts are at most 2^63 - 1; got {time_step}, with which there "
            f"are {steps.max():.3g} updates or dense synaptic operations"
        )
    return steps.astype(np.int64)


def _added(name: str, one: Any, other: Any) -> Any:
    """Return the sum of counts that were checked, or of times."""
    if np.asarray(one).dtype.kind == "f":
        return one + other
    # Of two integers below 2^63, which is below 2^64.
    return _checked(name, np.asarray(one, dtype=np.uint64) + np.asarray(other, dtype=np.uint64))


def _product(name: str, factor: int, counts: Count) -> Count:
    most = factor * int(np.max(counts, initial=0))
    if most > LARGEST_COUNT:
        raise ValueError(f"{name} must be at most 2^63 - 1; got {most}")
    return factor * counts


def _total(counts: float | np.ndarray) -> Any:
    array = np.asarray(counts)
    if array.dtype.kind == "f" or array.sum(dtype=np.float64) < LARGEST_COUNT / 2:
        return array.sum().item()
    return sum(array.ravel().tolist())


def _checked(name: str, value: Any, *, is_time: bool = False) -> Any:
    """Return a count as a number, or as a read-only array."""
    array = np.asarray(value)
    if isinstance(value, int) and not is_time and value > LARGEST_COUNT:
        raise ValueError(f"{name} must be at most 2^63 - 1; got {value}")
    if array.dtype.kind not in ("fiu" if is_time else "iu"):
        kind = "real numbers" if is_time else "integers"
        raise TypeError(f"{name} must be made of {kind}; got {value!r}")
    if not (array >= 0).all():
        raise ValueError(f"{name} must not be negative; got {array.min()}")
    if not is_time and (array > LARGEST_COUNT).any():
        raise ValueError(f"{name} must be at most 2^63 - 1; got {array.max()}")
    array = array.astype(np.float64 if is_time else np.int64)
    return checks.read_only(array) if array.ndim else array.item()
