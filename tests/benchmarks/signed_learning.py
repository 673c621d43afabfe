"""Learning atoms of either sign, beside SPAMS: ``python -m tests.benchmarks.signed_learning``.

Objective on held-out signals, codes solved exactly, after 10,000 and 40,000 samples in batches of 32, from the same
random start and in the same order, means of seeds.  Tasks: sparse signals of planted atoms, patches of photographs,
digits without their mean, windows of an ECG; and the paper's, patches in two channels with atoms that are not negative.

``--fields``: data of other fields, beside scikit-learn too, and a picture of what was learned: windows of an EEG,
what the neurons of a classifier's hidden layer do, patches in colour.  It writes docs/benchmark_fields.md.
"""  # noqa: E501

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import pywt  # noqa: E402
from matplotlib import cbook  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

from dictlearn import (  # noqa: E402
    LearningSettings,
    continue_learning,
    extract_patches,
    join_channels,
    mean_objective,
    new_learner,
    normalise,
    random_dictionary,
    remove_mean,
)
from dictlearn.pictures import plot_atoms  # noqa: E402
from examples._baselines import LearningCurve, learn_with_scikit_learn  # noqa: E402
from examples._data import handwritten_digits, held_out, photograph_as_it_comes  # noqa: E402
from examples._pictures import save_picture  # noqa: E402
from examples._results import write_results  # noqa: E402
from examples.learn_photographs import task as photographs  # noqa: E402
from solvers import LassoProblem, solve_active_set  # noqa: E402
from tests.benchmarks.timing import table, versions  # noqa: E402
from tests.benchmarks.unseen_combinations import generate  # noqa: E402
from tests.reference.spams_dictionary import learn_with_spams  # noqa: E402

PENALTY = 0.1
BATCH = 32
MARKS = (10_000, 40_000)
LEAST_CONTRAST_IN_COLOUR = 0.2


class Task(NamedTuple):
    """Signals to learn from and to evaluate on."""

    signals: np.ndarray
    held_out: np.ndarray
    n_atoms: int
    positive_atoms: bool = False


def tasks(n_samples: int) -> dict[str, Task]:
    """Return the tasks, with signals for this number of samples at most."""
    data = generate(100, 0)
    patches = photographs(n_signals=n_samples, n_held_out=1_000)
    pixels = handwritten_digits().reshape(-1, 28, 28)[:, 2:26, 2:26]
    small = held_out(pixels.reshape(-1, 8, 3, 8, 3).mean(axis=(2, 4)).reshape(-1, 64))
    digits = [normalise(part - small[0].mean(axis=0))[0] for part in small]
    signed = [join_channels(part) for part in (patches.signals, patches.held_out)]
    # The last of three beats is held out.
    record = pywt.data.ecg()
    waves = [normalise(remove_mean(extract_patches(part, 64))[0])[0] for part in (record[:683], record[683:])]
    return {
        "planted atoms, 100 x 47": Task(data.seen.signals, data.unseen.signals, 100),
        "photographs, 256 x 64": Task(*signed, 256),
        "digits, 128 x 64": Task(*digits, 128),
        "windows of an ECG, 96 x 64": Task(*waves, 96),
        "windows of an ECG, 128 x 64": Task(*waves, 128),
        "photographs in two channels, 256 x 128": Task(patches.signals, patches.held_out, 256, True),
    }


# -- other fields --------------------------------------------------------------------------------


def eeg() -> Task:
    """Return windows of the four channels of an EEG that matplotlib has; its last quarter is held out."""
    with cbook.get_sample_data("eeg.dat") as file:
        channels = np.frombuffer(file.read(), dtype=float).reshape(800, 4).T
    parts = (np.vstack([extract_patches(one, 64) for one in part]) for part in np.split(channels, [600], 1))
    return Task(*(normalise(remove_mean(part)[0])[0] for part in parts), 128)


