"""Convolutional codes of a photograph: spikes beside FISTA on the same operator, and the memory they take.

``python -m tests.benchmarks convolution [--quick]``
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from dictlearn import random_patches
from examples._common import BLUE, GREEN, GREY, ORANGE, figure, progress_line
from examples._data import PHOTOGRAPHS, grey_photograph
from examples.convolutional_coding import (
    CODED,
    KERNEL_SIDE,
    LEARNED_FROM,
    STRIDE,
    coding_problem,
    fresh,
    learned_kernels,
)
from snn import Exact
from solvers import (
    ConvolutionalDictionary,
    IllPosedWarning,
    LassoProblem,
    lasso_network,
    objective,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers.methods.fista import Iterates, gradient_step
from tests.benchmarks.report import Target, at_least, at_most
from tests.benchmarks.timing import WrongAnswerError, first_call, milliseconds, table

TITLE = "Convolutional codes"
# Pixels a side, and how often each time is taken: the least counts.
SIZES = ((52, 15), (256, 3))
QUICK_SIZES = ((24, 1),)
SPIKES, FISTA = "spikes, rates", "FISTA"
ALONE, ACTIVE_SET = "spikes alone", "active set"
LARGEST_MEMORY = 2.0  # GB
# The objective that coarse codes must reach, beside the optimum, which FISTA finds to a gap of its own.
CLOSE, OPTIMUM_TOL = 0.01, 1e-4
# Gaps of 1/2 ||image||^2 that spikes alone, and FISTA, are taken to, up to this number of unknowns;
# more have the first only.
CERTIFIED = (1e-1, 1e-2, 1e-4, 1e-6)
MOST_UNKNOWNS = 100_000
MOST_ITERATIONS = 100_000
# Photographs as they are, slow changes and all, in kernels without a mean: pixels a side, and kernels.
GROWTH = (*((side, 128) for side in (64, 128, 256, 512)), *((256, n) for n in (16, 32, 64)))
QUICK_GROWTH = ((24, 8), (32, 8))
RAW_PENALTY = 0.05
RAW = "raw"


class Curve(NamedTuple):
    """How a solver approaches the optimum: seconds, and the objective reached."""

    seconds: np.ndarray
    objective: np.ndarray


def follow_fista(problem: LassoProblem, stop_objective: float, *, repeats: int = 1) -> Curve:
    """Return the course of FISTA until an objective; its step is given, and certificates are not timed."""
    step = gradient_step(problem)
    seconds, objectives = [], []
    for _ in range(repeats):
        unsolved = fresh(problem)
        elapsed, reached, taken = 0.0, np.inf, []
        begin = time.perf_counter()
        iterates = Iterates(unsolved, step, np.zeros((problem.n_signals, problem.n_atoms)))
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
    run = Exact().start(network, network.soma_bias[np.newaxis])
    run.advance(duration)
    by_rate = run.spike_counts * (scale / duration)
    seconds = time.perf_counter() - begin

    # Not on the clock: another run, stopped half way.
    halved = Exact().start(network, network.soma_bias[np.newaxis])
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


def draw_curves(ax, optimum: float, curves: dict[str, Curve], title: str) -> None:
    """Draw how far objectives are above the optimum, against time."""
    for (name, curve), colour in zip(curves.items(), (BLUE, ORANGE, GREEN), strict=False):
        distances = curve.objective / optimum - 1.0
        progress_line(ax, 1e3 * curve.seconds, distances, color=colour, marker="o", markersize=3, label=name)
    ax.axhline(CLOSE, color=GREY, linestyle=":", linewidth=1.0, label=f"{CLOSE:.0%} above the optimum")
    ax.set(xscale="log", yscale="log", xlabel="milliseconds, one thread", ylabel="E / E* - 1", title=title)
    ax.legend()


def run(*, quick: bool) -> dict:
    kernels = learned_kernels(16, n_patches=2_000) if quick else learned_kernels()
    sizes = []
    for side, repeats in QUICK_SIZES if quick else SIZES:
        problem = coding_problem(side, kernels)
        sizes.append(measure(problem, repeats) | {"side": side})
        sizes[-1]["certified_codes"] = measure_certified(problem, repeats)
        sizes[-1]["peak_memory"] = peak_memory(side, kernels, sizes[-1]["rate"]["duration"])
    return {
        "n_kernels": len(kernels),
        "sizes": sizes,
        "growth": [code_raw(side, n_kernels) for side, n_kernels in (QUICK_GROWTH if quick else GROWTH)],
    }


def measure(problem: LassoProblem, repeats: int) -> dict:
    """Return the course of both solvers until 1 % above the optimum."""
    best = solve_fista(problem, tol=OPTIMUM_TOL)
    if not best.converged:
        raise WrongAnswerError("FISTA must find the optimum that all are measured against")
    optimum = float(best.objective[0])
    stop = (1.0 + CLOSE) * optimum
    run_spikes(problem, 1.0)
    by_spikes, facts = follow_spikes(problem, stop, repeats=repeats)
    by_fista = follow_fista(problem, stop, repeats=repeats)
    counts = facts["spike_counts"][0]
    n_events = int(lasso_network(problem).weights.n_deliveries(counts))
    stencil = problem.dictionary.stencil()
    # For each target its bound is read and written, and its weight is read; its weight once more when the
    # spike is added to potential and current.
    n_touched = n_events / counts.sum()
    return {
        "n_unknowns": problem.n_atoms,
        "optimum": optimum,
        "certified": float(best.duality_gap[0]) / optimum,
        "support": int(best.support_size[0]),
        "rate": facts["rate"],
        "current": facts["current"],
        "n_synaptic_events": n_events,
        "bytes_a_spike": n_touched * (8 + 8 + 8 + 8),
        "megabytes_of_weights": stencil.nbytes / 1e6,
        "fista_seconds": float(by_fista.seconds[-1]),
        "fista_iterations": len(by_fista.seconds),
        "eigenvalue_seconds": first_call(lambda: gradient_step(problem)),
        "curves": {
            name: {"seconds": curve.seconds.tolist(), "objective": curve.objective.tolist()}
            for name, curve in ((SPIKES, by_spikes), (FISTA, by_fista))
        },
    }


def measure_certified(problem: LassoProblem, repeats: int) -> list[dict]:
    """Return what whole solvers take to each gap, from the image, certificates included."""
    is_small = problem.n_atoms < MOST_UNKNOWNS
    repeats = min(repeats, 3) if is_small else 1

    def entry(name: str, solve, gap: float) -> dict:
        seconds = []
        for _ in range(repeats):
            unsolved = fresh(problem)
            begin = time.perf_counter()
            result = solve(unsolved, tol=gap)
            seconds.append(time.perf_counter() - begin)
        reached = float(result.duality_gap[0] / problem.energies[0])
        if not reached <= gap:
            raise WrongAnswerError(f"{name} must have a gap of at most {gap:g}; it has {reached:g}")
        return {
            "name": name,
            "wanted": gap,
            "seconds": min(seconds),
            "gap": reached,
            "n_steps": int(result.n_steps[0]),
        }

    solvers = {
        ALONE: solve_spiking,
        FISTA: partial(solve_fista, max_iter=MOST_ITERATIONS),
        ACTIVE_SET: solve_active_set,
    }
    found = []
    for name, solve in solvers.items():
        solve(fresh(problem), tol=1.0)
        gaps = CERTIFIED[-1:] if name == ACTIVE_SET else CERTIFIED if is_small else CERTIFIED[:1]
        found += [entry(name, solve, gap) for gap in gaps]
    return found


def peak_memory(side: int, kernels: np.ndarray, duration: float) -> float:
    """Return the largest memory, in GB, of a process that codes a photograph by spikes, imports and all."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.npy"
        np.save(file, kernels)
        return float(_told_alone(str(file), str(side), str(duration)))


