"""Bits and steps that suffice: a LASSO on digital neurons, against its exact solution. A minute.

Three dictionaries have 256 or 128 atoms: random atoms, patches of photographs, and atoms that the two-phase
network learned from such patches.  Networks in integers code held-out signals, and every code has a certified
gap.  Curves are medians over the signals; a ring marks the value that reaches a gap of 1 % of 1/2
||signal||^2.  `examples.learn_quantised` learns with few bits.

    python -m examples.bits [--output DIR] [--signals N] [--duration T] [--samples N] [--bits B [B ...]]
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from dictlearn import learn_dictionary, normalise, random_dictionary, random_patches, remove_mean
from examples._common import BLUE, GREEN, ORANGE, PURPLE, RED, at_least, figure, parser, save, table
from examples._data import held_out, patch_signals, photographs
from examples.lava_lca import LCA1Layer, LCA2Layer
from snn import Clock
from snn.digital import DigitalFormat, FixedPoint
from solvers import LassoProblem, duality_gap, penalty_max, solve, solve_active_set
from solvers.methods import DigitalOneWindow, Stages

SIDE, N_ATOMS, N_LEARNED, N_ACTIVE = 8, 256, 128, 6
SHARE = 0.1  # penalty of a signal, in units of its `penalty_max`
PENALTY = 0.1  # penalty of the learned dictionary, for patches of norm one
LEAST_CONTRAST = 0.1
BITS = (3, 4, 5, 6, 7, 8, 10, 12)
REGISTER_BITS = (8, 10, 12, 14, 16, 18, 20, 24, 28)
TIME_STEPS = tuple(2.0**-k for k in range(7))
STEP_REGISTERS = (16, 20, 24)
DELAYS = (0, 1, 2, 4, 8)
STEP = 1 / 8
COLOURS = {"random": BLUE, "patches": ORANGE, "learned": GREEN}
# Format that the sweeps vary; its weights and drives have enough bits not to limit the results.
FORM = DigitalFormat(weights=FixedPoint(bits=12), bias=FixedPoint(bits=16))

# Rules of chips, with Loihi's widths: weights of 8 bits, drives of 13 bits, registers of 24 bits.
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
LABELS = {
    "weight_bits": "bits of a weight",
    "register_bits": "bits of potentials and currents",
    "delay": "steps of delay",
    "time_step": "step, in synaptic time constants",
    "relative_gap": "certified gap / (1/2 ||signal||²)",
    "relative_excess": "objective above the optimum / optimum",
}


@dataclass
class Sweep:
    """Results for all values of an axis; each entry of `figures` has the shape (n_values, n_signals)."""

    axis: str
    values: np.ndarray
    figures: dict[str, np.ndarray]

    def medians(self, figure: str = "relative_gap") -> np.ndarray:
        return np.median(self.figures[figure], axis=1)

    def enough(self, figure: str = "relative_gap", within: float = 0.01) -> float | None:
        """Return the longest step or delay, or the fewest bits, that suffice; None if none does."""
        good = self.medians(figure) <= within
        if self.axis == "time_step":
            return float(self.values[good].max()) if good.any() else None
        order = slice(None) if self.axis == "delay" else slice(None, None, -1)
        n_good = int(np.cumprod(good[order]).sum())
        return self.values[order][n_good - 1].item() if n_good else None

    def draw(self, ax: Axes, figure: str = "relative_gap", **style: Any) -> None:
        """Draw the medians of a figure, with a ring at the value that suffices for 1 %."""
        medians, knee = self.medians(figure), self.enough(figure)
        (line,) = ax.plot(self.values, medians, **{"marker": "o", "markersize": 4, **style})
        if knee is not None:
            ring = {"markersize": 10, "markerfacecolor": "none", "color": line.get_color()}
            ax.plot([knee], medians[self.values == knee], "o", **ring)
        ax.axhline(0.01, color="0.6", linewidth=0.8)
        ax.set(xlabel=LABELS[self.axis], ylabel=LABELS[figure], yscale="log")
        if self.axis == "time_step":
            ax.set_xscale("log", base=2)


def sweep(
    problem: LassoProblem,
    axis: str,
    values: Sequence[Any],
    form: DigitalFormat,
    *,
    time_step: float = 0.25,
    duration: float = 500.0,
    refine: bool = False,
) -> Sweep:
    """Solve a problem with digital neurons for all values of an axis."""
    exact = solve_active_set(problem)
    exact_support = exact.codes != 0.0
    figures: dict[str, list[np.ndarray]] = {}
    for value in values:
        with warnings.catch_warnings():  # gaps above the tolerance are results here
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "synaptic currents were beyond")
            time = Clock(value if axis == "time_step" else time_step, varied(form, axis, value))
            method = Stages if refine else DigitalOneWindow
            result = solve(problem, method(duration, time), tol=1e-9)
        support = result.codes != 0.0
        both = (support & exact_support).sum(axis=1)
        for name, of_signals in {
            "relative_gap": result.relative_gap,
            "relative_excess": np.maximum(result.objective - exact.objective, 0.0) / exact.objective,
            "support_recall": both / np.maximum(exact_support.sum(axis=1), 1),
            "support_precision": both / np.maximum(support.sum(axis=1), 1),
            "n_spikes": result.n_steps,
            "ran_away": result.info["ran_away"],
        }.items():
            figures.setdefault(name, []).append(of_signals)
    return Sweep(axis, np.array(values), {name: np.stack(each) for name, each in figures.items()})


def varied(form: DigitalFormat, axis: str, value: Any) -> DigitalFormat:
    """Return a format with another value of an axis; the axis of time steps does not change the format."""
    if axis == "weight_bits":
        return replace(form, weights=replace(form.weights, bits=value))
    if axis == "register_bits":
        return replace(form, potential_bits=value, current_bits=value)
    return replace(form, delay=value) if axis == "delay" else form


class Sweeps(NamedTuple):
    """The sweeps of each panel; keys are names of dictionaries or, in `steps`, widths of registers."""

    bits: dict[str, Sweep]
    refined: dict[str, Sweep]
    registers: dict[str, Sweep]
    steps: dict[int, Sweep]
    delays: dict[str, Sweep]


def patches(n: int, *, seed: int) -> np.ndarray:
    """Return patches of photographs in one channel; each patch has mean zero and norm one."""
    images = photographs()
    return normalise(
        remove_mean(random_patches(images, SIDE, n, rng=seed, least_contrast=LEAST_CONTRAST))[0]
    )[0]


def problems(learned: np.ndarray, n_signals: int) -> dict[str, LassoProblem]:
    """Return the coding problem of each dictionary."""
    rng = np.random.default_rng(0)
    random = normalise(rng.standard_normal((N_ATOMS, SIDE**2)))[0]
    codes = np.zeros((n_signals, N_ATOMS))
    for code in codes:
        signs = rng.choice([-1.0, 1.0], N_ACTIVE)
        code[rng.choice(N_ATOMS, N_ACTIVE, replace=False)] = signs * rng.uniform(0.5, 1.5, N_ACTIVE)
    chosen = patches(N_ATOMS + n_signals, seed=1)
    tested = patch_signals(held_out(photographs())[1], SIDE, n_signals, seed=3, contrast=LEAST_CONTRAST)
    return {
        "random": scaled(random, codes @ random),
        "patches": scaled(chosen[:N_ATOMS], chosen[N_ATOMS:]),
        "learned": LassoProblem(learned, tested, PENALTY, positive=True),
    }


def scaled(dictionary: np.ndarray, signals: np.ndarray) -> LassoProblem:
    """Return the problem whose penalty is SHARE times each signal's largest penalty."""
    return LassoProblem(dictionary, signals / (SHARE * penalty_max(dictionary, signals))[:, np.newaxis], 1.0)


