"""What is proved of rates and of stages of fixed length, with its constants, beside runs.

The bounds are those of docs/theory.md, section 4.5 (`tests.reference.proved_rates`).  Pictures: half as many
atoms as features, so that all constants follow from the problem alone, and stages start from nothing.  Table:
the designs of the other sections, from a certified code on.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, figure
from snn import Exact, simulate
from solvers import LassoProblem, lasso_network, solve_active_set, solve_spiking
from solvers.gram.gram import gram_of
from solvers.spiking.network import LassoNetwork
from solvers.spiking.stages import RefinedCodes
from tests.benchmarks.peers import quiet
from tests.benchmarks.problems import (
    correlated_dictionary,
    learned_dictionary,
    patch_problem,
    photograph_patches,
    planted_problems,
    random_dictionary,
    single_problems,
)
from tests.benchmarks.report import Target, number
from tests.benchmarks.timing import WrongAnswerError, table
from tests.reference.proved_rates import (
    FixedStages,
    PlainRates,
    certified_start,
    code_of_counts,
    counts_at,
    distance,
    run_stages,
)

TITLE = "What is proved of rates and stages, beside runs"
LONGEST, QUICK_LONGEST = 10_000.0, 100.0
N_STAGES, QUICK_N_STAGES = 30, 4
# Five stages of the table that may take more spikes than this are not run.
MOST_SPIKES = 2e7
# A certificate of so small a gap is tried as the start of stages, until few enough atoms are left.
START_TOLS = 10.0 ** -np.arange(3.0, 11.0)
LEAST_EIGENVALUE = 1e-7


def drawn_designs(*, quick: bool) -> dict[str, list[LassoProblem]]:
    """Return problems of fewer atoms than features, one signal each."""
    n_signals, n_features, n_atoms = (2, 16, 8) if quick else (9, 64, 32)
    patches = photograph_patches(n_signals)
    found = {
        "random": planted_problems(random_dictionary(n_features, n_atoms), support=4, n_signals=n_signals),
        "neighbours correlate (rho 0.9)": planted_problems(
            correlated_dictionary(n_features, n_atoms), support=4, n_signals=n_signals
        ),
    }
    atoms = learned_dictionary(n_atoms, 500 if quick else 10_000)
    found["patches, learned atoms"] = single_problems(atoms, patches, 0.1, positive=False)
    return {f"{name}, {len(ps[0].dictionary[0])} x {n_atoms}": ps for name, ps in found.items()}


def listed_designs(*, quick: bool) -> dict[str, list[LassoProblem]]:
    """Return problems of the other sections, one signal each."""
    if quick:
        return {
            "random, 16 x 32": planted_problems(random_dictionary(16, 32), support=2, n_signals=2),
        }
    n_signals = 5
    found = {}
    for n_features, n_atoms, support in ((64, 256, 6), (256, 1024, 25)):
        for name, atoms in (("random", random_dictionary), ("correlated (rho 0.9)", correlated_dictionary)):
            found[f"{name}, {n_features} x {n_atoms}"] = planted_problems(
                atoms(n_features, n_atoms), support=support, n_signals=n_signals
            )
    patches = patch_problem(2 * n_signals)
    found["patches, 64 x 256 learned"] = [patches.subset([k]) for k in range(n_signals)]
    atoms = learned_dictionary(256, 10_000)
    for penalty in (0.1, 0.01):
        found[f"patches, penalty {penalty:g} of the maximum, signed codes"] = single_problems(
            atoms, photograph_patches(n_signals), penalty, positive=False
        )
    return found


def run(*, quick: bool) -> dict:
    longest, n_stages = (QUICK_LONGEST, QUICK_N_STAGES) if quick else (LONGEST, N_STAGES)
    drawn, listed = {}, {}
    for name, problems in drawn_designs(quick=quick).items():
        signals = [
            {
                "rates": follow_rates(problem, optimum, longest),
                "stages": follow_stages(problem, optimum, n_stages),
                "refined": follow_refined(problem, optimum),
            }
            for problem, optimum in with_optima(problems)
        ]
        # Of what is the same line for all signals but for its height, the median is drawn.
        bounds = {part: middle(signals, "rates", part) for part in ("time", "root", "steady", "least")}
        for signal in signals:
            signal["rates"] = {"distance": signal["rates"]["distance"]}
        drawn[name] = {"bounds": bounds, "signals": signals}
    for name, problems in listed_designs(quick=quick).items():
        listed[name] = [constants(problem, optimum) for problem, optimum in with_optima(problems)]
    return {"drawn": drawn, "listed": listed}


def middle(signals: Sequence[dict], part: str, name: str) -> np.ndarray:
    """Return the median over signals of a list of numbers."""
    return np.median([signal[part][name] for signal in signals], axis=0)


def with_optima(problems: Sequence[LassoProblem]) -> list[tuple[LassoProblem, np.ndarray]]:
    """Return each problem with its optimal code, as good as rounding allows."""
    with quiet():
        return [(problem, solve_active_set(problem, tol=1e-13).codes[0]) for problem in problems]


def relative(problem: LassoProblem, lengths: np.ndarray) -> np.ndarray:
    """Return distances in units of the length of the signal."""
    return lengths / np.linalg.norm(problem.signals)


def follow_rates(problem: LassoProblem, optimum: np.ndarray, longest: float) -> dict:
    """Return the distance of a run's rates from the optimum at many times, and the bounds on it."""
    bounds = PlainRates.of(problem, optimum)
    spikes = simulate(lasso_network(problem, scale=bounds.scale), longest, record_spikes=True).spikes
    times = np.geomspace(1.0, longest, 150)
    counts = counts_at(spikes, len(bounds.rates), times)
    codes = code_of_counts(problem, counts, times, bounds.scale)
    found = np.linalg.norm((codes - optimum) @ problem.dictionary, axis=1)
    if not (found <= bounds.bound(times) * (1.0 + 1e-9)).all():
        raise WrongAnswerError("a run broke the bound of its rates")
    # A quarter of a spike of the active atom that no other can stand in for.
    stages = FixedStages(
        dictionary=problem.dictionary, used=np.arange(problem.n_atoms), support=np.flatnonzero(optimum)
    )
    quarter = 0.25 * bounds.scale / stages.margins[optimum != 0.0].min()
    return {
        "time": times,
        "distance": relative(problem, found),
        "root": relative(problem, bounds.root_bound(times)),
        "steady": relative(problem, bounds.scale * bounds.reach / (times + 1.0)),
        "least": relative(problem, quarter / (times + 1.0)),
    }


