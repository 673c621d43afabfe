"""Time steps and read-outs: how close a spiking network comes to the optimum, and when.

After Tang, Lin and Davies (2017), arXiv:1705.05475, Figure 2: 400 neurons code random mixtures of 8 of
400 random atoms with 64 features each, without negative entries (CLASSO).  On the left, networks on
clocks of several steps beside the exact one; on the right, several read-outs of the exact one.

    python -m examples.time_steps_and_read_outs [--output DIR] [--duration T] [--signals N]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import Lasso

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure, parser, save, table
from snn import SimulationResult, plotting, rates, simulate, simulate_clocked, traces
from solvers import LassoProblem, lasso_network
from solvers.optimality import objective

N_ATOMS, N_FEATURES, N_ACTIVE = 400, 64, 8
PENALTY = 0.1
TIME_STEPS = {0.1: RED, 1.0 / 32.0: ORANGE, 0.01: GREEN}
RESETS = {"zero": "-", "subtract": "--"}
LATE_START = 10.0  # where the second read-out starts to count
MEMORY = 100.0  # time constant of the exponential weights


def mixtures(n_signals: int, rng: np.random.Generator) -> LassoProblem:
    """Return the problem: random unit atoms, and signals that mix a few of them."""
    dictionary = rng.standard_normal((N_ATOMS, N_FEATURES))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    codes = np.zeros((n_signals, N_ATOMS))
    for code in codes:
        code[rng.choice(N_ATOMS, N_ACTIVE, replace=False)] = rng.uniform(0.5, 1.5, N_ACTIVE)
    return LassoProblem(dictionary, codes @ dictionary, PENALTY, positive=True)


def relative_error(problem: LassoProblem) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map from codes of a problem of one signal to (E - E*) / E*, E* by scikit-learn."""
    lasso = Lasso(
        alpha=PENALTY / N_FEATURES, fit_intercept=False, positive=True, tol=1e-12, max_iter=1_000_000
    )
    code = lasso.fit(problem.dictionary.T, problem.signals[0]).coef_
    optimum = objective(problem, code[np.newaxis])[0]

    def error(codes: np.ndarray) -> np.ndarray:
        repeated = problem.subset(np.zeros(len(codes), dtype=int))
        return objective(repeated, codes) / optimum - 1.0

    return error


def read_outs(run: SimulationResult, times: np.ndarray) -> dict[str, np.ndarray]:
    """Return the codes at each time by each read-out, NaN where it does not exist yet."""
    spikes = run.spikes
    late = times > 1.5 * LATE_START
    since_late_start = np.full((len(times), spikes.n_neurons), np.nan)
    since_late_start[late] = rates.rate_curve(spikes, times[late], start=LATE_START)
    currents = traces.average_soma_current(run.network, spikes, times)
    # The mean over [t/2, t] from the means over [0, t] and [0, t/2].
    late_currents = 2.0 * currents - traces.average_soma_current(run.network, spikes, times / 2.0)
    threshold = run.network.firing_threshold
    fading = [rates.exponential_rate(spikes, time_constant=MEMORY, stop=time) for time in times]
    return {
        "spike rate since 0": rates.rate_curve(spikes, times),
        f"spike rate since {LATE_START:g}": since_late_start,
        "thresholded average current": np.maximum(currents, 0.0) / threshold,
        "the same since t/2": np.maximum(late_currents, 0.0) / threshold,
        f"exponentially weighted rate (memory {MEMORY:g})": np.array(fading),
    }


