"""What Norse and Sinabs make of our graphs: their spikes beside those of the clock that they should be.

``python -m tests.stress.nir_readers`` runs the readers that are installed, and prints the tables of
docs/exchange.md; no test needs them.  They need an environment of their own: what this project needs, then
norse, sinabs and nirtorch, then
``pip install --no-deps "nir>=1.0.8"``, because Sinabs asks for an older NIR, whose IF has no reset potential.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nir
import numpy as np

from conformance.cases import cases
from snn import SimulationResult, SpikingNetwork, StencilWeights, simulate, simulate_clocked
from snn.exchange import for_reader, from_nir, to_nir
from tests.reference.networks import classo_network, golden_network, random_dictionary, random_weights

STEP = 1 / 64
DURATION = 40.0
N_STEPS = round(DURATION / STEP)


def networks() -> dict[str, SpikingNetwork]:
    rng = np.random.default_rng(3)
    dictionary = random_dictionary(rng, 64, 32)
    code = np.zeros(64)
    code[rng.choice(64, 6, replace=False)] = rng.uniform(0.5, 1.5, 6)
    excitation = random_weights(rng, 16, sign=1, strength=0.8)
    stencil = rng.uniform(-0.15, 0.02, (3, 3, 3, 3))
    stencil[np.arange(3), 1, 1, np.arange(3)] = 0.0
    return {
        "CLASSO, 3 atoms": golden_network(),
        "CLASSO, 64 atoms": classo_network(dictionary, code @ dictionary, 0.1),
        "excitation alone, 16 neurons": SpikingNetwork(
            excitation, rng.uniform(0.05, 1.0, 16), rng.uniform(1, 2, 16)
        ),
        "grid of 5 x 6 positions, 3 channels": SpikingNetwork(
            StencilWeights(stencil, (5, 6)), np.tile([0.4, 0.7, 0.9], 30)
        ),
    }


def norse_clock(network: SpikingNetwork, step: float, n_steps: int) -> tuple[SimulationResult, float]:
    """Return the run of Euler's steps throughout, reset to zero, and the length of its steps."""
    longer = -float(np.log1p(-step))
    drive = network.with_soma_bias(network.soma_bias * (step / longer))
    return (
        simulate_clocked(drive, longer * n_steps, time_step=longer, reset="zero", record_spikes=True),
        longer,
    )


def sinabs_clock(network: SpikingNetwork, step: float, n_steps: int) -> tuple[SimulationResult, float]:
    return simulate_clocked(network, step * n_steps, time_step=step, record_spikes=True), step


def run_norse(graph: nir.NIRGraph, step: float, n_steps: int, signal: np.ndarray | None = None) -> np.ndarray:
    from norse.torch import from_nir as norse_from_nir

    return run_module(norse_from_nir(graph, dt=step), graph, n_steps, signal)


def run_sinabs(
    graph: nir.NIRGraph, step: float, n_steps: int, signal: np.ndarray | None = None, *, bound: bool = True
) -> np.ndarray:
    from sinabs.nir import from_nir as sinabs_from_nir

    module = sinabs_from_nir(graph, batch_size=1, num_timesteps=1)
    for layer in module.modules():
        if not bound and getattr(layer, "min_v_mem", None) is not None:
            layer.min_v_mem = None
    return run_module(module, graph, n_steps, signal)


def run_sinabs_without_bound(*arguments) -> np.ndarray:
    return run_sinabs(*arguments, bound=False)


def run_module(module, graph, n_steps, signal) -> np.ndarray:
    """Return the spikes in each step, shape (n_steps, *shape of the output)."""
    import torch

    shape = [int(side) for side in graph.nodes["input"].input_type["input"]]
    given = np.zeros(shape) if signal is None else np.asarray(signal).reshape(shape)
    values = torch.tensor(given[np.newaxis], dtype=torch.float32)
    state, spikes = None, []
    with torch.no_grad():
        for _ in range(n_steps):
            answer = module(values, state)
            fired, state = answer if isinstance(answer, tuple) else (answer, state)
            spikes.append(fired.detach().cpu().numpy()[0])
    return np.array(spikes)


