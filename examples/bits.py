"""How many bits, which step: a LASSO on digital neurons, against its exact solution.

Three dictionaries of 256 or 128 atoms: random ones, patches of photographs, and atoms that the two-phase
network learned from such patches.  Networks in integers code held-out signals, and every code has its
certified gap.  Drawn are medians over the signals; a ring marks what suffices for 1 % of 1/2 ||signal||^2.
The last panel asks whether learning makes up for few bits: held-out patches are coded with weights of few
bits by a dictionary before it learned, by one that learned in float64, and by one whose weights had as few
bits while they learned.

    python -m examples.bits [--output DIR] [--signals N] [--duration T] [--samples N] [--bits B [B ...]]
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from dictlearn import (
    LearningSettings,
    learn_dictionary,
    normalise,
    random_dictionary,
    random_patches,
    remove_mean,
)
from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure, parser, save, table
from examples._data import held_out, patch_signals, photographs
from examples._sweep import Sweep, sweep
from examples.lava_lca import LCA1Layer, LCA2Layer
from snn import Clock
from snn.digital import DigitalFormat, FixedPoint
from solvers import (
    LassoProblem,
    solve,
    solve_active_set,
)
from solvers.certificate.optimality import duality_gap, penalty_max
from solvers.methods import DigitalOneWindow, Stages

SIDE, N_ATOMS, N_LEARNED, N_ACTIVE = 8, 256, 128, 6
SHARE = 0.1  # of the largest penalty that gives a code at all
PENALTY = 0.1  # of the learned dictionary, for patches of norm one
LEAST_CONTRAST = 0.1
BITS = (3, 4, 5, 6, 7, 8, 10, 12)
REGISTER_BITS = (8, 10, 12, 14, 16, 18, 20, 24, 28)
TIME_STEPS = tuple(2.0**-k for k in range(7))
STEP_REGISTERS = (16, 20, 24)
DELAYS = (0, 1, 2, 4, 8)
STEP = 1 / 8
COLOURS = {"random": BLUE, "patches": ORANGE, "learned": GREEN}
BEFORE, AFTER, QUANTISED = "before learning", "learned in float64", "learned with so few bits"
# What no axis varies: weights and drives that do not limit what is measured.
FORM = DigitalFormat(weights=FixedPoint(bits=12), bias=FixedPoint(bits=16))


# Rules of chips, at the widths of Loihi: eight bits of weight, thirteen of drive, registers of 24.
RULES = {
    "charge kept": DigitalFormat(),
    "reset to zero, currents wrap (Loihi)": DigitalFormat(reset="zero", current_overflow="wrap"),
    "up to 15 spikes a step": DigitalFormat(message_bits=4),
    "graded spikes of 16 bits": DigitalFormat(message_bits=16, graded=True),
    "graded, reset to zero": DigitalFormat(message_bits=16, graded=True, reset="zero"),
    "registers of 16 bits": DigitalFormat(potential_bits=16, current_bits=16),
    "the same, decay to the nearest": DigitalFormat(
        potential_bits=16, current_bits=16, decay_rounding="nearest"
    ),
}
LCA_STEPS = 3000


class Sweeps(NamedTuple):
    """What the panels show, by the name of the dictionary."""

    bits: dict[str, Sweep]
    refined: dict[str, Sweep]
    registers: dict[str, Sweep]
    steps: Sweep
    delays: dict[str, Sweep]


def patches(n: int, *, seed: int) -> np.ndarray:
    """Return patches of photographs without mean and of norm one, both signs in one channel."""
    images = photographs()
    return normalise(
        remove_mean(random_patches(images, SIDE, n, rng=seed, least_contrast=LEAST_CONTRAST))[0]
    )[0]


def problems(learned: np.ndarray, n_signals: int) -> dict[str, LassoProblem]:
    """Return a problem for each dictionary."""
    rng = np.random.default_rng(0)
    random = normalise(rng.standard_normal((N_ATOMS, SIDE**2)))[0]
    codes = np.zeros((n_signals, N_ATOMS))
    for code in codes:
        signs = rng.choice([-1.0, 1.0], N_ACTIVE)
        code[rng.choice(N_ATOMS, N_ACTIVE, replace=False)] = signs * rng.uniform(0.5, 1.5, N_ACTIVE)
    chosen = patches(N_ATOMS + n_signals, seed=1)
    return {
        "random": scaled(random, codes @ random),
        "patches": scaled(chosen[:N_ATOMS], chosen[N_ATOMS:]),
        "learned": LassoProblem(learned, test_patches(n_signals), PENALTY, positive=True),
    }


def scaled(dictionary: np.ndarray, signals: np.ndarray) -> LassoProblem:
    """Return the problem whose penalty is a share of each signal's largest."""
    return LassoProblem(dictionary, signals / (SHARE * penalty_max(dictionary, signals))[:, np.newaxis], 1.0)


