"""Time steps and read-outs: how close a spiking network comes to the optimum, and when. Ten seconds.

The upper panels follow Tang, Lin and Davies (2017), arXiv:1705.05475, Figure 2: 400 neurons code random
mixtures of 8 of 400 random atoms with 64 features, by non-negative codes (CLASSO).  The left panel compares
networks on clocks of several steps with the exact network, the right panel read-outs of the exact network.

The lower panels show a certificate that needs no optimum: the duality gap of codes read through a smooth
window, for 256 neurons and mixtures of 6 atoms.  The left panel has the clock of the papers (Euler's steps,
reset to zero), and the right panel has a clock that keeps charge (exact steps, threshold subtracted).

    python -m examples.time_steps_and_read_outs [--output DIR] [--duration T] [--signals N]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.linear_model import Lasso

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure, parser, save, table
from snn import Clock, RealNeuron, SimulationResult, SpikeTrain, SpikingNetwork, simulate
from snn.pictures import TIME_LABEL
from solvers import LassoProblem, duality_gap, lasso_network, objective, penalty_max

N_ATOMS, N_FEATURES, N_ACTIVE = 400, 64, 8
PENALTY = 0.1
TIME_STEPS = {0.1: RED, 1.0 / 32.0: ORANGE, 0.01: GREEN}
EULER, PAPERS, CHARGE = "Euler, threshold subtracted", "Euler, reset to zero", "charge kept"
CLOCKS = {
    PAPERS: RealNeuron(integration="euler", reset="zero"),
    EULER: RealNeuron(integration="euler"),
    CHARGE: RealNeuron(),
}
LINES = {PAPERS: "-", EULER: "--", CHARGE: ":"}
# Sizes of the problems with certified gaps, and their penalty in units of the signal's `penalty_max`.
N_CERTIFIED_ATOMS, N_CERTIFIED_ACTIVE, CERTIFIED_PENALTY = 256, 6, 0.1
CERTIFIED_DURATION = 1280.0
INVERSE_STEPS = (4, 8, 16, 32, 64, 100)
STEP_COLOURS = (RED, ORANGE, GREEN, SKY, BLUE, PURPLE)  # colours of steps, from coarse to fine
LATE_START = 10.0  # start of the second read-out, in synaptic time constants
MEMORY = 100.0  # time constant of the exponential weights, in synaptic time constants


def mixtures(
    n_signals: int, rng: np.random.Generator, *, n_atoms: int = N_ATOMS, n_active: int = N_ACTIVE
) -> LassoProblem:
    """Return the problem of coding mixtures of a few random atoms of norm one."""
    dictionary = rng.standard_normal((n_atoms, N_FEATURES))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    codes = np.zeros((n_signals, n_atoms))
    for code in codes:
        code[rng.choice(n_atoms, n_active, replace=False)] = rng.uniform(0.5, 1.5, n_active)
    return LassoProblem(dictionary, codes @ dictionary, PENALTY, positive=True)


def certified_problems(n_signals: int, rng: np.random.Generator) -> list[LassoProblem]:
    """Return problems of one signal each, with CERTIFIED_PENALTY times the signal's largest penalty."""
    together = mixtures(n_signals, rng, n_atoms=N_CERTIFIED_ATOMS, n_active=N_CERTIFIED_ACTIVE)
    dictionary, signals = together.dictionary, together.signals
    penalties = CERTIFIED_PENALTY * penalty_max(dictionary, signals, positive=True)
    return [
        LassoProblem(dictionary, signals[[k]], penalty, positive=True) for k, penalty in enumerate(penalties)
    ]


def relative_error(problem: LassoProblem) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that computes (E - E*) / E* of one signal's codes; scikit-learn finds E*."""
    alpha = problem.l1_weights[0] / N_FEATURES
    lasso = Lasso(alpha=alpha, fit_intercept=False, positive=True, tol=1e-12, max_iter=1_000_000)
    code = lasso.fit(problem.dictionary.T, problem.signals[0]).coef_
    optimum = objective(problem, code[np.newaxis])[0]

    def error(codes: np.ndarray) -> np.ndarray:
        repeated = problem.subset(np.zeros(len(codes), dtype=int))
        return objective(repeated, codes) / optimum - 1.0

    return error


def fading_rate(spikes: SpikeTrain, time: float) -> np.ndarray:
    """Return spike rates with the weights exp(-age / MEMORY), divided by the integral of the weights."""
    n_spikes = np.searchsorted(spikes.times, time, side="right")
    weights = np.exp((spikes.times[:n_spikes] - time) / MEMORY)
    counts = np.bincount(spikes.neurons[:n_spikes], weights, spikes.n_neurons)
    return counts / (-MEMORY * np.expm1(-time / MEMORY))


