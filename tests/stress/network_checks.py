"""One random network, run and judged, and run once more in another way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from snn import Exact, RunawayError, SimulationResult, Simulator, SpikeTrain, SpikingNetwork, simulate
from tests.reference.exact_spikes import LEAST_POWER, MOST_POWER, judge
from tests.reference.precise_simulator import simulate_precisely
from tests.stress.network_cases import MOST_SPIKES, Case, case

MOST_STEPS = 20


class WrongError(Exception):
    """What is wrong with a run."""


# -- one network ---------------------------------------------------------------------------------


def recorded(network: SpikingNetwork, duration: float, state, seen: dict) -> SimulationResult | None:
    """Return the run with its spikes, a runaway up to its last spike, or None of one that was refused."""
    try:
        return simulate(network, duration, state=state, record_spikes=True, max_spikes=MOST_SPIKES)
    except RunawayError as error:
        seen["runaways"] += 1
        return error.result
    except OverflowError:
        seen["refused"] += 1
    except ValueError as error:
        if "currents of state must be at most" not in str(error):
            raise
        seen["refused"] += 1
    return None


def require_right(run: SimulationResult, weights: np.ndarray, state, seen: dict):
    """Judge a run, and keep what was seen."""
    verdict = judge(run, weights, state=state)
    if verdict.fault:
        raise WrongError(verdict.fault)
    seen["spikes"] += run.n_spikes
    seen["ties"] += verdict.n_ties
    seen["undecided"] += verdict.n_undecided
    seen["worst error"] = max(seen["worst error"], verdict.worst_error)
    seen["worst share"] = max(seen["worst share"], verdict.worst_share)
    seen["errors"] = seen["errors"] + verdict.errors
    return verdict


def compare_free(run: SimulationResult, this: Case, verdict, seen: dict) -> None:
    """Compare the record with the free simulator's, to its end."""
    free = simulate_precisely(
        this.weights, run.network.soma_bias, run.network.firing_threshold, run.duration, state=this.state,
        max_spikes=run.n_spikes + 1,
    )  # fmt: skip
    start = 0.0 if this.state is None else this.state.time
    n = min(len(free.times), run.n_spikes)
    same = free.neurons[:n] == run.spikes.neurons[:n]
    n_same = n if same.all() else int(np.argmin(same))
    if n_same:
        apart = np.abs(free.times[:n_same] + start - run.spikes.times[:n_same])
        # Times are recorded to the last bit of the time of day; a share of the run's own length.
        share = max(float((apart - 2.0**-52 * start).max()), 0.0) / run.duration if run.duration else 0.0
        place = np.floor(np.log10(share)) if share > 1e-18 else -18
        seen["free errors"][min(int(place), 0) + 18] += 1
    if n_same == len(free.times) == run.n_spikes:
        seen["same to the end"] += 1
    elif verdict.n_undecided:
        seen["apart after an undecided tie"] += 1
    else:
        seen["apart by rounding"] += 1


def require_same_bits(run: SimulationResult, other: SimulationResult) -> None:
    for name in ("spike_counts", "average_soma_current", "window_moments"):
        if not np.array_equal(getattr(run, name), getattr(other, name)):
            raise WrongError(f"{name} has other bits")
    for name in ("membrane_potential", "synaptic_current", "time"):
        if not np.array_equal(getattr(run.state, name), getattr(other.state, name)):
            raise WrongError(f"{name} at the end has other bits")


# -- ways to do it once more ---------------------------------------------------------------------


def unrecorded(this: Case, run: SimulationResult, rng, seen: dict) -> None:
    require_same_bits(run, simulate(run.network, this.duration, state=this.state, max_spikes=MOST_SPIKES))


def paused(this: Case, run: SimulationResult, rng, seen: dict) -> None:
    again = Exact().start(run.network, run.network.soma_bias[np.newaxis], this.state, updates_per_call=1)
    times, neurons, _ = again.advance(this.duration, record=True)
    start = 0.0 if this.state is None else this.state.time
    if not (
        np.array_equal(start + times, run.spikes.times)
        and np.array_equal(neurons, run.spikes.neurons)
        and np.array_equal(again.synaptic_current[0], run.state.synaptic_current)
    ):
        raise WrongError("paused after every window, it has other bits")


