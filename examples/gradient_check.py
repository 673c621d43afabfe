"""The gradient as neurons observe it, compared with the true gradient: half a minute.

The two-phase network of Lin and Tang (2018), arXiv:1805.08952, learns from what its neurons observe in two
phases.  By Theorem 3, the update is the gradient up to an error proportional to 1 / duration.  Here the
update of each weight is compared with the true gradient on patches of a photograph, before and after
learning.  Updates are read from counted spikes, as in the paper, and from average currents.

    python -m examples.gradient_check [--output DIR] [--samples N] [--checked N]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from dictlearn import TwoPhaseNetwork, learn_dictionary
from examples._common import BLUE, ORANGE, at_least, figure, parser, save, table
from examples._data import grey_photograph, held_out, patch_signals, random_network

READOUTS = ("rate", "current")
LAYERS = ("F, B", "H")
DURATIONS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
KAPPA = 0.7
SETTLING = 2000.0  # duration of the phases that give the true code, in time constants
PATCH_SIZE = 8
N_ATOMS = 64
PENALTY = 0.1  # penalty in units of the patches, which have norm 1
LEAST_CONTRAST = 0.4  # least norm of a patch without its mean: patches of sky are left out
SEED = 0


def patches() -> tuple[np.ndarray, np.ndarray]:
    """Return patches to learn from and patches to check on, without means, of unit norm, in two channels."""
    parts = held_out([grey_photograph("china")])
    learned, checked = (
        patch_signals(part, PATCH_SIZE, n, seed=SEED, contrast=LEAST_CONTRAST)
        for part, n in zip(parts, (5_000, 500), strict=True)
    )
    return learned, checked


class Check(NamedTuple):
    """Cosines (first) and relative errors of updates, for the layers "F, B" and "H"."""

    # Measures of the updates by single signals, shape (2, n_readouts, n_layers, n_durations, n_signals).
    alone: np.ndarray
    # Measures of the updates by all signals together, shape (2, n_readouts, n_layers, n_durations).
    together: np.ndarray


def check_gradients(network: TwoPhaseNetwork, signals: np.ndarray, penalty: float) -> Check:
    """Compare updates with the gradients at the true codes, which very long phases give.

    The gradients are ``(B a - x) a^T`` and ``(H - F B) a a^T``; gradients for one signal have rank one.
    """
    options: dict[str, Any] = {"penalty": penalty, "kappa": KAPPA, "initial_potential": 0.5}
    _, long = network.run(signals, duration=SETTLING, **options)
    codes = np.where(long.coding_rate != 0.0, long.coding_trace, 0.0)
    chosen = codes.any(axis=1)
    codes, signals = codes[chosen], signals[chosen]
    true = [codes @ network.feedback.T - signals]
    true.append(codes @ (network.lateral - network.feedforward @ network.feedback).T)
    alone = np.empty((2, len(READOUTS), len(LAYERS), len(DURATIONS), len(codes)))
    together = np.empty(alone.shape[:-1])
    for t, duration in enumerate(DURATIONS):
        first, second = network.run(signals, duration=duration, **options)
        excess = [p.coding_current - np.diagonal(network.lateral) * p.coding_rate for p in (first, second)]
        g_h = (1.0 - KAPPA) * ((first.coding_rate - second.coding_rate) @ network.lateral.T + excess[0])
        read = {
            "rate": (second.coding_rate, second.input_rate - first.input_rate, g_h - excess[1]),
            "current": (
                np.maximum(second.coding_trace, 0.0),
                second.input_current - first.input_current,
                KAPPA * second.coding_trace @ network.lateral.T
                + ((1.0 - KAPPA) * first.input_current - second.input_current) @ network.feedforward.T,
            ),
        }
        for r, readout in enumerate(READOUTS):
            seen, *gradients = read[readout]
            for layer, (gradient, at_code) in enumerate(zip(gradients, true, strict=True)):
                products = [(a * b).sum(axis=1) for a, b in ((seen, codes), (gradient / KAPPA, at_code))]
                sizes = [
                    np.linalg.norm(a, axis=1) * np.linalg.norm(g, axis=1)
                    for a, g in ((seen, gradient / KAPPA), (codes, at_code))
                ]
                alone[:, r, layer, t] = compared(products[0] * products[1], *sizes)
                update, whole = seen.T @ gradient / KAPPA, codes.T @ at_code
                sizes = [np.linalg.norm(update), np.linalg.norm(whole)]
                together[:, r, layer, t] = compared(np.vdot(update, whole), *sizes)
    return Check(alone, together)


def compared(product: Any, size: Any, true_size: Any) -> tuple[Any, Any]:
    """Return cosine and relative error of an update, from its product with the gradient and both norms."""
    cosine = product / np.maximum(size * true_size, 1e-300)
    return cosine, np.sqrt(np.maximum(size**2 - 2.0 * product + true_size**2, 0.0)) / true_size


def draw_check(check: Check, axes: np.ndarray) -> None:
    """Draw errors above cosines; the left panels show F and B together, because their updates are equal."""
    for m, (row, measure) in enumerate(zip(axes[::-1], ("cosine", "relative error"), strict=True)):
        for layer, ax in enumerate(row):
            for r, (readout, colour) in enumerate(zip(READOUTS, (ORANGE, BLUE), strict=True)):
                low, median, high = np.quantile(check.alone[m, r, layer], (0.25, 0.5, 0.75), axis=-1)
                ax.fill_between(DURATIONS, low, high, color=colour, alpha=0.2, linewidth=0.0)
                ax.plot(DURATIONS, median, color=colour, marker="o", markersize=3.0, label=readout)
                label = f"{readout}, all together"
                ax.plot(DURATIONS, check.together[m, r, layer], "--", color=colour, lw=1.0, label=label)
            ax.set(xscale="log")
            ax.set_title(f"{LAYERS[layer]}: {measure}", fontsize="medium")
            ax.grid(alpha=0.3)
            if m == 0:
                ax.set(ylim=(-0.25, 1.05), xlabel="duration of a phase, T")
            else:
                ax.set(yscale="log", ylim=(1e-3, 1e2))
    axes[0, 0].legend(fontsize="small")


def draw(results: dict[str, Check]) -> Figure:
    picture = figure(10.0, 6.6)
    for part, (title, check) in zip(picture.subfigures(1, 2, wspace=0.03), results.items(), strict=True):
        part.suptitle(title, fontweight="bold")
        draw_check(check, part.subplots(2, 2, sharex=True))
    return picture


def check_table(check: Check) -> str:
    """Return the mean cosines of single signals' updates with their gradients, a row for each duration."""
    cosines = check.alone[0].mean(axis=-1).swapaxes(0, 1).reshape(-1, len(DURATIONS)).T
    heads = [f"{name}, {readout}" for name in ("F and B", "H") for readout in READOUTS]
    rows = [
        (f"{duration:g}", *(f"{cosine:.4f}" for cosine in row))
        for duration, row in zip(DURATIONS, cosines, strict=True)
    ]
    return table(("T", *heads), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=at_least(1), default=10_000, help="to learn from")
    command.add_argument("--checked", type=at_least(1, 500), default=100, help="patches, at most 500")
    options = command.parse_args(arguments)
    learned, checked = patches()
    checked = checked[: options.checked]
    start = random_network(N_ATOMS, learned.shape[1], seed=SEED)
    learner = learn_dictionary(learned, start=start, penalty=PENALTY, n_samples=options.samples, rng=SEED)
    networks = {"Random weights": start, f"After {learner.n_samples:,} samples": learner.network}
    print("The gradient as neurons observe it, beside the gradient")
    print(f"{len(checked)} patches of {PATCH_SIZE} x {PATCH_SIZE}; {N_ATOMS} atoms; penalty {PENALTY}")
    results = {}
    for when, network in networks.items():
        title = f"{when}: ‖H - F B‖ is {100.0 * (1.0 - network.consistency):.1f} % of ‖H‖"
        results[title] = check_gradients(network, learner.scale * checked, learner.scale * PENALTY)
        print()
        print(title)
        print("mean cosine of a signal's update and its gradient, phases of duration T")
        print(check_table(results[title]))
    print()
    save(draw(results), options.output, "gradient_check.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
