"""The paper's three tasks at full size, against SPAMS, scikit-learn and gradient descent. Minutes to hours.

    python -m examples.learn photographs    # A: patches of 8 x 8 pixels, 256 atoms, 100,000 samples
    python -m examples.learn digits         # B: 28 x 28 pixels, 512 atoms, 50,000 samples
    python -m examples.learn scenes         # C: whitened patches of 16 x 16, 1,024 atoms, 200,000 samples

The network takes seconds to minutes, the other learners take hours in all.  All learners start from the same
atoms, with the same order of samples; atoms are evaluated with exact codes of held-out signals.  Lena, the
scenes of Olshausen and Field, and all of MNIST are not available offline: the data are photographs and digits
in Python packages.  The program saves each result when it is ready, and a second call learns only what is
missing.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    join_channels,
    learn_dictionary,
    mean_objective,
    random_dictionary,
    whiten,
)
from dictlearn.pictures import plot_atoms
from examples._baselines import LearningCurve, learn_by_gradient_descent, learn_with_scikit_learn
from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, at_least, figure, parser, save, table
from examples._data import handwritten_digits, held_out, photographs, random_network, split_patches
from snn import Clock, NetworkState, SpikeTrain, simulate
from snn.pictures import TIME_LABEL

# Number of training patches, which are drawn once; a run with more samples uses patches again.
N_PATCHES = 100_000
# Numbers of samples at which the objective is evaluated.
MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
LEARNERS = ("random-start", "gradient", "scikit-learn", "spams")
DESCENT = "gradient descent, step "
SPIKES, RANDOM_START = "two-phase network", "two-phase network, random F, B, H"
SAMPLES = {"photographs": 100_000, "digits": 50_000, "scenes": 200_000}
FIGURE_LABELS = {
    "consistency": "consistency: H equals F B",
    "symmetry": "symmetry: F equals B transposed",
    "median_norm": "median norm of atoms",
}
FIGURES = ("consistency", "symmetry", "least_norm", "median_norm", "largest_norm", "disturbance")


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A task of the paper: non-negative signals for learning and for evaluation, and the shape of atoms."""

    name: str
    title: str
    signals: np.ndarray
    held_out: np.ndarray
    side: int
    n_atoms: int
    penalty: float = 0.1


def task(name: str, n_signals: int = N_PATCHES, n_held_out: int = 10_000) -> Task:
    """Return a task; patches have mean zero and norm one, and are split into + and - channels."""
    if name == "digits":
        signals, others = held_out(handwritten_digits())
        # The penalty is a ninth of the norm of a digit, nearly the same share as in the other tasks.
        return Task(
            name=name, title="handwritten digits", signals=signals, held_out=others, side=28, n_atoms=512,
            penalty=1.0,
        )  # fmt: skip
    if name == "photographs":
        title, images, side, contrast, n_atoms = "8 x 8 patches of photographs", photographs(), 8, 0.1, 256
    else:
        images = [whiten(image) for image in photographs()]
        title, side, contrast, n_atoms = "16 x 16 patches of whitened photographs", 16, 4.0, 1024
    signals, others = split_patches(images, side, n_signals, n_held_out, contrast=contrast)
    return Task(name=name, title=title, signals=signals, held_out=others, side=side, n_atoms=n_atoms)