def in_a_batch(this: Case, run: SimulationResult, rng, seen: dict) -> None:
    n_copies = int(rng.integers(2, 5))
    place = int(rng.integers(n_copies))
    drives = run.network.soma_bias * rng.uniform(0.0, 1.0, (n_copies, 1))
    drives[place] = run.network.soma_bias
    again = Exact().start(run.network, drives, this.state)
    # Its mates may run away.
    again.advance(this.duration, active=np.roll(np.arange(n_copies), -place)[:1])
    again.advance(this.duration, max_spikes=MOST_SPIKES)
    if not (
        np.array_equal(again.spike_counts[place], run.spike_counts)
        and np.array_equal(again.synaptic_current[place], run.state.synaptic_current)
    ):
        raise WrongError("as one of several copies, it has other bits")


def in_threads(this: Case, run: SimulationResult, rng, seen: dict) -> None:
    def once(_):
        return simulate(run.network, this.duration, state=this.state, max_spikes=MOST_SPIKES)

    with ThreadPoolExecutor(2) as threads:
        for other in threads.map(once, range(2)):
            require_same_bits(run, other)


def stepped(this: Case, run: SimulationResult, rng, seen: dict) -> None:
    """Step through the first instants, advance to the end, and judge all of it as one run."""
    state = this.state and replace(this.state, time=0.0)
    simulator = Simulator(run.network, state)
    parts = []
    for _ in range(MOST_STEPS):
        ahead = simulator.peek()
        if not ahead < this.duration:
            break
        parts.append(simulator.step())
        if parts[-1].times[0] != ahead:
            raise WrongError("a step is not where peek said")
    if simulator.time < this.duration:
        parts.append(simulator.advance(this.duration).spikes)
    end = simulator.state()
    times, neurons = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("times", "neurons")
    )
    charge = run.network.firing_threshold * simulator.spike_counts + end.membrane_potential
    if state is not None:
        charge = charge - state.membrane_potential
    whole = SimulationResult(
        network=run.network,
        duration=this.duration,
        spike_counts=simulator.spike_counts,
        average_soma_current=charge / this.duration,
        window_moments=np.empty(0),
        state=end,
        spikes=SpikeTrain(
            times=times,
            neurons=neurons,
            n_neurons=run.network.n_neurons,
            start=0.0,
            stop=max(end.time, times.max(initial=0.0)),
        ),
    )
    require_right(whole, this.weights, state, seen)


def continued(this: Case, run: SimulationResult, rng, seen: dict) -> None:
    network = this.network()
    longer = this.duration * rng.uniform(0.1, 2.0)
    second = recorded(network, longer, run.state, seen)
    if second is not None:
        require_right(second, this.weights, run.state, seen)


WAYS: dict[str, Callable] = {
    "not recorded": unrecorded,
    "paused": paused,
    "one of several copies": in_a_batch,
    "in two threads": in_threads,
    "step by step": stepped,
    "continued": continued,
}


def examine(this: Case, way: str | None, rng: np.random.Generator, seen: dict) -> None:
    """Run and judge one network; raise WrongError if anything is wrong with it."""
    network = this.network()
    run = recorded(network, this.duration, this.state, seen)
    if run is None:
        return
    verdict = require_right(run, this.weights, this.state, seen)
    compare_free(run, this, verdict, seen)
    if way is None or seen["runaways"]:
        return
    seen["way"] = way
    if "on demand" in this.form:
        # Rows that are computed on the way cut windows, and change last bits.
        network.weights.toarray()
        run = recorded(network, this.duration, this.state, new_count())
    WAYS[way](this, run, rng, seen)


def new_count() -> dict[str, Any]:
    """Return what is counted, all of it zero."""
    return {
        "networks": 0,
        "spikes": 0,
        "runaways": 0,
        "refused": 0,
        "ties": 0,
        "undecided": 0,
        "same to the end": 0,
        "apart after an undecided tie": 0,
        "apart by rounding": 0,
        "worst error": 0.0,
        "worst share": 0.0,
        "free errors": np.zeros(19, dtype=np.int64),
        "errors": np.zeros(MOST_POWER - LEAST_POWER + 1, dtype=np.int64),
    }


def draw(seed: int, number: int) -> tuple[Case, str]:
    """Return a network, and the way to run it once more."""
    return case(seed, number), str(np.random.default_rng([seed, number, 1]).choice(list(WAYS)))
