"""What the examples of learning share: a task, every learner, the same start and order, and pictures."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    join_channels,
    learn_by_gradient_descent,
    learn_dictionary,
    learn_with_scikit_learn,
    mean_objective,
    plot_atoms,
    random_dictionary,
    random_network,
)
from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure, parser, save, table
from examples._data import held_out, patch_signals
from snn.plotting import raster

SEED = 0
# To learn from, drawn once and shown again if more samples are wanted.
N_PATCHES = 100_000
MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
# Of plain gradient descent; the best is the baseline.
GRADIENT_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0)
LEARNERS = ("random-start", "gradient", "scikit-learn", "spams")
SPIKES, RANDOM_START = "two-phase network", "two-phase network, random F, B, H"


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Signals to learn from and to evaluate on, not negative, and how to draw atoms."""

    name: str
    title: str
    signals: np.ndarray
    held_out: np.ndarray
    image_shape: tuple[int, int]
    channels: bool
    n_atoms: int
    penalty: float


def patch_task(
    name: str,
    title: str,
    images: list[np.ndarray],
    *,
    side: int,
    contrast: float,
    n_atoms: int,
    n_signals: int,
    n_held_out: int,
) -> Task:
    """Return patches of images, and others to evaluate on, from the part of the images that is held out."""
    signals, others = (
        patch_signals(part, side, n, seed=seed, contrast=contrast)
        for seed, (part, n) in enumerate(zip(held_out(images), (n_signals, n_held_out), strict=True))
    )
    return Task(
        name=name,
        title=title,
        signals=signals,
        held_out=others,
        image_shape=(side, side),
        channels=True,
        n_atoms=n_atoms,
        penalty=0.1,
    )


def run_patches(task: Callable[..., Task], description: str, *, n_samples: int) -> None:
    """Be the program of a task of patches, of which it draws no more than it learns from."""
    arguments = options(description, n_samples=n_samples).parse_args()
    run(task(n_signals=min(arguments.samples, N_PATCHES)), arguments)


def options(description: str, *, n_samples: int) -> argparse.ArgumentParser:
    """Return the options that every example of learning has."""
    arguments = parser(description)
    arguments.add_argument("--samples", type=int, default=n_samples, help="training samples")
    arguments.add_argument("--batch", type=int, default=32, help="samples that see the same weights")
    arguments.add_argument("--jobs", type=int, default=1, help="threads")
    arguments.add_argument(
        "--learners",
        nargs="*",
        choices=LEARNERS,
        default=list(LEARNERS),
        help="learners beside the network",
    )
    arguments.add_argument(
        "--steps",
        nargs="+",
        type=float,
        default=list(GRADIENT_STEPS),
        help="of gradient descent, for signals of unit energy",
    )
    arguments.add_argument(
        "--online-batch", type=int, help="batches of scikit-learn and SPAMS, whose cost is by the batch"
    )
    arguments.add_argument("--held-out", type=int, default=2_000, help="held-out signals for the curves")
    return arguments


def run(task: Task, arguments: argparse.Namespace) -> None:
    """Learn with every method, evaluate, print, draw, and write the numbers."""
    if arguments.samples < MARKS[1]:
        raise SystemExit(f"--samples must be at least {MARKS[1]:,}; got {arguments.samples:,}")
    start = random_dictionary(task.n_atoms, task.signals.shape[1], rng=SEED)
    held_out_signals = task.held_out[: arguments.held_out]

    def score(dictionary: np.ndarray, signals: np.ndarray = held_out_signals) -> float:
        return mean_objective(dictionary, signals, penalty=task.penalty, n_jobs=arguments.jobs).objective

    marks = [mark for mark in MARKS if mark < arguments.samples] + [arguments.samples]
    settings = LearningSettings(penalty=task.penalty, batch_size=arguments.batch)
    curves: dict[str, dict] = {}
    learners: dict[str, TwoPhaseLearner] = {}
    beginnings = {SPIKES: TwoPhaseNetwork.consistent(start)}
    if "random-start" in arguments.learners:
        beginnings[RANDOM_START] = random_network(task.n_atoms, task.signals.shape[1], rng=SEED)
    for name, network in beginnings.items():
        learner, curve = _learn(task, settings, network, marks, score, arguments, name)
        learners[name], curves[name] = learner, curve
        raw = mean_objective(
            learner.network.feedback.T, task.held_out, penalty=task.penalty, normalise=False
        ).objective
        curve["raw"] = raw
        curve["last"] = score(learner.dictionary, task.held_out)
        history = learner.history
        curve["spikes"] = learner.n_spikes / learner.n_samples
        for key in ("consistency", "symmetry", "least_norm", "median_norm", "largest_norm", "disturbance"):
            curve[key] = [float(history[key][0]), float(history[key].min()), float(history[key][-1])]
        _write(task, curves, arguments)
    for name, learn in _baselines(task, start, marks, arguments).items():
        print(f"{name} ...", flush=True)
        outcome = learn()
        curves[name] = {
            "n_samples": [int(n) for n in outcome.n_samples],
            "objective": [score(dictionary) for dictionary in outcome.dictionaries],
            "last": score(outcome.dictionaries[-1], task.held_out),
            "seconds": float(outcome.seconds[-1]),
        }
        _write(task, curves, arguments)
    _report(task, curves, arguments)
    _draw(task, curves, learners, beginnings, arguments)


