"""Kernels learned from photographs by spiking codes, against sporco's; a colour photograph. Two minutes.

Three learners get the same crops of photographs, the same start and the same penalty: spiking codes with sums
over codes, and two learners of sporco, online and batch.  For comparison, scikit-learn learns kernels as
atoms of patches.  Learners are compared by the objective of optimal codes on crops of other photographs.
Then colour kernels are learned from photographs of several sizes, and code another photograph.

sporco is optional, and runs in a separate process: --peer names a Python interpreter that has sporco.

    python -m examples.learn_kernels [--output DIR] [--peer PYTHON] [--small]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import MiniBatchDictionaryLearning

from dictlearn import ConvolutionalDictionaryLearning, as_pixels, prepare_image, random_patches
from dictlearn.images.kernels import Crops, KernelLearner, KernelSettings, random_kernels
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, GREEN, ORANGE, PURPLE, SKY, figure, parser, save, signal_to_noise, table
from examples._data import grey_photograph, photograph_as_it_comes
from solvers import ConvolutionalDictionary, LassoProblem, solve_active_set

KERNEL_SIDE, CROP_SIDE = 8, 64  # pixels
# Penalty in units of brightness from 0 to 1: the 4,096 pixels of a crop take about 200 coefficients.
PENALTY = 0.1
LEARNED_FROM = ("astronaut", "coffee", "rocket", "china", "flower")
HELD_OUT = ("camera", "coins", "brick")
COLOURED_FROM = ("astronaut", "coffee", "rocket", "flower")
COLOURED = "china"
NAMES = {
    "spikes": "spiking codes",
    "spikes, from patches": "spiking codes, from patches",
    "online": "sporco, online",
    "batch": "sporco, batch",
    "patches": "patches, scikit-learn",
}
COLOURS = {"spikes": BLUE, "spikes, from patches": SKY, "online": ORANGE, "batch": PURPLE, "patches": GREEN}


class Course(NamedTuple):
    """The course of a learner: kernels, processor time and passes through the crops at several times."""

    kernels: np.ndarray
    seconds: np.ndarray
    passes: np.ndarray


class Task(NamedTuple):
    """The data of all learners: crops, kernels to start from, and held-out crops."""

    crops: np.ndarray
    start: np.ndarray
    held_out: np.ndarray


def task(n_kernels: int, n_crops: int, n_held_out: int) -> Task:
    """Return the data of all learners; the smooth background of crops is removed."""
    details, others = (
        [prepare_image(grey_photograph(name), KERNEL_SIDE).detail for name in names]
        for names in (LEARNED_FROM, HELD_OUT)
    )
    start = random_kernels(details, n_kernels, (KERNEL_SIDE, KERNEL_SIDE), np.random.default_rng(0))
    return Task(some_crops(details, n_crops), start, some_crops(others, n_held_out))


def some_crops(details: list[np.ndarray], n_crops: int) -> np.ndarray:
    every = Crops(details, (CROP_SIDE, CROP_SIDE), (KERNEL_SIDE, KERNEL_SIDE), 1, 1, 0)
    crops = np.concatenate([every.cut(batch) for batch in every.batches(0)[:n_crops]])
    if len(crops) < n_crops:
        raise SystemExit(f"the photographs have {len(crops)} crops; got {n_crops}")
    return crops


def learn_by_spikes(data: Task, n_passes: int) -> Course:
    """Return the course of the learner of this project, with four crops in each batch."""
    settings = KernelSettings(penalty=PENALTY)
    KernelLearner(data.start, settings).learn(data.crops[:1])  # compiles
    learner = KernelLearner(data.start, settings)
    n_batches = n_passes * len(data.crops) // 4
    marks = {round(n) for n in np.geomspace(1, n_batches, 7)}
    kernels, seconds, passes = [], [], []
    taken = 0.0
    for batch in range(n_batches):
        first = 4 * batch % len(data.crops)
        begin = time.process_time()
        learner.learn(data.crops[first : first + 4])
        taken += time.process_time() - begin
        if batch + 1 in marks:
            kernels.append(learner.kernels)
            seconds.append(taken)
            passes.append(learner.n_samples / len(data.crops))
    return Course(np.array(kernels), np.array(seconds), np.array(passes))


def learn_from_patches(data: Task) -> Course:
    """Return kernels that scikit-learn learns as atoms of patches, which are coded one by one."""
    begin = time.process_time()
    patches = random_patches(list(data.crops), KERNEL_SIDE, min(20_000, 200 * len(data.crops)), rng=0)
    learner = MiniBatchDictionaryLearning(
        len(data.start),
        alpha=PENALTY,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        batch_size=256,
        max_iter=3,
        random_state=0,
        dict_init=data.start.reshape(len(data.start), -1),
    ).fit(patches)
    taken = time.process_time() - begin
    kernels = learner.components_.reshape(data.start.shape)
    return Course(kernels[np.newaxis], np.array([taken]), np.array([np.nan]))


def learn_by_sporco(data: Task, kind: str, n_steps: int, peer: str) -> Course:
    """Return the course of a learner of sporco, which runs in a separate process on one thread."""
    script = Path(__file__).with_name("_sporco_kernels.py")
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "task.npz", Path(folder) / "course.npz"
        np.savez(source, crops=data.crops, start=data.start, penalty=PENALTY)
        subprocess.run(
            [peer, str(script), str(source), str(target), kind, str(n_steps)],
            check=True,
            env={**environment, **threads},
            stdout=subprocess.DEVNULL,
        )
        with np.load(target) as course:
            return Course(course["kernels"], course["seconds"], course["passes"])


def held_out_objective(kernels: np.ndarray, held_out: np.ndarray) -> tuple[float, float]:
    """Return the mean objective of exact codes, divided by 1/2 ||crop||^2, and the mean support size."""
    kernels = (kernels.T / np.linalg.norm(kernels.reshape(len(kernels), -1), axis=1)).T
    dictionary = ConvolutionalDictionary(kernels, held_out.shape[1:], 1)
    problem = LassoProblem(dictionary, held_out.reshape(len(held_out), -1), PENALTY)
    result = solve_active_set(problem, tol=1e-9)
    if not result.converged:
        raise SystemExit("held-out codes must be optimal; got gaps above 1e-9")
    return float(result.objective.sum() / problem.energies.sum()), float(result.support_size.mean())


def draw_courses(courses: dict[str, Course], shares: dict[str, np.ndarray], start: float) -> Figure:
    picture = figure(10.0, 6.4)
    top, bottom = picture.subfigures(2, 1, height_ratios=(0.42, 1.0))
    for panel, (name, course) in zip(
        top.subplots(1, len(courses), squeeze=False)[0], courses.items(), strict=True
    ):
        kernels = course.kernels[-1]
        plot_atoms(kernels, ax=panel, columns=8)
        panel.set_title(f"{NAMES[name]}\n{shares[name][-1]:.4f}", fontsize="small")
    by_time, by_passes = bottom.subplots(1, 2, sharey=True)
    for name, course in courses.items():
        is_single = len(course.seconds) == 1
        style = {"color": COLOURS[name], "marker": "*" if is_single else "o", "label": NAMES[name]}
        by_time.plot(course.seconds, shares[name], markersize=13 if is_single else 5, **style)
        if not is_single:
            by_passes.plot(course.passes, shares[name], markersize=5, **style)
    for panel, label in (
        (by_time, "seconds of the processor, one thread"),
        (by_passes, "passes through the crops"),
    ):
        panel.axhline(start, color="0.6", linestyle=":", label="start: patches of the crops")
        panel.set(xscale="log", xlabel=label)
    by_time.set(ylabel="objective / energy, on other photographs", title="Held-out objective of exact codes")
    by_passes.set(title="The same, against passes")
    bottom.legend(*by_time.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return picture


def colour_picture(n_kernels: int, n_passes: int, side: int | None) -> tuple[Figure, dict[str, float]]:
    """Return picture and figures of a colour photograph, coded by kernels of other photographs."""
    middle = slice(None) if side is None else slice(200, 200 + side)
    images = [photograph_as_it_comes(name)[middle, middle] for name in COLOURED_FROM]
    photograph = photograph_as_it_comes(COLOURED)[middle, middle]
    begin = time.process_time()
    learning = ConvolutionalDictionaryLearning(
        n_kernels, kernel_size=KERNEL_SIDE, stride=2, alpha=PENALTY, max_iter=n_passes, random_state=0
    ).fit(images)
    learned = time.process_time() - begin
    begin = time.process_time()
    coded = learning.encode([photograph])[0]
    seconds = time.process_time() - begin
    pixels, background = as_pixels(photograph), coded.prepared.background
    n_nonzeros = int(coded.result.support_size[0])
    figures = {
        "height": photograph.shape[0],
        "width": photograph.shape[1],
        "seconds of learning": learned,
        "seconds of coding": seconds,
        "coefficients": n_nonzeros,
        "gap": float(coded.result.duality_gap[0] / coded.problem.energies[0]),
        "decibels": signal_to_noise(pixels, coded.image),
        "decibels of the background": signal_to_noise(pixels, background),
    }
    picture = figure(10.0, 7.4)
    panels = picture.subplots(2, 2).ravel()
    size = f"{photograph.shape[0]} x {photograph.shape[1]}"
    for panel, shown, title in (
        (panels[0], pixels, f"Photograph as it comes, {size}"),
        (panels[1], background, f"Its smooth background, {figures['decibels of the background']:.1f} dB"),
        (
            panels[2],
            coded.image,
            f"Background and code, {n_nonzeros:,} coefficients, {figures['decibels']:.1f} dB",
        ),
    ):
        panel.imshow(np.clip(shown, 0.0, 1.0))
        panel.set_title(title)
        panel.set_axis_off()
    plot_atoms(learning.components_, ax=panels[3])
    panels[3].set_title(f"{n_kernels} colour kernels, learned from {len(images)} other photographs")
    return picture, figures


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--peer", default=sys.executable, help="Python interpreter that has sporco")
    command.add_argument("--only", choices=("grey", "colour"), help="only one of the two parts")
    command.add_argument("--small", action="store_true", help="few crops, without sporco: some seconds")
    options = command.parse_args(arguments)
    if options.only != "colour":
        compare(options.output, options.peer, small=options.small)
    if options.only != "grey":
        picture, figures = colour_picture(8 if options.small else 48, 1, 80 if options.small else None)
        print(", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
        save(picture, options.output, "colour_kernels.webp")
    return 0


def compare(output: Path, peer: str, *, small: bool) -> None:
    """Let all learners learn from the same crops, evaluate the learners, and print and draw the results."""
    data = task(6, 8, 2) if small else task(32, 64, 12)
    n_passes = 1 if small else 3
    patches = learn_from_patches(data)
    courses = {"spikes": learn_by_spikes(data, n_passes)}
    from_patches = learn_by_spikes(data._replace(start=patches.kernels[-1]), n_passes)
    courses["spikes, from patches"] = from_patches._replace(seconds=from_patches.seconds + patches.seconds)
    has_peer = peer != sys.executable or find_spec("sporco") is not None
    if has_peer and not small:
        courses["online"] = learn_by_sporco(data, "online", len(data.crops), peer)
        courses["batch"] = learn_by_sporco(data, "batch", 12, peer)
    courses["patches"] = patches

    start, start_size = held_out_objective(data.start, data.held_out)
    shares, sizes = {}, {}
    for name, course in courses.items():
        scores = [held_out_objective(kernels, data.held_out) for kernels in course.kernels]
        shares[name] = np.array([share for share, _ in scores])
        sizes[name] = scores[-1][1]
    print("Kernels learned from photographs")
    print(
        f"{len(data.crops)} crops of {CROP_SIDE} x {CROP_SIDE} pixels, {len(data.start)} kernels of "
        f"{KERNEL_SIDE} x {KERNEL_SIDE}; evaluated on {len(data.held_out)} crops of other photographs"
    )
    rows = [("start", "", "", f"{start:.4f}", f"{start_size:.0f}")]
    for name, course in courses.items():
        passes = "" if np.isnan(course.passes[-1]) else f"{course.passes[-1]:g}"
        rows.append(
            (
                NAMES[name],
                f"{course.seconds[-1]:.1f}",
                passes,
                f"{shares[name][-1]:.4f}",
                f"{sizes[name]:.0f}",
            )
        )
    print()
    print(table(("learner", "seconds", "passes", "objective / energy", "coefficients"), rows))
    if not has_peer:
        print("sporco is not installed: pass --peer PYTHON, an interpreter that has it, to compare")
    print()
    save(draw_courses(courses, shares, start), output, "kernels.png")


if __name__ == "__main__":
    raise SystemExit(main())