class SeedRun:
    """The results of all learners for one seed: curves, and the files that store the curves."""

    def __init__(self, task: Task, arguments: Namespace, seed: int) -> None:
        self.task, self.arguments, self.seed = task, arguments, seed
        n_inputs = task.signals.shape[1]
        self.start = random_dictionary(task.n_atoms, n_inputs, rng=seed)
        self.beginnings = {SPIKES: TwoPhaseNetwork.consistent(self.start)}
        if "random-start" in arguments.learners:
            self.beginnings[RANDOM_START] = random_network(task.n_atoms, n_inputs, seed=seed)
        self.settings = LearningSettings(
            penalty=task.penalty, batch_size=arguments.batch, inputs=arguments.inputs,
            time=Clock(arguments.time_step) if arguments.time_step else "auto",
        )  # fmt: skip
        self.marks = [mark for mark in MARKS if mark < arguments.samples] + [arguments.samples]
        self.conditions = {
            "task": task.title, "training signals": len(task.signals), "atoms": task.n_atoms,
            "penalty": task.penalty, "samples": arguments.samples, "batch": arguments.batch,
            "batch of others": arguments.online_batch or arguments.batch, "held out": arguments.held_out,
            "time step": self.settings.time.time_step, "inputs": arguments.inputs,
            "duration": self.settings.duration, "amplitude": self.settings.amplitude, "seed": seed,
        }  # fmt: skip
        self.learners: dict[str, TwoPhaseLearner] = {}
        self.curves = self._read()

    def learn(self) -> None:
        """Learn with every method that has no curve yet, and write each curve when it is ready."""
        for name, network in self.beginnings.items():
            if name not in self.curves:
                self._keep(name, self._by_spikes(name, network))
        for name, learn in self._baselines().items():
            if name not in self.curves:
                print(f"{name}, seed {self.seed} ...", flush=True)
                outcome = learn()
                self._keep(name, {
                    "n_samples": [int(n) for n in outcome.n_samples],
                    "objective": [self._score(dictionary) for dictionary in outcome.dictionaries],
                    "last": self._score(outcome.dictionary, self.task.held_out),
                    "seconds": float(outcome.seconds[-1]),
                })  # fmt: skip

    def checkpoint(self, name: str) -> Path:
        return self._file("_random.npz" if name == RANDOM_START else "_consistent.npz")

    def best_descent(self) -> str | None:
        """Return the name of the best run of gradient descent, or None if gradient descent was not run."""
        descents = [name for name in self.curves if name.startswith(DESCENT)]
        return min(descents, key=lambda name: self.curves[name]["last"]) if descents else None

    def _file(self, ending: str) -> Path:
        return self.arguments.output / f"{self.task.name}_{self.seed}{ending}"

    def _read(self) -> dict[str, dict]:
        """Return the curves that an earlier call of the program has written, and load the saved learners."""
        file = self._file(".json")
        if not file.exists():
            return {}
        written = json.loads(file.read_text(encoding="utf-8"))
        curves = written.pop("curves")
        changed = [key for key, value in self.conditions.items() if written.get(key) != value]
        if changed:
            raise SystemExit(
                f"{file} must have the options of this call; it has other {', '.join(changed)}: remove it, "
                "or choose another --output"
            )
        for name in [name for name in self.beginnings if name in curves]:
            try:
                self.learners[name] = TwoPhaseLearner.load(self.checkpoint(name))
            except FileNotFoundError:
                del curves[name]
            except ValueError as error:
                raise SystemExit(
                    f"{self.checkpoint(name)} must be of this version and whole ({error}): remove it to "
                    "learn anew, or choose another --output"
                ) from error
        return curves

    def _keep(self, name: str, curve: dict) -> None:
        self.curves[name] = curve
        text = json.dumps({**self.conditions, "curves": self.curves}, indent=1)
        self._file(".json").write_text(text, encoding="utf-8")

    def _score(self, dictionary: np.ndarray, signals: np.ndarray | None = None) -> float:
        """Return the mean objective of a dictionary on signals, by default on the signals for the curves."""
        signals = self.task.held_out[: self.arguments.held_out] if signals is None else signals
        return mean_objective(
            dictionary, signals, penalty=self.task.penalty, n_jobs=self.arguments.jobs
        ).objective

    def _by_spikes(self, name: str, network: TwoPhaseNetwork) -> dict:
        """Learn by spikes, with a checkpoint, and return the objective at the marks and other figures."""
        task, arguments, file = self.task, self.arguments, self.checkpoint(name)
        file.unlink(missing_ok=True)
        norms = np.linalg.norm(network.feedback, axis=0)
        curve: dict = {
            "n_samples": [0],
            "objective": [self._score(network.feedback.T / norms[:, np.newaxis])],
        }
        measuring = 0.0

        def evaluate(learner: TwoPhaseLearner) -> None:
            nonlocal measuring
            began = time.perf_counter()
            if any(curve["n_samples"][-1] < mark <= learner.n_samples for mark in self.marks):
                curve["n_samples"].append(learner.n_samples)
                curve["objective"].append(self._score(learner.dictionary))
            measuring += time.perf_counter() - began

        print(f"{name}, seed {self.seed} ...", flush=True)
        began = time.perf_counter()
        self.learners[name] = learner = learn_dictionary(
            task.signals, start=network, settings=self.settings, n_samples=arguments.samples, rng=self.seed,
            n_jobs=arguments.jobs, progress=True, callback=evaluate, checkpoint=file,
        )  # fmt: skip
        curve["seconds"] = time.perf_counter() - began - measuring
        raw = mean_objective(learner.network.feedback.T, task.held_out, penalty=task.penalty, normalise=False)
        curve |= {"raw": raw.objective, "last": self._score(learner.dictionary, task.held_out)}
        curve["spikes"] = learner.n_spikes / learner.n_samples
        for key in FIGURES:
            values = learner.history[key]
            curve[key] = [float(values[0]), float(values.min()), float(values[-1])]
        return curve

    def _baselines(self) -> dict[str, Callable[[], LearningCurve]]:
        signals, arguments = self.task.signals, self.arguments
        energy = float(np.mean((signals**2).sum(axis=1)))
        common = {
            "start": self.start, "penalty": self.task.penalty, "n_samples": arguments.samples,
            "marks": self.marks, "rng": self.seed, "progress": True,
        }  # fmt: skip
        online = common | {"batch_size": arguments.online_batch or arguments.batch}
        chosen: dict[str, Callable[[], LearningCurve]] = {}
        if "gradient" in arguments.learners:
            for step in arguments.steps:
                chosen[f"{DESCENT}{step}"] = lambda step=step: learn_by_gradient_descent(
                    signals, step=step / energy, batch_size=arguments.batch, **common
                )
        if "scikit-learn" in arguments.learners:
            chosen["scikit-learn"] = lambda: learn_with_scikit_learn(signals, **online)
        if "spams" in arguments.learners:
            try:
                from tests.reference.spams_dictionary import learn_with_spams
            except ImportError:
                print("SPAMS is not installed: pip install spams-bin, in a checkout")
            else:
                chosen["SPAMS"] = lambda: learn_with_spams(signals, **online)
        return chosen


