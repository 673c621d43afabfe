"""A photograph in sparse code, found by spikes and certified: half a minute.

Patches of 8 x 8 pixels, without their means, are coded in an overcomplete cosine dictionary by networks that
have two spiking neurons for each atom.  Every code has a duality gap, which bounds the distance of the code
from the LASSO optimum, for any method.  The codes are compared with spike rates and an active-set method.

    python -m examples.photograph [--output DIR] [--height PIXELS] [--width PIXELS]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dictlearn import extract_patches, overcomplete_dct, reconstruct_from_patches, remove_mean
from dictlearn.pictures import plot_atoms
from examples._common import (
    BLUE,
    ORANGE,
    PURPLE,
    at_least,
    figure,
    parser,
    photograph,
    save,
    signal_to_noise,
    table,
)
from snn import SpikeTrain, simulate
from solvers import (
    METHODS,
    LassoProblem,
    SparseCodingResult,
    SpikingCodingResult,
    lasso_network,
    solve_active_set,
    solve_spiking,
)

HEIGHT, WIDTH = 424, 640
PATCH_SIZE = 8
N_ATOMS = 256
PENALTY = 0.05  # penalty in units of the signals, whose pixels are from 0 to 1
# Longest run, in time constants; one of four thousand patches needs a little more than the default.
MAX_DURATION = 30_000.0
TOL = 1e-3
RATE_TOL = 1e-2
ACTIVE_SET_TOL = 1e-9
SHOWN = 60.0  # duration of the raster, in synaptic time constants


def coding_problem(image: np.ndarray) -> tuple[LassoProblem, np.ndarray]:
    """Return the problem of coding the patches of an image, and their means."""
    patches, means = remove_mean(extract_patches(image, PATCH_SIZE, stride=PATCH_SIZE))
    return LassoProblem(overcomplete_dct(PATCH_SIZE, N_ATOMS), patches, PENALTY), means


def draw(
    image: np.ndarray,
    approximation: np.ndarray,
    problem: LassoProblem,
    spiking: SpikingCodingResult,
    rates: SpikingCodingResult,
    exact: SparseCodingResult,
) -> Figure:
    picture = figure(10.0, 6.6)
    top, bottom = picture.subfigures(2, 1, height_ratios=(1.0, 0.95))

    original, coded, atoms = top.subplots(1, 3, width_ratios=(1.5, 1.5, 1.0))
    original.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
    original.set_title(f"Photograph, {image.shape[0]} x {image.shape[1]} pixels", fontsize="medium")
    coded.imshow(approximation, cmap="gray", vmin=0.0, vmax=1.0)
    coded.set_title(
        f"Coded by spikes, {spiking.support_size.mean():.1f} atoms a patch: "
        f"{signal_to_noise(image, approximation):.1f} dB",
        fontsize="medium",
    )
    for panel in (original, coded):
        panel.set_axis_off()
    plot_atoms(problem.dictionary, PATCH_SIZE, ax=atoms)
    atoms.set_title(f"{problem.n_atoms} cosine atoms", fontsize="medium")

    raster, gaps = bottom.subplots(1, 2, width_ratios=(1.3, 1.0))
    _draw_raster(raster, problem, exact)
    _draw_gaps(
        gaps,
        problem,
        {
            f"rates of one run to {RATE_TOL:g}: {rates.n_steps.mean():,.0f} spikes a patch": (rates, ORANGE),
            f"stages of runs to {TOL:g}: {spiking.n_steps.mean():,.0f} spikes a patch": (spiking, BLUE),
            "active-set method, no spikes": (exact, PURPLE),
        },
    )
    return picture


def _draw_raster(ax, problem: LassoProblem, exact: SparseCodingResult) -> None:
    """Draw the spikes of one patch: rows of neurons in the optimal code come first, then other neurons."""
    signal = _patch_to_show(problem, exact)
    single = problem.subset([signal])
    drive = (np.abs(single.correlations[0]) - single.l1_weights) / single.atoms.squared_norms
    network = lasso_network(single, scale=float(drive.max()))
    spikes = simulate(network, SHOWN, record_spikes=True).spikes
    code = exact.codes[signal]
    active = np.concatenate([code > 0.0, code < 0.0])
    fired = np.flatnonzero(spikes.counts())
    order = fired[np.lexsort((-spikes.counts()[fired], ~active[fired]))]
    row_of = np.full(spikes.n_neurons, -1)
    row_of[order] = np.arange(len(order))
    ordered = SpikeTrain(
        times=spikes.times,
        neurons=row_of[spikes.neurons],
        n_neurons=len(order),
        start=spikes.start,
        stop=spikes.stop,
    )
    ordered.plot(ax=ax)
    colours = np.where(active[spikes.neurons], BLUE, ORANGE)
    ax.collections[0].set(color=colours, sizes=[min(60.0, 4e4 / len(order) ** 2)], linewidths=0.9)
    ax.set(title="", ylabel="neurons that fire", yticks=[])
    title = f"One patch: {len(order)} of {spikes.n_neurons} neurons fire"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.legend(
        handles=[
            Line2D([], [], color=BLUE, marker="|", linestyle="", label="in the optimal code"),
            Line2D([], [], color=ORANGE, marker="|", linestyle="", label="zero in it"),
        ],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=2,
        frameon=False,
        fontsize="small",
    )


def _patch_to_show(problem: LassoProblem, exact: SparseCodingResult) -> int:
    """Return a patch with a support of median size, at the upper quartile of the energy of such patches."""
    size = exact.support_size
    alike = np.flatnonzero(size == np.sort(size)[len(size) // 2])
    return int(alike[np.argsort(problem.energies[alike])[3 * len(alike) // 4]])


def _draw_gaps(ax, problem: LassoProblem, groups: dict[str, tuple[SparseCodingResult, str]]) -> None:
    """Draw histograms of the certified gaps of patches whose code is not zero."""
    coded = np.abs(problem.correlations).max(axis=1) > PENALTY
    bins = np.geomspace(1e-17, 1.0, 86)
    for label, (result, colour) in groups.items():
        relative = np.clip(result.relative_gap[coded], bins[0], bins[-1])
        ax.hist(relative, bins=bins, color=colour, alpha=0.75, label=label)
    ax.set(xscale="log", xlabel="certified gap / (½‖signal‖²)", ylabel="patches", ymargin=0.4)
    ax.set_title("Certified distance from the optimum", fontsize="medium")
    ax.legend(loc="upper center", fontsize="small")


def timed(
    problem: LassoProblem, solve: Callable[..., SparseCodingResult], **options: object
) -> tuple[float, SparseCodingResult]:
    """Solve a problem; return the time in seconds, without compilation, and the result."""
    solve(problem.subset([int(np.argmax(problem.energies))]), **options)
    unsolved = problem.subset(slice(None))
    started = time.perf_counter()
    result = solve(unsolved, **options)
    return time.perf_counter() - started, result


def network_table(problem: LassoProblem, runs: dict[str, tuple[float, SparseCodingResult]]) -> str:
    """Return a table of the work of each method; only spiking methods fill the columns of the network."""
    rows = []
    for name, (seconds, result) in runs.items():
        network = ("-", "-", "-")
        if isinstance(result, SpikingCodingResult):
            network = (
                f"{result.info['duration'].mean():,.0f}",
                f"{result.n_steps.mean():,.1f}",
                f"{result.operations['network'].synaptic_operations.mean():,.0f}",
            )
        largest = result.relative_gap.max()
        rows.append((name, f"{seconds:.2f}", *network, f"{largest:.1e}"))
    heads = ("mean of a patch", "seconds in all", "time constants", "spikes", "synaptic operations")
    return table((*heads, "largest gap"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--height", type=at_least(PATCH_SIZE), default=HEIGHT, help="in pixels")
    command.add_argument("--width", type=at_least(PATCH_SIZE), default=WIDTH, help="likewise")
    options = command.parse_args(arguments)
    if options.height % PATCH_SIZE or options.width % PATCH_SIZE:
        command.error(f"height and width must be multiples of {PATCH_SIZE}")

    image = photograph(options.height, options.width)
    problem, means = coding_problem(image)
    print("A photograph in sparse code, found by spikes and certified")
    print(
        f"{image.shape[0]} x {image.shape[1]} pixels; {problem.n_signals:,} patches of "
        f"{PATCH_SIZE} x {PATCH_SIZE}; {problem.n_atoms} cosine atoms; {2 * problem.n_atoms} neurons a patch"
    )
    print()

    runs = {
        f"spikes alone to {TOL:g}": timed(problem, solve_spiking, tol=TOL, max_duration=MAX_DURATION),
        f"rates of one run to {RATE_TOL:g}": timed(problem, METHODS["spiking_rate"], tol=RATE_TOL),
        "active set, from nothing": timed(problem, solve_active_set, tol=ACTIVE_SET_TOL),
    }
    spiking, rates, exact = (result for _, result in runs.values())
    approximation = reconstruct_from_patches(
        problem.reconstruct(spiking.codes) + means, image.shape, PATCH_SIZE, stride=PATCH_SIZE
    )
    print("Gaps are certified, in units of 1/2 ||signal||^2.")
    print(network_table(problem, runs))
    n_certified = int(spiking.reached.sum())
    print(f"{n_certified:,} of {problem.n_signals:,} codes by spikes alone are certified to {TOL:g}")
    print(
        f"reconstruction: {signal_to_noise(image, approximation):.1f} dB "
        f"from {spiking.support_size.mean():.1f} atoms a patch"
    )
    print()

    save(draw(image, approximation, problem, spiking, rates, exact), options.output, "photograph.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
