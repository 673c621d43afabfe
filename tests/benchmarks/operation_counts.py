"""How many operations take a code to a certified gap, and an estimate of their energy."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure
from examples.convolutional_coding import coding_problem, learned_kernels
from snn import ARITHMETIC_45NM, LOIHI, OperationCounts, energy_estimate
from solvers import LassoProblem, SparseCodingResult, solve_active_set, solve_fista, solve_spiking
from tests.benchmarks import peers
from tests.benchmarks.problems import again, patch_problem, planted_problems, random_dictionary
from tests.benchmarks.report import Target
from tests.benchmarks.timing import WrongAnswerError, table
from tests.reference.coordinate_descent import descend

TITLE = "Operations to a certified gap"
GAPS = (1e-2, 1e-3, 1e-4, 1e-6)
SIZES = ((64, 256, 6), (256, 1024, 25))
QUICK_SIZES = ((16, 32, 3),)
# The longest of these steps with which a network does not run away: docs/theory.md, section 7.
TIME_STEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)
SPIKES, CLOCK = "spikes alone", "spikes alone, on a clock"
FISTA, DESCENT, ACTIVE_SET = CLASSICAL = "FISTA", "coordinate descent", "active set"
COLOURS = {SPIKES: BLUE, CLOCK: PURPLE, FISTA: ORANGE, DESCENT: RED, ACTIVE_SET: GREEN}
CONVOLUTION_SIDE, QUICK_SIDE = 52, 16
# Unknowns, features and planted entries of the sizes of Davies et al. (2018), whose codes have some 10 and 30
# entries; the third is an image.
LADDER = ((400, 64, 8), (1700, 425, 30))
QUICK_LADDER = ((40, 16, 3),)
OF_OPTIMUM = 0.01

Methods = dict[str, Callable[..., SparseCodingResult]]


def run(*, quick: bool) -> dict:
    designs = {}
    for n_features, n_atoms, support in QUICK_SIZES if quick else SIZES:
        designs[f"random, {n_features} x {n_atoms}"] = planted_problems(
            random_dictionary(n_features, n_atoms), support=support, n_signals=2 if quick else 5
        )
    patches = patch_problem(3, 32, 500) if quick else patch_problem(15)
    designs["patches"] = [patches.subset([k]) for k in range(patches.n_signals)]
    image = convolutional_problem(quick=quick)
    designs[f"image, {image.n_atoms:,} unknowns"] = [image]
    ladder = [
        planted_problems(random_dictionary(n_features, n_atoms), support=support, n_signals=1)[0]
        for n_atoms, n_features, support in (QUICK_LADDER if quick else LADDER)
    ]
    return {
        "designs": {name: measured(problems) for name, problems in designs.items()},
        "ladder": [to_share_of_optimum(problem) for problem in (*ladder, image)],
    }


def convolutional_problem(*, quick: bool) -> LassoProblem:
    """Return the problem of coding a photograph with learned kernels."""
    if quick:
        rng = np.random.default_rng(0)
        kernels = rng.standard_normal((4, 8, 8))
        kernels -= kernels.mean(axis=(1, 2), keepdims=True)
        kernels /= np.linalg.norm(kernels, axis=(1, 2), keepdims=True)
        return coding_problem(QUICK_SIDE, kernels)
    return coding_problem(CONVOLUTION_SIDE, learned_kernels())


def measured(problems: Sequence[LassoProblem]) -> dict:
    """Return the step of a design's clock, and the counts of all methods to each gap."""
    time_step = longest_step(problems)
    entries = [{"gap": gap, "methods": counted(problems, gap, time_step)} for gap in GAPS]
    return {"time_step": time_step, "entries": entries}


def longest_step(problems: Sequence[LassoProblem]) -> float:
    """Return the longest step at which the codes of all problems reach the smallest gap."""
    for time_step in TIME_STEPS:
        try:
            with peers.quiet():
                results = [
                    solve_spiking(again(problem), tol=GAPS[-1], time_step=time_step) for problem in problems
                ]
        except ValueError:  # the network runs away
            continue
        if all(result.converged for result in results):
            return time_step
    raise WrongAnswerError(f"a network must run on a clock of {TIME_STEPS[-1]:g}; it did not")


def counted(problems: Sequence[LassoProblem], gap: float, time_step: float) -> dict[str, dict[str, float]]:
    """Return the median counts of each method that takes the problems to a certified gap."""
    methods: Methods = {
        SPIKES: solve_spiking,
        CLOCK: lambda problem, tol: solve_spiking(problem, tol=tol, time_step=time_step),
        FISTA: lambda problem, tol: solve_fista(problem, tol=tol, max_iter=100_000),
        ACTIVE_SET: solve_active_set,
    }
    found = {}
    for name, solve in methods.items():
        entries = [_entry(name, solve, problem, gap, time_step) for problem in problems]
        found[name] = {key: float(np.median([entry[key] for entry in entries])) for key in entries[0]}
    if problems[0].has_gram:
        counts = [descend(again(problem), gap).n_multiply_adds for problem in problems]
        found[DESCENT] = {"multiply_adds": float(np.median(counts))}
    return found