def report(task: Task, runs: list[SeedRun]) -> None:
    names, first = list(runs[0].curves), runs[0].curves
    lasts = {name: [run.curves[name]["last"] for run in runs if name in run.curves] for name in names}
    best = min(np.mean(values) for values in lasts.values())
    rows = [
        [
            name,
            f"{first[name]['objective'][0]:.4g}",
            _mean_and_spread(lasts[name], "{:.4f}"),
            f"{100.0 * (np.mean(lasts[name]) / best - 1.0):.2f} %",
            f"{np.mean([run.curves[name]['seconds'] for run in runs if name in run.curves]):.1f} s",
        ]
        for name in names
    ]
    print(
        f"\n{task.title}: {first[SPIKES]['n_samples'][-1]:,} samples, {task.n_atoms} atoms, penalty "
        f"{task.penalty}, "
        + (f"{len(runs)} seeds (means, and the largest distance from them)" if runs[1:] else "1 seed")
    )
    print(table(["learner", "start", "held-out objective", "above the best", "time"], rows))
    spikes = {key: np.array([run.curves[SPIKES][key] for run in runs]) for key in (*FIGURES, "spikes", "raw")}
    print(
        f"{spikes['spikes'].mean():.0f} spikes a sample; consistency {spikes['consistency'][:, 1].min():.3f} "
        f"at least, {spikes['consistency'][:, 2].min():.3f} at the end; norms "
        f"{spikes['least_norm'][:, 2].min():.2f} to {spikes['largest_norm'][:, 2].max():.2f}; objective "
        f"of the raw network {_mean_and_spread(spikes['raw'], '{:.4f}')}; feedback changes the inputs by "
        f"{100.0 * spikes['disturbance'][0, 0]:.0f} % in the first thousand samples, "
        f"{100.0 * spikes['disturbance'][0, 2]:.0f} % in the last"
    )


def _mean_and_spread(values: Sequence[float], form: str) -> str:
    """Return the mean of values as text and, for several values, the largest distance from the mean."""
    mean = np.mean(values)
    spread = f" +- {form.format(np.abs(values - mean).max())}" if len(values) > 1 else ""
    return form.format(mean) + spread