def hidden_layer(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what 64 rectified neurons of a classifier do about digits, less the mean: seen, and held out."""
    seen, others = held_out(digits)
    labels, _ = held_out(np.repeat(np.arange(10), 500))
    network = MLPClassifier((64,), max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it need not be the best of classifiers
        network.fit(seen, labels)
    weights, bias = network.coefs_[0], network.intercepts_[0]
    active, tested = (np.maximum(part @ weights + bias, 0.0) for part in (seen, others))
    return active - active.mean(axis=0), tested - active.mean(axis=0)


def activations() -> Task:
    """Return `hidden_layer`, each digit's of norm 1."""
    return Task(*(normalise(part)[0] for part in hidden_layer(handwritten_digits())), 256)


def colour_patches(n_samples: int) -> Task:
    """Return patches of 8 x 8 pixels of five photographs in colour, without the mean of each channel."""

    def patches(images: list[np.ndarray], n: int, seed: int) -> np.ndarray:
        """Return `n` of each photograph, less those of little contrast."""
        rng, found = np.random.default_rng(seed), []
        for image in images:
            places = np.lib.stride_tricks.sliding_window_view(image, (8, 8), axis=(0, 1))
            channels = places[rng.integers(0, places.shape[0], n), rng.integers(0, places.shape[1], n)]
            channels = channels - channels.mean(axis=(2, 3), keepdims=True)
            found.append(channels.transpose(0, 2, 3, 1).reshape(n, -1))
        rows = np.vstack(found)
        rows = rows[np.linalg.norm(rows, axis=1) > LEAST_CONTRAST_IN_COLOUR]
        return normalise(rng.permutation(rows))[0]

    names = ("china", "flower", "astronaut", "coffee", "rocket")
    seen, others = held_out([photograph_as_it_comes(name) / 255.0 for name in names])
    return Task(patches(seen, n_samples // 5, 0), patches(others, 300, 1), 256)


def fields(n_samples: int) -> dict[str, Task]:
    """Return data of other fields."""
    return {
        "windows of an EEG, 128 x 64": eeg(),
        "hidden layer of a classifier, 256 x 64": activations(),
        "patches in colour, 256 x 192": colour_patches(n_samples),
    }


class Learned(NamedTuple):
    """What the network, SPAMS and scikit-learn have learned at the marks, from one start."""

    start: np.ndarray
    network: list[np.ndarray]
    spams: list[np.ndarray]
    scikit_learn: list[np.ndarray]


def learn(task: Task, marks: tuple[int, ...], seed: int, *, with_scikit_learn: bool = False) -> Learned:
    """Return the dictionaries of learners that see the same samples in the same order."""
    positive, n_inputs = task.positive_atoms, task.signals.shape[1]
    start = random_dictionary(task.n_atoms, n_inputs, positive=positive, rng=seed)
    settings = LearningSettings(penalty=PENALTY, batch_size=BATCH, positive_atoms=positive)
    learner, ours = new_learner(task.signals, settings=settings, start=start), []
    for mark in marks:
        continue_learning(learner, task.signals, n_samples=mark, rng=seed)
        ours.append(learner.dictionary)

    def by(peer: Callable[..., LearningCurve]) -> list[np.ndarray]:
        curve = peer(
            task.signals, start=start, penalty=PENALTY, n_samples=marks[-1], batch_size=BATCH, marks=marks,
            rng=seed, positive_atoms=positive,
        )  # fmt: skip
        return list(curve.dictionaries)

    return Learned(
        start, ours, by(learn_with_spams), by(learn_with_scikit_learn) if with_scikit_learn else []
    )


def objective(dictionary: np.ndarray, task: Task) -> float:
    """Return the mean objective of the held-out signals, codes solved exactly."""
    return mean_objective(dictionary, task.held_out, penalty=PENALTY).objective


def compared(ours: float, theirs: float) -> str:
    """Return both, and how much more or less ours is."""
    return f"{ours:.4f} / {theirs:.4f} ({100 * (ours / theirs - 1):+.1f} %)"


# -- the page of other fields --------------------------------------------------------------------

HEAD = """# Learning from data of other fields

Atoms of either sign, codes that are not negative, penalty {penalty}. Every learner has the same random
start and sees the same samples in the same order, in batches of {batch}. Signals have norm 1. The objective,
the mean of 1/2 ||x - a D||² + {penalty} ||a||₁, is of signals that were held out, with exact codes. The
network has the settings that it comes with.

{versions}. One draw. Made by `python -m tests.benchmarks.signed_learning --fields`."""

TAIL = """What the signals are:

- **EEG**: four channels of 800 samples that ship with matplotlib, in windows of 64 samples without their
  mean. The last quarter of the record is held out.
- **Hidden layer**: what 64 rectified neurons of scikit-learn's `MLPClassifier` do about 4,000 handwritten
  digits, without the mean. There are four times as many atoms as neurons, as in the search for features
  with sparse autoencoders.
- **Colour**: 8 x 8 pixels of five photographs, without the mean of each channel. The right-hand fifth of
  each photograph is held out.

Windows of an ECG, digits and grey patches are [with the theory](dictionary_learning.md).

![Atoms learned by the network, drawn as what they are](benchmarks/fields.png)

*Atoms learned by the network from {samples:,} samples, those that held-out signals use most. EEG: curves.
Hidden layer: for each atom the mean of the held-out digits, weighted by the atom's code, less the mean of
all. Colour: patches.*

Speech, natural sounds and spectra are not here: no package that the project uses has any, and nothing is
downloaded."""


def page(data: dict) -> str:
    """Return the page of what was measured."""
    rows = []
    for name, marks in data["tasks"].items():
        for mark, (ours, spams, theirs) in marks.items():
            rows.append(
                [
                    name,
                    f"{int(mark):,}",
                    compared(ours, spams),
                    f"{theirs:.4f} ({100 * (ours / theirs - 1):+.1f} %)",
                ]
            )
    header = ["signals", "samples", "network / SPAMS", "scikit-learn"]
    samples = max(int(mark) for marks in data["tasks"].values() for mark in marks)
    head = HEAD.format(penalty=PENALTY, batch=BATCH, versions=data["versions"])
    return f"{head}\n\n{table(header, rows)}\n\n{TAIL.format(samples=samples)}\n"


def picture(atoms: dict[str, np.ndarray]) -> Figure:
    """Return atoms of each task as what they are: those that held-out signals use most."""
    drawn = Figure(figsize=(7.5, 6.6), layout="constrained")
    axes = drawn.subplots(3, 1, height_ratios=(1.6, 1.0, 1.0))
    shown = [
        dictionary[np.argsort(-_codes(dictionary, task.held_out).sum(axis=0), kind="stable")]
        for dictionary, task in zip(atoms.values(), fields(100).values(), strict=True)
    ]
    plot_atoms(shown[0][:40], curves=True, columns=8, ax=axes[0])
    plot_atoms(_weighted_digits(shown[1][:48]), 28, columns=16, ax=axes[1])
    plot_atoms(shown[2][:96], 8, columns=24, ax=axes[2])
    for name, axis in zip(atoms, axes, strict=True):
        axis.set_title(name, fontsize=9)
    return drawn


def _codes(dictionary: np.ndarray, signals: np.ndarray) -> np.ndarray:
    return solve_active_set(LassoProblem(dictionary, signals, PENALTY, positive=True)).codes


def _weighted_digits(dictionary: np.ndarray) -> np.ndarray:
    digits = handwritten_digits()
    codes = _codes(dictionary, normalise(hidden_layer(digits)[1])[0])
    _, tested = held_out(digits)
    return codes.T @ tested / np.maximum(codes.sum(axis=0), 1e-12)[:, np.newaxis] - tested.mean(axis=0)


def measure_fields(marks: tuple[int, ...], seed: int, output: Path) -> None:
    """Measure, and write figures, picture and page."""
    data: dict = {"tasks": {}, "versions": versions().split("; one thread")[0]}
    atoms = {}
    for name, task in fields(marks[-1]).items():
        learned = learn(task, marks, seed, with_scikit_learn=True)
        atoms[name] = learned.network[-1]
        data["tasks"][name] = {
            str(mark): [objective(dictionary, task) for dictionary in each]
            for mark, *each in zip(marks, *learned[1:], strict=True)
        }
        print(name, data["tasks"][name], flush=True)
    folder = output / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder / "fields.json", data)
    save_picture(picture(atoms), folder / "fields.png", dpi=110)
    (output / "benchmark_fields.md").write_text(page(data))


def row(name: str, task: Task, runs: list[Learned]) -> list[str]:
    """Return a line of the table: means of the runs, and for each how much the network is above SPAMS."""

    def objectives(dictionaries: list[np.ndarray]) -> np.ndarray:
        return np.array([objective(dictionary, task) for dictionary in dictionaries])

    start = objectives([run.start for run in runs]).mean()
    ours, theirs = (np.array([objectives(getattr(run, of)) for run in runs]).T for of in ("network", "spams"))
    cells = []
    for a, b in zip(ours, theirs, strict=True):
        each = ", ".join(f"{100 * excess:+.1f}" for excess in a / b - 1)
        cells.append(f"{a.mean():.4f} / {b.mean():.4f} ({each} %)")
    return [name, f"{start:.4f}", *cells]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--marks", type=int, nargs="+", default=list(MARKS))
    options.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the table; the page has the first"
    )
    options.add_argument("--fields", action="store_true", help="data of other fields; write their page")
    options.add_argument("--output", type=Path, help="folder: of the page, docs; of the table, out")
    arguments = options.parse_args()
    marks = tuple(arguments.marks)
    if arguments.fields:
        measure_fields(marks, arguments.seeds[0], arguments.output or Path("docs"))
        return
    rows = []
    for name, task in tasks(marks[-1]).items():
        rows.append(row(name, task, [learn(task, marks, seed) for seed in arguments.seeds]))
        print(rows[-1], flush=True)
    header = ["objective: network / SPAMS", "start", *(f"{mark:,} samples" for mark in marks)]
    text = f"{versions()}.  Made by `python -m tests.benchmarks.signed_learning`.\n\n{table(header, rows)}\n"
    folder = arguments.output or Path("out")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark_signed_learning.md").write_text(text)


if __name__ == "__main__":
    main()