def measure(problem: LassoProblem, duration: float, times: np.ndarray) -> dict[str | tuple, np.ndarray]:
    """Return the error at each time of each signal, shape (n_signals, n_times), by kind of run.

    Keys are (time step, reset) for runs on a clock, and the name of the read-out for exact runs.
    """
    errors: dict = {}
    for signal in range(problem.n_signals):
        error = relative_error(problem.subset(slice(signal, signal + 1)))
        network = lasso_network(problem, signal)
        for time_step in TIME_STEPS:
            for reset in RESETS:
                run = simulate_clocked(
                    network, duration, time_step=time_step, reset=reset, record_spikes=True
                )
                curve = error(rates.rate_curve(run.spikes, times))
                errors.setdefault((time_step, reset), []).append(curve)
        exact = simulate(network, duration, record_spikes=True)
        for name, codes in read_outs(exact, times).items():
            exists = np.isfinite(codes).all(axis=1)
            curve = np.full(len(times), np.nan)
            curve[exists] = error(codes[exists])
            errors.setdefault(name, []).append(curve)
    return {kind: np.array(curves) for kind, curves in errors.items()}


def typical(errors: np.ndarray) -> np.ndarray:
    """Return the geometric mean over signals, shape (n_times,)."""
    return np.exp(np.log(np.maximum(errors, 1e-16)).mean(axis=0))


def floor(errors: np.ndarray, times: np.ndarray) -> float:
    """Return the typical error in the second half of the time."""
    return float(np.exp(np.log(typical(errors)[times >= times[-1] / 2.0]).mean()))


def draw(errors: dict, times: np.ndarray) -> Figure:
    picture = figure(12.0, 5.2)
    clocks, readings = picture.subplots(1, 2, sharey=True)
    exact = "spike rate since 0"
    for (time_step, reset), curves in ((k, v) for k, v in errors.items() if isinstance(k, tuple)):
        clocks.loglog(
            times,
            typical(curves),
            color=TIME_STEPS[time_step],
            linestyle=RESETS[reset],
            linewidth=1.2,
            label=f"step {time_step:.4g}, "
            + ("reset to zero" if reset == "zero" else "threshold subtracted"),
        )
    clocks.loglog(times, typical(errors[exact]), color="black", linewidth=1.5, label="exact, event-driven")
    clocks.set(title="Time steps, read out by the spike rate since 0")

    names = [name for name in errors if isinstance(name, str)]
    for name, colour in zip(names, ("black", PURPLE, BLUE, GREEN, GREY), strict=True):
        readings.loglog(times, typical(errors[name]), color=colour, linewidth=1.4, label=name)
    readings.set(title="Read-outs of the exact, event-driven run")
    for panel in (clocks, readings):
        panel.set(xlabel=plotting.TIME_LABEL, xlim=(times[0], times[-1]))
        panel.grid(alpha=0.3)
        panel.legend(loc="lower left", fontsize="small")
    clocks.set_ylabel("(E - E*) / E*")
    picture.suptitle(f"{N_ATOMS} spiking neurons: error of the objective against time")
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--duration", type=float, default=10_000.0, help="in synaptic time constants")
    command.add_argument("--signals", type=int, default=6, help="how many signals to average over")
    options = command.parse_args(arguments)
    problem = mixtures(options.signals, np.random.default_rng(0))
    times = np.geomspace(2.0, options.duration, 150)
    errors = measure(problem, options.duration, times)

    print(f"{N_ATOMS} spiking neurons: (E - E*) / E*, geometric mean over {problem.n_signals} signals")
    print()
    rows = [
        (f"{time_step:.4g}", *(f"{floor(errors[time_step, reset], times):.1e}" for reset in RESETS))
        for time_step in TIME_STEPS
    ]
    exact = f"{floor(errors['spike rate since 0'], times):.1e}"
    print(f"on a clock, t = {options.duration / 2:,g} to {options.duration:,g}")
    print(table(("time step", "reset to zero", "threshold subtracted"), [*rows, ("none", exact, exact)]))
    print()
    marks = [time for time in (10.0, 100.0, 1_000.0, 10_000.0) if time <= options.duration]
    rows = []
    for name, curves in errors.items():
        if isinstance(name, str):
            at = np.interp(np.log(marks), np.log(times), np.log(typical(curves)))
            rows.append((name, *("-" if np.isnan(e) else f"{np.exp(e):.1e}" for e in at)))
    print(table(("read-out at", *(f"t = {time:,g}" for time in marks)), rows))
    print()
    save(draw(errors, times), options.output, "time_steps_and_read_outs.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
