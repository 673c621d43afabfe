"""Three spiking neurons solve a LASSO, in a few seconds.

The three-neuron network of Tang, Lin and Davies (2017), arXiv:1705.05475, Figure 1: spikes,
membrane potentials, rates against time, and the error of the rates compared with 1/t.

    python -m examples.three_neurons [--output DIR]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, figure, parser, save, table
from snn import Record, SimulationResult, SpikingNetwork, pictures, simulate

# Numbers that the paper prints.  Atoms are columns, with norm 1 up to the rounding of printed digits.
PRINTED_ATOMS = [[0.3313, 0.8148, 0.4364], [0.8835, 0.3621, 0.2182], [0.3313, 0.4527, 0.8729]]
SIGNAL = np.array([0.5, 1.0, 1.5])
PENALTY = 0.1

COLOURS = (BLUE, ORANGE, GREEN)
SHOWN = 15.0  # duration of the drawn spikes and potentials, in synaptic time constants


def three_neuron_network() -> tuple[SpikingNetwork, np.ndarray]:
    """Return the network, and the optimum that its rates approach."""
    dictionary = np.array(PRINTED_ATOMS).T
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    gram = dictionary @ dictionary.T
    correlations = dictionary @ SIGNAL
    network = SpikingNetwork(
        weights=np.diag(np.diag(gram)) - gram,
        soma_bias=correlations - PENALTY,
        firing_threshold=np.diag(gram),
    )
    # Atoms 0 and 2 are active, so the optimum solves two linear equations; atom 1 stays below the penalty.
    active = [0, 2]
    optimum = np.zeros(3)
    optimum[active] = np.linalg.solve(gram[np.ix_(active, active)], correlations[active] - PENALTY)
    slack = PENALTY - (correlations - gram @ optimum)[1]
    assert slack > 0.0
    return network, optimum


def draw(network: SpikingNetwork, run: SimulationResult, optimum: np.ndarray) -> Figure:
    early = simulate(network, SHOWN, record_spikes=True).spikes
    picture = figure(9.5, 6.2)
    picture.suptitle("Three spiking neurons solve a LASSO")
    left, right = picture.subfigures(1, 2)
    spiking, potentials = left.subplots(2, 1, sharex=True, height_ratios=(1.0, 2.6))
    rate, error = right.subplots(2, 1)

    early.plot(ax=spiking)
    spiking.collections[0].set(color=np.array(COLOURS)[early.neurons], linewidths=1.8, sizes=[250.0])
    spiking.set(title="Spikes", xlabel="")

    potentials.set_prop_cycle(color=COLOURS)
    Record(network, early).plot(neurons=[0, 1, 2], ax=potentials)
    potentials.axhline(1.0, color=GREY, linestyle=":", linewidth=1.0, label="threshold")
    potentials.set(title="Potentials: neuron 1 is inhibited for good")
    potentials.legend(loc="lower left", fontsize="small")

    rate.set_prop_cycle(color=COLOURS)
    first = simulate(network, 100.0, record_spikes=True).spikes
    pictures.rates_against_time(first, limits=optimum, n_times=2000, ax=rate)
    rate.set(title="Spike rates since 0, and the optimum (dashed)", ylim=(-0.05, 1.7))
    rate.legend(loc="upper right", fontsize="small", ncols=3)

    times = np.geomspace(1.0, run.duration, 1500)
    distance = np.abs(run.spikes.rate_curve(times) - optimum).max(axis=1)
    error.loglog(times, distance, color=BLUE, linewidth=0.9, label="spike rates since 0")
    error.loglog(times, 1.0 / times, color=GREY, linestyle="--", label="1 / t")
    error.set(
        title="Distance from the optimum",
        xlabel=pictures.TIME_LABEL,
        ylabel="max |rate - optimum|",
        xlim=(1.0, run.duration),
    )
    error.legend(loc="upper right", fontsize="small")
    error.grid(alpha=0.3)
    return picture


def error_table(
    network: SpikingNetwork, run: SimulationResult, optimum: np.ndarray
) -> list[tuple[float, ...]]:
    """Return t and the distances of three read-outs: rates since 0, rates since t/2, average currents."""
    rows = []
    for time in np.geomspace(min(10.0, run.duration / 10.0), run.duration, 4):
        read = (
            run.spikes.rate(stop=time),
            run.spikes.rate(start=time / 2.0, stop=time),
            simulate(network, time).thresholded_current,
        )
        rows.append((time, *(float(np.abs(code - optimum).max()) for code in read)))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--duration", type=float, default=10_000.0, help="in synaptic time constants")
    options = command.parse_args(arguments)
    network, optimum = three_neuron_network()
    run = simulate(network, options.duration, record_spikes=True)

    print("Three spiking neurons solve a LASSO")
    print(f"optimum: {', '.join(f'{value:.5f}' for value in optimum)}")
    first = zip(run.spikes.times[:8], run.spikes.neurons[:8], strict=True)
    print("first spikes (time: neuron): " + ", ".join(f"{time:.6f}: {neuron}" for time, neuron in first))
    print(f"{run.n_spikes:,} spikes by t = {run.duration:,g}; by neuron: {run.spike_counts.tolist()}")
    print()
    print("max |code - optimum|")
    rows = [
        (f"{time:,.0f}", *(f"{distance:.1e}" for distance in distances))
        for time, *distances in error_table(network, run, optimum)
    ]
    print(table(("time", "rates since 0", "rates since t/2", "average currents"), rows))
    print()
    save(draw(network, run, optimum), options.output, "three_neurons.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
