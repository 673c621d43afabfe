"""What the examples of learning share: a task, every learner, the same start and order, and pictures."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    join_channels,
    learn_dictionary,
    mean_objective,
    random_dictionary,
)
from dictlearn.pictures import plot_atoms
from examples._baselines import learn_by_gradient_descent, learn_with_scikit_learn
from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure, parser, save, table
from examples._data import held_out, patch_signals, random_network
from examples._results import write_results
from snn import NetworkState, SpikeTrain, simulate

# To learn from, drawn once and shown again if more samples are wanted.
N_PATCHES = 100_000
MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
# Of plain gradient descent; the best is the baseline.
GRADIENT_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0)
LEARNERS = ("random-start", "gradient", "scikit-learn", "spams")
DESCENT = "gradient descent, step "
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
        "--time-step",
        type=float,
        default=LearningSettings(penalty=1.0).time_step,
        help="of the network's clock",
    )
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
    arguments.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        default=[0],
        help="of the start and the order of the samples; results are the mean and the spread over them",
    )
    arguments.add_argument("--held-out", type=int, default=2_000, help="held-out signals for the curves")
    return arguments


def run(task: Task, arguments: argparse.Namespace) -> None:
    """Learn with every method and seed, evaluate, print, draw, and write the numbers.

    What a method has learned from a seed is written when it is done, and not learned again if the program
    is started again with the same options.
    """
    if arguments.samples < MARKS[1]:
        raise SystemExit(f"--samples must be at least {MARKS[1]:,}; got {arguments.samples:,}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in arguments.seeds:
        runs.append(_run_seed(task, arguments, seed))
        # The best step is the same for all seeds.
        best = _best_descent(runs[0])
        if best is not None:
            arguments.steps = [float(best.rsplit(" ", 1)[1])]
    _report(task, runs, arguments)
    _draw(task, runs, arguments)


def _run_seed(task: Task, arguments: argparse.Namespace, seed: int) -> dict[str, dict]:
    """Return the curve of each method, read from the file of the seed or learned now."""
    start = random_dictionary(task.n_atoms, task.signals.shape[1], rng=seed)
    held_out_signals = task.held_out[: arguments.held_out]

    def score(dictionary: np.ndarray, signals: np.ndarray = held_out_signals) -> float:
        return mean_objective(dictionary, signals, penalty=task.penalty, n_jobs=arguments.jobs).objective

    marks = [mark for mark in MARKS if mark < arguments.samples] + [arguments.samples]
    curves = _read(task, arguments, seed)
    for name, network in _beginnings(task, arguments, seed).items():
        if name in curves:
            continue
        learner, curve = _learn(task, network, marks, score, arguments, name, seed)
        raw = mean_objective(
            learner.network.feedback.T, task.held_out, penalty=task.penalty, normalise=False
        ).objective
        curve["raw"] = raw
        curve["last"] = score(learner.dictionary, task.held_out)
        history = learner.history
        curve["spikes"] = learner.n_spikes / learner.n_samples
        for key in ("consistency", "symmetry", "least_norm", "median_norm", "largest_norm", "disturbance"):
            curve[key] = [float(history[key][0]), float(history[key].min()), float(history[key][-1])]
        curves[name] = curve
        _write(task, curves, arguments, seed)
    for name, learn in _baselines(task, start, marks, arguments, seed).items():
        if name in curves:
            continue
        print(f"{name}, seed {seed} ...", flush=True)
        outcome = learn()
        curves[name] = {
            "n_samples": [int(n) for n in outcome.n_samples],
            "objective": [score(dictionary) for dictionary in outcome.dictionaries],
            "last": score(outcome.dictionaries[-1], task.held_out),
            "seconds": float(outcome.seconds[-1]),
        }
        _write(task, curves, arguments, seed)
    return curves


def _beginnings(task: Task, arguments: argparse.Namespace, seed: int) -> dict[str, TwoPhaseNetwork]:
    """Return the networks that learning starts from, by name."""
    n_inputs = task.signals.shape[1]
    start = random_dictionary(task.n_atoms, n_inputs, rng=seed)
    beginnings = {SPIKES: TwoPhaseNetwork.consistent(start)}
    if "random-start" in arguments.learners:
        beginnings[RANDOM_START] = random_network(task.n_atoms, n_inputs, seed=seed)
    return beginnings


def _conditions(task: Task, arguments: argparse.Namespace, seed: int) -> dict:
    """Return what the numbers of a seed depend on."""
    return {
        "task": task.title,
        "training signals": len(task.signals),
        "held-out signals": len(task.held_out),
        "held-out signals of the curves": min(arguments.held_out, len(task.held_out)),
        "atoms": task.n_atoms,
        "inputs": task.signals.shape[1],
        "penalty": task.penalty,
        "samples": arguments.samples,
        "batch": arguments.batch,
        "batch of scikit-learn and SPAMS": arguments.online_batch or arguments.batch,
        "threads of the network": arguments.jobs,
        "time step of the network": arguments.time_step,
        "seed": seed,
    }


def _file(task: Task, arguments: argparse.Namespace, seed: int, ending: str) -> Path:
    return arguments.output / f"{task.name}_{seed}{ending}"


def _checkpoint(task: Task, arguments: argparse.Namespace, seed: int, name: str) -> Path:
    start = "random" if name == RANDOM_START else "consistent"
    return _file(task, arguments, seed, f"_{start}.npz")


def _read(task: Task, arguments: argparse.Namespace, seed: int) -> dict[str, dict]:
    """Return the curves that an earlier run of the program has written, those with their checkpoints."""
    file = _file(task, arguments, seed, ".json")
    if not file.exists():
        return {}
    numbers = json.loads(file.read_text())
    curves = numbers.pop("curves")
    conditions = _conditions(task, arguments, seed)
    if numbers != conditions:
        changed = sorted(key for key in conditions if numbers.get(key) != conditions[key])
        raise SystemExit(
            f"{file} must be of the same options; {', '.join(changed)} differs: remove it, or choose "
            "another --output"
        )
    return {
        name: curve
        for name, curve in curves.items()
        if name not in (SPIKES, RANDOM_START) or _checkpoint(task, arguments, seed, name).exists()
    }


def _write(task: Task, curves: dict[str, dict], arguments: argparse.Namespace, seed: int) -> None:
    numbers = {**_conditions(task, arguments, seed), "curves": curves}
    file = _file(task, arguments, seed, ".json")
    write_results(file, numbers)


def _best_descent(curves: dict[str, dict]) -> str | None:
    """Return the name of the best gradient descent, if there was any."""
    descents = [name for name in curves if name.startswith(DESCENT)]
    return min(descents, key=lambda name: curves[name]["last"]) if descents else None


def _learn(
    task: Task,
    network: TwoPhaseNetwork,
    marks: list[int],
    score: Callable[[np.ndarray], float],
    arguments: argparse.Namespace,
    name: str,
    seed: int,
) -> tuple[TwoPhaseLearner, dict]:
    """Learn with spikes, with a checkpoint, and keep the objective at the marks."""
    file = _checkpoint(task, arguments, seed, name)
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
    print(f"{name}, seed {seed} ...", flush=True)
    learner = learn_dictionary(
        task.signals,
        start=network,
        settings=LearningSettings(
            penalty=task.penalty, batch_size=arguments.batch, time_step=arguments.time_step
        ),
        n_samples=arguments.samples,
        rng=seed,
        n_jobs=arguments.jobs,
        progress=True,
        callback=evaluate,
        checkpoint=file,
    )
    curve["seconds"] = time.perf_counter() - began - measuring
    return learner, curve


def _baselines(
    task: Task, start: np.ndarray, marks: list[int], arguments: argparse.Namespace, seed: int
) -> dict[str, Callable]:
    energy = float(np.mean((task.signals**2).sum(axis=1)))
    common = {
        "start": start,
        "penalty": task.penalty,
        "n_samples": arguments.samples,
        "batch_size": arguments.batch,
        "marks": marks,
        "rng": seed,
        "progress": True,
    }
    chosen: dict[str, Callable] = {}
    if "gradient" in arguments.learners:
        for step in arguments.steps:
            chosen[f"{DESCENT}{step}"] = lambda step=step: learn_by_gradient_descent(
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


def _report(task: Task, runs: list[dict[str, dict]], arguments: argparse.Namespace) -> None:
    names = list(runs[0])
    lasts = {name: [curves[name]["last"] for curves in runs if name in curves] for name in names}
    best = min(np.mean(values) for values in lasts.values())
    rows = [
        [
            name,
            f"{runs[0][name]['objective'][0]:.4g}",
            _mean_and_spread(lasts[name], "{:.4f}"),
            f"{100.0 * (np.mean(lasts[name]) / best - 1.0):.2f} %",
            _mean_and_spread([curves[name]["seconds"] for curves in runs if name in curves], "{:.1f}") + " s",
        ]
        for name in names
    ]
    seeds = f", {len(runs)} seeds (mean and largest distance from it)" if len(runs) > 1 else ""
    print(
        f"\n{task.title}: {arguments.samples:,} samples, {task.n_atoms} atoms, penalty {task.penalty}{seeds}"
    )
    print(table(["learner", "start", "held-out objective", "above the best", "time"], rows))
    spikes = [curves[SPIKES] for curves in runs]
    print(
        f"{np.mean([curve['spikes'] for curve in spikes]):.0f} spikes a sample; consistency "
        f"{min(curve['consistency'][1] for curve in spikes):.3f} at least, "
        f"{min(curve['consistency'][2] for curve in spikes):.3f} at the end; norms "
        f"{min(curve['least_norm'][2] for curve in spikes):.2f} to "
        f"{max(curve['largest_norm'][2] for curve in spikes):.2f}; objective of the raw network "
        f"{_mean_and_spread([curve['raw'] for curve in spikes], '{:.4f}')}"
    )


def _mean_and_spread(values: list[float], form: str) -> str:
    """Return the mean and, of several values, the largest distance of one from it."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return form.format(mean)
    return f"{form.format(mean)} +- {form.format(float(np.abs(np.array(values) - mean).max()))}"


