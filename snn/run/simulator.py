"""A simulator that one can step from spike to spike."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from snn.base import checks
from snn.base.describe import Described, number
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.result import SimulationResult
from snn.record.spikes import SpikeTrain
from snn.record.stimulus import Stimulus
from snn.run.exact import Exact, ExactRun
from snn.run.simulate import advanced, require_fitting_stimulus, spike_limit, spike_train, spikes_by_drive
from snn.weights import Weights, as_weights


class Simulator(Described):
    """Run a network exactly, in parts: step it to its next spike, or advance it to any time.

    Between two calls its drive, weights, potentials and currents may be set; they act from then on.  Within a
    call of `advance` a `Stimulus` changes the drive and brings input spikes.

    Parameters
    ----------
    network : SpikingNetwork
        What to run.
    state : NetworkState, optional
        Where to start; by default at rest at time 0.

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

    def __init__(self, network: SpikingNetwork, state: NetworkState | None = None) -> None:
        checks.instance_of("network", network, SpikingNetwork)
        self._begin(network, starting_state(network, state), np.zeros(network.n_neurons, dtype=np.int64))

    def _begin(self, network: SpikingNetwork, start: NetworkState, counts: np.ndarray) -> None:
        self._network = network
        self._origin = start.time
        self._counts_before = counts
        bias, options = network.soma_bias[np.newaxis].copy(), {"window_moments": True, "check_weights": True}
        self._run = Exact().start(network, bias, start, **options)
        self._next: tuple[ExactRun, SpikeTrain] | None = None

    def _facts(self) -> dict[str, str]:
        return {
            "time": f"{self.time:.6g}",
            "spikes so far": number(int(self.spike_counts.sum())),
            **self.network._facts(),
        }

    def __copy__(self) -> Simulator:
        return deepcopy(self)

    @property
    def network(self) -> SpikingNetwork:
        """The network as it is now."""
        return self._network

    @property
    def time(self) -> float:
        """Time now, in synaptic time constants."""
        return self._origin + float(self._run.time[0])

    @property
    def membrane_potential(self) -> np.ndarray:
        """Potentials now, shape (n_neurons,), read-only: assign others, whole, none above its threshold."""
        return self.state().membrane_potential

    @membrane_potential.setter
    def membrane_potential(self, value: np.ndarray) -> None:
        self._replace("membrane_potential", value)

    @property
    def synaptic_current(self) -> np.ndarray:
        """Synaptic currents now, shape (n_neurons,), read-only: assign others, whole."""
        return self.state().synaptic_current

    @synaptic_current.setter
    def synaptic_current(self, value: np.ndarray) -> None:
        self._replace("synaptic_current", value)

    def _replace(self, name: str, value: np.ndarray) -> None:
        """Go on from a state with other potentials or currents."""
        changed: Any = {name: checks.real_array(name, value, shape=(self._network.n_neurons,))}
        state = starting_state(self._network, replace(self.state(), **changed))
        self._begin(self._network, state, self.spike_counts)

    @property
    def spike_counts(self) -> np.ndarray:
        """Spikes of each neuron since the simulator was made, shape (n_neurons,)."""
        return self._counts_before + self._run.spike_counts[0]

    @property
    def soma_bias(self) -> np.ndarray:
        """The drive now, shape (n_neurons,), read-only: assign another, whole, to go on with a copy."""
        return self._network.soma_bias

    @soma_bias.setter
    def soma_bias(self, value: np.ndarray) -> None:
        checked = self._network.with_soma_bias(value).soma_bias
        # A copy, because the caller may change the array later.
        network = self._network.with_soma_bias(checked.copy())
        self._begin(network, self.state(), self.spike_counts)

    @property
    def weights(self) -> Weights:
        """The weights, read-only: assign others, whole, to go on with a copy; currents stay."""
        return self._network.weights

    @weights.setter
    def weights(self, value: Any) -> None:
        weights = as_weights(value)
        if weights is not value:  # an array, which the caller may change
            weights = as_weights(deepcopy(value))
        if weights.shape != self._network.weights.shape:
            raise ValueError(
                f"weights must have shape {self._network.weights.shape}, as those before; got shape "
                f"{weights.shape}"
            )
        network = SpikingNetwork(weights, self._network.soma_bias, self._network.firing_threshold)
        self._begin(network, self.state(), self.spike_counts)

    def state(self) -> NetworkState:
        """Return the state now, to save it or to start another run from."""
        return self._run.state(time=self.time)

    def advance(
        self,
        until: float,
        *,
        stimulus: Stimulus | None = None,
        max_spikes: int | None = None,
        progress: bool = False,
    ) -> SimulationResult:
        """Advance to the time `until`; return what happened on the way, all spikes included.

        Parameters
        ----------
        until : float
            After `time`.
        stimulus : Stimulus, optional
            A drive that changes, and input spikes, from `time` to `until`.  The last drive stays as
            `soma_bias`.
        max_spikes : int, optional
            As for `simulate`, of this call.
        progress : bool, default False
            Show a progress bar.

        Raises
        ------
        RunawayError, OverflowError
            As `simulate`.
        """
        until = checks.real_number("until", until)
        start = self.state()
        if not until > start.time:
            raise ValueError(f"until must be after the simulator's time, {start.time}; got {until}")
        if math.isinf(until - self._origin):
            raise ValueError(f"until must be less than 1.8e308 after {self._origin}; got {until}")
        progress = checks.flag("progress", progress)
        network = self._network
        if stimulus is not None:
            require_fitting_stimulus(network, stimulus, start.time, until)
        by_drive = spikes_by_drive(network, until - start.time, start, stimulus)
        max_spikes = spike_limit(max_spikes, by_drive, record=True)
        self._next = None
        end = until - self._origin
        try:
            return advanced(
                self._run, network, start, end, end=end, origin=self._origin, stimulus=stimulus,
                record_spikes=True, max_spikes=max_spikes, by_drive=by_drive, progress=progress,
            )  # fmt: skip
        finally:
            if stimulus is not None:
                self._network = network.with_soma_bias(self._run.soma_bias[0].copy())

    def peek(self) -> float:
        """Return the time of the next spike, inf if there will be none; nothing changes."""
        _, spikes = self._look_ahead()
        return float(spikes.times[0]) if len(spikes) else np.inf

    def step(self) -> SpikeTrain | None:
        """Advance to the next spike; return it, with all of the same instant, or None if there will be
        none."""
        run, spikes = self._look_ahead()
        if not len(spikes):
            return None
        self._run, self._next = run, None
        return spikes

    def _look_ahead(self) -> tuple[ExactRun, SpikeTrain]:
        """Return a copy of the run that is at its next spike, and that spike; it is kept for `step`."""
        if self._next is None:
            start_time = self.time
            run = self._run.copy()
            spikes_of_run = run.step()
            final = run.state(time=self._origin + float(run.time[0]))
            times = self._origin + spikes_of_run.times
            spikes = spike_train(times, spikes_of_run.neurons, start_time, final)
            self._next = run, spikes
        return self._next