def training_patches(n: int) -> np.ndarray:
    return patch_signals(held_out(photographs())[0], SIDE, n, seed=2, contrast=LEAST_CONTRAST)


def test_patches(n: int) -> np.ndarray:
    return patch_signals(held_out(photographs())[1], SIDE, n, seed=3, contrast=LEAST_CONTRAST)


def learn(n_samples: int, bits: int | None) -> np.ndarray:
    """Return a dictionary learned from patches; its weights are floats, or rounded by chance to `bits`."""
    form = None if bits is None else FixedPoint(bits=bits, sign="non-negative", rounding="stochastic")
    settings = LearningSettings(penalty=PENALTY, weight_format=form)
    signals = training_patches(min(n_samples, 50_000))
    start = random_dictionary(N_LEARNED, signals.shape[1], rng=0)
    return learn_dictionary(
        signals, start=start, settings=settings, n_samples=n_samples, rng=0, n_jobs=1
    ).dictionary


def measure(every: Mapping[str, LassoProblem], bits: Sequence[int], duration: float) -> Sweeps:
    """Return the sweeps of all dictionaries."""

    def each(axes: Mapping[str, Sequence], **options: object) -> dict[str, Sweep]:
        options = {"time_step": STEP, "duration": duration} | options
        return {name: sweep(problem, axes, FORM, **options) for name, problem in every.items()}

    return Sweeps(
        bits=each({"weight_bits": bits}),
        refined=each({"weight_bits": bits}, refine=True),
        registers=each({"register_bits": REGISTER_BITS}),
        steps=sweep(
            every["random"],
            {"time_step": TIME_STEPS, "register_bits": STEP_REGISTERS},
            FORM,
            duration=duration,
        ),
        delays=each({"delay": DELAYS}, time_step=1 / 4),
    )


def learning_curves(
    n_signals: int, n_samples: int, bits: Sequence[int], learned: np.ndarray, duration: float
) -> dict[str, list[float]]:
    """Return the mean objective of held-out patches for each number of bits, by dictionary.

    The last entry of each is the objective of exact codes."""
    signals = test_patches(n_signals)
    start = random_dictionary(N_LEARNED, signals.shape[1], rng=0)

    def objective(dictionary: np.ndarray, n_bits: int | None) -> float:
        problem = LassoProblem(dictionary, signals, PENALTY, positive=True)
        if n_bits is None:
            return float(solve_active_set(problem).objective.mean())
        form = DigitalFormat(weights=FixedPoint(bits=n_bits), bias=FORM.bias)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = solve(problem, DigitalOneWindow(duration, Clock(STEP, form)), tol=1e-9)
        return float(result.objective.mean())

    curves: dict[str, list[float]] = {
        name: [objective(dictionary, n) for n in (*bits, None)]
        for name, dictionary in ((BEFORE, normalise(start)[0]), (AFTER, learned))
    }
    few = [learn(n_samples, n) for n in bits]
    curves[QUANTISED] = [objective(dictionary, n) for dictionary, n in zip(few, bits, strict=True)]
    return curves


def rules_table(problem: LassoProblem, duration: float) -> list[tuple[str, ...]]:
    """Return what rules do: gaps and messages of the network alone and in stages; and of Lava's networks."""
    rows = []
    for name, form in RULES.items():
        cells = [name]
        for kind in (DigitalOneWindow, Stages):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                result = solve(problem, kind(duration, Clock(STEP, form)), tol=1e-4)
            cells += [
                f"{np.median(result.duality_gap / problem.energies):.1e}",
                f"{np.median(result.n_steps):.0f}",
            ]
        rows.append(tuple(cells))
    for kind in (LCA1Layer, LCA2Layer):
        gaps, messages = [], []
        for signal in range(problem.n_signals):
            network = kind.of(problem, signal)
            run = network.run(LCA_STEPS)
            one = problem.subset(slice(signal, signal + 1))
            gaps.append(duality_gap(one, run.v1[np.newaxis] * network.unit)[0] / one.energies[0])
            messages.append(run.n_messages)
        name = f"Lava's {kind.__name__}, {LCA_STEPS} steps"
        rows.append((name, f"{np.median(gaps):.1e}", f"{np.median(messages):.0f}", "", ""))
    return rows