def _draw(task: Task, runs: list[dict[str, dict]], arguments: argparse.Namespace) -> None:
    """Draw the objectives of all seeds, and what the first of them learned."""
    seed = arguments.seeds[0]
    beginnings = _beginnings(task, arguments, seed)
    learners = {name: TwoPhaseLearner.load(_checkpoint(task, arguments, seed, name)) for name in beginnings}
    learner = learners[SPIKES]
    picture = figure(8.0, 8.3)
    ax = picture.add_subplot()
    atoms = learner.dictionary
    order = np.argsort(-learner.memory["usage"], kind="stable")
    plot_atoms((join_channels(atoms) if task.channels else atoms)[order], task.image_shape, ax=ax)
    ax.set_title(f"{task.title}: {task.n_atoms} atoms, the most used first")
    save(picture, arguments.output, f"{task.name}_atoms.png")

    picture = figure(10.0, 4.2)
    axes = picture.subplots(1, 2)
    _draw_objectives(axes[0], runs)
    _draw_weights(axes[1], learners)
    save(picture, arguments.output, f"{task.name}_learning.png")
    _draw_rasters(task, learner, beginnings[SPIKES], arguments)


def _draw_objectives(ax, runs: list[dict[str, dict]]) -> None:
    best = _best_descent(runs[0])
    colours = {SPIKES: BLUE, RANDOM_START: PURPLE, best: ORANGE, "scikit-learn": GREEN, "SPAMS": RED}
    others = [curve for name, curve in runs[0].items() if name not in colours]
    for k, curve in enumerate(others):
        label = "gradient descent, other steps" if k == 0 else None
        ax.plot(curve["n_samples"][1:], curve["objective"][1:], color=GREY, linewidth=0.6, label=label)
    for name, curve in runs[0].items():
        if name not in colours:
            continue
        objectives = np.array([curves[name]["objective"][1:] for curves in runs if name in curves])
        n_samples, colour = curve["n_samples"][1:], colours[name]
        ax.plot(n_samples, objectives.mean(axis=0), "o-", markersize=3, color=colour, label=name)
        ax.fill_between(
            n_samples, objectives.min(axis=0), objectives.max(axis=0), color=colour, alpha=0.2, linewidth=0
        )
    ax.set_xscale("log")
    ax.set_xlabel("training samples")
    ax.set_ylabel("held-out objective, unit-norm atoms")
    ax.set_title("What dictionaries are worth on other signals", fontsize=9)
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


