"""Learn atoms for a task: digits are classified from their codes, and the classifier's loss moves the atoms.

An unsupervised dictionary describes digits well and need not tell them apart.  Task-driven dictionary
learning (Mairal, Bach and Ponce, 2012) takes the gradient of the classifier's loss through the codes:
`result.vjp`.  The same gradient by back-propagation through iterations of FISTA is right as far as these have
converged; the last panel shows how long that takes.

    python -m examples.task_driven [--output DIR] [--atoms NUMBER] [--epochs NUMBER]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from dictlearn import SpikingDictionaryLearning
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, ORANGE, figure, parser, save, table
from solvers import LassoProblem, solve_active_set

PENALTY = 0.1
BATCH = 100
STEP = 0.01
ITERATIONS = (5, 10, 20, 50, 100, 200, 500)


class Data(NamedTuple):
    """Digits of unit norm, and what they are."""

    signals: np.ndarray
    labels: np.ndarray


class Learned(NamedTuple):
    """Atoms, their classifier, and its errors on digits that it has not seen, as shares."""

    atoms: np.ndarray
    classifier: LogisticRegression
    errors: list[float]


def digits() -> tuple[Data, Data]:
    """Return digits to learn from, and others."""
    signals, labels = load_digits(return_X_y=True)
    signals = signals / np.linalg.norm(signals, axis=1, keepdims=True)
    return Data(signals[::2], labels[::2]), Data(signals[1::2], labels[1::2])


def codes(atoms: np.ndarray, signals: np.ndarray) -> np.ndarray:
    """Return the codes of signals."""
    return solve_active_set(LassoProblem(atoms, signals, PENALTY)).codes


def fitted(atoms: np.ndarray, data: Data) -> LogisticRegression:
    """Return the classifier of codes in these atoms."""
    return LogisticRegression(C=10.0, max_iter=2000).fit(codes(atoms, data.signals), data.labels)


def error(atoms: np.ndarray, classifier: LogisticRegression, data: Data) -> float:
    """Return the share of digits that a classifier mistakes."""
    return float(np.mean(classifier.predict(codes(atoms, data.signals)) != data.labels))


def loss_gradient(classifier: LogisticRegression, found: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of the mean cross-entropy with respect to codes."""
    wanted = classifier.classes_ == labels[:, np.newaxis]
    return (classifier.predict_proba(found) - wanted) @ classifier.coef_ / len(labels)


def learn_for_the_task(start: np.ndarray, training: Data, test: Data, n_epochs: int) -> Learned:
    """Return atoms moved by the loss of their classifier, in steps of Adam; it is fitted anew each epoch."""
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
            # Atoms of norm one at most: otherwise long ones would evade the penalty.
            atoms /= np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1.0)
        classifier = fitted(atoms, training)
        errors.append(error(atoms, classifier, test))
    return Learned(atoms, classifier, errors)


def unrolled_gradient(
    atoms: np.ndarray, data: Data, classifier: LogisticRegression, n_iterations: int
) -> np.ndarray:
    """Return the gradient with respect to the atoms by back-propagation through iterations of FISTA."""
    largest = np.linalg.eigvalsh(atoms @ atoms.T)[-1]
    code = before = np.zeros((len(data.signals), len(atoms)))
    kept, t = [], 1.0
    momentum = 0.0
    for _ in range(n_iterations):
        point = code + momentum * (code - before)
        misfit = point @ atoms - data.signals
        stepped = point - misfit @ atoms.T / largest
        before, code = code, np.sign(stepped) * np.maximum(np.abs(stepped) - PENALTY / largest, 0.0)
        kept.append((point, misfit, code != 0.0, momentum))
        next_t = 0.5 + np.sqrt(0.25 + t * t)
        momentum, t = (t - 1.0) / next_t, next_t
    of_code, of_before = loss_gradient(classifier, code, data.labels), np.zeros_like(code)
    gradient = np.zeros_like(atoms)
    for point, misfit, is_active, factor in reversed(kept):
        inner = of_code * is_active / largest
        back = inner @ atoms
        gradient -= point.T @ back + inner.T @ misfit
        of_point = largest * inner - back @ atoms.T
        of_code, of_before = of_before + (1.0 + factor) * of_point, -factor * of_point
    return gradient


def compared(learned: Learned, data: Data) -> tuple[float, list[tuple[int, float, float]]]:
    """Return the seconds of the exact gradient, codes included, and of unrolled ones iterations, seconds and
    errors."""

    def exact() -> np.ndarray:
        result = solve_active_set(LassoProblem(learned.atoms, data.signals, PENALTY))
        return result.vjp(loss_gradient(learned.classifier, result.codes, data.labels)).dictionary

    reference, seconds = timed(exact)
    found = []
    for n_iterations in ITERATIONS:
        gradient, taken = timed(
            lambda n=n_iterations: unrolled_gradient(learned.atoms, data, learned.classifier, n)
        )
        found.append(
            (n_iterations, taken, float(np.linalg.norm(gradient - reference) / np.linalg.norm(reference)))
        )
    return seconds, found


def timed(call: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Return what a call returns, and the shortest time of seven."""
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begin)
    return result, min(seconds)


def draw(
    start: np.ndarray, learned: Learned, seconds: float, unrolled: list[tuple[int, float, float]]
) -> Figure:
    picture = figure(10.0, 8.0)
    (before, after), (curve, gradients) = picture.subplots(2, 2)
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
    _, times, errors = zip(*unrolled, strict=True)
    gradients.loglog(
        1e3 * np.array(times), errors, color=ORANGE, marker="s", label="through FISTA's iterations"
    )
    for n_iterations, taken, wrong in unrolled:
        gradients.annotate(str(n_iterations), (1e3 * taken, wrong), textcoords="offset points", xytext=(5, 4))
    gradients.axvline(1e3 * seconds, color=BLUE, label="result.vjp, exact, codes included")
    gradients.set(
        xlabel="milliseconds", ylabel="relative error", title=f"The gradient of the atoms, {BATCH} digits"
    )
    gradients.legend(fontsize="small", loc="lower left")
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--atoms", type=int, default=24, help="number of atoms")
    options.add_argument("--epochs", type=int, default=20, help="passes through the digits with labels")
    chosen = options.parse_args(arguments)
    if chosen.atoms < 2 or chosen.epochs < 1:
        options.error("--atoms must be at least 2, --epochs positive")

    training, test = digits()
    start = SpikingDictionaryLearning(chosen.atoms, alpha=PENALTY, max_iter=20, random_state=0)
    atoms = start.fit(training.signals).components_
    learned = learn_for_the_task(atoms, training, test, chosen.epochs)
    few = Data(*(part[:BATCH] for part in training))
    seconds, unrolled = compared(learned, few)
    rows = [
        ["unsupervised", f"{100.0 * learned.errors[0]:.2f} %"],
        ["task-driven", f"{100.0 * learned.errors[-1]:.2f} %"],
    ]
    print(table(["atoms", "digits mistaken"], rows))
    rows = [["result.vjp, codes included", f"{1e3 * seconds:.2f} ms", "exact"]]
    for n_iterations, taken, wrong in unrolled:
        rows.append([f"{n_iterations} iterations of FISTA", f"{1e3 * taken:.2f} ms", f"{wrong:.1e}"])
    print(table(["gradient of the atoms", "time", "relative error"], rows))
    save(draw(atoms, learned, seconds, unrolled), chosen.output, "task_driven.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
