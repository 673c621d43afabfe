"""A photograph in convolutional sparse code, found by spikes and by FISTA.

Kernels of 8 x 8 pixels are placed at every fourth row and column of an image and overlap; the code says how
strong each is at each place, and is never negative.  The kernels are learned from patches of other
photographs by scikit-learn.  Both solvers use the same convolutional dictionary, which is never built as a
matrix, and are followed until they are near the optimum.

    python -m examples.convolutional_coding [--output DIR] [--side PIXELS] [--small]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning

from dictlearn import plot_atoms, random_patches
from examples._common import BLUE, GREEN, GREY, ORANGE, figure, parser, save, signal_to_noise, table
from examples._data import PHOTOGRAPHS, grey_photograph
from snn.event_driven import EventDrivenRun
from solvers import ConvolutionalDictionary, LassoProblem, duality_gap, lasso_network, objective, solve_fista
from solvers.fista import Iterates, gradient_step

KERNEL_SIDE = 8
STRIDE = 4
N_KERNELS = 224
# In units of images whose local contrast is about one: 52 x 52 pixels take about 440 coefficients.
PENALTY = 0.4
CODED = "camera"
LEARNED_FROM = ("china", "flower", "astronaut", "coffee", "rocket")
# Relative to 1/2 ||image||^2.
OPTIMUM_TOL = 1e-4
CLOSE = 0.01


class Curve(NamedTuple):
    """How a solver approaches the optimum: seconds, and the objective reached."""

    seconds: np.ndarray
    objective: np.ndarray


def normalised(image: np.ndarray) -> np.ndarray:
    """Return an image without its local mean, at about the same contrast everywhere.

    Twelve pixels around count for the mean, twice as many for the contrast; where it is below a third of
    that of the whole image, it is not amplified further.
    """
    detail = image - gaussian_filter(image, KERNEL_SIDE / 2)
    contrast = np.sqrt(gaussian_filter(detail**2, KERNEL_SIDE))
    return detail / (contrast + 0.3 * np.sqrt(np.mean(detail**2)))


def learned_kernels(n_kernels: int = N_KERNELS, *, n_patches: int = 20_000) -> np.ndarray:
    """Return kernels of norm one, learned as atoms of patches, shape (n_kernels, 8, 8)."""
    images = [normalised(grey_photograph(name)) for name in LEARNED_FROM if name in PHOTOGRAPHS]
    patches = random_patches(images, KERNEL_SIDE, n_patches, rng=0)
    learner = MiniBatchDictionaryLearning(
        n_kernels,
        alpha=1.0,
        positive_code=True,
        fit_algorithm="cd",
        batch_size=256,
        max_iter=3,
        random_state=0,
    )
    with warnings.catch_warnings():
        # Codes of a few patches are not exact while learning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(patches)
    kernels = learner.components_ / np.linalg.norm(learner.components_, axis=1, keepdims=True)
    return kernels.reshape(n_kernels, KERNEL_SIDE, KERNEL_SIDE)


def coding_problem(side: int, kernels: np.ndarray) -> LassoProblem:
    """Return the problem of coding the middle of a photograph, `side` pixels wide and high."""
    image = normalised(grey_photograph(CODED))
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    signal = image[top : top + side, left : left + side].reshape(1, -1)
    dictionary = ConvolutionalDictionary(kernels, (side, side), STRIDE)
    return LassoProblem(dictionary, signal, PENALTY, positive=True)


def fresh(problem: LassoProblem) -> LassoProblem:
    """Return the problem without what solvers have computed of it."""
    return LassoProblem(problem.dictionary, problem.signals, problem.l1_weights, positive=problem.positive)


def follow_fista(problem: LassoProblem, stop_objective: float, *, repeats: int = 1) -> Curve:
    """Return the course of FISTA until an objective; its step is given, and certificates are not timed."""
    step = gradient_step(problem)
    seconds, objectives = [], []
    for _ in range(repeats):
        unsolved = fresh(problem)
        elapsed, reached, taken = 0.0, np.inf, []
        begin = time.perf_counter()
        iterates = Iterates(unsolved, step)
        elapsed += time.perf_counter() - begin
        objectives = []
        while reached > stop_objective:
            begin = time.perf_counter()
            iterates.advance()
            elapsed += time.perf_counter() - begin
            reached = float(objective(problem, iterates.codes / step.norms)[0])
            taken.append(elapsed)
            objectives.append(reached)
        seconds.append(taken)
    return Curve(np.min(seconds, axis=0), np.array(objectives))


class SpikingRead(NamedTuple):
    """What a run of the network gives: its codes, and what it did."""

    by_rate: np.ndarray
    by_current: np.ndarray
    n_spikes: int
    spike_counts: np.ndarray


def run_spikes(problem: LassoProblem, duration: float) -> tuple[SpikingRead, float]:
    """Return what the network says at a time, and the seconds of it: from the image to the codes.

    Rates are those since the start; currents the average over the second half.
    """
    unsolved = fresh(problem)
    lasso_network(problem)  # the weights, which are the dictionary's, not the image's
    begin = time.perf_counter()
    drive = unsolved.correlations - unsolved.l1_weights
    scale = max(float((drive / unsolved.squared_norms).max()), np.finfo(float).tiny)
    network = lasso_network(unsolved, scale=scale)
    run = EventDrivenRun(network, network.soma_bias[np.newaxis])
    run.advance(duration)
    by_rate = run.spike_counts * (scale / duration)
    seconds = time.perf_counter() - begin

    # Not on the clock: another run, stopped half way.
    halved = EventDrivenRun(network, network.soma_bias[np.newaxis])
    charge = []
    for end in (0.5 * duration, duration):
        halved.advance(end)
        charge.append(network.firing_threshold * halved.spike_counts + halved.membrane_potential)
    by_current = np.maximum(charge[1] - charge[0], 0.0) * (2.0 * scale / duration) / network.firing_threshold
    return SpikingRead(by_rate, by_current, int(run.spike_counts.sum()), run.spike_counts), seconds


def follow_spikes(problem: LassoProblem, stop_objective: float, *, repeats: int = 1) -> tuple[Curve, dict]:
    """Return the course of the spike rates until an objective, each point a run from the image on.

    Also what the last run did, with the seconds until the rates, and the average currents, got there.
    """
    seconds, objectives, facts = [], [], {}
    duration = 2.0
    while not ("rate" in facts and "current" in facts):
        runs = [run_spikes(problem, duration) for _ in range(repeats)]
        read = runs[0][0]
        taken = min(each for _, each in runs)
        seconds.append(taken)
        objectives.append(float(objective(problem, read.by_rate)[0]))
        reached = {"rate": objectives[-1], "current": float(objective(problem, read.by_current)[0])}
        for name, value in reached.items():
            if value <= stop_objective and name not in facts:
                facts[name] = {"seconds": taken, "duration": duration, "n_spikes": read.n_spikes}
        if "rate" in facts and "codes" not in facts:
            facts |= {"codes": read.by_rate, "spike_counts": read.spike_counts}
        # In small steps where it matters when.
        waited_for = [value for name, value in reached.items() if name not in facts]
        is_near = min(waited_for, default=np.inf) < (1.0 + 0.3 * CLOSE) * stop_objective
        duration *= 2.0 ** (1 / 32 if is_near else 1 / 8)
    return Curve(np.array(seconds), np.array(objectives)), facts


def draw(problem: LassoProblem, facts: dict, optimum: float, curves: dict[str, Curve]) -> Figure:
    picture = figure(13.0, 7.2)
    top, bottom = picture.subfigures(2, 1)
    dictionary = problem.dictionary
    image = problem.signals.reshape(dictionary.image_shape)
    coded = problem.reconstruct(facts["codes"]).reshape(dictionary.image_shape)
    original, approximation, kernels = top.subplots(1, 3)
    for panel, shown, title in (
        (original, image, f"Photograph, {image.shape[0]} x {image.shape[1]}, contrast normalised"),
        (approximation, coded, f"From {np.count_nonzero(facts['codes']):,} atoms that fired"),
    ):
        panel.imshow(shown, cmap="gray", vmin=-2.5, vmax=2.5)
        panel.set(title=title)
        panel.set_axis_off()
    plot_atoms(dictionary.kernel_rows, KERNEL_SIDE, ax=kernels)
    kernels.set(title=f"{dictionary.n_kernels} kernels, one step every {dictionary.stride} pixels")
    draw_curves(bottom.subplots(), optimum, curves, f"{problem.n_atoms:,} unknowns")
    return picture


def draw_curves(ax, optimum: float, curves: dict[str, Curve], title: str) -> None:
    """Draw how far objectives are above the optimum, against time."""
    for (name, curve), colour in zip(curves.items(), (BLUE, ORANGE, GREEN), strict=False):
        ax.plot(
            1e3 * curve.seconds,
            curve.objective / optimum - 1.0,
            color=colour,
            marker="o",
            markersize=3,
            label=name,
        )
    ax.axhline(CLOSE, color=GREY, linestyle=":", linewidth=1.0)
    ax.set(xscale="log", yscale="log", xlabel="milliseconds, one thread", ylabel="E / E* - 1", title=title)
    ax.legend()


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--side", type=int, default=52, help="of the part of the photograph, in pixels")
    command.add_argument("--small", action="store_true", help="few kernels, a few seconds")
    options = command.parse_args(arguments)
    if options.side < 2 * KERNEL_SIDE or options.side > 512 or options.side % STRIDE:
        command.error(f"side must be a multiple of {STRIDE} from {2 * KERNEL_SIDE} to 512")

    kernels = learned_kernels(24, n_patches=2_000) if options.small else learned_kernels()
    problem = coding_problem(options.side, kernels)
    best = solve_fista(problem, tol=OPTIMUM_TOL)
    optimum = float(best.objective[0])
    print("A photograph in convolutional sparse code")
    print(
        f"{options.side} x {options.side} pixels; {len(kernels)} kernels at "
        f"{problem.dictionary.n_positions:,} positions; {problem.n_atoms:,} unknowns, "
        f"{best.support_size[0]:,} in the code"
    )
    print(f"E* = {optimum:.6g}, certified to {best.duality_gap[0] / optimum:.1e} of it")
    stop = (1.0 + CLOSE) * optimum
    by_spikes, facts = follow_spikes(problem, stop, repeats=3)
    by_fista = follow_fista(problem, stop, repeats=3)
    rows = [
        (
            f"spikes, read from {label}",
            f"{1e3 * facts[name]['seconds']:.2f}",
            f"{by_fista.seconds[-1] / facts[name]['seconds']:.1f}",
            f"{facts[name]['n_spikes']:,} spikes, t = {facts[name]['duration']:.1f}",
        )
        for name, label in (("rate", "rates"), ("current", "average currents"))
    ]
    rows.append(("FISTA", f"{1e3 * by_fista.seconds[-1]:.2f}", "1.0", f"{len(by_fista.seconds)} iterations"))
    print()
    print(table((f"to {CLOSE:.0%} of the optimum", "milliseconds", "FISTA / this", "work"), rows))
    gap = float(duality_gap(problem, facts["codes"])[0])
    coded = problem.reconstruct(facts["codes"])
    decibels = signal_to_noise(problem.signals, coded)
    print(f"code of the rates: gap {gap / optimum:.2g} of E*, {decibels:.1f} dB")
    print()
    curves = {"spikes, rates": by_spikes, "FISTA": by_fista}
    save(draw(problem, facts, optimum, curves), options.output, "convolutional_coding.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
