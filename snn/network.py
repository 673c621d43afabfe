"""A spiking network, made of weights, drive and thresholds; and the state of a network between two runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.archive import Entry, Saved
from snn.base.describe import Described
from snn.base.value import Value, assign, cached_property, checked, unchecked
from snn.weights import Weights, as_weights

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False, repr=False)
class SpikingNetwork(Value, Described):
    """A network of integrate-and-fire neurons with exponential synaptic currents.

    Neuron i has the soma current mu_i and the membrane potential v_i::

        mu_i(t) = beta_i + sum_j W_ji sum_k e^-(t - t_jk)    t_jk < t: the spike times of neuron j
        dv_i/dt = mu_i
        v_i reaches theta_i:  a spike, and v_i <- 0

    The neurons have no leak, no refractory period and no delay.  The synaptic time constant is the unit of
    time, and the area under a synaptic current of weight 1 is 1.

    Parameters
    ----------
    weights : array_like, scipy.sparse matrix, or `snn.weights.Weights`
        W: ``weights[source, target]``, shape (n_neurons, n_neurons), of any sign, with a zero diagonal.  The
        network stores them as a `Weights`; ``numpy.asarray(network.weights)`` returns the array.
    soma_bias : array_like, shape (n_neurons,)
        beta: the constant drive of each neuron.
    firing_threshold : float or array_like, shape (n_neurons,), default 1.0
        theta: the potential at which a neuron fires; positive.

    Notes
    -----
    Arrays are read-only; float64 arrays in C order are not copied.  `with_soma_bias` returns a network that
    differs only in its drive.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 2; Lin and Tang (2018), arXiv:1805.08952,
    equations 1-5.
    """

    weights: Weights
    soma_bias: np.ndarray
    firing_threshold: np.ndarray = 1.0  # type: ignore[assignment]  # becomes an array

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            weights: Weights | ArrayLike | sparse.sparray | sparse.spmatrix,
            soma_bias: ArrayLike,
            firing_threshold: ArrayLike = 1.0,
        ) -> None: ...

    def _check(self) -> None:
        weights = as_weights(self.weights)
        n_neurons = weights.shape[0]
        threshold = checks.positive_array("firing_threshold", self.firing_threshold, n_neurons)
        require_moderate_weights(weights, threshold)
        soma_bias = _soma_bias(self.soma_bias, threshold)
        assign(self, weights=weights, soma_bias=soma_bias, firing_threshold=threshold)

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return len(self.firing_threshold)

    @cached_property
    def out_degree(self) -> np.ndarray:
        """Number of targets (non-zero weights) of each neuron, shape (n_neurons,)."""
        return self.weights.out_degrees(np.arange(self.n_neurons))

    def with_soma_bias(self, soma_bias: ArrayLike) -> SpikingNetwork:
        """Return a network with another drive and the same weights, which are not copied or checked again."""
        return unchecked(
            SpikingNetwork,
            weights=self.weights,
            soma_bias=_soma_bias(soma_bias, self.firing_threshold),
            firing_threshold=self.firing_threshold,
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NetworkState(Value, Saved, Described):
    """A state from which a run continues: potentials, synaptic currents, time, and delayed charge.

    Parameters
    ----------
    membrane_potential : array_like, shape (n_neurons,)
        v: the potentials; in exact time, at most the thresholds.  A neuron at its threshold fires at once.
    synaptic_current : array_like, shape (n_neurons,)
        mu - beta: the part of the soma currents that spikes caused.
    time : float, default 0.0
        Time of the state, in synaptic time constants.
    pending : array_like, shape (n_slots, n_neurons), optional
        On a clock with delays, the charge of spikes that have not arrived: row d arrives d steps after the
        next step.  For a longest delay of d steps, there are d + 1 rows for each kind of current.  The charge
        of neurons in integers is an array of integers.
    waiting : array_like, shape (n_neurons,), optional
        On a clock with a refractory time, the time until each neuron integrates again; by default 0.
    threshold_rise : array_like, shape (n_neurons,), optional
        On a clock with adapting neurons, the amount by which spikes have raised each threshold; by default 0.
    other_currents : array_like, shape (n_kinds, n_neurons), optional
        On a clock, the synaptic currents of time constants other than 1, the shortest first; by default 0.
    """

    membrane_potential: np.ndarray = checked(
        checks.real_array, shape=(None,), meaning="one potential for each neuron"
    )
    synaptic_current: np.ndarray
    time: float = checked(checks.real_number, default=0.0)
    pending: np.ndarray | None = None
    waiting: np.ndarray | None = None
    threshold_rise: np.ndarray | None = checked(
        checks.real_array, shape=(None,), meaning="one for each neuron", default=None
    )
    other_currents: np.ndarray | None = checked(
        checks.real_array, shape=(None, None), meaning="(kind, neuron)", default=None
    )

    _schema: ClassVar = {
        "membrane_potential": Entry("f", ("neurons",)),
        "synaptic_current": Entry("f", ("neurons",)),
        "time": Entry("f", ()),
        "pending": Entry("fiu", ("slots", "neurons"), optional=True),
        "waiting": Entry("f", ("neurons",), 0, optional=True),
        "threshold_rise": Entry("f", ("neurons",), 0, optional=True),
        "other_currents": Entry("f", ("kinds", "neurons"), optional=True),
    }

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            *,
            membrane_potential: ArrayLike,
            synaptic_current: ArrayLike,
            time: float = 0.0,
            pending: ArrayLike | None = None,
            waiting: ArrayLike | None = None,
            threshold_rise: ArrayLike | None = None,
            other_currents: ArrayLike | None = None,
        ) -> None: ...

    def _check(self) -> None:
        shape = self.membrane_potential.shape
        current = checks.real_array(
            "synaptic_current", self.synaptic_current, shape=shape, meaning="one current for each neuron"
        )
        assign(self, synaptic_current=current)
        if self.pending is not None:
            numbers = checks.real_array("pending", self.pending, shape=(None, *shape))
            is_whole = np.asarray(self.pending).dtype.kind in "iu"
            assign(self, pending=np.array(numbers, dtype=np.int64 if is_whole else np.float64))
        if self.waiting is not None:
            assign(self, waiting=checks.positive_array("waiting", self.waiting, *shape, zero=True))

    @classmethod
    def at_rest(cls, n_neurons: int) -> NetworkState:
        """Return the state of `n_neurons` neurons at time 0, all potentials and currents zero."""
        n_neurons = checks.positive_integer("n_neurons", n_neurons)
        return state_of(np.zeros(n_neurons), np.zeros(n_neurons), 0.0)

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return len(self.membrane_potential)


def require_known(state: NetworkState, known: Collection[str]) -> None:
    """Raise ValueError if a state has arrays that the neurons of the next run do not have."""
    for name in ("pending", "waiting", "threshold_rise", "other_currents"):
        value = getattr(state, name)
        if name not in known and value is not None and value.any():
            raise ValueError(
                f"state must be of the same kind of neurons as this run; got {name}, which would be lost: "
                "pass the time and the imperfections of the earlier run"
            )


def state_of(membrane_potential: np.ndarray, synaptic_current: np.ndarray, time: float) -> NetworkState:
    """Return a state with unchecked arrays, which become read-only; they must be finite and equally long."""
    membrane_potential.setflags(write=False)
    synaptic_current.setflags(write=False)
    arrays = {"membrane_potential": membrane_potential, "synaptic_current": synaptic_current}
    return unchecked(NetworkState, **arrays, time=time, pending=None)


class RunnableNetwork(Protocol):
    """The parts of a network that a run of several copies needs: everything except the drive."""

    @property
    def weights(self) -> Weights:
        """Synaptic weights."""

    @property
    def firing_threshold(self) -> np.ndarray:
        """Firing thresholds theta, shape (n_neurons,)."""

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""


def require_moderate_weights(weights: Weights, firing_threshold: np.ndarray) -> None:
    """Raise ValueError if a known weight is more than LARGEST_RATIO times the threshold of its target."""
    checks.require_ratio("weights", weights._largest_magnitudes(), firing_threshold)


def starting_state(
    network: SpikingNetwork, state: NetworkState | None, *, is_exact: bool = True
) -> NetworkState:
    """Return `state`, or the state of rest for None; raise an error if the network cannot have the state."""
    if state is None:
        return NetworkState.at_rest(network.n_neurons)
    checks.instance_of("state", state, NetworkState)
    if state.n_neurons != network.n_neurons:
        raise ValueError(
            f"state must have the {network.n_neurons} neurons of the network; got {state.n_neurons}"
        )
    if is_exact:
        require_known(state, ())
    above = state.membrane_potential > network.firing_threshold
    if is_exact and above.any():
        neuron = int(np.argmax(above))
        raise ValueError(
            f"state must have potentials up to the firing threshold; got {state.membrane_potential[neuron]} "
            f"for neuron {neuron} with threshold {network.firing_threshold[neuron]}"
        )
    checks.require_ratio("synaptic currents of state", state.synaptic_current, network.firing_threshold)
    return state


def _soma_bias(value: ArrayLike, firing_threshold: np.ndarray) -> np.ndarray:
    meaning = "one constant drive for each neuron (for a drive that changes with time, pass a Stimulus)"
    array = checks.real_array("soma_bias", value, shape=firing_threshold.shape, meaning=meaning)
    checks.require_ratio("soma_bias", array, firing_threshold)
    return checks.read_only(array)
