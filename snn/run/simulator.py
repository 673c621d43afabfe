"""A simulator that advances a network in parts, or from spike to spike."""

import math
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._interrupts import one_thread
from snn.base import checks
from snn.base.describe import Described, number
from snn.base.value import assign
from snn.digital.digital_network import DigitalNetwork
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.result import RunawayError, SimulationResult
from snn.record.spikes import SpikeTrain
from snn.record.stimulus import Stimulus
from snn.run.exact import ExactRun
from snn.run.simulate import EXACT_TIME, result_of, spike_train
from snn.run.start import fitted
from snn.run.time import Exact, Time, is_digital, require_time
from snn.weights import DenseRows, Weights, as_weights


class Simulator(Described):
    """A network that runs in parts: to any time, or in exact time to its next spike.

    Between two calls, the drive, thresholds, weights, potentials and currents can be set.  New values act
    from the present time on.  Within a call of `advance`, a `Stimulus` changes the drive and brings input
    spikes.  For neurons in integers, new values must keep the unit of potentials and the exponent of the
    weights.

    Parameters
    ----------
    network : SpikingNetwork
        The network to run.
    state : NetworkState, optional
        State at the beginning.  By default, the network starts at rest at time 0.
    time : Exact or Clock, default Exact()
        See `simulate`.  If `Exact` has a `potential_floor`, potentials below this floor are raised whenever
        an attribute of the simulator is set.

    Examples
    --------
    >>> import numpy as np
    >>> simulator = Simulator(SpikingNetwork(np.zeros((2, 2)), [1.0, 0.4]))
    >>> simulator.peek()
    1.0
    >>> simulator.step().neurons
    array([0])
    >>> simulator.soma_bias = [0.0, 0.4]
    >>> float(simulator.step().times[0]), simulator.spike_counts
    (2.5, array([1, 1]))
    """

    # Between calls, a simulator keeps a network, its state and its counts of spikes, and does not write to
    # these objects.  The exception is `_own`, which is an array of weights that no other object has, or None.

    _own: np.ndarray | None = None

    def __init__(
        self, network: SpikingNetwork, state: NetworkState | None = None, *, time: Time = EXACT_TIME
    ) -> None:
        checks.instance_of("network", network, SpikingNetwork)
        require_time("time", time)
        self._given, self._running = time, fitted(time, network)
        if state is not None:
            checks.instance_of("state", state, NetworkState, hint=": name others, as in time=Clock(1 / 8)")
        # The simulator keeps copies, because the caller may change the arrays later.
        network = network.with_soma_bias(network.soma_bias.copy())
        state = deepcopy(starting_state(network, state, is_exact=self._is_exact))
        self._go_on(network, state, np.zeros(network.n_neurons, dtype=np.int64))

    def _go_on(
        self, network: Any, state: Any, spike_counts: Any, ahead: Any = None, running: Any = None
    ) -> None:
        self._network: SpikingNetwork
        self._state: NetworkState
        self._spike_counts: np.ndarray
        # `_ahead` has the run that looks for the next spike, and the time when this run began.  `_next` has
        # the next spike, if it is known, and the state right after it.
        self._ahead: tuple[ExactRun, float] | None
        self._next: tuple[SpikeTrain, NetworkState] | None
        # All attributes are set at once, so that Ctrl-C cannot leave only some attributes set.
        assign(
            self, _network=network, _state=state, _spike_counts=spike_counts, _ahead=ahead, _next=None,
            _running=running or self._running,
        )  # fmt: skip

    def _set(self, network: SpikingNetwork, state: NetworkState, ahead: Any = None) -> None:
        """Continue with a network or a state that the caller has changed."""
        before, running = self._network, self._running
        if network.weights is not before.weights or network.firing_threshold is not before.firing_threshold:
            running = fitted(self._given, network)
            old, new = (getattr(time, "neuron", None) for time in (self._running, running))
            if isinstance(old, DigitalNetwork) and isinstance(new, DigitalNetwork):
                kept, got = ((neuron.unit, neuron.rules.exponent) for neuron in (old, new))
                if new is old or got != kept:
                    raise ValueError(
                        "weights and firing_threshold must keep the unit of potentials and the exponent of "
                        f"weights, {kept}; got {'a whole DigitalNetwork' if new is old else got}"
                    )
        floor = getattr(running, "potential_floor", None)
        if floor is not None:
            raised = np.maximum(state.membrane_potential, floor * network.firing_threshold)
            state, ahead = replace(state, membrane_potential=raised), None
        if network.weights is not before.weights:
            assign(self, _own=None)
        self._go_on(network, state, self._spike_counts, ahead, running)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_network": self.network, "_own": None, "_ahead": None, "_next": None}

    def _facts(self) -> dict[str, str]:
        return {
            "time": f"{self.time:.6g}",
            "spikes so far": number(int(self.spike_counts.sum())),
            **self.network._facts(),
        }

    @property
    def network(self) -> SpikingNetwork:
        """The network with its present drive, thresholds and weights."""
        if self._own is not None:
            self._give_away()
        return self._network

    @one_thread
    def _give_away(self) -> None:
        """Make a network that the caller may keep: the simulator no longer writes to its weights."""
        before = self._network  # may have cached properties of earlier weights
        network = SpikingNetwork(np.asarray(self._own), before.soma_bias, before.firing_threshold)
        assign(self, _network=network, _own=None)

    @property
    def time(self) -> float:
        """Present time, in synaptic time constants."""
        return self._state.time

    @property
    def membrane_potential(self) -> np.ndarray:
        """Present potentials, shape (n_neurons,).

        The array is read-only: assign a whole new array.  In exact time, no potential may be above its
        threshold.
        """
        return self._state.membrane_potential

    @membrane_potential.setter
    def membrane_potential(self, value: np.ndarray) -> None:
        self._replace("membrane_potential", value)

    @property
    def synaptic_current(self) -> np.ndarray:
        """Present synaptic currents, shape (n_neurons,); read-only: assign a whole new array."""
        return self._state.synaptic_current

    @synaptic_current.setter
    def synaptic_current(self, value: np.ndarray) -> None:
        self._replace("synaptic_current", value)

    @one_thread
    def _replace(self, name: str, value: np.ndarray) -> None:
        """Continue from a state with other potentials or currents."""
        array = checks.real_array(name, deepcopy(value), shape=(self._network.n_neurons,))
        changed: Any = {name: array}
        state = starting_state(self._network, replace(self._state, **changed), is_exact=self._is_exact)
        self._set(self._network, state)

    @property
    def spike_counts(self) -> np.ndarray:
        """Spikes of each neuron since the simulator was made, shape (n_neurons,), read-only."""
        return checks.read_only(self._spike_counts)

    @property
    def soma_bias(self) -> np.ndarray:
        """Present drive, shape (n_neurons,); read-only: assign a whole new array, which is copied."""
        return self._network.soma_bias

    @soma_bias.setter
    @one_thread
    def soma_bias(self, value: np.ndarray) -> None:
        # The array is copied, because the caller may change it later.
        self._set(self._network.with_soma_bias(deepcopy(value)), self._state)

    @property
    def firing_threshold(self) -> np.ndarray:
        """Present thresholds; read-only: assign a whole new array, or one number for all neurons.

        In exact time, a potential above its new threshold is lowered to the threshold, and the neuron fires
        at once.  On a clock, the neuron fires in the next step.
        """
        return self._network.firing_threshold

    @firing_threshold.setter
    @one_thread
    def firing_threshold(self, value: ArrayLike) -> None:
        network = SpikingNetwork(self.network.weights, self._network.soma_bias, deepcopy(value))
        state = self._state
        if self._is_exact:
            potential = np.minimum(state.membrane_potential, network.firing_threshold)
            state = starting_state(network, replace(state, membrane_potential=potential))
        self._set(network, state)

    @property
    def weights(self) -> Weights:
        """Present weights; read-only: assign a whole new array, which is copied, or new `Weights`.

        Synaptic currents of earlier spikes keep their values.
        """
        return self.network.weights

    @weights.setter
    @one_thread
    def weights(self, value: Any) -> None:
        # An array is copied, because the caller may change it later.
        weights = as_weights(value if isinstance(value, Weights) else deepcopy(value))
        if weights.shape != self._network.weights.shape:
            raise ValueError(
                f"weights must have shape {self._network.weights.shape}, like the present weights; got shape "
                f"{weights.shape}"
            )
        network = SpikingNetwork(weights, self._network.soma_bias, self._network.firing_threshold)
        self._set(network, self._state)

    @one_thread
    def set_weights_from(self, source: int, weights: ArrayLike) -> None:
        """Set the weights from one source to all neurons.

        Dense weights are changed in place, in less time than a spike takes.  All dense weights are copied
        first if `network` or `weights` was read, or `advance` was called, since the last such change.
        Weights of another form are replaced by sparse weights.  Synaptic currents of earlier spikes keep
        their values.

        Parameters
        ----------
        source : int
            The source: the neuron whose outgoing weights change.
        weights : array_like, shape (n_neurons,)
            Weight from the source to each neuron.  The weight from the source to itself must be 0.
        """
        network = self._network
        source = checks.integer("source", source, 0, network.n_neurons - 1)
        row = checks.real_array("weights", weights, shape=(network.n_neurons,), meaning="one to each neuron")
        if row[source] != 0.0:
            raise ValueError(f"weights must be 0 from neuron {source} to itself; got {row[source]}")
        checks.require_ratio("weights", row, network.firing_threshold)
        if self._own is not None:
            # A run that has found the next spike has already used the old weights.
            ahead = self._ahead if self._next is None else None
            assign(self, _ahead=None, _next=None)
            self._own[source] = row
            self._set(network, self._state, ahead)
            return
        changed: Any
        if isinstance(network.weights, DenseRows):
            changed = np.array(network.weights)
            changed[source] = row
        else:
            rows = network.weights.tocsr()
            changed = sparse.vstack([rows[:source], sparse.csr_array(row[np.newaxis]), rows[source + 1 :]])
        self._set(SpikingNetwork(changed, network.soma_bias, network.firing_threshold), self._state)
        if isinstance(changed, np.ndarray) and not is_digital(self._running):
            assign(self, _own=changed)

    @property
    def _is_exact(self) -> bool:
        return isinstance(self._running, Exact)

    def state(self) -> NetworkState:
        """Return the present state, from which another run can start; `NetworkState.save` writes it."""
        return self._state

    @one_thread
    def advance(
        self,
        until: float,
        *,
        stimulus: Stimulus | None = None,
        max_spikes: int | None = None,
        progress: bool = False,
    ) -> SimulationResult:
        """Advance to the time `until`; return the result of this part of the run, with all its spikes.

        Parameters
        ----------
        until : float
            The end of this part of the run, which must be after `time`.  On a clock, the part must have a
            whole number of steps.
        stimulus : Stimulus, optional
            Changes of the drive, and input spikes, up to `until`.  The last drive of the stimulus becomes
            `soma_bias`.
        max_spikes : int, optional
            Largest number of spikes in this call; see `simulate`.
        progress : bool, default False
            Show a progress bar.

        Raises
        ------
        RunawayError, OverflowError
            See `simulate`.
        """
        until = checks.real_number("until", until)
        if not until > self.time:
            raise ValueError(f"until must be after the simulator's time, {self.time}; got {until}")
        duration = until - self.time
        if math.isinf(duration):
            raise ValueError(f"until must be less than 1.8e308 after {self.time}; got {until}")
        drive = self._network.soma_bias.copy()  # `result_of` writes the last drive to it
        try:
            result = result_of(
                self.network, drive, duration, until, self._running, self._state, self._state,
                stimulus=stimulus, record_spikes=True, max_spikes=max_spikes, progress=progress,
            )  # fmt: skip
        except RunawayError as error:
            self._take(error.result, drive)
            raise
        self._take(result, drive)
        return result

    def _take(self, result: SimulationResult, drive: np.ndarray) -> None:
        """Continue from the final state of a result, with the last drive of its run."""
        network = self._network if result.stimulus is None else self._network.with_soma_bias(drive)
        self._go_on(network, result.state, self._spike_counts + result.spike_counts)

    @one_thread
    def peek(self) -> float:
        """Return the time of the next spike, or inf if no neuron will fire; the state does not change."""
        spikes, _ = self._look_ahead()
        return float(spikes.times[0]) if len(spikes) else np.inf

    @one_thread
    def step(self, n_spikes: int = 1) -> SpikeTrain | None:
        """Advance by one or `n_spikes` spikes; return the spikes, or None if no neuron will fire.

        Parameters
        ----------
        n_spikes : int, default 1
            Number of spikes.  More spikes are returned if several neurons fire in the last instant, and fewer
            spikes if no neuron fires any more.  A call for a thousand spikes takes an eighth of the time of a
            thousand calls.
        """
        n_spikes = checks.positive_integer("n_spikes", n_spikes)
        spikes, state = self._look_ahead()
        if not len(spikes):
            return None
        ahead = self._ahead
        if len(spikes) < n_spikes and ahead is not None:
            run, origin = ahead
            assign(self, _ahead=None, _next=None)  # an interrupted run is not used again
            times, neurons, _ = run.step(n_spikes - len(spikes))
            if len(spikes) + len(times) < n_spikes:  # the run has gone beyond its last spike
                return self.step(len(spikes) + len(times))
            times = np.concatenate([spikes.times, origin + times])
            state = run.state(time=origin + float(run.time[0]))
            spikes = spike_train(times, np.concatenate([spikes.neurons, neurons]), self.time, state)
        self._go_on(self._network, state, self._spike_counts + spikes.counts(), ahead)
        return spikes

    def _look_ahead(self) -> tuple[SpikeTrain, NetworkState]:
        """Return the next spike, and the state right after it."""
        if self._next is not None:
            return self._next
        if self._ahead is None:
            bias, origin = self._network.soma_bias[np.newaxis], self.time
            if not isinstance(self._running, Exact):
                raise ValueError("time must be Exact() to look for the next spike; got a Clock: call advance")
            run = ExactRun(self._running, self._network, bias, self._state, check_weights=True)
        else:
            run, origin = self._ahead
        assign(self, _ahead=None)  # an interrupted run is not used again
        times, neurons, _ = run.step()
        state = run.state(time=origin + float(run.time[0]))
        upcoming = spike_train(origin + times, neurons, self.time, state), state
        assign(self, _ahead=(run, origin), _next=upcoming)
        return upcoming