def _entry(
    name: str,
    solve: Callable[..., SparseCodingResult],
    problem: LassoProblem,
    gap: float,
    time_step: float,
) -> dict[str, int]:
    with peers.quiet():
        result = solve(again(problem), tol=gap)
    if not result.converged:
        raise WrongAnswerError(f"{name} must reach a gap of {gap:g}; it did not")
    ledger = result.operations
    network = ledger.counts("network")
    if np.any(network.neuron_time):
        network = network.on_clock(time_step)
    network = network.total()
    return {
        "spikes": network.spikes,
        "synaptic_operations": network.synaptic_operations,
        "neuron_updates": network.neuron_updates,
        "read_out": ledger.counts("read-out").total().multiply_adds,
        "multiply_adds": ledger.counts("method").total().multiply_adds,
        "certificate": ledger.counts("certificate").total().multiply_adds,
    }


def to_share_of_optimum(problem: LassoProblem) -> dict[str, float]:
    """Return what spikes take to 1 % of the optimum, by a certificate."""
    with peers.quiet():
        optimum = float(solve_active_set(again(problem), tol=1e-9).objective[0])
        tol = OF_OPTIMUM * optimum / float(problem.energies[0])
        result = solve_spiking(again(problem), tol=tol)
    if not result.converged or not result.objective[0] <= (1.0 + OF_OPTIMUM) * optimum:
        raise WrongAnswerError(f"spikes must come within {OF_OPTIMUM:g} of the optimum; they did not")
    time_step = longest_step([problem])
    network = result.operations["network"].on_clock(time_step).total()
    return {
        "time_step": time_step,
        "n_unknowns": problem.n_atoms,
        "support": int(result.support_size[0]),
        "duration": float(result.duration[0]),
        "spikes": network.spikes,
        "synaptic_operations": network.synaptic_operations,
        "neuron_updates": network.neuron_updates,
    }


# -- what is told ----------------------------------------------------------------------------------


def is_spiking(entry: dict[str, float]) -> bool:
    return bool(entry.get("spikes"))


def estimate_of(entry: dict[str, float]) -> tuple[str, float, float]:
    """Return an estimate in words, its picojoules, and those of the read-out that goes with spikes."""
    if is_spiking(entry):
        counts = OperationCounts(
            synaptic_operations=round(entry["synaptic_operations"]),
            neuron_updates=round(entry["neuron_updates"]),
        )
        estimate = energy_estimate(counts, costs=LOIHI)
        read_out = OperationCounts(multiply_adds=round(entry.get("read_out", 0)))
        beside = energy_estimate(read_out, costs=ARITHMETIC_45NM).picojoules
    else:
        counts = OperationCounts(multiply_adds=round(entry["multiply_adds"]))
        estimate, beside = energy_estimate(counts, costs=ARITHMETIC_45NM), 0.0
    return str(estimate), float(estimate.picojoules), float(beside)


def number_of(value: float | None) -> str:
    """Return a count in three digits, with a unit."""
    if not value:
        return ""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def counts_table(data: dict) -> str:
    """Return what each method takes to each gap."""
    rows = []
    for name, design in data["designs"].items():
        for entry in design["entries"]:
            for method in COLOURS:
                if method not in entry["methods"]:
                    continue
                counts = entry["methods"][method]
                first = method == SPIKES
                words = estimate_of(counts)[0]
                rows.append(
                    [
                        name if first and entry is design["entries"][0] else "",
                        f"{entry['gap']:g}" if first else "",
                        f"{method} of {design['time_step']:g}" if method == CLOCK else method,
                        *(
                            number_of(counts.get(key)) if is_spiking(counts) or key == "multiply_adds" else ""
                            for key in ("spikes", "synaptic_operations", "neuron_updates", "read_out")
                        ),
                        number_of(counts["multiply_adds"]),
                        number_of(counts.get("certificate")),
                        words.removeprefix("estimate: "),
                    ]
                )
    header = [
        "", "gap", "method", "spikes", "synaptic operations", "neuron updates", "read-out, multiply-adds",
        "method, multiply-adds", "certificates, multiply-adds", "energy, estimate",
    ]  # fmt: skip
    return table(header, rows)


def _rows(data: dict) -> Iterator[tuple[str, float, dict[str, dict[str, float]]]]:
    """Yield the name of each design, in its first row, with each gap and the counts of all methods."""
    for name, design in data["designs"].items():
        for k, entry in enumerate(design["entries"]):
            yield name if k == 0 else "", entry["gap"], entry["methods"]


def short_table(data: dict) -> str:
    """Return the operations of each method side by side, a row for each gap."""
    rows = []
    for name, gap, methods in _rows(data):
        spikes = methods[SPIKES]
        rows.append(
            [
                name,
                f"{gap:g}",
                *(
                    number_of(spikes[key])
                    for key in ("spikes", "synaptic_operations", "neuron_updates", "read_out")
                ),
                *(number_of(methods.get(method, {}).get("multiply_adds")) for method in CLASSICAL),
                number_of(spikes["certificate"]),
            ]
        )
    header = [
        "",
        "gap",
        "spikes",
        "synaptic operations",
        "neuron updates",
        "read-out",
        *CLASSICAL,
        "certificate",
    ]
    return table(header, rows)