def follow_stages(problem: LassoProblem, optimum: np.ndarray, n_stages: int) -> dict:
    """Return the distance after each stage from nothing on, its bound, and the spikes of both."""
    used = np.arange(problem.n_atoms)
    stages = FixedStages(dictionary=problem.dictionary, used=used, support=np.flatnonzero(optimum))
    bound = float(np.linalg.norm(problem.signals))
    found = [
        (distance(problem, stage.code, optimum), stage.bound, stage.n_spikes)
        for stage in islice(run_stages(problem, stages, np.zeros(problem.n_atoms), bound), n_stages)
    ]
    distances, limits, spikes = np.transpose(found)
    if (distances > limits * (1.0 + 1e-9) + rounding(problem, optimum)).any() or (
        spikes > stages.n_spikes
    ).any():
        raise WrongAnswerError("a stage broke its bound")
    return {
        "distance": relative(problem, distances),
        "bound": relative(problem, limits),
        "n_spikes": np.cumsum(spikes),
        "most_spikes": np.arange(1, n_stages + 1) * stages.n_spikes,
    }


def rounding(problem: LassoProblem, optimum: np.ndarray) -> float:
    """Return how far the reconstruction of the computed optimum may be from the true one."""
    return certified_start(problem, optimum)[1]


def follow_refined(problem: LassoProblem, optimum: np.ndarray) -> dict:
    """Return the distance of the codes of `solve_spiking` at each look, and the spikes so far."""
    network = LassoNetwork(gram_of(problem, on_demand=True), positive=problem.positive)
    refined = RefinedCodes(problem, network, how=Exact(), tol=1e-11, max_duration=10_000.0, refine=True)
    n_spikes, distances = [], []
    while len(refined.active):
        refined.advance()
        n_spikes.append(int(refined.run.spike_counts.sum()))
        found = distance(problem, refined.codes[0], optimum)
        distances.append(found / float(np.linalg.norm(problem.signals)))
    return {"n_spikes": n_spikes, "distance": distances}


def constants(problem: LassoProblem, optimum: np.ndarray) -> dict:
    """Return what is proved of a problem from a certified code on, and what stages take in truth."""
    support = np.flatnonzero(optimum)
    found = {"active": len(support), "reach": PlainRates.of(problem, optimum).reach}
    for tol in START_TOLS:
        with quiet():
            code = solve_spiking(problem, tol=tol).codes[0].copy()
        used, _ = certified_start(problem, code)
        code[np.setdiff1d(np.arange(problem.n_atoms), used)] = 0.0
        atoms = problem.dictionary[used]
        least = float(np.linalg.eigvalsh(atoms @ atoms.T)[0])
        if len(used) <= problem.n_features and least > LEAST_EIGENVALUE:
            break
    else:
        return found
    bound = certified_start(problem, code)[1]
    stages = FixedStages(dictionary=problem.dictionary, used=used, support=support)
    found |= {
        "used": len(used),
        "eigenvalue": least,
        "duration": stages.duration,
        "proved": stages.spikes_of_a_decade,
        "refined": spikes_of_a_decade(follow_refined(problem, optimum)),
    }
    n_stages = 5
    if n_stages * stages.n_spikes <= MOST_SPIKES:
        ran = list(islice(run_stages(problem, stages, code, bound), n_stages))
        shares = [distance(problem, stage.code, optimum) / stage.bound for stage in ran]
        if max(shares) > 1.0:
            raise WrongAnswerError("a stage broke its bound")
        taken = float(np.mean([stage.n_spikes for stage in ran]))
        found |= {"share": max(shares), "taken": taken * np.log(10.0) / -np.log(stages.factor)}
    return found


