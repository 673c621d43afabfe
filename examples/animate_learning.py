"""Atoms that form in a network that learns, animated: a minute.

The two-phase network of Lin and Tang (2018) starts with random weights, and learns from patches of 12 x 12
pixels of whitened photographs.  Each neuron changes its own weights by what it observes.  A curve next to the
atoms shows the objective on held-out patches, with exact codes.

    python -m examples.animate_learning [--output DIR] [--samples NUMBER] [--atoms NUMBER]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    continue_learning,
    join_channels,
    mean_objective,
    new_learner,
    random_dictionary,
    whiten,
)
from dictlearn.pictures import plot_atoms
from examples._animation import save_animation
from examples._baselines import learn_with_scikit_learn
from examples._common import BLUE, GREY, at_least, parser
from examples._data import photographs, split_patches

SIDE = 12
N_ATOMS = 100
PENALTY = 0.1
N_SAMPLES = 30_000
N_HELD_OUT = 500
N_FRAMES = 60
LEAST_CONTRAST = 3.0  # least norm of a patch without its mean; whitened images have unit variance
BATCH_SIZE = 32


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningHistory:
    """Atoms of unit norm and their objective on held-out signals, after several numbers of samples."""

    n_samples: np.ndarray
    dictionaries: np.ndarray
    objectives: np.ndarray
    n_spikes: np.ndarray


def marks_of(n_samples: int, n_frames: int) -> np.ndarray:
    """Return the numbers of samples of the frames: 0, the first batch, and then a geometric sequence."""
    marks = np.geomspace(BATCH_SIZE, n_samples, n_frames - 1)
    return np.concatenate([[0], np.round(marks / BATCH_SIZE) * BATCH_SIZE]).astype(int)


def watched_learning(
    signals: np.ndarray, tested: np.ndarray, start: np.ndarray, n_samples: int, n_frames: int
) -> LearningHistory:
    """Learn, and return the atoms after growing numbers of samples."""
    marks = np.unique(marks_of(n_samples, n_frames))
    seen: list[tuple[int, np.ndarray, float, int]] = []

    def look(learner: TwoPhaseLearner) -> None:
        if learner.n_samples >= marks[len(seen)]:
            score = mean_objective(learner.dictionary, tested, penalty=PENALTY).objective
            seen.append((learner.n_samples, learner.dictionary, score, learner.n_spikes))

    settings = LearningSettings(penalty=PENALTY, batch_size=BATCH_SIZE)
    learner = new_learner(signals, start=start, settings=settings)
    look(learner)
    continue_learning(
        learner, signals, n_samples=int(marks[-1]), rng=0, callback=look, callback_every=BATCH_SIZE
    )
    n_seen, dictionaries, objectives, n_spikes = map(np.array, zip(*seen, strict=True))
    return LearningHistory(
        n_samples=n_seen, dictionaries=dictionaries, objectives=objectives, n_spikes=n_spikes
    )


class LearningPicture:
    """The panels of a `LearningHistory`: the atoms, and the objective."""

    def __init__(self, history: LearningHistory, other: float | None = None) -> None:
        self._history = history
        self.figure = Figure(figsize=(6.4, 3.8))
        self.figure.suptitle("Atoms form in a spiking network that learns", fontsize=13)
        grid = self.figure.add_gridspec(
            1, 2, left=0.01, right=0.98, bottom=0.13, top=0.85, width_ratios=(1, 0.82), wspace=0.24
        )
        self._atoms = self.figure.add_subplot(grid[0])
        self._make_objective(self.figure.add_subplot(grid[1]), other)

    def _make_objective(self, ax, other: float | None) -> None:
        history = self._history
        if other is not None:
            ax.axhline(other, color=GREY, linestyle="--", linewidth=1.2)
            ax.annotate(
                "scikit-learn, same samples", (0.03, other), xycoords=("axes fraction", "data"), fontsize=8,
                color=GREY, va="top", xytext=(0, -3), textcoords="offset points",
            )  # fmt: skip
        lowest = min(history.objectives.min(), other or np.inf)
        span = history.objectives.max() - lowest
        ax.set(
            xlim=(0, history.n_samples[-1]),
            ylim=(lowest - 0.12 * span, history.objectives.max() + 0.05 * span),
        )
        # The axis is linear up to the first batch and logarithmic after it, so that it can show the start, 0.
        ax.set_xscale("symlog", linthresh=BATCH_SIZE)
        ticks = [0, *(10**k for k in range(2, 7) if 10**k <= history.n_samples[-1])]
        ax.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])
        ax.set_xlabel("patches seen", fontsize=9.5)
        ax.set_title("objective on held-out patches", fontsize=9.5)
        ax.tick_params(labelsize=8)
        ax.grid(alpha=0.25)
        (self._curve,) = ax.plot([], [], color=BLUE, linewidth=1.8)
        (self._now,) = ax.plot([], [], "o", color=BLUE, markersize=5, clip_on=False)

    def draw(self, k: int) -> None:
        """Draw the atoms and the objective of the k-th frame."""
        history = self._history
        self._atoms.clear()
        plot_atoms(join_channels(history.dictionaries[k]), SIDE, ax=self._atoms)
        self._atoms.set_title(
            f"{history.n_samples[k]:,} patches, {history.n_spikes[k]:,} spikes", fontsize=9.5
        )
        self._curve.set_data(history.n_samples[: k + 1], history.objectives[: k + 1])
        self._now.set_data(history.n_samples[k : k + 1], history.objectives[k : k + 1])


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=at_least(1000), default=N_SAMPLES, help="training patches")
    command.add_argument("--atoms", type=at_least(1), default=N_ATOMS, help="of the dictionary")
    command.add_argument("--frames", type=at_least(3), default=N_FRAMES, help="pictures, 12 a second")
    options = command.parse_args(arguments)

    scenes = [whiten(image) for image in photographs()]
    signals, tested = split_patches(scenes, SIDE, options.samples, N_HELD_OUT, contrast=LEAST_CONTRAST)
    start = random_dictionary(options.atoms, signals.shape[1], rng=0)
    history = watched_learning(signals, tested, start, options.samples, options.frames)
    other = learn_with_scikit_learn(
        signals, start=start, penalty=PENALTY, n_samples=options.samples, batch_size=BATCH_SIZE, rng=0
    )
    other_objective = mean_objective(other.dictionaries[-1], tested, penalty=PENALTY).objective
    print("Atoms that form in a network that learns")
    print(
        f"{history.n_samples[-1]:,} patches, {history.n_spikes[-1]:,} spikes; held-out objective from "
        f"{history.objectives[0]:.4f} to {history.objectives[-1]:.4f}; scikit-learn {other_objective:.4f}"
    )
    picture = LearningPicture(history, other_objective)
    save_animation(picture.figure, picture.draw, len(history.n_samples), options.output, "learning.webp")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