def draw(task: Task, runs: list[SeedRun], output: Path) -> None:
    """Draw the objectives of all seeds, and the atoms that the first seed has learned."""
    learner = runs[0].learners[SPIKES]
    picture = figure(8.0, 8.3)
    ax = picture.add_subplot()
    atoms = learner.dictionary[np.argsort(-learner.memory["usage"], kind="stable")]
    in_channels = atoms.shape[1] == 2 * task.side**2
    plot_atoms(join_channels(atoms) if in_channels else atoms, task.side, ax=ax)
    ax.set_title(f"{task.title}: {task.n_atoms} atoms, the most used first")
    save(picture, output, f"{task.name}_atoms.png")

    picture = figure(9.5, 4.4)
    objectives, weights = picture.subplots(1, 2)
    _draw_objectives(objectives, runs)
    _draw_weights(weights, runs[0].learners)
    save(picture, output, f"{task.name}_learning.png")
    _draw_rasters(task, learner, runs[0].beginnings[SPIKES], output)


def _draw_objectives(ax: Axes, runs: list[SeedRun]) -> None:
    best = runs[0].best_descent()
    colours = {SPIKES: BLUE, RANDOM_START: PURPLE, best: ORANGE, "scikit-learn": GREEN, "SPAMS": RED}
    label: str | None = "gradient descent, other steps"
    for name, curve in runs[0].curves.items():
        n_samples = curve["n_samples"][1:]
        if name not in colours:
            ax.plot(n_samples, curve["objective"][1:], color=GREY, linewidth=0.6, label=label)
            label = None
            continue
        values = np.array([run.curves[name]["objective"][1:] for run in runs if name in run.curves])
        ax.plot(n_samples, values.mean(axis=0), "o-", markersize=3, color=colours[name], label=name)
        band = {"color": colours[name], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(n_samples, values.min(axis=0), values.max(axis=0), **band)
    ax.set(xscale="log", xlabel="training samples", ylabel="mean objective, with atoms of norm 1")
    ax.set_title("objective on signals that were held out", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")


def _draw_weights(ax: Axes, learners: dict[str, TwoPhaseLearner]) -> None:
    for name, learner in learners.items():
        start, style = (", random start", "--") if name == RANDOM_START else ("", "-")
        for key, colour in zip(FIGURE_LABELS, (BLUE, ORANGE, GREY), strict=True):
            label = f"{FIGURE_LABELS[key]}{start}"
            values = learner.history[key]
            ax.plot(learner.history["n_samples"], values, style, color=colour, label=label)
    ax.set(xscale="log", ylim=(0.0, 1.3), xlabel="training samples", ylabel="share, or norm: 1 is ideal")
    ax.set_title("do the weights agree, and have atoms norm 1?", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower right")


def _draw_rasters(task: Task, learner: TwoPhaseLearner, beginning: TwoPhaseNetwork, output: Path) -> None:
    """Draw the spikes of both phases for one held-out signal, before and after learning, layer by layer."""
    # Strong feedback and long phases show the change of spike counts above their noise.
    settings = replace(learner.settings, kappa=0.7, duration=20.0)
    signal = learner.scale * task.held_out[0]
    penalty = settings.penalty * learner.scale
    moments = (("before learning", beginning), (f"after {learner.n_samples:,} samples", learner.network))
    trains = [_spikes(network, signal, penalty, settings) for _, network in moments]
    network = learner.network
    fired = np.flatnonzero(sum(spikes.counts() for spikes in trains))
    picture = figure(9.5, 7.0)
    axes = picture.subplots(2, 2, sharex=True)
    # Both columns have the same rows: a row for each neuron that fired before or after learning.
    layers = (("input", fired < network.n_inputs, 0), ("coding", fired >= network.n_inputs, network.n_inputs))
    for row, (layer, is_in, first_neuron) in zip(axes, layers, strict=True):
        for ax, spikes in zip(row, trains, strict=True):
            rows = fired[is_in] if is_in.any() else np.array([first_neuron])
            spikes.plot(ax=ax, neurons=rows)
            ax.collections[0].set_linewidth(1.4)
            ax.set_yticks(ax.get_yticks(), labels=rows[ax.get_yticks().astype(int)] - first_neuron)
            ax.axvline(settings.duration, color=RED, linewidth=1.2, label="feedback is switched on")
            n_fired = np.count_nonzero(spikes.counts()[rows])
            ax.set_title(f"{n_fired} {layer} neurons fire", fontsize="medium")
            ax.set(xlabel="" if layer == "input" else TIME_LABEL, ylabel=f"{layer} neuron")
    for ax, (when, _), spikes in zip(axes[0], moments, trains, strict=True):
        first, both = (
            spikes.counts(stop=stop)[: network.n_inputs] for stop in (settings.duration, spikes.stop)
        )
        change = np.abs(both - 2 * first).sum() / max(first.sum(), 1)
        ax.set_title(
            f"{when}: feedback changes\n{100.0 * change:.0f} % of the input spikes", fontsize="medium"
        )
    picture.suptitle("The network codes one held-out patch, before and after it learned", fontsize=12)
    picture.legend(handles=axes[0, 0].lines, loc="outside lower center", frameon=False, fontsize=9)
    save(picture, output, f"{task.name}_rasters.png")


def _spikes(
    network: TwoPhaseNetwork, signal: np.ndarray, penalty: float, settings: LearningSettings
) -> SpikeTrain:
    """Return the spikes of both phases of a non-negative network, in which input neurons fire too."""
    without, with_feedback = (
        network.spiking_network(signal, penalty=penalty, gamma=gamma) for gamma in (0.0, settings.kappa)
    )
    state = NetworkState(
        membrane_potential=settings.initial_potential * without.firing_threshold,
        synaptic_current=np.zeros(without.n_neurons),
    )
    first = simulate(without, settings.duration, state=state, record_spikes=True)
    # Feedback is proportional to filtered spikes, so that it changes currents when the second phase begins.
    sent = np.exp(first.spikes.times - settings.duration)
    filtered = np.bincount(first.spikes.neurons, weights=sent, minlength=without.n_neurons)
    current = first.state.synaptic_current.copy()
    current[: network.n_inputs] += settings.kappa * network.feedback @ filtered[network.n_inputs :]
    state = replace(first.state, synaptic_current=current)
    second = simulate(with_feedback, settings.duration, state=state, record_spikes=True)
    times, neurons = (
        np.concatenate([getattr(run.spikes, name) for run in (first, second)])
        for name in ("times", "neurons")
    )
    return SpikeTrain(times=times, neurons=neurons, n_neurons=len(current), start=0.0, stop=second.state.time)


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("task", choices=list(SAMPLES))
    command.add_argument("--samples", type=at_least(MARKS[1]), help="by default as many as in the paper")
    command.add_argument("--penalty", type=float, help="of codes; a small one makes atoms of digits strokes")
    command.add_argument("--batch", type=int, default=32, help="samples between two changes of the weights")
    command.add_argument("--jobs", type=int, default=1, help="number of threads")
    command.add_argument("--time-step", type=float, help="step of the clock; by default that of the settings")
    command.add_argument(
        "--inputs", choices=["graded", "spiking"], default="graded", help="send currents, or fire"
    )
    command.add_argument("--learners", nargs="*", choices=LEARNERS, default=list(LEARNERS))
    command.add_argument(
        "--steps", nargs="+", type=float, default=[0.1, 0.2, 0.5, 1.0, 2.0],
        help="steps of gradient descent, for signals of unit energy",
    )  # fmt: skip
    command.add_argument("--online-batch", type=int, help="batch size of scikit-learn and SPAMS")
    command.add_argument("--seeds", nargs="+", type=int, default=[0], help="seeds of the start and the order")
    command.add_argument("--held-out", type=int, default=2_000, help="held-out signals for the curves")
    options = command.parse_args(arguments)
    options.samples = options.samples or SAMPLES[options.task]
    data = task(options.task, min(options.samples, N_PATCHES))
    if options.penalty is not None:
        data = replace(data, penalty=options.penalty)
    options.output.mkdir(parents=True, exist_ok=True)
    runs: list[SeedRun] = []
    for seed in options.seeds:
        runs.append(SeedRun(data, options, seed))
        runs[-1].learn()
        # Later seeds use only the step that was best for the first seed.
        if (best := runs[0].best_descent()) is not None:
            options.steps = [float(best.removeprefix(DESCENT))]
    report(data, runs)
    draw(data, runs, options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
