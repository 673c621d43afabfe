"""Where coordinate descent is at home: correlated atoms, natural images, small penalties."""

from matplotlib.figure import Figure

from examples._common import figure
from solvers import LassoProblem, solve_spiking
from tests.benchmarks import peers
from tests.benchmarks.contest import best_of, contest, contest_table, faster
from tests.benchmarks.problems import (
    again,
    correlated_dictionary,
    learned_dictionary,
    photograph_patches,
    planted_problems,
    random_dictionary,
    single_problems,
)
from tests.benchmarks.random_designs import GAP, horizontal_bars
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.spikes_alone import median
from tests.benchmarks.timing import relative_gaps, table

TITLE = "Hard designs"
ENTRANTS = (peers.SPIKES, *peers.ACTIVE_SETS, *peers.CLASSICAL)
# The target names these; SPAMS is shown beside them.
RIVALS = tuple(peer.name for peer in (*peers.SKLEARN, peers.CELER, *peers.SKGLM))


def designs(*, quick: bool) -> dict[str, list[LassoProblem]]:
    """Return the problems of each design, one signal each."""
    n_signals = 1 if quick else 5
    small, large = ((32, 64, 3), (32, 64, 3)) if quick else ((256, 1024, 25), (1024, 4096, 100))
    n_atoms, n_training = (32, 500) if quick else (256, 10_000)
    found = {}
    for n_features, n_wanted, support in dict.fromkeys((small, large)):
        found[f"correlated (rho 0.9), {n_features} x {n_wanted}"] = planted_problems(
            correlated_dictionary(n_features, n_wanted), support=support, n_signals=n_signals
        )
    for n_features, n_wanted, support in dict.fromkeys((small, large)):
        found[f"random, {n_features} x {n_wanted}, penalty 0.01 of the maximum"] = planted_problems(
            random_dictionary(n_features, n_wanted), support=support, n_signals=n_signals, penalty=0.01
        )
    atoms = learned_dictionary(n_atoms, n_training)
    patches = photograph_patches(n_signals)
    for penalty in (0.1, 0.01):
        for positive in (True, False):
            kind = "codes not negative" if positive else "signed codes"
            found[f"patches, 64 x {n_atoms} learned, penalty {penalty:g} of the maximum, {kind}"] = (
                single_problems(atoms, patches, penalty, positive=positive)
            )
    return found


def run(*, quick: bool) -> dict:
    found = designs(quick=quick)
    return {
        "designs": {
            name: contest(problems, ENTRANTS, GAP, quick=quick, required=peers.ACTIVE_SETS, seconds=0.1)
            for name, problems in found.items()
        },
        "spikes": {name: by_spikes_alone(problems) for name, problems in found.items()},
    }


def by_spikes_alone(problems: list[LassoProblem]) -> dict[str, list[float]]:
    """Return spikes, simulated time and the certified gap of what the network does alone."""
    found = {"n_spikes": [], "duration": [], "gap": []}
    for problem in problems:
        with peers.quiet():
            result = solve_spiking(again(problem), tol=GAP)
        found["n_spikes"].append(int(result.n_steps[0]))
        found["duration"].append(float(result.duration[0]))
        found["gap"].append(float(relative_gaps(problem, result.codes)[0]))
    return found


def targets(data: dict) -> list[Target]:
    found = [
        at_least(
            f"{name}, active set, gap {GAP:g}",
            1.0,
            faster(outcome, peers.ACTIVE_SET.name, RIVALS),
            f">= 1x the best ({best_of(outcome, RIVALS)})",
        )
        for name, outcome in data["designs"].items()
    ]
    for name, entry in data["spikes"].items():
        worst = max(entry["gap"])
        found.append(
            Target(
                f"{name}, spikes alone, gap {GAP:g}", "reached, unless too coherent", f"{worst:.1e}",
                worst <= GAP,
            )
        )  # fmt: skip
    return found


def markdown(data: dict) -> str:
    names = [peer.name for peer in peers.CLASSICAL]
    lost = [
        f"{name} ({1.0 / ratio:.1f} times as slow as {best_of(outcome, names)})"
        for name, outcome in data["designs"].items()
        if not (ratio := faster(outcome, peers.ACTIVE_SET.name, names)) >= 1.0
    ]
    rows = [
        [
            name,
            f"{median(entry['n_spikes']):,.0f}",
            f"{median(entry['duration']):,.0f}",
            f"{median(entry['gap']):.1e}",
            f"{max(entry['gap']):.1e}",
        ]
        for name, entry in data["spikes"].items()
    ]
    parts = [
        f"To a certified gap of {GAP:g}; several signals each, one at a time, medians over them.",
        "**By spikes alone**, stopped at a simulated time of 10,000.  Where the gap is not reached, atoms "
        "are too coherent for so weak a penalty: slow combinations of neurons remain.",
        table(["design", "spikes", "simulated time", "certified gap", "largest"], rows),
        "**All methods.**  Where the active-set method, from nothing, loses to the best of all peers, SPAMS "
        f"included: {'; '.join(lost) if lost else 'nowhere'}.",
    ]
    for name, outcome in data["designs"].items():
        parts += [f"### {name[0].upper()}{name[1:]}", contest_table(outcome, peers.ACTIVE_SET.name)]
    return "\n\n".join(parts)


def plot(data: dict) -> Figure | None:
    n_rows = (len(data["designs"]) + 1) // 2
    picture = figure(12.0, 3.8 * n_rows)
    axes = picture.subplots(n_rows, 2, squeeze=False).ravel()
    for ax in axes[len(data["designs"]) :]:
        ax.set_axis_off()
    for ax, (name, outcome) in zip(axes, data["designs"].items(), strict=False):
        seconds = {peer: entry["seconds"] for peer, entry in outcome["peers"].items()}
        horizontal_bars(ax, seconds, name.replace(", penalty", "\npenalty"))
        ax.title.set_fontsize("medium")
    return picture
