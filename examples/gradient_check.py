"""What neurons see of the gradient, beside the gradient.

The two-phase network of Lin and Tang (2018), arXiv:1805.08952, learns from what its neurons saw of their
own two phases.  Theorem 3 says that this is the gradient, up to an error of one over the duration.  Here
the update of each weight is compared with the true gradient, on patches of a photograph, before the
network has learned and after: read from counted spikes as in the paper, and from average currents.

    python -m examples.gradient_check [--output DIR] [--samples N] [--checked N]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from dictlearn import (
    TwoPhaseNetwork,
    learn_dictionary,
    random_network,
)
from dictlearn.two_phase.gradient_check import LAYERS, GradientCheck, check_gradients
from examples._common import figure, parser, save, table
from examples._data import grey_photograph, held_out, patch_signals

PATCH_SIZE = 8
N_ATOMS = 64
PENALTY = 0.1  # in units of the patches, which have norm 1
LEAST_CONTRAST = 0.4  # of a patch to learn from: no sky
SEED = 0


def patches() -> tuple[np.ndarray, np.ndarray]:
    """Return patches to learn from, and others to check on: no mean, unit norm, two channels."""
    parts = held_out([grey_photograph("china")])
    learned, checked = (
        patch_signals(part, PATCH_SIZE, n, seed=SEED, contrast=LEAST_CONTRAST)
        for part, n in zip(parts, (5_000, 500), strict=True)
    )
    return learned, checked


def title(when: str, network: TwoPhaseNetwork) -> str:
    mismatch = 1.0 - network.consistency
    return f"{when}: ‖H - F B‖ is {100.0 * mismatch:.1f} % of ‖H‖"


def draw_check(check: GradientCheck, axes: np.ndarray) -> None:
    """Draw errors above, cosines below; F and B, which are alike, on the left."""
    for row, measure in zip(axes, ("error", "cosine"), strict=True):
        for ax, layer in zip(row, ("feedback", "lateral"), strict=True):
            check.plot(layer=layer, measure=measure, ax=ax)
            # The names are the same in all four.
            if ax is not axes[0, 0] and ax.get_legend() is not None:
                ax.get_legend().remove()
    for ax in axes[0]:
        ax.set_xlabel("")


def draw(results: dict[str, GradientCheck], titles: dict[str, str]) -> Figure:
    picture = figure(14.0, 7.0)
    for part, (when, check) in zip(picture.subfigures(1, 2, wspace=0.03), results.items(), strict=True):
        part.suptitle(titles[when], fontweight="bold")
        axes = part.subplots(2, 2, sharex=True)
        draw_check(check, axes)
        for panel in axes[0]:
            panel.set_ylim(1e-3, 1e2)
    return picture


def check_table(check: GradientCheck) -> str:
    """Return mean cosines of a signal's updates with its gradients, a row a duration."""
    rows = []
    for t, duration in enumerate(check.durations):
        cosines = [
            check.mean("cosine", readout, layer)[t]
            for layer in LAYERS[1:]  # F's are B's
            for readout in check.readouts
        ]
        rows.append((f"{duration:g}", *(f"{cosine:.4f}" for cosine in cosines)))
    heads = [f"{name}, {readout}" for name in ("F and B", "H") for readout in check.readouts]
    return table(("T", *heads), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=int, default=10_000, help="to learn from")
    command.add_argument("--checked", type=int, default=100, help="patches, at most 500")
    options = command.parse_args(arguments)
    if options.samples < 1 or not 1 <= options.checked <= 500:
        command.error("samples must be positive, and checked between 1 and 500")

    learned, checked = patches()
    checked = checked[: options.checked]
    start = random_network(N_ATOMS, learned.shape[1], rng=SEED)
    learner = learn_dictionary(learned, start=start, penalty=PENALTY, n_samples=options.samples, rng=SEED)
    networks = {
        "Random weights": start,
        f"After {learner.n_samples:,} samples": learner.network,
    }
    print("What neurons see of the gradient, beside the gradient")
    print(f"{len(checked)} patches of {PATCH_SIZE} x {PATCH_SIZE}; {N_ATOMS} atoms; penalty {PENALTY}")
    results, titles = {}, {}
    for when, network in networks.items():
        results[when] = check_gradients(network, learner.scale * checked, penalty=learner.scale * PENALTY)
        titles[when] = title(when, network)
        print()
        print(titles[when])
        print("mean cosine of a signal's update and its gradient, phases of duration T")
        print(check_table(results[when]))
    print()
    save(draw(results, titles), options.output, "gradient_check.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
