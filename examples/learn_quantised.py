"""Dictionaries learned with weights of few bits, rounded to nearest, by chance, or after learning. A minute.

On a digital chip, weights and their changes are integers.  Rounding to the nearest integer loses changes
smaller than half a step; rounding by chance, with the right mean, does not.  Here networks learn from patches
of photographs with weights of 4 to 12 bits, rounded in both ways; the weights of another network are learned
with float64 and rounded afterwards.  The left panel shows the dictionaries, with codes solved exactly.  The
right panel shows codes of the networks themselves, with rounded weights and thresholds, as on a chip.

    python -m examples.learn_quantised [--output DIR] [--samples N] [--atoms N] [--bits B [B ...]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from dictlearn import (
    LearningSettings,
    RunawayFeedbackError,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    learn_dictionary,
    mean_objective,
    random_dictionary,
)
from examples._common import BLUE, GREEN, GREY, ORANGE, at_least, figure, parser, save, table
from examples._data import photographs, split_patches
from snn.digital import FixedPoint

PATCH_SIZE = 8
PENALTY = 0.1
LEAST_CONTRAST = 0.4
N_CODED = 300  # number of held-out patches that the networks themselves code
BITS = (4, 5, 6, 7, 8, 9, 10, 11, 12)
# Duration of coding in time constants, so long that only the weights limit the accuracy of codes.
DURATION = 200.0
SEED = 0
ROUNDED = "rounded after learning"
NEAREST, STOCHASTIC = "learned with rounding to the nearest", "learned with stochastic rounding"
COLOURS = {ROUNDED: GREY, NEAREST: ORANGE, STOCHASTIC: BLUE}


def weights(bits: int, rounding: str) -> FixedPoint:
    """Return the format of non-negative weights: F and B are below 1, H and thresholds below 2."""
    return FixedPoint(bits=bits, sign="non-negative", rounding=rounding)


def learn(
    signals: np.ndarray, n_atoms: int, n_samples: int, weight_format: FixedPoint | None
) -> TwoPhaseLearner:
    return learn_dictionary(
        signals,
        start=random_dictionary(n_atoms, signals.shape[1], rng=SEED),
        settings=LearningSettings(penalty=PENALTY, weight_format=weight_format),
        n_samples=n_samples,
        rng=SEED,
        n_jobs=1,
    )


def objective_of_codes(network: TwoPhaseNetwork, signals: np.ndarray, scale: float) -> float:
    """Return the mean objective of a network's own codes, or NaN if the network runs away.

    The penalty of an atom is proportional to its norm: otherwise large atoms would evade the penalty.
    """
    penalty = PENALTY * np.linalg.norm(network.feedback, axis=0)
    # An atom of zeros gets a small positive penalty, so that its neuron stays silent.
    driven = scale * np.maximum(penalty, 1e-3)
    try:
        codes = network.code(scale * signals, penalty=driven, duration=DURATION, n_jobs=1) / scale
    except RunawayFeedbackError:
        return float("nan")
    residual = signals - codes @ network.feedback.T
    return float((0.5 * (residual**2).sum(axis=1) + codes @ penalty).mean())


def draw(results: dict[str, list[dict]], exact: dict, bits: Sequence[int]) -> Figure:
    picture = figure(9.0, 4.2)
    for ax, key, title in zip(
        picture.subplots(1, 2, sharey=True),
        ("dictionary", "network"),
        ("dictionaries, codes solved exactly", "codes of the networks themselves"),
        strict=True,
    ):
        for name, rows in results.items():
            ax.plot(bits, [row[key] for row in rows], "o-", markersize=4, color=COLOURS[name], label=name)
        ax.axhline(exact[key], color=GREEN, linestyle=":", label="float64")
        ax.axhline(1.01 * exact[key], color=GREEN, linewidth=0.6, label="1 % above float64")
        ax.set(xlabel="bits of a weight", title=title, xticks=list(bits), ylim=(None, 1.35 * exact[key]))
    ax.figure.axes[0].set_ylabel("mean objective on held-out patches")
    ax.figure.axes[0].legend(frameon=False)
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=at_least(1), default=20_000, help="training samples")
    command.add_argument("--atoms", type=at_least(1), default=128)
    command.add_argument("--bits", type=at_least(2, 24), nargs="+", default=list(BITS), help="of a weight")
    command.add_argument("--held-out", type=at_least(1), default=2_000, help="patches to evaluate on")
    options = command.parse_args(arguments)
    n_signals = min(options.samples, 100_000)
    signals, tested = split_patches(
        photographs(), PATCH_SIZE, n_signals, options.held_out, contrast=LEAST_CONTRAST
    )

    def scores(network: TwoPhaseNetwork, scale: float) -> dict[str, float]:
        return {
            "dictionary": mean_objective(network.feedback.T, tested, penalty=PENALTY).objective,
            "network": objective_of_codes(network, tested[:N_CODED], scale),
            "consistency": network.consistency,
        }

    plain = learn(signals, options.atoms, options.samples, None)
    exact = scores(plain.network, plain.scale)
    print(f"float64: {exact}", flush=True)

    def learned(bits: int, rounding: str) -> TwoPhaseNetwork:
        return learn(signals, options.atoms, options.samples, weights(bits, rounding)).network

    makers: dict[str, Callable[[int], TwoPhaseNetwork]] = {
        ROUNDED: lambda bits: plain.network.rounded(weights(bits, "nearest")),
        NEAREST: lambda bits: learned(bits, "nearest"),
        STOCHASTIC: lambda bits: learned(bits, "stochastic"),
    }
    results: dict[str, list[dict]] = {name: [] for name in makers}
    for bits in options.bits:
        for name, make in makers.items():
            results[name].append({"bits": bits, **scores(make(bits), plain.scale)})
            print(f"{bits} bits, {name}: {results[name][-1]}", flush=True)

    print(
        f"\n{PATCH_SIZE} x {PATCH_SIZE} patches of photographs, {options.atoms} atoms, penalty {PENALTY}, "
        f"{options.samples:,} samples; objective above that of float64, {exact['dictionary']:.4f} of the "
        f"dictionary and {exact['network']:.4f} of the network's own codes"
    )
    rows = []
    for k, bits in enumerate(options.bits):
        cells = [
            f"{100.0 * (results[name][k][key] / exact[key] - 1.0):+.1f} %"
            for key in ("dictionary", "network")
            for name in results
        ]
        rows.append((str(bits), *cells))
    short = ("after", "nearest", "stochastic")
    heads = ("bits", *(f"{what}: {name}" for what in ("dictionary", "network") for name in short))
    print(table(heads, rows))
    save(draw(results, exact, options.bits), options.output, "quantised_learning.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
