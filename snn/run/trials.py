"""Trials: runs of one network that differ in their stimulus, drive or seed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value, assign
from snn.network import NetworkState, SpikingNetwork
from snn.record.result import SimulationResult
from snn.record.spikes import SpikeTrain
from snn.record.stimulus import Stimulus
from snn.run.simulate import EXACT_TIME, simulate
from snn.run.time import Time


@dataclass(frozen=True, eq=False, repr=False)
class Trials(Value, Drawn):
    """The runs of `simulate_trials`, in order, with all their spikes.

    Parameters
    ----------
    runs : sequence of SimulationResult
        Runs with recorded spikes.  All runs start and end at the same times, and have equally many neurons.
    """

    runs: tuple[SimulationResult, ...]

    _shown: ClassVar = ("runs", "n_neurons", "spike_counts")

    def _check(self) -> None:
        runs = tuple(checks.instance_of("runs", run, SimulationResult) for run in self.runs)
        intervals = {(run.start.time, run.state.time, run.state.n_neurons) for run in runs}
        if len(intervals) != 1 or any(run.spikes is None for run in runs):
            raise ValueError(
                "runs must be one or more, with recorded spikes, equal times and equally many neurons; got "
                f"{len(runs)} runs with (start, stop, neurons) {sorted(intervals)}"
            )
        assign(self, runs=runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return self.runs[0].state.n_neurons

    @property
    def spikes(self) -> tuple[SpikeTrain, ...]:
        """The spikes of each trial."""
        return tuple(run.spikes for run in self.runs)  # type: ignore[misc]

    @property
    def spike_counts(self) -> np.ndarray:
        """Spikes of each neuron in each trial, shape (n_trials, n_neurons)."""
        return np.array([run.spike_counts for run in self.runs])

    def binned(self, edges: ArrayLike) -> np.ndarray:
        """Return how often each neuron fired in each bin of each trial, shape (n_trials, n_bins, n_neurons).

        Parameters
        ----------
        edges : array_like, shape (n_bins + 1,)
            See `SpikeTrain.binned`.
        """
        return np.array([spikes.binned(edges) for spikes in self.spikes])

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each spike; columns ``trial``, ``time``, ``neuron``."""
        trials = np.repeat(np.arange(len(self)), [len(spikes) for spikes in self.spikes])
        frames = checks.installed("pandas", extra="test")
        frame = frames.concat([spikes.to_pandas() for spikes in self.spikes], ignore_index=True)
        frame.insert(0, "trial", trials)
        return frame

    def to_neo(self, time_constant: float, units: str = "ms") -> Any:
        """Return a `neo.Block` with a segment for each trial; a segment has one train for each neuron.

        Parameters
        ----------
        time_constant, units
            See `SpikeTrain.to_neo`.
        """
        trains = [spikes.to_neo(time_constant, units) for spikes in self.spikes]
        neo = checks.installed("neo", extra="peers")
        block = neo.Block()
        for trial, of_trial in enumerate(trains):
            segment = neo.Segment(name=f"trial {trial}", index=trial)
            segment.spiketrains.extend(of_trial)
            block.segments.append(segment)
        return block

    def psth(self, edges: ArrayLike) -> np.ndarray:
        """Return the peristimulus time histogram: the mean rate over trials, shape (n_bins, n_neurons).

        Parameters
        ----------
        edges : array_like, shape (n_bins + 1,)
            See `SpikeTrain.binned`.
        """
        return self.binned(edges).mean(axis=0) / np.diff(np.asarray(edges, dtype=float))[:, np.newaxis]


def simulate_trials(
    network: SpikingNetwork,
    duration: float,
    time: Time = EXACT_TIME,
    *,
    stimuli: Iterable[Stimulus] | None = None,
    drives: ArrayLike | None = None,
    seeds: Iterable[int] | None = None,
    state: NetworkState | None = None,
    max_spikes: int | None = None,
    progress: bool = False,
) -> Trials:
    """Run a network once for each stimulus, drive or seed, and record all spikes.

    Trials differ in their stimulus, drive or seed.  Pass at least one of `stimuli`, `drives` and `seeds`,
    with one entry for each trial.

    Parameters
    ----------
    network : SpikingNetwork
        The network to run.
    duration : float
        Simulated time of each trial, in synaptic time constants.
    time : Exact or Clock, default Exact()
        See `simulate`.
    stimuli : iterable of Stimulus, optional
        Stimulus of each trial, such as input spikes that `SpikeTrain.poisson` draws with another `rng`.
    drives : array_like, shape (n_trials, n_neurons), optional
        Drive of each trial, in place of the `soma_bias` of the network.
    seeds : iterable of int, optional
        Seed of the `Imperfections` of each trial, which determines mismatch, noise and lost spikes.
    state : NetworkState, optional
        State at the beginning of all trials.  By default, the network starts at rest at time 0.
    max_spikes : int, optional
        Largest number of spikes in one trial; see `simulate`.
    progress : bool, default False
        Show a progress bar over trials.

    Returns
    -------
    Trials

    Raises
    ------
    RunawayError, OverflowError
        See `simulate`.
    """
    checks.instance_of("network", network, SpikingNetwork)
    if drives is not None:
        drives = checks.real_array(
            "drives", drives, shape=(None, network.n_neurons), meaning="one row for each trial"
        )
    inputs: dict[str, Any] = {}
    for name, entries in {"stimuli": stimuli, "drives": drives, "seeds": seeds}.items():
        if entries is not None and not isinstance(entries, Iterable):
            raise TypeError(f"{name} must have an entry for each trial; got {type(entries).__name__}")
        inputs[name] = None if entries is None else list(entries)
    lengths = {name: len(values) for name, values in inputs.items() if values is not None}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(
            "stimuli, drives or seeds must be passed, with one entry for each trial; got "
            f"{lengths or 'none of them'}"
        )
    clock: Any = time
    imperfections: Any = getattr(clock, "imperfections", None)
    if inputs["seeds"] is not None and imperfections is None:
        raise ValueError(
            "seeds must be None unless time is a Clock with imperfections; got "
            f"{len(inputs['seeds'])} seeds: pass time=Clock(..., imperfections=Imperfections(...))"
        )
    run = partial(simulate, duration=duration, state=state, record_spikes=True, max_spikes=max_spikes)
    runs, n_trials = [], next(iter(lengths.values()))
    for trial in tqdm(range(n_trials), unit="trial", disable=not checks.flag("progress", progress)):
        stimulus, drive, seed = (None if values is None else values[trial] for values in inputs.values())
        driven = network if drive is None else network.with_soma_bias(drive)
        chip = clock if seed is None else replace(clock, imperfections=replace(imperfections, seed=seed))
        runs.append(run(driven, time=chip, stimulus=stimulus))
    return Trials(tuple(runs))