def _spikes(
    network: TwoPhaseNetwork, signal: np.ndarray, penalty: float, settings: LearningSettings
) -> SpikeTrain:
    """Return the spikes of both phases of a network of positive numbers."""
    without, with_feedback = (
        network.spiking_network(signal, penalty=penalty, gamma=gamma) for gamma in (0.0, settings.kappa)
    )
    state = NetworkState(
        membrane_potential=settings.initial_potential * without.firing_threshold,
        synaptic_current=np.zeros(without.n_neurons),
    )
    first = simulate(without, settings.duration, state=state, record_spikes=True)
    # Feedback acts on the filtered spikes, so that it acts at once.
    sent = np.exp(first.spikes.times - settings.duration)
    filtered = np.bincount(first.spikes.neurons, weights=sent, minlength=without.n_neurons)
    current = first.state.synaptic_current.copy()
    current[: network.n_inputs] += settings.kappa * network.feedback @ filtered[network.n_inputs :]
    state = replace(first.state, synaptic_current=current)
    second = simulate(with_feedback, settings.duration, state=state, record_spikes=True)
    return SpikeTrain(
        times=np.concatenate([first.spikes.times, second.spikes.times]),
        neurons=np.concatenate([first.spikes.neurons, second.spikes.neurons]),
        n_neurons=without.n_neurons,
        start=0.0,
        stop=second.state.time,
    )


