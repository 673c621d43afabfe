"""What must a spike cost?  The bytes it has to touch over the bandwidth of the memory they are in."""

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, figure
from snn import simulate
from solvers import lasso_network
from tests.benchmarks.bandwidth import dense_pass, stencil_pass, triad_bandwidth
from tests.benchmarks.problems import planted_problems, random_dictionary
from tests.benchmarks.report import Target
from tests.benchmarks.simulator import unscreened_run
from tests.benchmarks.timing import WrongAnswerError, table, timed

TITLE = "The floor: bytes a spike must touch"
SIZES = ((64, 256, 12), (256, 1024, 25), (512, 2048, 50), (1024, 4096, 100), (1024, 8192, 100))
QUICK_SIZES = ((32, 64, 3), (64, 128, 6))
WORKING_SETS = tuple(2**k for k in range(13, 30))
QUICK_WORKING_SETS = (2**13, 2**16, 2**20)
DURATION = 100.0
# A weight is read.  Potential and current are read and written, the drive is read.
WEIGHT_BYTES, CURRENT_BYTES, STATE_BYTES = 8, 16, 40
# Lin and Tang's convolutional network: 224 kernels of 8 x 8 at stride 4 reach 3 x 3 places.
N_KERNELS, N_PLACES, SIDES = 224, 9, (12, 63)
QUICK_N_KERNELS, QUICK_SIDES = 8, (6,)


def run(*, quick: bool) -> dict:
    working_sets = QUICK_WORKING_SETS if quick else WORKING_SETS
    bandwidth = [triad_bandwidth(size, quick=quick) for size in working_sets]
    dense = [
        dense_point(*size, working_sets, bandwidth, quick=quick) for size in (QUICK_SIZES if quick else SIZES)
    ]
    n_kernels = QUICK_N_KERNELS if quick else N_KERNELS
    stencils = []
    for side in QUICK_SIDES if quick else SIDES:
        n_targets = N_PLACES * n_kernels
        stencil_bytes, current_bytes = 8 * n_kernels * n_targets, 8 * side * side * n_kernels
        stencils.append(
            {
                "side": side,
                "n_kernels": n_kernels,
                "n_neurons": side * side * n_kernels,
                "n_targets": n_targets,
                "floor": n_targets * WEIGHT_BYTES / at(stencil_bytes, working_sets, bandwidth)
                + n_targets * CURRENT_BYTES / at(current_bytes, working_sets, bandwidth),
                "least_pass": stencil_pass(n_kernels, N_PLACES, side, quick=quick),
            }
        )
    return {"working_sets": working_sets, "bandwidth": bandwidth, "dense": dense, "stencils": stencils}


def at(working_set: float, working_sets, bandwidth) -> float:
    """Return the bandwidth of a working set, between those measured."""
    return float(np.exp(np.interp(np.log(working_set), np.log(working_sets), np.log(bandwidth))))


def dense_point(n_features: int, n_atoms: int, planted: int, working_sets, bandwidth, *, quick: bool) -> dict:
    """Return what a spike costs in a network, and what it must cost."""
    (problem,) = planted_problems(random_dictionary(n_features, n_atoms), support=planted, n_signals=1)
    network = lasso_network(problem)
    result = simulate(network, DURATION)
    unscreened = unscreened_run(network, DURATION)
    if not np.array_equal(unscreened(), result.spike_counts):
        raise WrongAnswerError("without screening the spikes must be the same; got others")
    times = timed({"fast": lambda: simulate(network, DURATION), "plain": unscreened}, quick=quick)
    fired = int(np.count_nonzero(result.spike_counts))

    def floor(touched: int, rows: int) -> float:
        """Return the least time of a spike that touches these neurons, with weights from these rows."""
        weights = touched * WEIGHT_BYTES / at(8.0 * touched * rows, working_sets, bandwidth)
        return weights + touched * STATE_BYTES / at(STATE_BYTES * touched, working_sets, bandwidth)

    return {
        "n_atoms": n_atoms,
        "n_fired": fired,
        "n_spikes": result.n_spikes,
        "measured": times["fast"].median / result.n_spikes,
        "plain": times["plain"].median / result.n_spikes,
        # Only rows of neurons that fire are read.
        "floor": floor(n_atoms, fired),
        "active_floor": floor(max(fired, 1), max(fired, 1)),
        "least_pass": dense_pass(n_atoms, quick=quick),
    }


