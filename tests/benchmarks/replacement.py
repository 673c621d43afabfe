"""Replacement of atoms, and samples that change: ``python -m tests.benchmarks.replacement``.

The tables show mean objectives of held-out samples with exact codes. The first compares learning with and
without replacement of similar atoms from the same starts: for overcomplete patches of photographs, whose
atoms are alike by nature, and for few planted atoms. The second compares learners that had learned from other
samples before with new learners.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    learn_dictionary,
    mean_objective,
    new_learner,
    random_patches,
    whiten,
)
from examples._data import photographs
from tests.benchmarks.timing import machine, table


class Task(NamedTuple):
    """Samples for learning, samples for the test, the number of atoms, and the settings."""

    learned: np.ndarray
    held_out: np.ndarray
    n_atoms: int
    settings: LearningSettings
    n_passes: int = 1


def patches(side: int, n_atoms: int, n_samples: int, *, whitened: bool, positive_code: bool) -> Task:
    """Return patches without mean; the penalty is a tenth of their mean norm."""
    images = [whiten(image) if whitened else image for image in photographs()]
    n_held_out = max(n_samples // 10, 100)
    n_each = -(-(n_samples + n_held_out) // len(images))
    samples = np.vstack([random_patches(image, side, n_each, rng=0) for image in images])
    samples = np.random.default_rng(0).permutation(samples - samples.mean(axis=1, keepdims=True))
    samples /= np.linalg.norm(samples, axis=1).mean()
    settings = LearningSettings(penalty=0.1, positive_atoms=False, positive_code=positive_code)
    return Task(samples[:n_samples], samples[n_samples:], n_atoms, settings)


def planted(n_passes: int) -> Task:
    """Return 400 samples of 16 atoms with 1,024 features; learning soon finds all atoms."""
    rng = np.random.default_rng(n_passes)
    atoms = rng.standard_normal((16, 1024)) / 32.0
    codes = np.where(rng.random((400, 16)) < 0.2, rng.standard_normal((400, 16)), 0.0)
    codes[np.arange(400), rng.integers(16, size=400)] += 1.0
    samples = codes @ atoms + 0.002 * rng.standard_normal((400, 1024))
    samples /= np.linalg.norm(samples, axis=1).mean()
    settings = LearningSettings(penalty=0.1, positive_atoms=False, positive_code=False)
    return Task(samples, samples, 16, settings, n_passes)


def objective(learner: TwoPhaseLearner, held_out: np.ndarray) -> float:
    """Return the mean objective of the learner's dictionary on held-out samples."""
    settings = learner.settings
    return mean_objective(
        learner.dictionary, held_out, penalty=settings.penalty, positive_code=settings.positive_code
    ).objective


def measured(task: Task, seed: int) -> tuple[float, float, int]:
    """Return the objectives without and with replacement, and how many atoms were replaced."""
    without, with_it = (
        learn_dictionary(
            task.learned,
            task.n_atoms,
            settings=replace(task.settings, replacement=is_on),
            n_samples=task.n_passes * len(task.learned),
            rng=seed,
        )
        for is_on in (False, True)
    )
    return objective(without, task.held_out), objective(with_it, task.held_out), with_it.n_replaced


def changed(n_old: int, n_new: int, *, slowly: bool, positive: bool) -> tuple[float, float]:
    """Return the objectives after all atoms changed: of the learner from before and of a new one."""
    rng = np.random.default_rng(0)

    def atoms() -> np.ndarray:
        found = rng.standard_normal((40, 32))
        found = np.abs(found) if positive else found
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def draw(dictionary: np.ndarray, n: int) -> np.ndarray:
        return (rng.random((n, 40)) < 0.08) * rng.uniform(0.5, 1.5, (n, 40)) @ dictionary

    old, new = atoms(), atoms()
    settings = LearningSettings(penalty=0.1, positive_atoms=positive)
    learner = learn_dictionary(draw(old, n_old), 40, settings=settings, n_samples=n_old, rng=0)
    for share in np.linspace(0.0, 1.0, 100) if slowly else ():
        between = (1.0 - share) * old + share * new
        for batch in np.split(draw(between / np.linalg.norm(between, axis=1, keepdims=True), 640), 20):
            learner.learn(batch)
    samples, held_out = draw(new, n_new), draw(new, 1000)
    fresh = new_learner(samples, 40, settings=settings, rng=0)
    for first in range(0, n_new, 32):
        learner.learn(samples[first : first + 32])
        fresh.learn(samples[first : first + 32])
    return objective(learner, held_out), objective(fresh, held_out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables: means of the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--old", type=int, default=150_000)
    parser.add_argument("--new", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args(arguments)
    n = options.samples
    tasks = {
        "photographs 8 x 8, 192 atoms": patches(8, 192, n, whitened=False, positive_code=True),
        "whitened 12 x 12, 288 atoms, codes of either sign": patches(
            12, 288, n, whitened=True, positive_code=False
        ),
        "whitened 12 x 12, 432 atoms": patches(12, 432, n, whitened=True, positive_code=True),
        **{f"16 planted atoms, 400 samples, {passes} passes": planted(passes) for passes in (8, 24, 40)},
    }
    rows = []
    for name, task in tasks.items():
        without, with_it, n_replaced = np.mean([measured(task, seed) for seed in options.seeds], axis=0)
        rows.append(
            [name, f"{without:.4f}", f"{100.0 * (with_it / without - 1.0):+.2f} %", f"{n_replaced:.1f}"]
        )
    print(machine(), table(["samples", "without", "with", "replaced"], rows), sep="\n\n")
    rows = []
    for positive in (False, True):
        for slowly in (False, True):
            seen, fresh = changed(options.old, options.new, slowly=slowly, positive=positive)
            name = (
                f"{'positive' if positive else 'signed'} atoms, changed {'slowly' if slowly else 'at once'}"
            )
            rows.append([name, f"{fresh:.4f}", f"{seen:.4f}"])
    print("", table(["samples", "a new learner", "one that learned before"], rows), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
