"""How fast do certified gaps fall?  Against simulated time for each read-out, and against spikes.

One run of the network of each signal, from potentials at half their thresholds, is read in all ways at the
same times; refined codes are followed look by look.  Medians over the signals.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, figure
from examples._data import grey_photograph
from examples.convolutional_coding import STRIDE, learned_kernels, normalised
from snn import Exact, NetworkState
from snn.record.windows import smooth_rate_of_moments
from solvers import ConvolutionalDictionary, LassoProblem, lasso_network, solve_active_set
from solvers.certificate.optimality import measure
from solvers.gram.gram import gram_of
from solvers.spiking.network import LassoNetwork
from solvers.spiking.stages import RefinedCodes
from tests.benchmarks.problems import (
    correlated_dictionary,
    patch_problem,
    planted_problems,
    random_dictionary,
)
from tests.benchmarks.report import Target, number
from tests.benchmarks.timing import WrongAnswerError, table

TITLE = "Certified gap against simulated time and against spikes"
LONGEST, QUICK_LONGEST = 4096.0, 256.0
FIRST = 8.0
# Where a gap is at rounding, nothing is followed.
LEAST = 1e-11
ONE_WINDOW, REFINED = "smooth, one window", "smooth, refined"
READ_OUTS = {"rate": ORANGE, "current": GREEN, ONE_WINDOW: BLUE}
# From here on slopes are fitted: over two decades of time.
FITTED_FROM = 40.0
LEVELS = 10.0 ** -np.arange(0.5, 10.01, 0.25)
MARKS = (1e-2, 1e-3, 1e-4, 1e-6)
# Two and more decades of the gap by one window: to where slow neurons are asked for.
SLOW_GAP = 1e-4


def designs(*, quick: bool) -> dict[str, list[LassoProblem]]:
    """Return the problems of each design, one signal each."""
    n_signals = 2 if quick else 9
    n_features, n_atoms, support = (32, 64, 3) if quick else (64, 256, 6)
    patches = patch_problem(n_signals, 32, 500) if quick else patch_problem(2 * n_signals)
    return {
        f"random, {n_features} x {n_atoms}": planted_problems(
            random_dictionary(n_features, n_atoms), support=support, n_signals=n_signals
        ),
        f"coherent (rho 0.9), {n_features} x {n_atoms}": planted_problems(
            correlated_dictionary(n_features, n_atoms), support=support, n_signals=n_signals
        ),
        "patches, learned atoms": [patches.subset([k]) for k in range(patches.n_signals)],
        "convolutional": convolutional_problems(n_signals, 12 if quick else 48, 20 if quick else 28),
    }


def convolutional_problems(n_signals: int, n_kernels: int, side: int) -> list[LassoProblem]:
    """Return the problems of coding parts of a photograph, each without what others would compute of it."""
    kernels = learned_kernels(n_kernels, n_patches=100 * n_kernels)
    dictionary = ConvolutionalDictionary(kernels, (side, side), STRIDE)
    image = normalised(grey_photograph("china"))
    corners = np.random.default_rng(0).integers(0, np.array(image.shape) - side, size=(n_signals, 2))
    return [
        LassoProblem(
            dictionary, image[top : top + side, left : left + side].reshape(1, -1), 0.4, positive=True
        )
        for top, left in corners
    ]


def run(*, quick: bool) -> dict:
    found = {}
    for name, problems in designs(quick=quick).items():
        signals = []
        for problem in problems:
            read = follow_read_outs(problem, QUICK_LONGEST if quick else LONGEST)
            signals.append(read | {"refined": follow_refined(problem), "slowest": slowest_rate(problem)})
            if not min(signals[-1]["refined"]["gap"]) <= 1e-6:
                raise WrongAnswerError(f"{name}: refined codes must reach a gap of 1e-6")
        found[name] = signals
    return {"designs": found}


def follow_read_outs(problem: LassoProblem, longest: float) -> dict:
    """Return times, spikes so far, and the certified gap of each read-out at them."""
    scale = 2.0 * float(((problem.correlations[0] - problem.l1_weights) / problem.squared_norms).max())
    network = lasso_network(problem, scale=scale)
    threshold = network.firing_threshold
    state = NetworkState(membrane_potential=0.5 * threshold, synaptic_current=np.zeros(network.n_neurons))
    run = Exact().start(network, network.soma_bias[np.newaxis], state, window_moments=True)
    times = FIRST * 2.0 ** (0.5 * np.arange(int(2.0 * np.log2(longest / FIRST)) + 1))
    # Charges at half of each time, for the current since then.
    halves = {}
    found = {"time": [], "n_spikes": [], **{name: [] for name in READ_OUTS}}
    for time in np.union1d(times, times / 2.0):
        run.advance(float(time))
        charge = threshold * run.spike_counts[0] + run.membrane_potential[0]
        halves[float(time)] = charge
        if time not in times:
            continue
        smooth = scale * smooth_rate_of_moments(run.window_moments, float(time))[0]
        current = np.maximum(charge - halves[float(time / 2.0)], 0.0) / (time / 2.0) / threshold
        codes = {
            "rate": [scale * run.spike_counts[0] / time],
            "current": [scale * current],
            # Whichever is better, as the solver does.
            ONE_WINDOW: [np.maximum(smooth, 0.0), jacobi(problem, smooth)],
        }
        found["time"].append(float(time))
        found["n_spikes"].append(int(run.spike_counts.sum()))
        for name, candidates in codes.items():
            found[name].append(min(relative_gap(problem, code) for code in candidates))
    return found


def jacobi(problem: LassoProblem, code: np.ndarray) -> np.ndarray:
    """Return max(beta + W^T a, 0) / theta, the code of the currents that rates cause."""
    left = problem.correlate(problem.signals - problem.reconstruct(code[np.newaxis]))[0]
    return np.maximum(left + problem.squared_norms * code - problem.l1_weights, 0.0) / problem.squared_norms


def relative_gap(problem: LassoProblem, code: np.ndarray) -> float:
    """Return the certified gap of a code in units of 1/2 ||signal||^2."""
    return float(measure(problem, code[np.newaxis]).duality_gap[0] / problem.energies[0])


def follow_refined(problem: LassoProblem) -> dict:
    """Return simulated time, spikes and the certified gap of refined codes at each look that improves."""
    network = LassoNetwork(gram_of(problem, on_demand=True), positive=problem.positive)
    refined = RefinedCodes(problem, network, how=Exact(), tol=LEAST, max_duration=10_000.0, refine=True)
    n_spikes, gaps = [], []
    while len(refined.active):
        refined.advance()
        gap = relative_gap(problem, refined.codes[0])
        if not gaps or gap < gaps[-1]:
            n_spikes.append(int(refined.run.spike_counts.sum()))
            gaps.append(gap)
    return {
        "n_spikes": n_spikes,
        "gap": gaps,
        "duration": float(refined.duration[0]),
        "n_stages": int(refined.n_stages[0]),
    }


def slowest_rate(problem: LassoProblem) -> float:
    """Return the least rate of an active neuron at the optimum, in spikes a time constant."""
    code = solve_active_set(problem, tol=1e-9).codes[0]
    largest = float(((problem.correlations[0] - problem.l1_weights) / problem.squared_norms).max())
    return float(code[code > 0.0].min() / (2.0 * largest))


# -- what is read --------------------------------------------------------------------------------


def median_gaps(signals: Sequence[dict], read_out: str) -> tuple[np.ndarray, np.ndarray]:
    """Return times, and the median gap of a read-out at them."""
    return np.array(signals[0]["time"]), np.median([signal[read_out] for signal in signals], axis=0)


def slope(signals: Sequence[dict], read_out: str) -> float:
    """Return the exponent of the median gap against time."""
    times, gaps = median_gaps(signals, read_out)
    late = times >= FITTED_FROM
    return float(np.polyfit(np.log(times[late]), np.log(gaps[late]), 1)[0])


def spikes_to(signals: Sequence[dict], way: str, gap: float) -> float:
    """Return the median number of spikes to a gap, of a read-out or of refined codes; NaN if not reached."""
    needed = []
    for signal in signals:
        points = signal["refined"] if way == REFINED else {"n_spikes": signal["n_spikes"], "gap": signal[way]}
        reached = [n for n, g in zip(points["n_spikes"], points["gap"], strict=True) if g <= gap]
        needed.append(min(reached, default=np.inf))
    middle = float(np.median(needed))
    return middle if np.isfinite(middle) else np.nan


def time_to(signal: dict, gap: float) -> float:
    """Return the time at which one smooth window reaches a gap; infinite if it does not."""
    return min(
        (t for t, g in zip(signal["time"], signal[ONE_WINDOW], strict=True) if g <= gap), default=np.inf
    )


def spikes_of_a_decade(signals: Sequence[dict]) -> float:
    """Return the spikes that refined codes take for a factor of ten, from 1e-3 to 1e-9."""
    found = []
    for signal in signals:
        points = signal["refined"]
        gaps, spikes = np.log10(points["gap"]), np.array(points["n_spikes"], dtype=float)
        inside = (gaps <= -3.0) & (gaps >= -10.0)
        if inside.sum() >= 2 and np.ptp(gaps[inside]) > 0.0:
            found.append(np.ptp(spikes[inside]) / np.ptp(gaps[inside]))
    return float(np.median(found)) if found else np.nan


def slow_neurons(signals: Sequence[dict]) -> tuple[float, float, float]:
    """Return the median slowest rate, the median time to the gap, and their rank correlation."""
    slowest = np.array([number(signal["slowest"]) for signal in signals])
    times = np.array([time_to(signal, SLOW_GAP) for signal in signals])
    varied = len(set(slowest)) > 2 and len(set(times)) > 1
    together = float(spearmanr(slowest, times).statistic) if varied else np.nan
    return float(np.median(slowest)), float(np.median(times)), together


def targets(data: dict) -> list[Target]:
    return []


def _cell(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def slopes_table(data: dict) -> str:
    """Return exponents of time, spikes of a decade, and what the slowest neuron has to do with it."""
    header = [
        "", *(f"{name}: exponent" for name in READ_OUTS), "refined: spikes for a factor of ten",
        "slowest active neuron, spikes a time constant", f"time to {SLOW_GAP:g}, one window",
        "rank correlation",
    ]  # fmt: skip
    rows = [
        [
            name,
            *(f"{slope(signals, read_out):.2f}" for read_out in READ_OUTS),
            _cell(spikes_of_a_decade(signals)),
            *map(_cell, slow_neurons(signals)),
        ]
        for name, signals in data["designs"].items()
    ]
    return table(header, rows)


def markdown(data: dict) -> str:
    ways = (*READ_OUTS, REFINED)
    rows = [
        [
            name if k == 0 else "",
            way,
            *(_cell(spikes_to(signals, way, mark)) for mark in MARKS),
        ]
        for name, signals in data["designs"].items()
        for k, way in enumerate(ways)
    ]
    return "\n\n".join(
        [
            "Medians over the signals; gaps certified, in units of 1/2 ||signal||².  One run, from "
            "potentials at half their thresholds, the busiest neuron alone firing once in two time "
            "constants, is read as spikes over time, as the thresholded average current of the second half, "
            "and through the smooth window; refined codes are those of `solve_spiking`.  Exponents, of the "
            f"gap against time, are fitted from t = {FITTED_FROM:g} on.",
            slopes_table(data),
            "**Spikes to a certified gap.**",
            table(["", "read-out", *(f"{mark:g}" for mark in MARKS)], rows),
        ]
    )


def plot(data: dict) -> Figure | None:
    picture = figure(3.7 * len(data["designs"]), 7.4)
    axes = picture.subplots(2, len(data["designs"]), squeeze=False, sharey="row", height_ratios=(1.0, 1.15))
    for column, (name, signals) in zip(axes.T, data["designs"].items(), strict=True):
        _draw_against_time(column[0], signals)
        _draw_against_spikes(column[1], signals)
        column[0].set_title(name, fontsize="medium")
    for ax in axes[:, 0]:
        ax.set_ylabel("certified gap / (1/2 ||signal||²)")
    # Beside the curves, which fall from the upper left.
    for ax, place in zip(axes[:, 0], ("lower left", "lower right"), strict=True):
        ax.legend(frameon=False, fontsize="small", loc=place)
    return picture


def _draw_against_time(ax, signals: Sequence[dict]) -> None:
    """Draw the gap of each read-out against simulated time, with lines of the exponents -1 and -2."""
    for read_out, colour in READ_OUTS.items():
        times, gaps = median_gaps(signals, read_out)
        ax.plot(times, gaps, color=colour, marker="o", markersize=3, label=read_out)
        powers = {"rate": (1, "1/t"), ONE_WINDOW: (2, "1/t²")}
        if read_out not in powers:
            continue
        power, words = powers[read_out]
        anchor = len(times) // 3
        line = gaps[anchor] * (times / times[anchor]) ** -power
        ax.plot(times, line, ":", color=colour, linewidth=1.2)
        ax.annotate(
            words, (times[-1], line[-1]), color=colour, xytext=(3, 0), textcoords="offset points", va="center"
        )
    ax.set(xscale="log", yscale="log", xlabel="simulated time, time constants")
    ax.set_xlim(right=4.0 * times[-1])


def _draw_against_spikes(ax, signals: Sequence[dict]) -> None:
    """Draw the gap against the median number of spikes that reach it."""
    for way, colour in (*READ_OUTS.items(), (REFINED, PURPLE)):
        spikes = np.array([spikes_to(signals, way, level) for level in LEVELS])
        # Before the first look there is nothing to draw.
        first = max(np.searchsorted(spikes, spikes[0], side="right") - 1, 0)
        ax.plot(
            spikes[first:], LEVELS[first:], color=colour, linewidth=2.4 if way == REFINED else 1.4, label=way
        )
    ax.axhline(1e-6, color=GREY, linestyle=":", linewidth=1.0, label="1e-6")
    ax.set(xscale="log", yscale="log", xlabel="spikes of the whole network", ylim=(LEAST, 1.0))
