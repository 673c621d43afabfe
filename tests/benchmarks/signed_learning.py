"""Learning atoms of either sign, beside SPAMS: ``python -m tests.benchmarks.signed_learning``.

Objective on held-out signals, codes solved exactly, after 10,000 and 40,000 samples in batches of 32, from the same
random start and in the same order, means of seeds.  Tasks: sparse signals of planted atoms, patches of photographs, digits without
their mean, windows of an ECG; and the paper's, patches in two channels with atoms that are not negative.
"""  # noqa: E501

import argparse
import os
from pathlib import Path
from typing import NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import pywt  # noqa: E402

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
from examples._data import handwritten_digits, held_out  # noqa: E402
from examples.learn_photographs import task as photographs  # noqa: E402
from tests.benchmarks.timing import table, versions  # noqa: E402
from tests.benchmarks.unseen_combinations import generate  # noqa: E402
from tests.reference.spams_dictionary import learn_with_spams  # noqa: E402

PENALTY = 0.1
BATCH = 32
MARKS = (10_000, 40_000)


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


def measure(task: Task, marks: tuple[int, ...], seed: int) -> list[list[float]]:
    """Return the objectives of the start, the network and SPAMS, those of learners at the marks."""
    positive, n_inputs = task.positive_atoms, task.signals.shape[1]
    start = random_dictionary(task.n_atoms, n_inputs, positive=positive, rng=seed)

    def objective(dictionary: np.ndarray) -> float:
        return mean_objective(dictionary, task.held_out, penalty=PENALTY).objective

    settings = LearningSettings(penalty=PENALTY, batch_size=BATCH, positive_atoms=positive)
    learner, ours = new_learner(task.signals, settings=settings, start=start), []
    for mark in marks:
        continue_learning(learner, task.signals, n_samples=mark, rng=seed)
        ours.append(objective(learner.dictionary))
    theirs = learn_with_spams(
        task.signals, start=start, penalty=PENALTY, n_samples=marks[-1], batch_size=BATCH, marks=marks,
        rng=seed, positive_atoms=positive,
    ).dictionaries  # fmt: skip
    return [[objective(start)], ours, [objective(dictionary) for dictionary in theirs]]


def row(name: str, runs: list[list[list[float]]]) -> list[str]:
    """Return a line of the table: means of the runs, and for each how much the network is above SPAMS."""
    (start,), *marks = (np.transpose(values) for values in zip(*runs, strict=True))
    cells = []
    for ours, theirs in zip(*marks, strict=True):
        each = ", ".join(f"{100 * (a / b - 1):+.1f}" for a, b in zip(ours, theirs, strict=True))
        cells.append(f"{np.mean(ours):.4f} / {np.mean(theirs):.4f} ({each} %)")
    return [name, f"{np.mean(start):.4f}", *cells]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--marks", type=int, nargs="+", default=list(MARKS))
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--output", type=Path, default=Path("out/benchmark_signed_learning.md"))
    arguments = options.parse_args()
    marks = tuple(arguments.marks)
    rows = []
    for name, task in tasks(marks[-1]).items():
        rows.append(row(name, [measure(task, marks, seed) for seed in arguments.seeds]))
        print(rows[-1], flush=True)
    header = ["objective: network / SPAMS", "start", *(f"{mark:,} samples" for mark in marks)]
    text = f"{versions()}.  Made by `python -m tests.benchmarks.signed_learning`.\n\n{table(header, rows)}\n"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)


if __name__ == "__main__":
    main()