def learn(n_samples: int) -> np.ndarray:
    """Return a dictionary that the two-phase network learns from patches."""
    images = held_out(photographs())[0]
    signals = patch_signals(images, SIDE, min(n_samples, 50_000), seed=2, contrast=LEAST_CONTRAST)
    start = random_dictionary(N_LEARNED, signals.shape[1], rng=0)
    return learn_dictionary(
        signals, start=start, penalty=PENALTY, n_samples=n_samples, rng=0, n_jobs=1
    ).dictionary


def measure(every: Mapping[str, LassoProblem], bits: Sequence[int], duration: float) -> Sweeps:
    """Return the sweeps of all dictionaries."""

    def each(axis: str, values: Sequence[int], **options: Any) -> dict[str, Sweep]:
        options = {"time_step": STEP, "duration": duration} | options
        return {name: sweep(problem, axis, values, FORM, **options) for name, problem in every.items()}

    def steps(registers: int) -> Sweep:
        form = varied(FORM, "register_bits", registers)
        return sweep(every["random"], "time_step", TIME_STEPS, form, duration=duration)

    return Sweeps(
        bits=each("weight_bits", bits),
        refined=each("weight_bits", bits, refine=True),
        registers=each("register_bits", REGISTER_BITS),
        steps={registers: steps(registers) for registers in STEP_REGISTERS},
        delays=each("delay", DELAYS, time_step=1 / 4),
    )