def _write(task: Task, curves: dict[str, dict], arguments: argparse.Namespace) -> None:
    numbers = {
        "task": task.title,
        "training signals": len(task.signals),
        "held-out signals": len(task.held_out),
        "atoms": task.n_atoms,
        "inputs": task.signals.shape[1],
        "penalty": task.penalty,
        "samples": arguments.samples,
        "batch": arguments.batch,
        "batch of scikit-learn and SPAMS": arguments.online_batch or arguments.batch,
        "threads of the network": arguments.jobs,
        "seed": SEED,
        "curves": curves,
    }
    (arguments.output / f"{task.name}.json").write_text(json.dumps(numbers, indent=1) + "\n")


def _learn(
    task: Task,
    settings: LearningSettings,
    network: TwoPhaseNetwork,
    marks: list[int],
    score: Callable[[np.ndarray], float],
    arguments: argparse.Namespace,
    name: str,
) -> tuple[TwoPhaseLearner, dict]:
    """Learn with spikes, with a checkpoint, and keep the objective at the marks."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    file = arguments.output / f"{task.name}_{'random' if name == RANDOM_START else 'consistent'}.npz"
    file.unlink(missing_ok=True)
    norms = np.linalg.norm(network.feedback, axis=0)
    curve = {"n_samples": [0], "objective": [score(network.feedback.T / norms[:, np.newaxis])]}
    measuring = 0.0

    def evaluate(learner: TwoPhaseLearner) -> None:
        nonlocal measuring
        began = time.perf_counter()
        passed = [mark for mark in marks if curve["n_samples"][-1] < mark <= learner.n_samples]
        if passed:
            curve["n_samples"].append(learner.n_samples)
            curve["objective"].append(score(learner.dictionary))
        measuring += time.perf_counter() - began

    began = time.perf_counter()
    print(f"{name} ...", flush=True)
    learner = learn_dictionary(
        task.signals,
        start=network,
        settings=settings,
        n_samples=arguments.samples,
        rng=SEED,
        n_jobs=arguments.jobs,
        progress=True,
        callback=evaluate,
        checkpoint=file,
    )
    curve["seconds"] = time.perf_counter() - began - measuring
    return learner, curve


def _baselines(
    task: Task, start: np.ndarray, marks: list[int], arguments: argparse.Namespace
) -> dict[str, Callable]:
    energy = float(np.mean((task.signals**2).sum(axis=1)))
    common = {
        "start": start,
        "penalty": task.penalty,
        "n_samples": arguments.samples,
        "batch_size": arguments.batch,
        "marks": marks,
        "rng": SEED,
        "progress": True,
    }
    chosen: dict[str, Callable] = {}
    if "gradient" in arguments.learners:
        for step in arguments.steps:
            chosen[f"gradient descent, step {step}"] = lambda step=step: learn_by_gradient_descent(
                task.signals, step=step / energy, **common
            )
    online = arguments.online_batch or arguments.batch
    if "scikit-learn" in arguments.learners:
        chosen["scikit-learn"] = lambda: learn_with_scikit_learn(
            task.signals, **{**common, "batch_size": online}
        )
    if "spams" in arguments.learners:
        try:
            from tests.reference.spams_dictionary import learn_with_spams
        except ImportError:
            print("SPAMS is not installed: pip install spams-bin, in a checkout")
        else:
            chosen["SPAMS"] = lambda: learn_with_spams(task.signals, **{**common, "batch_size": online})
    return chosen


def _report(task: Task, curves: dict[str, dict], arguments: argparse.Namespace) -> None:
    best = min(curve["last"] for curve in curves.values())
    rows = [
        [
            name,
            f"{curve['objective'][0]:.4g}",
            f"{curve['last']:.4f}",
            f"{100.0 * (curve['last'] / best - 1.0):.2f} %",
            f"{curve['seconds']:.1f} s",
        ]
        for name, curve in curves.items()
    ]
    print(f"\n{task.title}: {arguments.samples:,} samples, {task.n_atoms} atoms, penalty {task.penalty}")
    print(table(["learner", "start", "held-out objective", "above the best", "time"], rows))
    spikes = curves[SPIKES]
    print(
        f"{spikes['spikes']:.0f} spikes a sample; consistency {spikes['consistency'][1]:.3f} at least, "
        f"{spikes['consistency'][2]:.3f} at the end; norms {spikes['least_norm'][2]:.2f} to "
        f"{spikes['largest_norm'][2]:.2f}; objective of the raw network {spikes['raw']:.4f}"
    )


def _draw(
    task: Task,
    curves: dict[str, dict],
    learners: dict[str, TwoPhaseLearner],
    beginnings: dict[str, TwoPhaseNetwork],
    arguments: argparse.Namespace,
) -> None:
    learner = learners[SPIKES]
    picture = figure(8.0, 8.3)
    ax = picture.add_subplot()
    atoms = learner.dictionary
    order = np.argsort(-learner.usage, kind="stable")
    plot_atoms((join_channels(atoms) if task.channels else atoms)[order], task.image_shape, ax=ax)
    ax.set_title(f"{task.title}: {task.n_atoms} atoms, the most used first")
    save(picture, arguments.output, f"{task.name}_atoms.png")

    picture = figure(10.0, 4.2)
    axes = picture.subplots(1, 2)
    _draw_objectives(axes[0], curves)
    _draw_weights(axes[1], learners)
    save(picture, arguments.output, f"{task.name}_learning.png")
    _draw_rasters(task, learner, beginnings[SPIKES], arguments)


def _draw_objectives(ax, curves: dict[str, dict]) -> None:
    descents = {name: curve for name, curve in curves.items() if name.startswith("gradient")}
    best = min(descents, key=lambda name: descents[name]["last"]) if descents else None
    colours = {SPIKES: BLUE, RANDOM_START: PURPLE, best: ORANGE, "scikit-learn": GREEN, "SPAMS": RED}
    for name, curve in curves.items():
        if name in descents and name != best:
            ax.plot(curve["n_samples"][1:], curve["objective"][1:], color=GREY, linewidth=0.6, alpha=0.5)
            continue
        ax.plot(
            curve["n_samples"][1:],
            curve["objective"][1:],
            "o-",
            markersize=3,
            color=colours[name],
            label=name,
        )
    ax.set_xscale("log")
    ax.set_xlabel("training samples")
    ax.set_ylabel("held-out objective, unit-norm atoms")
    ax.legend(frameon=False, fontsize=8)


def _draw_weights(ax, learners: dict[str, TwoPhaseLearner]) -> None:
    for (name, learner), style in zip(learners.items(), ("-", "--"), strict=False):
        history = learner.history
        start = "random" if name == RANDOM_START else "consistent"
        for key, colour in (("consistency", BLUE), ("symmetry", ORANGE), ("median_norm", GREY)):
            ax.plot(
                history["n_samples"],
                history[key],
                style,
                color=colour,
                label=f"{key.replace('_', ' ')}, {start} start",
            )
    ax.set_xscale("log")
    ax.set_ylim(0.0, 1.3)
    ax.set_xlabel("training samples")
    ax.set_title("H against F B, F against B, norms of atoms", fontsize=9)
    ax.legend(frameon=False, fontsize=7, ncols=2, loc="lower right")


def _draw_rasters(
    task: Task, learner: TwoPhaseLearner, beginning: TwoPhaseNetwork, arguments: argparse.Namespace
) -> None:
    settings = learner.settings
    picture = figure(10.0, 5.5)
    axes = picture.subplots(1, 2, sharey=True)
    signal = learner.scale * task.held_out[0]
    history = learner.history
    moments = (("before learning", beginning), (f"after {learner.n_samples:,} samples", learner.network))
    for ax, (when, network) in zip(axes, moments, strict=True):
        spikes = network.spikes(
            signal,
            penalty=settings.penalty * learner.scale,
            kappa=settings.kappa,
            duration=settings.duration,
            initial_potential=settings.initial_potential,
        )
        raster(spikes, ax=ax)
        ax.axvline(settings.duration, color=RED, linewidth=0.8)
        ax.axhline(network.n_inputs - 0.5, color=GREY, linewidth=0.8)
        rates = [np.bincount(spikes.neurons[spikes.times <= settings.duration], minlength=spikes.n_neurons)]
        rates.append(np.bincount(spikes.neurons, minlength=spikes.n_neurons) - rates[0])
        change = np.abs(rates[1] - rates[0])[: network.n_inputs].sum() / max(
            rates[0][: network.n_inputs].sum(), 1
        )
        ax.set_title(f"{when}: input spikes change by {100.0 * change:.0f} %", fontsize=9)
    axes[0].set_ylabel(f"input neurons, and from {beginning.n_inputs} on coding neurons")
    axes[1].set_ylabel("")
    picture.suptitle("One held-out signal; the feedback is switched on at the red line", fontsize=10)
    save(picture, arguments.output, f"{task.name}_rasters.png")
    print(
        f"feedback changes the inputs by {100.0 * history['disturbance'][0]:.0f} % in the first thousand "
        f"samples, {100.0 * history['disturbance'][-1]:.0f} % in the last"
    )