def draw(sweeps: Sweeps, curves: Mapping[str, list[float]], learned_bits: Sequence[int]) -> Figure:
    picture = figure(13.0, 7.6)
    axes = picture.subplots(2, 3)
    for name, colour in COLOURS.items():
        style = {"color": colour, "label": name}
        sweeps.bits[name].draw(axes[0, 0], **style)
        dashed = {"color": colour, "label": f"{name}, stages", "linestyle": "--"}
        sweeps.refined[name].draw(axes[0, 0], **dashed)
        sweeps.bits[name].draw(axes[0, 1], figure="relative_excess", **style)
        sweeps.registers[name].draw(axes[0, 2], **style)
        sweeps.delays[name].draw(axes[1, 1], **style)
    axes[0, 0].set(title="weights", ylim=(1e-6, 1e2))
    axes[0, 1].set(title="weights: the objective itself", ylim=(1e-7, 10.0))
    axes[0, 2].set(title="width of potentials and currents")
    axes[1, 0].set_prop_cycle(color=(RED, PURPLE, BLUE))
    sweeps.steps.draw(axes[1, 0], axis="time_step")
    axes[1, 0].set(title="steps, random dictionary")
    axes[1, 1].set(title="delay, steps of 1/4")
    ax = axes[1, 2]
    for name, colour in ((BEFORE, GREY), (AFTER, GREEN), (QUANTISED, RED)):
        ax.plot(learned_bits, curves[name][: len(learned_bits)], "o-", markersize=4, color=colour, label=name)
    ax.axhline(curves[AFTER][-1], color=GREEN, linestyle=":", linewidth=1.0, label="exact codes")
    ax.set(
        title="before and after learning",
        xlabel="bits of a weight",
        ylabel="mean objective, held-out patches",
    )
    places = {axes[0, 0]: "upper right", axes[1, 1]: (0.2, 0.62)}
    for ax in axes.flat:
        # The mark, drawn with the first sweep, is named last.
        handles = sorted(
            ax.get_legend_handles_labels()[0], key=lambda line: line.get_label().startswith("within")
        )
        ax.legend(handles=handles, frameon=False, fontsize=7.5, loc=places.get(ax, "best"))
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--signals", type=int, default=20, help="signals of each dictionary")
    command.add_argument("--duration", type=float, default=500.0, help="of a run, in time constants")
    command.add_argument("--samples", type=int, default=10_000, help="samples to learn from")
    command.add_argument("--bits", type=int, nargs="+", default=list(BITS), help="of a weight")
    options = command.parse_args(arguments)
    if min(options.signals, options.samples) < 1 or min(options.bits) < 2 or options.duration <= 0.0:
        command.error("signals, samples and duration must be positive, and bits at least 2")

    bits = sorted(set(options.bits))
    learned = learn(options.samples, None)
    every = problems(learned, options.signals)
    sweeps = measure(every, bits, options.duration)
    learned_bits = [n for n in bits if n <= 10]
    curves = learning_curves(options.signals, options.samples, learned_bits, learned, options.duration)
    report(sweeps, curves, learned_bits)
    print("\nRules, at Loihi's widths, on random atoms; tol 1e-4:")
    rules = rules_table(every["random"], options.duration)
    print(table(("rule", "gap", "messages", "gap, stages", "messages, stages"), rules))
    save(draw(sweeps, curves, learned_bits), options.output, "bits.png")
    return 0


def report(sweeps: Sweeps, curves: Mapping[str, list[float]], learned_bits: Sequence[int]) -> None:
    rows = []
    for name in sweeps.bits:
        for label, one in ((name, sweeps.bits[name]), (f"{name}, stages", sweeps.refined[name])):
            for row in one.rows():
                figures = (
                    f"{row['median_relative_gap']:.1e}",
                    f"{row['worst_relative_gap']:.1e}",
                    f"{row['median_relative_excess']:.1e}",
                    f"{row['median_support_recall']:.2f}",
                    f"{row['median_support_precision']:.2f}",
                    f"{row['median_n_spikes']:.0f}",
                    f"{row['n_ran_away']}",
                )
                rows.append((label, str(row["weight_bits"]), *figures))
    print(
        table(("dictionary", "bits", "gap", "worst", "excess", "recall", "precision", "spikes", "lost"), rows)
    )
    knees = []
    for name in sweeps.bits:
        for quantity, label in (("relative_gap", "certified gap"), ("relative_excess", "of the optimum")):
            found = [
                bits
                for group in (sweeps.bits, sweeps.refined, sweeps.registers)
                for _, bits in group[name].needed(figure=quantity)
            ]
            knees.append((name, label, *map(str, found)))
    print("\nThis many bits for 1 %:")
    print(table(("dictionary", "1 %", "weights", "weights, stages", "potentials and currents"), knees))
    print("\nMean objective of held-out patches, by the bits of a weight:")
    lines = [(name, *(f"{value:.4f}" for value in values)) for name, values in curves.items()]
    heads = ("dictionary", *map(str, learned_bits), "exact")
    print(table(heads, [line + ("",) * (len(heads) - len(line)) for line in lines]))
    print("\nLongest step within 1 %, by the width of registers:")
    print(
        table(
            ("bits", "step"), [(str(r["register_bits"]), str(s)) for r, s in sweeps.steps.needed("time_step")]
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