def read_outs(run: SimulationResult, times: np.ndarray) -> dict[str, np.ndarray]:
    """Return the codes of each read-out at each time; codes before the start of a read-out are NaN."""
    spikes = run.spikes
    late = times > 1.5 * LATE_START
    since_late_start = np.full((len(times), spikes.n_neurons), np.nan)
    since_late_start[late] = spikes.rate_curve(times[late], start=LATE_START)
    currents = run.record.average_current(times)
    # The means over [0, t] and [0, t/2] give the mean over [t/2, t].
    late_currents = 2.0 * currents - run.record.average_current(times / 2.0)
    threshold = run.network.firing_threshold
    fading = [fading_rate(spikes, time) for time in times]
    return {
        "spike rate since 0": spikes.rate_curve(times),
        f"spike rate since {LATE_START:g}": since_late_start,
        "thresholded average current": np.maximum(currents, 0.0) / threshold,
        "the same since t/2": np.maximum(late_currents, 0.0) / threshold,
        f"exponentially weighted rate (memory {MEMORY:g})": np.array(fading),
        "rate through a smooth window": np.array([spikes.smooth_rate(stop=time) for time in times]),
    }


def measure(problem: LassoProblem, duration: float, times: np.ndarray) -> dict[str | tuple, np.ndarray]:
    """Return, for each kind of run, the error of each signal at each time, shape (n_signals, n_times).

    The key of a run on a clock is (time step, clock); the key of an exact run is the name of its read-out.
    """
    errors: dict = {}
    for signal in range(problem.n_signals):
        error = relative_error(problem.subset(slice(signal, signal + 1)))
        network = lasso_network(problem, signal)
        for time_step in TIME_STEPS:
            for clock, neuron in CLOCKS.items():
                run = simulate(network, duration, Clock(time_step, neuron), record_spikes=True)
                curve = error(run.spikes.rate_curve(times))
                errors.setdefault((time_step, clock), []).append(curve)
        exact = simulate(network, duration, record_spikes=True)
        for name, codes in read_outs(exact, times).items():
            exists = np.isfinite(codes).all(axis=1)
            curve = np.full(len(times), np.nan)
            curve[exists] = error(codes[exists])
            errors.setdefault(name, []).append(curve)
    return {kind: np.array(curves) for kind, curves in errors.items()}


def certified_gaps(
    problem: LassoProblem, network: SpikingNetwork, spikes: SpikeTrain, times: np.ndarray
) -> np.ndarray:
    """Return the certified gap at each time, in units of half the squared norm of the only signal.

    The code is the better of two codes: the smooth rates, and max(u, 0) / theta with the currents u that the
    smooth rates cause.
    """
    smooth = np.array([spikes.smooth_rate(stop=time) for time in times])
    currents = network.soma_bias + np.array([network.weights.transpose_product(rate) for rate in smooth])
    codes = np.concatenate([smooth, np.maximum(currents, 0.0) / network.firing_threshold])
    gaps = duality_gap(problem.subset(np.zeros(len(codes), dtype=int)), codes)
    return gaps.reshape(2, -1).min(axis=0) / (0.5 * problem.signals[0] @ problem.signals[0])


def certify(n_signals: int, times: np.ndarray) -> dict[str | tuple, np.ndarray]:
    """Return, for each kind of run, the certified gap of each signal at each time, (n_signals, n_times).

    The key of a run on a clock is (clock, inverse of its step); the key of the exact run is "events".
    """
    gaps: dict = {}
    for problem in certified_problems(n_signals, np.random.default_rng(1)):
        network = lasso_network(problem)
        for clock in (PAPERS, CHARGE):
            for inverse in INVERSE_STEPS:
                run = simulate(network, times[-1], Clock(1.0 / inverse, CLOCKS[clock]), record_spikes=True)
                gaps.setdefault((clock, inverse), []).append(
                    certified_gaps(problem, network, run.spikes, times)
                )
        run = simulate(network, times[-1], record_spikes=True)
        gaps.setdefault("events", []).append(certified_gaps(problem, network, run.spikes, times))
    return {kind: np.array(curves) for kind, curves in gaps.items()}


def typical(errors: np.ndarray) -> np.ndarray:
    """Return the geometric mean over signals, shape (n_times,)."""
    return np.exp(np.log(np.maximum(errors, 1e-16)).mean(axis=0))


def floor(errors: np.ndarray, times: np.ndarray) -> float:
    """Return the typical error in the second half of a run."""
    return float(np.exp(np.log(typical(errors)[times >= times[-1] / 2.0]).mean()))


def draw(errors: dict, times: np.ndarray, gaps: dict, gap_times: np.ndarray) -> Figure:
    picture = figure(10.0, 9.6)
    upper, lower = picture.subfigures(2, 1)
    draw_errors(*upper.subplots(1, 2, sharey=True), errors, times)
    upper.suptitle(f"{N_ATOMS} neurons, {N_FEATURES} features: error of the objective, geometric mean")
    draw_gaps(*lower.subplots(1, 2, sharey=True), gaps, gap_times)
    n_signals = len(gaps["events"])
    lower.suptitle(
        f"{N_CERTIFIED_ATOMS} neurons, {N_FEATURES} features, read through a smooth window: certified gap, "
        f"median of {n_signals} signals"
    )
    return picture