def _draw_rasters(
    task: Task, learner: TwoPhaseLearner, beginning: TwoPhaseNetwork, arguments: argparse.Namespace
) -> None:
    settings = learner.settings
    picture = figure(10.0, 5.5)
    axes = picture.subplots(1, 2, sharey=True)
    signal = learner.scale * task.held_out[0]
    history = learner.history
    moments = (("before learning", beginning), (f"after {learner.n_samples:,} samples", learner.network))
    trains = [_spikes(network, signal, settings.penalty * learner.scale, settings) for _, network in moments]
    # Both panels have the same rows: one for each neuron that fired in either.
    fired = np.flatnonzero(sum(spikes.counts() for spikes in trains))
    for ax, (when, network), spikes in zip(axes, moments, trains, strict=True):
        spikes.plot(ax=ax, neurons=fired)
        ax.axvline(settings.duration, color=RED, linewidth=0.8, label="feedback is switched on")
        n_input_rows = np.count_nonzero(fired < network.n_inputs)
        ax.axhline(n_input_rows - 0.5, color=GREY, linewidth=0.8, label="inputs above, coding below")
        rates = [np.bincount(spikes.neurons[spikes.times <= settings.duration], minlength=spikes.n_neurons)]
        rates.append(np.bincount(spikes.neurons, minlength=spikes.n_neurons) - rates[0])
        change = np.abs(rates[1] - rates[0])[: network.n_inputs].sum() / max(
            rates[0][: network.n_inputs].sum(), 1
        )
        ax.set_title(f"{when}: input spikes change by {100.0 * change:.0f} %", fontsize=9)
    axes[0].set_ylabel(f"input neurons, and from {beginning.n_inputs} on coding neurons")
    axes[1].set_ylabel("")
    picture.suptitle("Spikes for one held-out signal", fontsize=10)
    picture.legend(handles=axes[0].lines, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(picture, arguments.output, f"{task.name}_rasters.png")
    print(
        f"feedback changes the inputs by {100.0 * history['disturbance'][0]:.0f} % in the first thousand "
        f"samples, {100.0 * history['disturbance'][-1]:.0f} % in the last"
    )
