"""Imperfect neurons, repaired by stages: certified gaps against the size of each imperfection. Two minutes.

Networks on a clock code patches of photographs, with atoms that a two-phase network has learned.  Their
neurons leak, are refractory, differ from each other, are noisy or lose spikes, or their synapses have
different delays.  Patches are in two channels, so that all weights inhibit.  Three curves have codes from the
rates of one run, from stages (`solve_spiking`), and from stages of neurons in integers (`solve_digital`).
The fourth curve has the same patches in one channel, coded in stages, with signed atoms and codes; the two
neurons of an atom excite each other.  Curves are medians over patches and seeds.  A ring marks the knee,
up to which all medians are small enough: for rates, at most twice the gap of perfect neurons; for stages, at
most `tol`.

    python -m examples.imperfect_neurons [--output DIR] [--signals N] [--seeds N] [--duration T] [--samples N]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from dictlearn import join_channels, learn_dictionary, normalise
from examples._common import BLUE, GREEN, ORANGE, RED, at_least, figure, parser, save, table
from examples._data import patch_signals, photographs
from examples._small_patches import LEAST_CONTRAST, N_ATOMS, SIDE
from snn import Clock, Imperfections, RunawayError, simulate
from snn.digital import DigitalFormat, FixedPoint
from solvers import LassoProblem, duality_gap, lasso_network, penalty_max, solve_digital, solve_spiking

STEP = 1 / 4
SHARE = 0.1  # penalty of a patch, in units of its `penalty_max`
TOL = 1e-6
DIGITAL_TOL = 1e-4
RATE_TIME = 1_000.0
FORM = DigitalFormat(weights=FixedPoint(bits=12), bias=FixedPoint(bits=16), decay_bits=14)
RATES, STAGES, INTEGERS, PAIRS = "rates of one run", "stages", "stages, in integers", "stages, sign pairs"
COLOURS = {RATES: ORANGE, STAGES: BLUE, INTEGERS: GREEN, PAIRS: RED}
# Spikes per time constant of the neuron with the largest drive, if no other neuron fired.
RATE_PER_DRIVE = 0.5


class Kind(NamedTuple):
    """One kind of imperfection."""

    label: str
    sizes: tuple[float, ...]
    # Function that returns imperfections from a size, a seed and a number of neurons.
    of: Callable[[float, int, int], Imperfections]


def doubled(first: float, last: float) -> tuple[float, ...]:
    n_sizes = round(np.log2(last / first)) + 1
    return tuple(first * 2.0**k for k in range(n_sizes))


def one(name: str) -> Callable[[float, int, int], Imperfections]:
    return lambda size, seed, n_neurons: Imperfections(**{name: size}, seed=seed)


def synaptic_delays(size: float, seed: int, n_neurons: int) -> Imperfections:
    """Return imperfections with a random delay for each synapse, from zero to twice the mean delay."""
    delays = np.random.default_rng(seed).uniform(0.0, 2.0 * size, (n_neurons, n_neurons))
    return Imperfections(delays=delays, seed=seed)


KINDS = {
    "leak": Kind("leak (1 / time constant)", doubled(1 / 1024, 1.0), one("leak")),
    "refractory time": Kind("refractory time (time constants)", doubled(1 / 4, 16.0), one("refractory_time")),
    "delays": Kind("mean delay (time constants)", doubled(1 / 4, 16.0), synaptic_delays),
    "thresholds": Kind("mismatch of thresholds (relative)", doubled(1 / 128, 2.0), one("threshold_mismatch")),
    "weights": Kind("mismatch of weights (relative)", doubled(1 / 128, 2.0), one("weight_mismatch")),
    "noise": Kind("noise (thresholds / root of time)", doubled(1 / 256, 1.0), one("potential_noise")),
    "lost spikes": Kind("spikes lost (probability)", doubled(1 / 256, 1 / 2), one("lost_spikes")),
}


class Measured(NamedTuple):
    """Results of one read-out at one size of an imperfection: arrays have an entry per patch and seed."""

    # Certified gap, in units of 1/2 ||signal||^2.
    gap: np.ndarray
    spikes: np.ndarray


class Problems(NamedTuple):
    """The coding problems of the same patches in two forms."""

    # Problem of patches in two channels, with non-negative codes.
    inhibition: LassoProblem
    # Problem of patches in one channel, with signed codes.
    pairs: LassoProblem


def patch_problems(n_signals: int, n_samples: int) -> Problems:
    """Return the problems of patches; a penalty is SHARE times the largest penalty of its patch."""
    samples = patch_signals(photographs(), SIDE, n_samples, seed=0, contrast=LEAST_CONTRAST)
    learner = learn_dictionary(samples, N_ATOMS, penalty=0.1, n_samples=n_samples, rng=0, n_jobs=1)
    signals = patch_signals(photographs(), SIDE, n_signals, seed=3, contrast=LEAST_CONTRAST)
    return Problems(
        scaled(normalise(learner.dictionary)[0], signals, positive=True),
        scaled(normalise(join_channels(learner.dictionary))[0], join_channels(signals), positive=False),
    )


def scaled(atoms: np.ndarray, signals: np.ndarray, *, positive: bool) -> LassoProblem:
    largest = penalty_max(atoms, signals, positive=positive)
    return LassoProblem(atoms, signals / (SHARE * largest)[:, np.newaxis], 1.0, positive=positive)


def rates(problem: LassoProblem, imperfections: Imperfections, duration: float) -> Measured:
    """Return the results of spike rates in one run from rest, for non-negative codes."""
    codes, spikes = np.zeros((problem.n_signals, problem.n_atoms)), np.zeros(problem.n_signals)
    for signal in range(problem.n_signals):
        scale = float(lasso_network(problem, signal).soma_bias.max()) / RATE_PER_DRIVE
        network = lasso_network(problem, signal, scale=scale)
        try:
            run = simulate(network, duration, Clock(STEP, imperfections=imperfections))
        except RunawayError as runaway:
            run = runaway.result
        codes[signal], spikes[signal] = scale * run.spike_rate, run.n_spikes
    return Measured(duality_gap(problem, codes) / problem.energies, spikes)


def measure(problems: Problems, kind: Kind, size: float, seed: int, duration: float) -> dict[str, Measured]:
    """Return the results of all read-outs for one chip."""
    n_atoms = problems.inhibition.n_atoms
    chip, of_pairs = kind.of(size, seed, n_atoms), kind.of(size, seed, 2 * n_atoms)
    common: dict[str, Any] = {"max_duration": duration}
    clock, of_pairs = (Clock(STEP, imperfections=each) for each in (chip, of_pairs))
    integers_of_chip = Clock(STEP, FORM, imperfections=chip)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stages = solve_spiking(problems.inhibition, time=clock, tol=TOL, **common)
        integers = solve_digital(problems.inhibition, time=integers_of_chip, tol=DIGITAL_TOL, **common)
        pairs = solve_spiking(problems.pairs, time=of_pairs, tol=TOL, **common)
    return {
        RATES: rates(problems.inhibition, chip, RATE_TIME),
        STAGES: Measured(stages.relative_gap, stages.n_steps),
        INTEGERS: Measured(integers.relative_gap, integers.n_steps),
        PAIRS: Measured(pairs.relative_gap, pairs.n_steps),
    }


class Curve(NamedTuple):
    """Results of one read-out for several sizes of one imperfection; the first size is 0."""

    sizes: np.ndarray
    # Medians over patches and seeds.
    gap: np.ndarray
    quartiles: np.ndarray
    spikes: np.ndarray

    def knee(self, limit: float) -> int:
        """Return the index of the largest size up to which no median gap is above `limit`."""
        return int(np.argmax(np.append(self.gap > limit, True))) - 1


def curves_of(kind: Kind, problems: Problems, n_seeds: int, duration: float) -> dict[str, Curve]:
    """Return the curves of one imperfection."""
    results: dict[str, list[Measured]] = {name: [] for name in COLOURS}
    sizes = (0.0, *kind.sizes)
    for size in sizes:
        runs = [measure(problems, kind, size, seed, duration) for seed in range(n_seeds)]
        for name in results:
            gap, spikes = zip(*(run[name] for run in runs), strict=True)
            results[name].append(Measured(np.concatenate(gap), np.concatenate(spikes)))
    return {
        name: Curve(
            np.array(sizes),
            np.array([np.median(of_size.gap) for of_size in measured]),
            np.array([np.quantile(of_size.gap, [0.25, 0.75]) for of_size in measured]).T,
            np.array([np.median(of_size.spikes) for of_size in measured]),
        )
        for name, measured in results.items()
    }


def limit_of(name: str, curve: Curve) -> float:
    """Return the largest gap that the knee of a read-out allows."""
    return {RATES: 2.0 * float(curve.gap[0]), INTEGERS: DIGITAL_TOL}.get(name, TOL)


def draw_panel(ax: Axes, kind: Kind, curves: Mapping[str, Curve]) -> None:
    for name, curve in curves.items():
        sizes, gap = curve.sizes[1:], curve.gap[1:]
        ax.plot(sizes, gap, "o-", markersize=3, linewidth=1.2, color=COLOURS[name], label=name)
        ax.fill_between(sizes, *curve.quartiles[:, 1:], color=COLOURS[name], alpha=0.15, linewidth=0.0)
        ax.axhline(curve.gap[0], color=COLOURS[name], linestyle=":", linewidth=0.8)
        knee = curve.knee(limit_of(name, curve))
        if knee > 0:
            ax.plot(
                curve.sizes[knee], curve.gap[knee], "o", markersize=10, markerfacecolor="none", color="black"
            )
    ax.set(xscale="log", yscale="log", xlabel=kind.label, ylim=(1e-7, 10.0))


def draw(by_kind: Mapping[str, Mapping[str, Curve]]) -> Figure:
    picture = figure(10.5, 6.4)
    panels = picture.subplots(2, 4)
    for ax, (name, curves) in zip(panels.flat, by_kind.items(), strict=False):
        draw_panel(ax, KINDS[name], curves)
    for ax in panels[:, 0]:
        ax.set_ylabel("certified gap / (1/2 ||signal||²)")
    last = panels.flat[-1]
    last.axis("off")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    ring = panels[0, 0].plot([], [], "o", markersize=10, markerfacecolor="none", color="black")[0]
    dotted = panels[0, 0].plot([], [], ":", color="black", linewidth=0.8)[0]
    last.legend(
        [*handles, ring, dotted], [*labels, "knee", "without the imperfection"], frameon=False, loc="center"
    )
    return picture


def report(by_kind: Mapping[str, Mapping[str, Curve]]) -> None:
    """Print the knees, and the cost of an imperfection at its knee."""
    rows = []
    for name, curves in by_kind.items():
        cells = [name]
        for readout, curve in curves.items():
            knee = curve.knee(limit_of(readout, curve))
            largest = f"{curve.sizes[knee]:.3g}" if knee >= 0 else "none"
            cells.append(f"{largest}{' or more' if knee == len(curve.sizes) - 1 else ''}")
        knee = max(curves[STAGES].knee(TOL), 0)
        cells += [f"{curves[RATES].gap[knee]:.1e}", f"{curves[STAGES].spikes[knee]:.0f}"]
        rows.append(tuple(cells))
    heads = (
        "imperfection",
        *(f"knee, {name}" for name in COLOURS),
        "gap of rates there",
        "spikes of stages there",
    )
    print(table(heads, rows))
    first = next(iter(by_kind.values()))
    for readout, curve in first.items():
        print(f"perfect, {readout}: gap {curve.gap[0]:.1e}, {curve.spikes[0]:.0f} spikes")


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--signals", type=at_least(1), default=12, help="patches")
    command.add_argument("--seeds", type=at_least(1), default=3, help="chips, each with its noise")
    command.add_argument(
        "--duration", type=at_least(1.0, kind=float), default=2_000.0, help="limit of stages"
    )
    command.add_argument("--samples", type=at_least(1), default=10_000, help="to learn atoms from")
    command.add_argument("--only", choices=list(KINDS), nargs="+", default=list(KINDS), help="imperfections")
    options = command.parse_args(arguments)
    problems = patch_problems(options.signals, options.samples)
    by_kind = {}
    for name in options.only:
        by_kind[name] = curves_of(KINDS[name], problems, options.seeds, options.duration)
        print(f"measured: {name}", flush=True)
    report(by_kind)
    save(draw(by_kind), options.output, "imperfect_neurons.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