def energy_table(data: dict) -> str:
    """Return the estimates of energy side by side, a row for each gap."""
    rows = []
    for name, gap, methods in _rows(data):
        words = [
            estimate_of(methods[method])[0].split(": ")[1].split(" (")[0] if method in methods else ""
            for method in (SPIKES, *CLASSICAL)
        ]
        share = methods[SPIKES]["neuron_updates"] * LOIHI.neuron_update / estimate_of(methods[SPIKES])[1]
        rows.append([name, f"{gap:g}", words[0], f"{share:.0%}", *words[1:]])
    header = [
        "", "gap", f"estimate, {SPIKES}, {LOIHI.name}", "of that, neuron updates",
        *(f"estimate, {method}, arithmetic" for method in CLASSICAL),
    ]  # fmt: skip
    return table(header, rows)


def summary(data: dict) -> str:
    """Return how operations of spikes compare with those of the others, in sentences."""
    points = [(name, gap, methods) for name, gap, methods in _rows(data)]

    def ratios(method: str, key: str = "multiply_adds") -> list[float]:
        return [
            methods[method][key] / methods[SPIKES]["synaptic_operations"]
            for _, _, methods in points
            if method in methods
        ]

    fista, descent, exact = (ratios(method) for method in CLASSICAL)
    read_out = ratios(SPIKES, "read_out")
    n_fewer = sum(ratio < 1.0 for ratio in exact)
    sentences = (
        "For each synaptic operation of spikes alone,",
        f"FISTA takes {min(fista):.0f} to {max(fista):.0f} multiply-adds,",
        f"coordinate descent {min(descent):.1f} to {max(descent):.1f},",
        f"and the active set {min(exact):.2f} to {max(exact):.1f},",
        f"fewer than one in {n_fewer} of {len(exact)} rows.",
        f"The read-out takes {min(read_out):.1f} to {max(read_out):.1f}.",
        "It is part of the method, finds when a stage is good enough, and no chip does it.",
    )
    return "\n".join(sentences)


def ladder_table(data: dict) -> str:
    """Return what spikes take to 1 % of the optimum at the sizes of the chip's paper."""
    rows = [
        [
            f"{entry['n_unknowns']:,}",
            f"{entry['support']:,}",
            f"{entry['duration']:.0f}",
            f"{entry['spikes']:,}",
            f"{entry['synaptic_operations']:,}",
            f"{entry['neuron_updates']:,} ({entry['time_step']:g})",
            estimate_of(entry)[0].removeprefix("estimate: "),
        ]
        for entry in data["ladder"]
    ]
    header = [
        "unknowns", "non-zero", "time constants", "spikes", "synaptic operations",
        "neuron updates (step)", "energy, estimate",
    ]  # fmt: skip
    return table(header, rows)


def targets(data: dict) -> list[Target]:
    return []


def markdown(data: dict) -> str:
    return (
        "Medians of a signal, to a certified gap. The Gram matrix and the correlations are given to all. "
        "Exact runs have no steps; their neuron updates are those of the clock in the row below.\n"
        f"Energy is an estimate: of networks by the published figures of {LOIHI.name}, without the read-out; "
        f"of the others by {ARITHMETIC_45NM.name}, without memory.\n\n{counts_table(data)}\n\n"
        f"Spikes to {OF_OPTIMUM:.0%} of the optimum, at the sizes of Davies et al. (2018).\n\n"
        f"{ladder_table(data)}"
    )


def plot(data: dict) -> Figure | None:
    designs = data["designs"]
    picture = figure(3.4 * len(designs), 6.4)
    axes = picture.subplots(2, len(designs), sharex=True, squeeze=False)
    for column, (name, design) in enumerate(designs.items()):
        entries = design["entries"]
        counts_ax, energy_ax = axes[:, column]
        gaps = [entry["gap"] for entry in entries]
        for method, colour in COLOURS.items():
            points = [entry["methods"].get(method) for entry in entries]
            if points[0] is None:
                continue
            key = "synaptic_operations" if is_spiking(points[0]) else "multiply_adds"
            style = {"color": colour, "marker": "o", "markersize": 4, "label": method}
            counts_ax.plot(gaps, [point[key] for point in points], **style)
            energies = [estimate_of(point)[1:] for point in points]
            energy_ax.plot(gaps, [1e-6 * own for own, _ in energies], **style)
            if is_spiking(points[0]):
                both = [1e-6 * (own + beside) for own, beside in energies]
                energy_ax.plot(gaps, both, ":", color=colour)
        counts_ax.set(xscale="log", yscale="log", title=name)
        energy_ax.set(xscale="log", yscale="log", xlabel="certified gap")
    axes[0, 0].invert_xaxis()
    axes[0, 0].set_ylabel("synaptic operations, or multiply-adds")
    axes[1, 0].set_ylabel("energy (uJ), an estimate")
    handles = axes[0, 0].get_legend_handles_labels()[0]
    handles.append(Line2D([], [], color=GREY, linestyle=":", label="with the read-out"))
    picture.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return picture