def draw_errors(clocks: Axes, readings: Axes, errors: dict, times: np.ndarray) -> None:
    exact = "spike rate since 0"
    clocks.loglog(
        times, typical(errors[exact]), color="black", linewidth=2.5, alpha=0.5, label="from event to event"
    )
    for clock, line in LINES.items():
        # A clock that keeps charge has the same curve for all steps.
        for time_step in TIME_STEPS if clock != CHARGE else (max(TIME_STEPS),):
            clocks.loglog(
                times,
                typical(errors[time_step, clock]),
                color=TIME_STEPS[time_step],
                linestyle=line,
                linewidth=1.2 if clock != CHARGE else 2.0,
                label=f"step {time_step:.4g}, {clock}",
            )
    clocks.set(title="Time steps, read out by the spike rate since 0")
    names = [name for name in errors if isinstance(name, str)]
    for name, colour in zip(names, ("black", PURPLE, BLUE, GREEN, GREY, RED), strict=True):
        readings.loglog(times, typical(errors[name]), color=colour, linewidth=1.4, label=name)
    readings.set(title="Read-outs of the exact run, from event to event")
    finish((clocks, readings), times)
    clocks.set_ylabel("(E - E*) / E*")


def draw_gaps(papers: Axes, charge: Axes, gaps: dict, times: np.ndarray) -> None:
    titles = {
        PAPERS: "The papers' clock (Euler, reset to zero): a floor",
        CHARGE: "A clock that keeps charge: no floor",
    }
    for panel, clock in ((papers, PAPERS), (charge, CHARGE)):
        events = np.median(gaps["events"], axis=0)
        panel.loglog(times, events, color="black", linewidth=2.5, alpha=0.5, label="from event to event")
        for inverse, colour in zip(INVERSE_STEPS, STEP_COLOURS, strict=True):
            median = np.median(gaps[clock, inverse], axis=0)
            panel.loglog(times, median, color=colour, linewidth=1.4, label=f"step 1/{inverse}")
        panel.set(title=titles[clock])
    finish((papers, charge), times)
    papers.set_ylabel("certified gap / (1/2 ||s||^2)")


def finish(panels: Sequence[Axes], times: np.ndarray) -> None:
    """Label the axes of all panels of a row."""
    for panel in panels:
        panel.set(xlabel=TIME_LABEL, xlim=(times[0], times[-1]))
        panel.grid(alpha=0.3)
        panel.legend(loc="lower left", fontsize="small")


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--duration", type=float, default=10_000.0, help="in synaptic time constants")
    command.add_argument("--signals", type=int, default=6, help="number of signals to average over")
    command.add_argument("--certified", type=int, default=15, help="number of signals to certify")
    options = command.parse_args(arguments)
    problem = mixtures(options.signals, np.random.default_rng(0))
    times = np.geomspace(2.0, options.duration, 150)
    errors = measure(problem, options.duration, times)
    gap_times = np.geomspace(10.0, CERTIFIED_DURATION, 50)
    gaps = certify(options.certified, gap_times)

    print(f"{N_ATOMS} spiking neurons: (E - E*) / E*, geometric mean over {problem.n_signals} signals")
    print()
    rows = [
        (f"{time_step:.4g}", *(f"{floor(errors[time_step, clock], times):.1e}" for clock in CLOCKS))
        for time_step in TIME_STEPS
    ]
    exact = f"{floor(errors['spike rate since 0'], times):.1e}"
    print(f"on a clock, t = {options.duration / 2:,g} to {options.duration:,g}")
    print(table(("time step", *CLOCKS), [*rows, ("none", exact, exact, exact)]))
    print()
    marks = [time for time in (10.0, 100.0, 1_000.0, 10_000.0) if time <= options.duration]
    rows = []
    for name, curves in errors.items():
        if isinstance(name, str):
            rows.append((name, *readings_at(marks, times, typical(curves))))
    print(table(("read-out at", *(f"t = {time:,g}" for time in marks)), rows))
    print()
    print(
        f"{N_CERTIFIED_ATOMS} spiking neurons, smooth window: certified gap / (1/2 ||s||^2), "
        f"median over {options.certified} signals"
    )
    print()
    marks = [20.0, 80.0, 320.0, CERTIFIED_DURATION]
    rows = []
    for kind, curves in gaps.items():
        name = "events" if kind == "events" else f"step 1/{kind[1]}, {kind[0]}"
        rows.append((name, *readings_at(marks, gap_times, np.median(curves, axis=0))))
    print(table(("run", *(f"t = {time:,g}" for time in marks)), rows))
    print()
    save(draw(errors, times, gaps, gap_times), options.output, "time_steps_and_read_outs.png")
    return 0


def readings_at(marks: Sequence[float], times: np.ndarray, curve: np.ndarray) -> list[str]:
    """Return the interpolated values of a curve at the times `marks`, as text."""
    values = np.interp(np.log(marks), np.log(times), np.log(curve))
    return ["-" if np.isnan(value) else f"{np.exp(value):.1e}" for value in values]


if __name__ == "__main__":
    raise SystemExit(main())