def targets(data: dict) -> list[Target]:
    return []


def markdown(data: dict) -> str:
    def micro(seconds: float) -> str:
        return f"{1e6 * seconds:.3g} us"

    dense = [
        [
            f"{point['n_atoms']:,}",
            f"{point['n_fired']:,}",
            f"{point['n_atoms'] * (WEIGHT_BYTES + STATE_BYTES):,}",
            micro(point["floor"]),
            micro(point["least_pass"]),
            micro(point["plain"]),
            f"{point['plain'] / point['floor']:.2f}x",
            micro(point["active_floor"]),
            micro(point["measured"]),
            f"{point['measured'] / point['active_floor']:.1f}x",
        ]
        for point in data["dense"]
    ]
    dense_header = [
        "neurons", "that fired", "bytes a spike", "floor", "a bare pass", "no screening", "over the floor",
        "floor, fired only", "simulator", "over it",
    ]  # fmt: skip
    stencils = [
        [
            f"{point['n_neurons']:,}",
            f"{point['n_targets']:,}",
            f"{point['n_targets'] * (WEIGHT_BYTES + CURRENT_BYTES):,}",
            micro(point["floor"]),
            micro(point["least_pass"]),
        ]
        for point in data["stencils"]
    ]
    bands = [
        [f"{size / 1024:,.0f} KB", f"{speed / 1e9:.1f} GB/s"]
        for size, speed in zip(data["working_sets"], data["bandwidth"], strict=True)
    ]
    kernels = data["stencils"][0]["n_kernels"]
    return "\n\n".join(
        [
            f"A spike that touches every neuron reads a row of weights ({WEIGHT_BYTES} bytes a neuron), "
            f"reads and "
            "writes potentials and currents, and reads the drive "
            f"({STATE_BYTES} bytes).  The floor is that over the bandwidth of a = b + c d at the size of "
            f"what is "
            "read over and over: the rows of the neurons that fire, and the state.  *A bare pass* does the "
            "arithmetic too, rows of the whole matrix in random order, and looks for no next spike.  *Fired "
            "only*: the same for the neurons that ever fire, which is what a simulator that screens the "
            "others has to touch.  Without screening the simulator touches all neurons; by default it "
            "does not.",
            table(dense_header, dense),
            f"Convolutional networks, {kernels} kernels that reach {N_PLACES} places: a spike reads its "
            "stencil of weights and updates the currents of its targets.",
            table(["neurons", "targets", "bytes a spike", "floor", "a bare pass"], stencils),
            "Bandwidth (three arrays of that size in all, 24 bytes an entry):",
            table(["size", "a = b + c d"], bands),
        ]
    )


def plot(data: dict) -> Figure | None:
    picture = figure(11.0, 4.0)
    left, right = picture.subplots(1, 2)
    left.plot(
        np.array(data["working_sets"]) / 1024, np.array(data["bandwidth"]) / 1e9, color=BLUE, marker="o"
    )
    left.set(xscale="log", xlabel="working set, KB", ylabel="GB/s", ylim=(0, None), title="a = b + c d")
    sizes = [point["n_atoms"] for point in data["dense"]]
    for key, colour, style, label in (
        ("measured", BLUE, "-", "simulator"),
        ("plain", PURPLE, "-", "simulator without screening"),
        ("least_pass", ORANGE, "--", "a bare pass over all neurons"),
        ("floor", GREY, ":", "floor, all neurons"),
        ("active_floor", GREEN, ":", "floor, neurons that fire"),
    ):
        costs = [1e6 * point[key] for point in data["dense"]]
        right.plot(sizes, costs, style, color=colour, marker="o", markersize=4, label=label)
    right.set(
        xscale="log", yscale="log", xlabel="neurons", ylabel="microseconds a spike", title="Cost of a spike"
    )
    right.set_xticks(sizes, [f"{size:,}" for size in sizes])
    right.minorticks_off()
    right.legend(frameon=False, fontsize="small")
    return picture