READERS = {
    "norse": (run_norse, norse_clock),
    "sinabs": (run_sinabs, sinabs_clock),
    "sinabs without bound": (run_sinabs_without_bound, sinabs_clock),
}


def spikes_by_step(result: SimulationResult, step: float, n_steps: int) -> np.ndarray:
    counts = np.zeros((n_steps, result.network.n_neurons))
    np.add.at(counts, (np.rint(result.spikes.times / step).astype(int) - 1, result.spikes.neurons), 1.0)
    return counts


def through_file(graph: nir.NIRGraph) -> nir.NIRGraph:
    with tempfile.TemporaryDirectory() as folder:
        nir.write(Path(folder) / "graph.nir", graph)
        return nir.read(Path(folder) / "graph.nir")


def in_network_order(spikes: np.ndarray) -> np.ndarray:
    """Return spikes (steps, channels, rows, columns) as (steps, neurons) in the order of the grid."""
    if spikes.ndim == 4:
        spikes = spikes.transpose(0, 2, 3, 1)
    return spikes.reshape(len(spikes), -1)


def compare_networks(installed: list[str]) -> None:
    print("| network | reader | its spikes | ours, same clock | in the same step | exact | as written |")
    print("|---|---|---|---|---|---|---|")
    for name, network in networks().items():
        exact = simulate(network, DURATION).n_spikes
        graph = to_nir(network)
        for reader in installed:
            run, clock = READERS[reader]
            try:
                adapted = through_file(for_reader(graph, reader, time_step=STEP))
            except ValueError as error:
                print(f"| {name} | {reader} | refused: {str(error).split(';')[0]} |||||")
                continue
            theirs = in_network_order(run(adapted, STEP, N_STEPS))
            result, step = clock(network, STEP, N_STEPS)
            ours = spikes_by_step(result, step, N_STEPS)
            as_written = f"{run(through_file(graph), STEP, N_STEPS).sum():,.0f}"
            print(
                f"| {name} | {reader} | {theirs.sum():,.0f} | {ours.sum():,.0f} | "
                f"{np.minimum(theirs, ours).sum():,.0f} | {exact:,} | {as_written} |"
            )


def compare_conformance(installed: list[str]) -> None:
    """Which closed forms a reader has, within a few steps, on a clock of 2^-10 of the graphs as they are."""
    step = 2.0**-10
    print("\n| graph | " + " | ".join(installed) + " |")
    print("|---" * (len(installed) + 1) + "|")
    for case in cases():
        cells = []
        for reader in installed:
            try:
                came = from_nir(case.graph, signal={n: np.array(v) for n, v in case.inputs.items()} or None)
                graph = for_reader(
                    to_nir(came.network, time_constant=came.time_constant), reader, time_step=step
                )
                theirs = READERS[reader][0](through_file(graph), step, int(case.duration / step))
                expected = sorted(time for spikes in case.spikes.values() for time, _ in spikes)
                times = np.repeat(np.arange(len(theirs)) + 1, theirs.sum(axis=1).astype(int)) * step
                if len(times) != len(expected):
                    cells.append(f"{len(times)} spikes for {len(expected)}")
                else:
                    cells.append(f"{np.abs(times - expected).max() / step:.1f} steps late")
            except ValueError as error:
                cells.append("refused: " + str(error).split(";")[0][:60])
        print(f"| `{case.name}` | " + " | ".join(cells) + " |")


def main() -> None:
    installed = []
    for package in ("norse", "sinabs", "nirtorch", "nir", "torch"):
        try:
            print(f"{package} {version(package)}")
            installed += [reader for reader in READERS if reader.startswith(package)]
        except PackageNotFoundError:
            print(f"{package} is not installed")
    print()
    compare_networks(installed)
    compare_conformance(installed)


if __name__ == "__main__":
    main()