def _told_alone(*arguments: str) -> str:
    """Return what this program prints in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.convolution", *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    return told.stdout


def code_alone(file: str, side: str, duration: str) -> None:
    """Code a photograph by spikes, and print the largest memory it took, in GB."""
    run_spikes(coding_problem(int(side), np.load(file)), float(duration))
    print(_peak_of_this_process() / 1e9)


def _peak_of_this_process() -> float:
    """Return the largest memory of this process so far, in bytes."""
    # On Linux `getrusage` counts what the parent had when it started this process.
    status = Path("/proc/self/status")
    if status.exists():
        found = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return 1024.0 * float(found[0])
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def targets(data: dict) -> list[Target]:
    found = []
    for size in data["sizes"]:
        work = f"{size['n_unknowns']:,} unknowns to 1 % of the optimum, beside FISTA on the same operator"
        found.append(at_least(work, 10.0, size["fista_seconds"] / size["rate"]["seconds"], ">= 10x"))
    largest = data["sizes"][-1]
    found.append(
        at_most(
            f"memory of {largest['n_unknowns']:,} unknowns",
            LARGEST_MEMORY,
            largest["peak_memory"],
            "< 2 GB",
            " GB",
        )
    )
    return found


def markdown(data: dict) -> str:
    rows = []
    for size in data["sizes"]:
        for name, label in (("rate", "spikes, rates"), ("current", "spikes, average currents")):
            read = size[name]
            rows.append(
                [
                    f"{size['n_unknowns']:,}", label, milliseconds(read["seconds"]),
                    f"{size['fista_seconds'] / read['seconds']:.2g}x",
                    f"{read['n_spikes']:,} spikes to t = {read['duration']:.3g}, "
                    f"{1e6 * read['seconds'] / read['n_spikes']:.2g} us each",
                ]
            )  # fmt: skip
        rows.append(
            [
                f"{size['n_unknowns']:,}", "FISTA", milliseconds(size["fista_seconds"]), "1x",
                f"{size['fista_iterations']} iterations, "
                f"{milliseconds(size['fista_seconds'] / size['fista_iterations'])} each",
            ]
        )  # fmt: skip
    facts = [
        [
            f"{size['side']} x {size['side']}", f"{size['n_unknowns']:,}", f"{size['support']:,}",
            f"{size['certified']:.1e}", f"{size['n_synaptic_events']:.3g}",
            f"{1e-3 * size['bytes_a_spike']:.3g} kB", f"{size['megabytes_of_weights']:.1f} MB",
            f"{size['peak_memory']:.2f} GB", milliseconds(size["eigenvalue_seconds"]),
        ]
        for size in data["sizes"]
    ]  # fmt: skip
    certified = [
        [
            f"{size['n_unknowns']:,}", row["name"], f"{row['wanted']:g}", milliseconds(row["seconds"]),
            f"{row['gap']:.1e}",
            f"{row['n_steps']:,} "
            f"{ {ALONE: 'spikes', FISTA: 'iterations', ACTIVE_SET: 'rounds'}[row['name']] }",
        ]
        for size in data["sizes"]
        for row in size["certified_codes"]
    ]  # fmt: skip
    growth = [
        [
            f"{row['side']} x {row['side']}", f"{row['n_kernels']}", f"{row['n_unknowns']:,}",
            f"{row['support']:,}", milliseconds(row["seconds"]), f"{row['gap']:.0e}",
            f"{row['peak_memory']:.2f} GB",
        ]
        for row in data.get("growth", ())
    ]  # fmt: skip
    return "\n\n".join(
        [
            f"A photograph, its contrast normalised, in {data['n_kernels']} learned kernels of 8 x 8 pixels "
            "at stride 4, codes not negative. Time from the image to a code whose objective is within 1 % of "
            "the optimum: correlations with the dictionary, the network or the iterations, the code. FISTA's "
            "largest eigenvalue is given and not counted, nor are certificates, for either; its operator is "
            "a product of matrices over patches. The optimum is FISTA's own, certified to what the table "
            "says. In the picture each point of the spikes is a run of its own; the line joins those "
            "that none with less time came nearer than, and the others are pale. Bytes of a spike are "
            "what it must touch: the bound and the weight of each target, and the weight again when the "
            "spike is added to its potential and current.",
            table(["unknowns", "method", "time", "FISTA / this", "work"], rows),
            table(
                [
                    "image", "unknowns", "in the code", "certified", "synaptic events", "a spike touches",
                    "weights", "peak memory", "largest eigenvalue",
                ],
                facts,
            ),
            "To a certified gap, relative to 1/2 ||image||^2: whole calls of the solvers, FISTA's largest "
            "eigenvalue and certificates included. *Spikes alone* are read through the smooth window and "
            "refined; the active set is exact to rounding, whatever the tolerance.",
            table(["unknowns", "method", "gap wanted", "time", "gap", "work"], certified),
            "A photograph with its slow changes, in kernels of 8 x 8 pixels without a mean, at stride 4, "
            f"codes of either sign, penalty {RAW_PENALTY:g}: polished spikes, one run each. Slow changes are "
            "sums of large coefficients of both signs, and the equations are badly conditioned.",
            table(["image", "kernels", "unknowns", "in the code", "time", "gap", "peak memory"], growth),
        ]
    )  # fmt: skip


def plot(data: dict) -> Figure:
    picture = figure(6.5 * len(data["sizes"]), 4.5)
    axes = picture.subplots(1, len(data["sizes"]), squeeze=False)[0]
    for ax, size in zip(axes, data["sizes"], strict=True):
        curves = {
            name: Curve(np.array(curve["seconds"]), np.array(curve["objective"]))
            for name, curve in size["curves"].items()
        }
        draw_curves(ax, size["optimum"], curves, f"{size['n_unknowns']:,} unknowns")
    return picture


def raw_problem(side: int, n_kernels: int) -> LassoProblem:
    """Return the problem of coding a photograph with its slow changes, in kernels without a mean.

    The kernels are patches of other photographs, and no mean is subtracted from the image: equations between
    neighbouring atoms are badly conditioned.
    """
    images = [grey_photograph(name) for name in LEARNED_FROM if name in PHOTOGRAPHS]
    patches = random_patches(images, KERNEL_SIDE, 20 * n_kernels, rng=0)
    patches -= patches.mean(axis=1, keepdims=True)
    # One in ten of those of the most contrast.
    norms = np.linalg.norm(patches, axis=1)
    chosen = np.argsort(-norms, kind="stable")[::10][:n_kernels]
    kernels = patches[chosen] / norms[chosen, np.newaxis]
    image = grey_photograph(CODED)
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    dictionary = ConvolutionalDictionary(
        kernels.reshape(n_kernels, KERNEL_SIDE, KERNEL_SIDE), (side, side), STRIDE
    )
    signal = image[top : top + side, left : left + side].reshape(1, -1)
    return LassoProblem(dictionary, signal, RAW_PENALTY)


def code_raw(side: int, n_kernels: int) -> dict:
    """Return what polished spikes take for a photograph with its slow changes, in a process of its own."""
    return json.loads(_told_alone(RAW, str(side), str(n_kernels)))


def code_raw_alone(side: str, n_kernels: str) -> None:
    """Code a photograph with its slow changes, and print what it took."""
    warnings.simplefilter("ignore", IllPosedWarning)
    solve_spiking(raw_problem(24, 8), polish=True)
    problem = raw_problem(int(side), int(n_kernels))
    begin = time.perf_counter()
    result = solve_spiking(problem, polish=True, tol=CERTIFIED[-1])
    seconds = time.perf_counter() - begin
    if not result.converged:
        raise WrongAnswerError(f"the gap must be at most {CERTIFIED[-1]:g}; it is {result.duality_gap[0]:g}")
    told = {
        "side": int(side),
        "n_kernels": int(n_kernels),
        "n_unknowns": problem.n_atoms,
        "support": int(result.support_size[0]),
        "seconds": seconds,
        "gap": float(result.duality_gap[0] / problem.energies[0]),
        "peak_memory": _peak_of_this_process() / 1e9,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1] == RAW:
        code_raw_alone(*sys.argv[2:])
    else:
        code_alone(*sys.argv[1:])