def spikes_of_a_decade(refined: dict) -> float:
    """Return the spikes for a factor of ten, of distances from 1e-2 to 1e-7."""
    distances, spikes = np.log10(refined["distance"]), np.array(refined["n_spikes"], dtype=float)
    inside = (distances <= -2.0) & (distances >= -7.0)
    if inside.sum() < 2 or np.ptp(distances[inside]) == 0.0:
        return np.nan
    return float(np.ptp(spikes[inside]) / np.ptp(distances[inside]))


# -- what is read --------------------------------------------------------------------------------


def targets(data: dict) -> list[Target]:
    return []


def _cell(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:,.2g} million" if value < 1e8 else f"{value / 1e6:,.0f} million"
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.2g}"


def constants_table(data: dict) -> str:
    """Return the constants of the designs, and the spikes for a factor of ten: proved, taken, refined."""
    columns = {
        "active": "atoms active",
        "reach": "C of (11n), spikes",
        "used": "atoms left by the certificate, A",
        "eigenvalue": "smallest eigenvalue",
        "duration": "T of a stage",
        "proved": "spikes for a factor of ten: at most",
        "taken": "stages of this length",
        "refined": "`solve_spiking`",
    }
    rows = []
    for name, signals in data["listed"].items():
        shares = [number(signal.get("share")) for signal in signals]
        largest = _cell(float(np.nanmax(shares))) if np.isfinite(shares).any() else "-"
        rows.append([name, *(_cell(_median(signals, key)) for key in columns), largest])
    return table(["", *columns.values(), "largest distance / bound"], rows)


def _median(signals: Sequence[dict], key: str) -> float:
    """Return the median over the signals that have a number, if more than half of them have."""
    values = np.array([number(signal.get(key)) for signal in signals])
    values = values[np.isfinite(values)]
    return float(np.median(values)) if 2 * len(values) > len(signals) else np.nan


def markdown(data: dict) -> str:
    return "\n\n".join(
        [
            "Distances are those of reconstructions from the optimum's.  In the pictures, atoms are fewer "
            "than features, and stages start from nothing.  In the table, stages start from a code whose "
            "certificate leaves independent atoms.  Medians over the signals that have a number; a dash: "
            f"proved to take more than {MOST_SPIKES:,.0f} spikes in five stages, and not run.  No run broke "
            "a bound.",
            constants_table(data),
        ]
    )


def plot(data: dict) -> Figure | None:
    picture = figure(4.2 * len(data["drawn"]), 7.6)
    axes = picture.subplots(2, len(data["drawn"]), squeeze=False, sharey="row")
    for column, (name, design) in zip(axes.T, data["drawn"].items(), strict=True):
        _draw_rates(column[0], design)
        _draw_stages(column[1], design["signals"])
        column[0].set_title(name, fontsize="medium")
    for ax in axes[:, 0]:
        ax.set_ylabel("distance from the optimum / ||signal||")
    axes[0, 0].legend(frameon=False, fontsize="small", loc="lower left")
    # The curves of the lower pictures leave no room for it.
    picture.legend(
        *axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False,
        fontsize="small",
    )  # fmt: skip
    return picture


def _draw_rates(ax, design: dict) -> None:
    """Draw the rates of one run for each signal, between what is proved."""
    signals = design["signals"]
    times, root, steady, least = (
        np.array(design["bounds"][part], dtype=float) for part in ("time", "root", "steady", "least")
    )
    for signal in signals:
        ax.plot(times, signal["rates"]["distance"], color=BLUE, linewidth=0.5, alpha=0.35)
    ax.plot(times, middle(signals, "rates", "distance"), color=BLUE, label="rates of runs")
    ax.plot(times, root, color=ORANGE, label="never above (11l)")
    shown = steady < 1e3 * root
    ax.plot(times[shown], steady[shown], "--", color=GREEN, label="never above (11n)")
    ax.plot(times, least, ":", color=GREY, label="above it half of the time (11o)")
    ax.set(xscale="log", yscale="log", xlabel="simulated time, time constants")


def _draw_stages(ax, signals: Sequence[dict]) -> None:
    """Draw the distance after each stage, its bound, and what `solve_spiking` does."""
    spikes, most = (middle(signals, "stages", name) for name in ("n_spikes", "most_spikes"))
    bound, reached = (middle(signals, "stages", name) for name in ("bound", "distance"))
    ax.plot(most, bound, "--", color=ORANGE, label="proved, spikes and distance")
    ax.plot(spikes, bound, color=ORANGE, label="proved distance, spikes of the runs")
    ax.plot(spikes, reached, "o-", markersize=3, color=BLUE, label="stages of fixed length")
    for k, signal in enumerate(signals):
        ax.plot(
            signal["refined"]["n_spikes"], signal["refined"]["distance"], color=PURPLE, linewidth=0.6,
            label="solve_spiking" if k == 0 else None,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="spikes of the whole network", ylim=(1e-8, 2.0))
