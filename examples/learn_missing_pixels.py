"""Dictionaries from photographs with 30 or 50 % of the pixels missing: half a minute for each seed.

The two-phase network learns from the known pixels.  The input neuron of a missing pixel carries the
prediction of the network, and neither drives nor corrects other neurons.  For comparison, the same network
learns from whole patches, and from patches whose missing pixels are filled with the mean of the known pixels.
All dictionaries are then evaluated on whole patches that none of them has seen.

    python -m examples.learn_missing_pixels [--output DIR] [--samples N] [--atoms N] [--seeds S [S ...]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    join_channels,
    learn_dictionary,
    mean_objective,
    normalise,
    random_dictionary,
    random_patches,
    remove_mean,
    split_channels,
)
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, GREEN, GREY, ORANGE, RED, at_least, figure, parser, save, table
from examples._data import held_out, patch_signals, photographs

PATCH_SIZE = 8
PENALTY = 0.1
LEAST_CONTRAST = 0.4
MARKS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
MISSING = (0.3, 0.5)
SHOWN_ATOMS = 64


class Way(NamedTuple):
    """A way to learn from patches with missing pixels."""

    name: str
    missing: float
    filled: bool
    colour: str

    def signals(self, patches: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
        """Remove pixels from whole patches; return the signals and their mask."""
        known = rng.uniform(size=patches.shape) >= self.missing
        if self.missing == 0.0:
            return split_channels(normalise(remove_mean(patches)[0])[0]), None
        n_known = np.maximum(known.sum(axis=1, keepdims=True), 1)
        centred = np.where(known, patches - (patches * known).sum(axis=1, keepdims=True) / n_known, 0.0)
        if self.filled:
            # Missing pixels are zero, which is the mean of the centred known pixels.
            return split_channels(normalise(centred)[0]), None
        # Whole patches have norm 1: known pixels get the square root of their share of the patch as norm.
        scales = np.sqrt(n_known / patches.shape[1])
        return split_channels(scales * normalise(centred)[0]), np.hstack([known, known])


def ways() -> list[Way]:
    """Return the ways of learning that are compared."""
    chosen = [Way("all pixels", 0.0, False, GREY)]
    for missing, *colours in zip(MISSING, (ORANGE, RED), (GREEN, BLUE), strict=True):
        share = f"{100 * missing:.0f} % missing"
        for name, filled, colour in zip(
            ("means filled in", "known pixels"), (True, False), colours, strict=True
        ):
            chosen.append(Way(f"{share}: {name}", missing, filled, colour))
    return chosen


def learn(way: Way, patches: np.ndarray, tested: np.ndarray, n_atoms: int, n_samples: int, seed: int) -> dict:
    """Return the results of a way to learn, for one seed, and the learner."""
    signals, mask = way.signals(patches, np.random.default_rng([seed, 1]))
    curve: dict[str, list] = {"n_samples": [], "objective": []}

    def evaluate(learner: TwoPhaseLearner) -> None:
        last = curve["n_samples"][-1] if curve["n_samples"] else 0
        if learner.n_samples == n_samples or any(last < mark <= learner.n_samples for mark in MARKS):
            curve["n_samples"].append(learner.n_samples)
            score = mean_objective(learner.dictionary, tested, penalty=PENALTY)
            curve["objective"].append(score.objective)

    learner = learn_dictionary(
        signals,
        mask=mask,
        settings=LearningSettings(penalty=PENALTY),
        start=random_dictionary(n_atoms, signals.shape[1], rng=seed),
        n_samples=n_samples,
        rng=seed,
        n_jobs=1,
        callback=evaluate,
    )
    return {
        **curve,
        "spikes": learner.n_spikes / learner.n_samples,
        "consistency": learner.network.consistency,
        "learner": learner,
    }


def draw(results: dict[str, list[dict]], chosen: Sequence[Way]) -> Figure:
    """Draw objectives against samples, and the atoms learned from half of the pixels."""
    picture = figure(10.0, 4.8)
    left, *others = picture.subplots(1, 3, width_ratios=(1.25, 1.0, 1.0))
    for way in chosen:
        runs = results[way.name]
        objectives = np.array([run["objective"] for run in runs])
        n_samples = runs[0]["n_samples"]
        style = "--" if way.filled else "-"
        left.plot(
            n_samples,
            objectives.mean(axis=0),
            style,
            marker="o",
            markersize=3,
            color=way.colour,
            label=way.name,
        )
        left.fill_between(
            n_samples,
            objectives.min(axis=0),
            objectives.max(axis=0),
            color=way.colour,
            alpha=0.15,
            linewidth=0,
        )
    left.set(xscale="log", xlabel="training samples", ylabel="objective on whole held-out patches")
    picture.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    half = [way for way in chosen if way.missing == MISSING[-1]]
    for ax, way in zip(others, sorted(half, key=lambda way: way.filled), strict=True):
        learner = results[way.name][0]["learner"]
        most_used = np.argsort(-learner.memory["usage"], kind="stable")[:SHOWN_ATOMS]
        plot_atoms(join_channels(learner.dictionary[most_used]), PATCH_SIZE, ax=ax)
        ax.set_title(f"{way.name}\nthe most used atoms", fontsize=10)
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=at_least(1), default=30_000, help="training samples")
    command.add_argument("--atoms", type=at_least(1), default=128)
    command.add_argument(
        "--seeds", type=int, nargs="+", default=[0], help="of the start, the order, the mask"
    )
    command.add_argument("--held-out", type=at_least(1), default=2_000, help="patches to evaluate on")
    options = command.parse_args(arguments)
    parts = held_out(photographs())
    patches = random_patches(
        parts[0], PATCH_SIZE, min(options.samples, 100_000), rng=0, least_contrast=LEAST_CONTRAST
    )
    tested = patch_signals(parts[1], PATCH_SIZE, options.held_out, seed=1, contrast=LEAST_CONTRAST)
    chosen = ways()
    results: dict[str, list[dict]] = {}
    for way in chosen:
        results[way.name] = [
            learn(way, patches, tested, options.atoms, options.samples, seed) for seed in options.seeds
        ]
        last = np.mean([run["objective"][-1] for run in results[way.name]])
        print(f"{way.name}: {last:.4f}", flush=True)

    whole = np.mean([run["objective"][-1] for run in results[chosen[0].name]])
    rows = []
    for way in chosen:
        runs = results[way.name]
        last = np.array([run["objective"][-1] for run in runs])
        rows.append(
            (
                way.name,
                f"{last.mean():.4f}",
                f"{np.ptp(last) / 2.0:.4f}",
                f"{100.0 * (last.mean() / whole - 1.0):+.1f} %",
                f"{np.mean([run['spikes'] for run in runs]):.0f}",
                f"{min(run['consistency'] for run in runs):.3f}",
            )
        )
    print(
        f"\n{PATCH_SIZE} x {PATCH_SIZE} patches of photographs, {options.atoms} atoms, penalty {PENALTY}, "
        f"{options.samples:,} samples, {len(options.seeds)} seeds; {len(tested):,} whole patches held out"
    )
    heads = ("learned from", "objective", "half range", "above all pixels", "spikes a sample", "consistency")
    print(table(heads, rows))
    save(draw(results, chosen), options.output, "missing_pixels.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