def rules_table(problem: LassoProblem, duration: float) -> list[tuple[str, ...]]:
    """Return gaps and message counts for all rules, in one run and in stages, and for Lava's networks."""
    rows = []
    for name, form in RULES.items():
        cells = [name]
        for kind in (DigitalOneWindow, Stages):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.filterwarnings("ignore", "synaptic currents were beyond")
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
            single = problem.subset(slice(signal, signal + 1))
            gaps.append(duality_gap(single, run.v1[np.newaxis] * network.unit)[0] / single.energies[0])
            messages.append(run.n_messages)
        name = f"Lava's {kind.__name__}, {LCA_STEPS} steps"
        rows.append((name, f"{np.median(gaps):.1e}", f"{np.median(messages):.0f}", "", ""))
    return rows


def draw(sweeps: Sweeps) -> Figure:
    picture = figure(10.0, 6.4)
    axes = picture.subplots(2, 3)
    for name, colour in COLOURS.items():
        style = {"color": colour, "label": name}
        sweeps.bits[name].draw(axes[0, 0], **style)
        sweeps.refined[name].draw(axes[0, 0], color=colour, label=f"{name}, stages", linestyle="--")
        sweeps.bits[name].draw(axes[0, 1], figure="relative_excess", **style)
        sweeps.registers[name].draw(axes[0, 2], **style)
        sweeps.delays[name].draw(axes[1, 1], **style)
    axes[0, 0].set(title="weights", ylim=(1e-6, 1e2))
    axes[0, 1].set(title="weights: the objective itself", ylim=(1e-7, 10.0))
    axes[0, 2].set(title="width of potentials and currents")
    for (registers, steps), colour in zip(sweeps.steps.items(), (RED, PURPLE, BLUE), strict=True):
        steps.draw(axes[1, 0], color=colour, label=f"registers of {registers} bits")
    axes[1, 0].set(title="steps, random dictionary")
    axes[1, 1].set(title="delay, steps of 1/4")
    axes[1, 0].legend(frameon=False, fontsize="small")
    axes[1, 2].set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[1, 2].legend(handles, labels, frameon=False, loc="center")
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--signals", type=at_least(1), default=20, help="signals of each dictionary")
    command.add_argument("--duration", type=at_least(1.0, kind=float), default=500.0, help="time constants")
    command.add_argument("--samples", type=at_least(1), default=10_000, help="samples to learn from")
    command.add_argument("--bits", type=at_least(2), nargs="+", default=list(BITS), help="of a weight")
    options = command.parse_args(arguments)
    bits = sorted(set(options.bits))
    every = problems(learn(options.samples), options.signals)
    sweeps = measure(every, bits, options.duration)
    report(sweeps)
    print("\nRules, at Loihi's widths, on random atoms; tol 1e-4:")
    rules = rules_table(every["random"], options.duration)
    print(table(("rule", "gap", "messages", "gap, stages", "messages, stages"), rules))
    save(draw(sweeps), options.output, "bits.png")
    return 0


def report(sweeps: Sweeps) -> None:
    rows, knees = [], []
    for name in sweeps.bits:
        for label, curves in ((name, sweeps.bits[name]), (f"{name}, stages", sweeps.refined[name])):
            gap, excess, recall, precision, spikes, _ = (curves.medians(figure) for figure in curves.figures)
            worst, lost = (curves.figures["relative_gap"].max(axis=1), curves.figures["ran_away"].sum(axis=1))
            rows += [
                (
                    label, str(curves.values[k]), f"{gap[k]:.1e}", f"{worst[k]:.1e}", f"{excess[k]:.1e}",
                    f"{recall[k]:.2f}", f"{precision[k]:.2f}", f"{spikes[k]:.0f}", str(int(lost[k])),
                )
                for k in range(len(gap))
            ]  # fmt: skip
        for quantity, label in (("relative_gap", "certified gap"), ("relative_excess", "of the optimum")):
            groups = (sweeps.bits, sweeps.refined, sweeps.registers)
            knees.append((name, label, *(str(group[name].enough(quantity)) for group in groups)))
    heads = ("dictionary", "bits", "gap", "worst", "excess", "recall", "precision", "spikes", "lost")
    print(table(heads, rows))
    print("\nThis many bits for 1 %:")
    print(table(("dictionary", "1 %", "weights", "weights, stages", "potentials and currents"), knees))
    print("\nLongest step within 1 %, by the width of registers:")
    print(table(("bits", "step"), [(str(bits), str(steps.enough())) for bits, steps in sweeps.steps.items()]))


if __name__ == "__main__":
    raise SystemExit(main())
