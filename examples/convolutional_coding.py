"""A photograph in convolutional sparse code, found by spikes and by FISTA: a quarter of a minute.

Kernels of 8 x 8 pixels overlap at every fourth row and column of an image.  The code has a non-negative
coefficient of each kernel at each place.  Scikit-learn learns the kernels from patches of other
photographs.  Spikes and FISTA use the same convolutional dictionary, which is never built as a matrix, and
both have certified codes at each accuracy.  The active-set method is run for comparison.

    python -m examples.convolutional_coding [--output DIR] [--side PIXELS] [--small]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning

from dictlearn import random_patches
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, ORANGE, PURPLE, figure, parser, save, signal_to_noise, table
from examples._data import grey_photograph
from solvers import (
    ConvolutionalDictionary,
    LassoProblem,
    SparseCodingResult,
    solve_active_set,
    solve_fista,
    solve_spiking,
)

KERNEL_SIDE = 8
STRIDE = 4
N_KERNELS = 224
# Penalty for a local contrast of about one: a code of 52 x 52 pixels has about 440 nonzero coefficients.
PENALTY = 0.4
CODED = "camera"
LEARNED_FROM = ("china", "flower", "astronaut", "coffee", "rocket")
# Certified gaps that the solvers reach, in units of 1/2 ||image||^2.
TOLS = (1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
LEAST_GAP = 1e-16
# Number of runs of each solver; the shortest time counts.
REPEATS = 3


class Curve(NamedTuple):
    """The progress of a solver towards the optimum: seconds, certified gap and steps for each tolerance."""

    seconds: np.ndarray
    # Certified gaps, in units of 1/2 ||image||^2.
    gap: np.ndarray
    n_steps: np.ndarray


def normalised(image: np.ndarray) -> np.ndarray:
    """Return an image without its local mean, scaled to about the same contrast everywhere.

    The mean is over a Gaussian of 4 pixels, the contrast over a Gaussian of 8 pixels.  The divisor is the
    local contrast plus 0.3 times the contrast of the image, so that flat regions are not amplified too much.
    """
    detail = image - gaussian_filter(image, KERNEL_SIDE / 2)
    contrast = np.sqrt(gaussian_filter(detail**2, KERNEL_SIDE))
    return detail / (contrast + 0.3 * np.sqrt(np.mean(detail**2)))


def learned_kernels(n_kernels: int = N_KERNELS, *, n_patches: int = 20_000) -> np.ndarray:
    """Return kernels of norm one, learned as atoms of patches, shape (n_kernels, 8, 8)."""
    images = [normalised(grey_photograph(name)) for name in LEARNED_FROM]
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
        # During learning, scikit-learn warns that the codes of a few patches are not exact.
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
    """Return a copy of the problem, without the results that solvers have cached."""
    return LassoProblem(problem.dictionary, problem.signals, problem.l1_weights, positive=problem.positive)


def follow(
    problem: LassoProblem,
    solve: Callable[..., SparseCodingResult],
    tols: Sequence[float],
    *,
    repeats: int = 1,
) -> tuple[Curve, SparseCodingResult]:
    """Return the curve of a solver, from an image to certified codes, and the solver's last result."""
    solve(fresh(problem), tol=1.0)
    seconds, gaps, n_steps = [], [], []
    for tol in tols:
        taken = []
        for _ in range(repeats):
            unsolved = fresh(problem)
            begin = time.perf_counter()
            result = solve(unsolved, tol=tol)
            taken.append(time.perf_counter() - begin)
        seconds.append(min(taken))
        gaps.append(float(result.duality_gap[0] / problem.energies[0]))
        n_steps.append(int(result.n_steps[0]))
    return Curve(np.array(seconds), np.array(gaps), np.array(n_steps)), result


def draw(problem: LassoProblem, codes: np.ndarray, curves: dict[str, Curve]) -> Figure:
    picture = figure(10.0, 6.6)
    top, bottom = picture.subfigures(2, 1)
    dictionary = problem.dictionary
    image = problem.signals.reshape(dictionary.image_shape)
    coded = problem.reconstruct(codes).reshape(dictionary.image_shape)
    original, approximation, kernels = top.subplots(1, 3)
    for panel, shown, title in (
        (original, image, f"Photograph, {image.shape[0]} x {image.shape[1]}"),
        (approximation, coded, f"From {np.count_nonzero(codes):,} coefficients, found by spikes"),
    ):
        panel.imshow(shown, cmap="gray", vmin=-2.5, vmax=2.5)
        panel.set_title(title, fontsize="medium")
        panel.set_axis_off()
    plot_atoms(dictionary.kernels, ax=kernels)
    kernels.set_title(
        f"{dictionary.n_kernels} kernels, steps of {dictionary.stride} pixels", fontsize="medium"
    )
    _draw_curves(bottom.subplots(), curves, f"{problem.n_atoms:,} unknowns")
    return picture


def _draw_curves(ax, curves: dict[str, Curve], title: str) -> None:
    """Draw certified gaps against the total time, with a star for a method that has a single time."""
    for (name, curve), colour in zip(curves.items(), (BLUE, ORANGE, PURPLE), strict=True):
        style = {"linestyle": "", "marker": "*", "markersize": 13} if len(curve.gap) == 1 else {"marker": "o"}
        gap = np.maximum(curve.gap, LEAST_GAP)
        ax.plot(1e3 * curve.seconds, gap, color=colour, label=name, **style)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="milliseconds of the whole solver, one thread",
        ylabel="duality gap / (1/2 ||image||²)",
        title=f"{title}: certified distance from the optimum",
    )
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
    by_spikes, spiking = follow(problem, solve_spiking, TOLS, repeats=REPEATS)
    by_fista, fista = follow(problem, solve_fista, TOLS, repeats=REPEATS)
    by_active_set, exact = follow(problem, solve_active_set, TOLS[-1:], repeats=REPEATS)
    print("A photograph in convolutional sparse code")
    print(
        f"{options.side} x {options.side} pixels; {len(kernels)} kernels at "
        f"{problem.dictionary.n_positions:,} positions; {problem.n_atoms:,} unknowns, "
        f"{exact.support_size[0]:,} in the code"
    )
    print("Whole solvers, from the image to codes whose gap is certified, in units of 1/2 ||image||^2.")
    rows = [
        (
            f"{tol:g}",
            f"{1e3 * by_spikes.seconds[k]:.1f}",
            f"{by_spikes.n_steps[k]:,}",
            f"{1e3 * by_fista.seconds[k]:.1f}",
            f"{by_fista.n_steps[k]:,}",
        )
        for k, tol in enumerate(TOLS)
    ]
    print()
    print(table(("gap", "spikes alone, ms", "spikes", "FISTA, ms", "iterations"), rows))
    print()
    print(f"active set, to rounding: {1e3 * by_active_set.seconds[0]:.1f} ms, gap {by_active_set.gap[0]:.1e}")
    decibels = signal_to_noise(problem.signals, problem.reconstruct(spiking.codes))
    objectives = ", ".join(
        f"{name} {result.objective[0]:.6g}"
        for name, result in (("spikes alone", spiking), ("FISTA", fista), ("active set", exact))
    )
    print(f"objectives at the last gap: {objectives}")
    print(f"reconstruction from the code of the spikes: {decibels:.1f} dB")
    print()
    curves = {"spikes alone": by_spikes, "FISTA": by_fista, "active set, from nothing": by_active_set}
    save(draw(problem, spiking.codes, curves), options.output, "convolutional_coding.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
