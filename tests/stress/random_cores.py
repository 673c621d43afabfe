"""Random networks on a core in gates, in Amaranth's simulator, beside the emulator.

``python -m tests.stress.random_cores --networks 1000`` runs each for 12 steps with random lanes, rows and
waiting spikes, and compares potentials, currents, messages and flags of every neuron in every step.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from tqdm import tqdm

from examples._results import write_results
from snn.digital import simulate_digital
from snn.hardware import CoreLayout
from tests.reference.core import SimulatedCore
from tests.reference.digital import random_digital

N_STEPS = 12
MOST_NEURONS = 16


def random_layout(rng):
    """A random network that a core takes, and how it is laid out."""
    while True:
        network = random_digital(rng, int(rng.integers(1, MOST_NEURONS)))
        lanes, compressed = int(rng.choice([1, 2, 4, 8])), [None, True, False][rng.integers(3)]
        try:
            return CoreLayout.of(network, lanes=lanes, compressed=compressed)
        except ValueError:  # its drive is wider than its potential
            continue


def differences(seed, counts=None):
    """What differs between a core and the emulator, as text; `counts` is added to."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # long steps
        layout = random_layout(rng)
    network, n = layout.network, layout.network.n_neurons
    core = SimulatedCore(layout, stall=0.3, rng=rng)
    updates, spikes, cycles = core.run(N_STEPS)
    seen = np.array(updates, dtype=object).reshape(N_STEPS, -1, 5)[:, :n]
    found, expected, state = [], [], None
    current, is_narrow = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    for step in range(N_STEPS):
        result = simulate_digital(network, 1, state=state, record_spikes=True)
        state = result.state
        messages = result.spike_messages.tolist()
        expected += [
            (step + 1, *spike) for spike in zip(result.spikes.neurons.tolist(), messages, strict=True)
        ]
        narrow = np.column_stack([result.potential_saturations, is_narrow, result.message_saturations])
        pairs = {
            "neurons": (seen[step, :, 0], np.arange(n)),
            "messages": (seen[step, :, 1], result.messages),
            "potentials": (seen[step, :, 2], state.membrane_potential),
            # What a step adds to potentials is what the step before left.
            "currents": (seen[step, :, 3], current),
            "flags": (seen[step, :, 4], narrow @ (1 << np.arange(4))),
        }
        found += [f"seed {seed}, step {step + 1}: {name}" for name, (a, b) in pairs.items() if (a != b).any()]
        current, is_narrow = state.synaptic_current, result.current_saturations
    if spikes != expected:
        found.append(f"seed {seed}: spikes")
    if counts is not None:
        for name, number in (
            ("networks", 1),
            ("steps", N_STEPS),
            ("spikes", len(spikes)),
            ("cycles", cycles),
        ):
            counts[name] = counts.get(name, 0) + number
        counts["differences"] = counts.get("differences", 0) + len(found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("docs/results/hardware_networks.json"))
    options = parser.parse_args()
    counts = {"first seed": options.seed}
    for seed in tqdm(range(options.seed, options.seed + options.networks), disable=options.quiet):
        for difference in differences(seed, counts):
            print(difference, flush=True)
        write_results(options.results, counts)
    print(counts)


if __name__ == "__main__":
    main()
