"""Atoms for a task: digits are classified by their codes, and the loss moves the atoms. Half a minute.

An unsupervised dictionary describes digits well, but may not distinguish them.  Task-driven dictionary
learning (Mairal, Bach and Ponce, 2012) takes the gradient of the classifier's loss through the codes, which
`result.vjp` computes exactly.

    python -m examples.task_driven [--output DIR] [--atoms NUMBER] [--epochs NUMBER]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from dictlearn import SpikingDictionaryLearning
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, ORANGE, at_least, figure, parser, save, table
from solvers import LassoProblem, solve_active_set

PENALTY = 0.1
BATCH = 100
STEP = 0.01


class Data(NamedTuple):
    """Digits of unit norm, and their labels."""

    signals: np.ndarray
    labels: np.ndarray


class Learned(NamedTuple):
    """Atoms, a classifier of codes, and the share of test digits it mistakes after each epoch."""

    atoms: np.ndarray
    classifier: LogisticRegression
    errors: list[float]


def digits() -> tuple[Data, Data]:
    """Return digits to learn from, and digits to test with."""
    signals, labels = load_digits(return_X_y=True)
    signals = signals / np.linalg.norm(signals, axis=1, keepdims=True)
    return Data(signals[::2], labels[::2]), Data(signals[1::2], labels[1::2])


def codes(atoms: np.ndarray, signals: np.ndarray) -> np.ndarray:
    """Return the optimal codes of signals."""
    return solve_active_set(LassoProblem(atoms, signals, PENALTY)).codes


def fitted(atoms: np.ndarray, data: Data) -> LogisticRegression:
    """Return a classifier that is fitted to the codes of digits."""
    return LogisticRegression(C=10.0, max_iter=2000).fit(codes(atoms, data.signals), data.labels)


def error(atoms: np.ndarray, classifier: LogisticRegression, data: Data) -> float:
    """Return the share of digits that a classifier mistakes."""
    return float(np.mean(classifier.predict(codes(atoms, data.signals)) != data.labels))


def loss_gradient(classifier: LogisticRegression, codes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of the mean cross-entropy with respect to codes."""
    targets = classifier.classes_ == labels[:, np.newaxis]
    return (classifier.predict_proba(codes) - targets) @ classifier.coef_ / len(labels)


def learn_for_the_task(start: np.ndarray, training: Data, test: Data, n_epochs: int) -> Learned:
    """Return atoms after Adam's steps on the classifier's loss; each epoch ends with a new classifier."""
    rng = np.random.default_rng(0)
    atoms, classifier = start.copy(), fitted(start, training)
    errors = [error(atoms, classifier, test)]
    mean, square = np.zeros((2, *atoms.shape))
    n_steps = 0
    for _ in range(n_epochs):
        for batch in np.array_split(rng.permutation(len(training.labels)), len(training.labels) // BATCH):
            result = solve_active_set(LassoProblem(atoms, training.signals[batch], PENALTY))
            upstream = loss_gradient(classifier, result.codes, training.labels[batch])
            gradient = result.vjp(upstream, undefined="leave out").dictionary
            n_steps += 1
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            move = mean / (1.0 - 0.9**n_steps) / (np.sqrt(square / (1.0 - 0.999**n_steps)) + 1e-8)
            atoms -= STEP * move
            # The norm of atoms is at most one: otherwise long atoms would evade the penalty.
            atoms /= np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1.0)
        classifier = fitted(atoms, training)
        errors.append(error(atoms, classifier, test))
    return Learned(atoms, classifier, errors)


def draw(start: np.ndarray, learned: Learned) -> Figure:
    picture = figure(9.5, 3.6)
    before, after, curve = picture.subplots(1, 3)
    plot_atoms(start, 8, ax=before)
    before.set_title("Atoms that describe digits")
    plot_atoms(learned.atoms, 8, ax=after)
    after.set_title("Atoms that tell them apart")
    percent = 100.0 * np.array(learned.errors)
    curve.axhline(percent[0], color=ORANGE, linestyle=":", label="unsupervised atoms")
    curve.plot(percent, color=BLUE, marker="o", label="task-driven atoms")
    curve.set(
        xlabel="epochs", ylabel="digits mistaken, %", title="A linear classifier of codes", ylim=(0.0, None)
    )
    curve.legend(fontsize="small")
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example."""
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--atoms", type=at_least(2), default=24, help="number of atoms")
    command.add_argument("--epochs", type=at_least(1), default=20, help="passes through the digits")
    options = command.parse_args(arguments)
    training, test = digits()
    start = SpikingDictionaryLearning(options.atoms, alpha=PENALTY, max_iter=20, random_state=0)
    atoms = start.fit(training.signals).components_
    learned = learn_for_the_task(atoms, training, test, options.epochs)
    rows = [
        ["unsupervised", f"{100.0 * learned.errors[0]:.2f} %"],
        ["task-driven", f"{100.0 * learned.errors[-1]:.2f} %"],
    ]
    print(table(["atoms", "digits mistaken"], rows))
    save(draw(atoms, learned), options.output, "task_driven.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
