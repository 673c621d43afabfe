"""Small NIR graphs whose spike times are closed forms: what the files of this folder are made from.

    python -m conformance.cases [--output DIR]

writes a NIR file for each case, and ``conformance.json`` with the spikes that a reader must find.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import nir
import numpy as np
from scipy.special import lambertw

from examples._results import write_results

FOLDER = Path(__file__).parent


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A graph, and the spikes that its equations have."""

    name: str
    tests: str
    """What a reader must do right."""
    formula: str
    """Where the spike times come from."""
    graph: nir.NIRGraph
    duration: float
    """How long it runs, from rest; no spike is due near the end."""
    spikes: Mapping[str, list[tuple[float, int]]]
    """For each IF node the time and the index of each spike, in order."""
    inputs: Mapping[str, list[float]] = field(default_factory=dict)
    """What the inputs hold, constant in time, where it matters."""


def write(folder: Path) -> None:
    """Write the files into a folder, which is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for case in cases():
        nir.write(folder / f"{case.name}.nir", case.graph)
        entries.append(
            {
                "file": f"{case.name}.nir",
                "tests": case.tests,
                "formula": case.formula,
                "duration": case.duration,
                "inputs": dict(case.inputs),
                "spikes": {
                    node: {"times": [time for time, _ in spikes], "indices": [index for _, index in spikes]}
                    for node, spikes in case.spikes.items()
                },
            }
        )
    write_results(folder / "conformance.json", entries)


def _after(charge: float, drive: float, current: float) -> float:
    """Return the x > 0 at which drive x + current (1 - e^-x), what a potential rises by, first is `charge`.

    For a drive of zero it is -log(1 - charge / current).  Otherwise, with c = (charge - current) / drive and
    q = current / drive, the equation is x - c = q e^-x, so that x = c + W(q e^-c), with Lambert's W.  Its
    branch W_0 is the only solution against inhibition; W_-1 is the first of two against a negative drive.
    """
    if drive == 0.0:
        return -float(np.log1p(-charge / current))
    centre = (charge - current) / drive
    branch = -1 if drive < 0.0 else 0
    return centre + float(lambertw(current / drive * np.exp(-centre), branch).real)


def _graph(
    *,
    weights: np.ndarray | Sequence[Sequence[float]],
    bias: Sequence[float],
    threshold: Sequence[float],
    tau: float = 1.0,
    r_synapse: float = 1.0,
    r_neuron: float = 1.0,
) -> nir.NIRGraph:
    """Return Input -> Affine -> IF -> Output with IF -> LI -> Affine -> IF; weights are [target, source]."""
    n = len(bias)
    ones = np.ones(n)
    nodes = {
        "input": nir.Input(np.array([1])),
        "drive": nir.Affine(np.zeros((n, 1)), np.asarray(bias, dtype=float)),
        "neurons": nir.IF(
            r=r_neuron * ones, v_threshold=np.asarray(threshold, dtype=float), v_reset=0 * ones
        ),
        "synapses": nir.LI(tau=tau * ones, r=r_synapse * ones, v_leak=0 * ones),
        "weights": nir.Affine(np.asarray(weights, dtype=float), 0 * ones),
        "output": nir.Output(np.array([n])),
    }
    edges = [
        ("input", "drive"),
        ("drive", "neurons"),
        ("neurons", "synapses"),
        ("synapses", "weights"),
        ("weights", "neurons"),
        ("neurons", "output"),
    ]
    return nir.NIRGraph(nodes=nodes, edges=edges)


def bias_alone() -> Case:
    """One neuron, one drive."""
    return Case(
        name="bias_alone",
        tests="integration of a constant current, threshold, reset to zero",
        formula="t_k = k theta / beta with theta = 2, beta = 0.5",
        graph=_graph(weights=np.zeros((1, 1)), bias=[0.5], threshold=[2.0]),
        duration=22.0,
        spikes={"neurons": [(4.0 * k, 0) for k in range(1, 6)]},
    )


def input_weights() -> Case:
    """A constant input through weights, and a bias."""
    graph = _graph(weights=np.zeros((2, 2)), bias=[-0.25, -0.25], threshold=[1.0, 1.0])
    graph.nodes["input"] = nir.Input(np.array([3]))
    graph.nodes["drive"] = nir.Affine(np.array([[0.5, 0.25, 0.0], [0.0, 0.5, 1.0]]), np.array([-0.25, -0.25]))
    graph = nir.NIRGraph(nodes=graph.nodes, edges=graph.edges)
    # D s - lambda = (0.25, 0.5)
    return Case(
        name="input_weights",
        tests="a constant input, times a matrix that is not square, plus a bias",
        formula="t_k = k theta_i / (D s - lambda)_i with s = (0.5, 1, 0.25): k / 0.25 and k / 0.5",
        graph=graph,
        duration=9.0,
        inputs={"input": [0.5, 1.0, 0.25]},
        spikes={"neurons": sorted([(4.0, 0), (8.0, 0), (2.0, 1), (4.0, 1), (6.0, 1), (8.0, 1)])},
    )


def resistance_of_neurons() -> Case:
    """An IF with r = 2."""
    return Case(
        name="resistance_of_neurons",
        tests="r of IF multiplies the current",
        formula="t_k = k theta / (r beta) with theta = 3, r = 2, beta = 0.5",
        graph=_graph(weights=np.zeros((1, 1)), bias=[0.5], threshold=[3.0], r_neuron=2.0),
        duration=10.0,
        spikes={"neurons": [(3.0, 0), (6.0, 0), (9.0, 0)]},
    )


def excitatory_spike() -> Case:
    """Neuron 0 fires at 1; its spike alone drives neuron 1."""
    return Case(
        name="excitatory_spike",
        tests="a spike is a unit impulse: it lifts LI by r / tau, and its current has the area w r",
        formula="1, then 1 - log(1 - theta / w) with theta = 1, w = 2",
        graph=_graph(weights=[[0, 0], [2, 0]], bias=[1, 0], threshold=[1, 1]),
        duration=1.9,
        spikes={"neurons": [(1.0, 0), (1.0 + _after(1.0, 0.0, 2.0), 1)]},
    )


def time_constant() -> Case:
    """The same with tau = 0.5 and r = 3 of LI."""
    return Case(
        name="time_constant",
        tests="tau and r of LI: the current w (r / tau) e^-(t / tau) has the area w r",
        formula="1, then 1 - tau log(1 - theta / (w r)) with theta = 1, w = 0.5, r = 3, tau = 0.5",
        graph=_graph(weights=[[0, 0], [0.5, 0]], bias=[1, 0], threshold=[1, 1], tau=0.5, r_synapse=3.0),
        duration=1.9,
        spikes={"neurons": [(1.0, 0), (1.0 + 0.5 * _after(1.0, 0.0, 1.5), 1)]},
    )


def excitation_that_fails() -> Case:
    """A spike that lifts neuron 1 to 0.89 thresholds and no further, and neuron 2 above its own."""
    drive, weights = -0.1, (2.3, 2.5)
    return Case(
        name="excitation_that_fails",
        tests="a potential that rises to a maximum below the threshold and falls again",
        formula="10 for neuron 0, when the others are at -1.  Neuron 1 then rises by "
        "w - b (1 + log(w / b)) = 1.886 with w = 2.3, b = 0.1, and never fires.  Neuron 2 fires at 10 + x "
        "with w (1 - e^-x) - b x = 2, w = 2.5.  With the branch W_-1 of Lambert's W, "
        "x = y + W_-1(-(w / b) e^-y), y = (w - 2) / b",
        graph=_graph(
            weights=[[0, 0, 0], [weights[0], 0, 0], [weights[1], 0, 0]],
            bias=[0.1, drive, drive],
            threshold=[1, 1, 1],
        ),
        duration=19.0,
        spikes={"neurons": [(10.0, 0), (10.0 + _after(2.0, drive, weights[1]), 2)]},
    )


def inhibition() -> Case:
    """Two neurons that inhibit each other: three spikes, each delayed by the one before."""
    weight, drive, thresholds = 0.25, 1.0, (1.0, 1.5)
    # Neuron 1 has the potential 1 when neuron 0 fires at 1; neuron 0 has x when neuron 1 fires, x later.
    first = _after(thresholds[1] - 1.0, drive, -weight)
    second = _after(thresholds[0] - first, drive, -weight)
    return Case(
        name="inhibition",
        tests="a negative weight delays a spike by the charge that it takes",
        formula="1; then x after, with x - w (1 - e^-x) = 1/2; then y after, with y - w (1 - e^-y) = 1 - x; "
        "w = 1/4.  x = 1/2 + w + W(-w e^-(1/2 + w)), and y likewise, with Lambert's W",
        graph=_graph(weights=[[0, -weight], [-weight, 0]], bias=[drive] * 2, threshold=thresholds),
        duration=2.5,
        spikes={"neurons": [(1.0, 0), (1.0 + first, 1), (1.0 + first + second, 0)]},
    )


def tie() -> Case:
    """Three equal neurons that inhibit each other always fire together."""
    weight, drive, threshold = 0.4, 0.8, 1.0
    times, current, interval = [threshold / drive], 2.0 * weight, 0.0
    for _ in range(3):
        interval = _after(threshold, drive, -current)
        times.append(times[-1] + interval)
        current = current * float(np.exp(-interval)) + 2.0 * weight
    return Case(
        name="tie",
        tests="neurons that reach their thresholds in one instant all fire; none is held back by the others",
        formula="t_1 = theta / beta; t_(k+1) = t_k + x_k with beta x_k - g_k (1 - e^-x_k) = theta, "
        "g_1 = 2 w, g_(k+1) = g_k e^-x_k + 2 w; theta = 1, beta = 0.8, w = 0.4",
        graph=_graph(weights=weight * (np.eye(3) - 1.0), bias=[drive] * 3, threshold=[threshold] * 3),
        duration=times[-1] + 0.5,
        spikes={"neurons": [(time, neuron) for time in times for neuron in range(3)]},
    )


def below_zero() -> Case:
    """Inhibition drives neuron 1 to -2.2, below minus its threshold; it must pay all of it back."""
    weight, threshold = 6.0, 1.5
    # Neuron 1 fires at 1.5, 3, ..., 9 and is at 1 when neuron 0 fires at 10.
    last = 10.0 + _after(threshold - 1.0, 1.0, -weight)
    return Case(
        name="below_zero",
        tests="potentials are not cut off below: what inhibition takes is missing until it is paid back",
        formula="10 for neuron 0; 1.5 k for neuron 1, k = 1 ... 6, then 10 + x with "
        "1 + x - w (1 - e^-x) = theta, w = 6, theta = 1.5: x = 6.5 + W(-6 e^-6.5)",
        graph=_graph(weights=[[0, 0], [-weight, 0]], bias=[0.1, 1.0], threshold=[1.0, threshold]),
        duration=17.5,
        spikes={"neurons": sorted([(10.0, 0), *((1.5 * k, 1) for k in range(1, 7)), (last, 1)])},
    )


def edges_add_up() -> Case:
    """Two drives and two paths of spikes into one node."""
    graph = _graph(weights=[[0, 0], [1.5, 0]], bias=[0.75, 0.0], threshold=[1, 1])
    nodes = {
        **graph.nodes,
        "second_drive": nir.Affine(np.zeros((2, 1)), np.array([0.25, 0.0])),
        "second_weights": nir.Affine(np.array([[0.0, 0.0], [0.5, 0.0]]), np.zeros(2)),
    }
    edges = [
        *graph.edges,
        ("input", "second_drive"),
        ("second_drive", "neurons"),
        ("synapses", "second_weights"),
        ("second_weights", "neurons"),
    ]
    return Case(
        name="edges_add_up",
        tests="edges into one node add up: two biases, and two paths of one spike",
        formula="theta / (0.75 + 0.25) = 1, then 1 - log(1 - theta / (1.5 + 0.5)), theta = 1",
        graph=nir.NIRGraph(nodes=nodes, edges=edges),
        duration=1.9,
        spikes={"neurons": [(1.0, 0), (1.0 + _after(1.0, 0.0, 2.0), 1)]},
    )


def two_populations() -> Case:
    """A layer of two neurons that drives a layer of one, which does not drive it back."""
    one, two = np.ones(1), np.ones(2)
    nodes = {
        "input": nir.Input(np.array([1])),
        "drive": nir.Affine(np.zeros((2, 1)), np.array([1.0, 0.8])),
        "first": nir.IF(r=two, v_threshold=two, v_reset=0 * two),
        "synapses": nir.LI(tau=two, r=two, v_leak=0 * two),
        "weights": nir.Affine(np.array([[0.75, 2.0]]), np.zeros(1)),
        "second": nir.IF(r=one, v_threshold=one, v_reset=0 * one),
        "output": nir.Output(np.array([1])),
    }
    names = ["input", "drive", "first", "synapses", "weights", "second", "output"]
    current = 0.75 * float(np.exp(-0.25))
    fired = 1.25 + _after(1.0 - (0.75 - current), 0.0, current + 2.0)
    return Case(
        name="two_populations",
        tests="two IF nodes of different lengths, joined by weights that are not square",
        formula="first: 1 for neuron 0 and 1.25 for neuron 1; second: 1.25 - log(1 - a / g) with the charge "
        "a = 1 - w_0 (1 - e^-0.25) still missing then and the current g = w_0 e^-0.25 + w_1, "
        "w = (0.75, 2)",
        graph=nir.NIRGraph(nodes=nodes, edges=list(pairwise(names))),
        duration=1.9,
        spikes={"first": [(1.0, 0), (1.25, 1)], "second": [(fired, 0)]},
    )


def cases() -> tuple[Case, ...]:
    """Return all cases."""
    return (
        bias_alone(),
        input_weights(),
        resistance_of_neurons(),
        excitatory_spike(),
        time_constant(),
        excitation_that_fails(),
        inhibition(),
        tie(),
        below_zero(),
        edges_add_up(),
        two_populations(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Write small NIR graphs with known spike times.")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for the files")
    write(parser.parse_args(arguments).output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
