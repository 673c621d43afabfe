"""What the documentation quotes of the benchmarks, written from their figures and never by hand.

A file says where: the text between ``<!-- measured: NAME -->`` and ``<!-- end of NAME -->`` is made anew.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.benchmarks import (
    coarse_clock,
    convergence,
    dictionary_size,
    hard_designs,
    operation_counts,
    peers,
    proved_rates,
    random_designs,
    regression,
    simulator,
    spikes_alone,
)
from tests.benchmarks.contest import best_of, faster, median_seconds
from tests.benchmarks.patches import throughput
from tests.benchmarks.threads import N_JOBS
from tests.benchmarks.timing import milliseconds, table

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "benchmarks"
QUOTING = (
    "README.md",
    "docs/theory.md",
    "docs/performance.md",
    "docs/convolution.md",
    "docs/operations.md",
)
BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(\n<!-- end of \2 -->)", re.DOTALL)
ALONE, ACTIVE_SET = peers.SPIKES.name, peers.ACTIVE_SET.name

Measured = dict[str, dict]


def filled(text: str, measured: Measured) -> str:
    """Return a text with what it quotes made anew, where all of it was measured: every peer, at full size."""

    def fill(found: re.Match) -> str:
        needed, quote = BLOCKS[found[2]]
        if not all(name in measured and _is_whole(measured[name]) for name in needed):
            return found[0]
        return f"{found[1]}{quote(*(measured[name] for name in needed))}{found[3]}"

    return BLOCK.sub(fill, text)


def _is_whole(data: dict) -> bool:
    return not data["quick"] and "not installed" not in data["versions"]


def measured_figures() -> Measured:
    """Return the figures of all sections that are in the documentation."""
    return {file.stem: json.loads(file.read_text()) for file in FIGURES.glob("*.json")}


def fill_documentation() -> None:
    """Write anew what the documentation quotes."""
    measured = measured_figures()
    for name in QUOTING:
        (ROOT / name).write_text(filled((ROOT / name).read_text(), measured))


# -- quotations ----------------------------------------------------------------------------------


def _median(values: list[float]) -> float:
    # A peer that never got there has null.
    return float(np.median(np.array(values, dtype=float)))


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:.2f} us"


def _beside_brian2(data: dict) -> str:
    small = data["networks"][0]
    ours, theirs = small["times"]["fast"]["median"], _median(data["brian2"]["seconds"])
    costs = [
        f"{_micro(network['times']['fast']['median'] / network['n_spikes'])} with {network['n_neurons']:,}"
        for network in data["networks"]
    ]
    return (
        f"The simulator beside Brian2 (C++ standalone, rk4 at a step of {data['brian2']['time_step']:g}, "
        f"same spike counts), {small['n_neurons']} neurons,\n{small['n_spikes']:,} spikes: "
        f"**{1e3 * ours:.2f} ms against {1e3 * theirs:.0f} ms, a factor of {theirs / ours:.0f}**. "
        f"A spike costs {costs[0]} neurons,\n{', '.join(costs[1:])}: few neurons can fire, and only those "
        "are followed spike by spike."
    )


def _cost_of_spikes(data: dict) -> str:
    rows = [
        [
            f"{network['n_neurons']:,}",
            f"{network['n_spikes']:,}",
            _micro(network["times"]["fast"]["median"] / network["n_spikes"]),
            _micro(network["times"]["plain"]["median"] / network["n_spikes"]),
        ]
        for network in data["networks"]
    ]
    header = ["neurons", f"spikes in t = {data['duration']:g}", "a spike", "touching every neuron, a spike"]
    theirs = milliseconds(_median(data["brian2"]["seconds"]))
    return (
        f"{table(header, rows)}\n\nBrian2 takes {theirs} with {data['networks'][0]['n_neurons']} neurons, "
        f"**{simulator.brian2_over_ours(data):.0f} times as long**."
    )


def _spikes_alone(data: dict) -> str:
    """What spikes do alone, beside FISTA."""
    designs = data["designs"]
    shown = (
        peers.SPIKES, peers.PREPARED_SPIKES, peers.ONE_WINDOW, peers.RATE, peers.LEAN_FISTA,
        peers.DENSE_FISTA,
    )  # fmt: skip
    rows = []
    for k, gap in enumerate(spikes_alone.GAPS):
        for peer in shown:
            cells = []
            for entries in designs.values():
                cell = spikes_alone.duration(spikes_alone.seconds_of(entries[k], peer))
                if peer in peers.ALONE:
                    counted = spikes_alone.median(entries[k]["n_spikes"][peer.name])
                    cell = cell if np.isnan(counted) else f"{spikes_alone.count(counted)}: {cell}"
                cells.append(cell)
            rows.append([f"{gap:g}" if peer is peers.SPIKES else "", peer.name, *cells])
    return table(["certified gap", "", *designs], rows)


def _spikes_in_short(data: dict) -> str:
    """The coarsest and the finest gap, and lean FISTA: the first table of the README."""
    designs = data["designs"]
    rows = []
    for k in (0, len(spikes_alone.GAPS) - 1):
        entries = [levels[k] for levels in designs.values()]
        for peer in (peers.SPIKES, peers.LEAN_FISTA):
            cells = [spikes_alone.duration(spikes_alone.seconds_of(entry, peer)) for entry in entries]
            if peer is peers.SPIKES:
                counts = [spikes_alone.median(entry["n_spikes"][peer.name]) for entry in entries]
                cells = [
                    f"{spikes_alone.count(n)} spikes, {cell}" for n, cell in zip(counts, cells, strict=True)
                ]
            rows.append([f"{spikes_alone.GAPS[k]:g}" if peer is peers.SPIKES else "", peer.name, *cells])
    return table(["certified gap", "", *designs], rows)


def _one_signal(data: dict) -> str:
    sizes = data["sizes"]
    header = [""] + [f"{size['n_features']:,} x {size['n_atoms']:,}" for size in sizes]
    ours = [peer.name for peer in random_designs.ENTRANTS if peer.package is None]
    rows = []
    for name in (*ours, "SPAMS", "scikit-learn coordinate descent", "celer", "skglm"):
        # With its Gram matrix or without, whichever is faster.
        times = [
            min(
                _median(entry["seconds"])
                for one, entry in size["precise"]["peers"].items()
                if one in (name, f"{name} with Gram")
            )
            for size in sizes
        ]
        rows.append([name, *map(milliseconds, times)])
    return table(header, rows)


def _batches(data: dict, threads: dict) -> str:
    seconds = {name: 1e6 / rate for name, rate in throughput(data).items()}
    spams = min(value for name, value in seconds.items() if name.startswith("SPAMS"))
    works = threads["works"].values()
    gains = [times["1"]["median"] / times["2"]["median"] for times in works]
    demo = data["demo"]
    alone, fista = (median_seconds(demo["contest"], peer.name) for peer in (peers.SPIKES, peers.FISTA))
    return (
        f"The {demo['n_patches']:,} patches of `make demo`, certified to 1e-3 by spikes alone "
        f"({demo['n_spikes']:,.0f} spikes a patch): **{alone:.2f} s, FISTA {fista:.2f} s**.\n"
        f"{data['n_patches']:,} patches in {data['n_atoms']} learned atoms ({data['n_nonzero']:.1f} "
        f"non-zeros), certified to 1e-6: spikes alone {seconds[ALONE]:.0f} us a patch\n"
        f"({data['n_spikes']:.0f} spikes), the active-set method **{seconds[ACTIVE_SET]:.1f} us**, SPAMS "
        f"{spams:.1f} us, scikit-learn's lasso_cd {seconds['scikit-learn lasso_cd']:.0f} us.\n"
        f"Two threads are {min(gains):.2f} to {max(gains):.2f} times as fast as one."
    )


def _threads(data: dict) -> str:
    rows = [
        [
            name,
            *(milliseconds(times[str(n_jobs)]["median"]) for n_jobs in N_JOBS),
            f"{times['1']['median'] / times['2']['median']:.2f}x",
        ]
        for name, times in data["works"].items()
    ]
    return table(["work", "one thread", "two threads", "faster"], rows)


def _sizes(data: dict) -> str:
    parts = dictionary_size.part_names()
    header = ["atoms"]
    for series in data["series"]:
        fired = series["points"][0]["support"]
        header += [f"{series['n_features']} features, {fired} active: {part}" for part in parts]
    rows = []
    for points in zip(*(series["points"] for series in data["series"]), strict=True):
        costs = [
            f"{dictionary_size.microseconds(point, part):.2f} us"
            for point in points
            for part in range(len(parts))
        ]
        rows.append([f"{points[0]['n_atoms']:,}", *costs])
    growth = [
        f"{dictionary_size.growth(series, part):.2f}x"
        for series in data["series"]
        for part in range(len(parts))
    ]
    return table(header, [*rows, ["**growth**", *growth]])


def _precise(data: dict) -> str:
    rivals = [peer.name for peer in peers.CLASSICAL]
    shown = ("SPAMS with Gram", "scikit-learn coordinate descent", "skglm with Gram", "celer")
    ours = [peer.name for peer in random_designs.ENTRANTS if peer.package is None]
    rows = [
        [
            f"{size['n_features']} x {size['n_atoms']}",
            *(milliseconds(_median(size["precise"]["peers"][name]["seconds"])) for name in (*ours, *shown)),
            best_of(size["precise"], rivals),
            f"{faster(size['precise'], peers.PREPARED_ACTIVE_SET.name, rivals):.2f}x",
        ]
        for size in data["sizes"]
    ]
    return table(["", *ours, *shown, "best of the others", "best / active set, prepared"], rows)


def _hard(data: dict) -> str:
    rows = []
    for name, outcome in data["designs"].items():
        best = best_of(outcome, hard_designs.RIVALS)
        spikes = data["spikes"][name]
        rows.append(
            [
                name,
                f"{_median(spikes['n_spikes']):,.0f}",
                f"{max(spikes['gap']):.0e}",
                spikes_alone.duration(median_seconds(outcome, ALONE)),
                milliseconds(median_seconds(outcome, ACTIVE_SET)),
                f"{best}, {milliseconds(_median(outcome['peers'][best]['seconds']))}",
                f"{faster(outcome, ACTIVE_SET, hard_designs.RIVALS):.2g}x",
            ]
        )
    header = ["design", "spikes", "gap by spikes", ALONE, ACTIVE_SET, "best of scikit-learn, celer, skglm"]
    return table([*header, "best / active set"], rows)


def _regression(data: dict) -> str:
    rows = []
    for name, design in data["designs"].items():
        for share, entry in design["penalties"].items():
            outcome = entry["contest"]
            cells = []
            for ours, others in (
                (regression.OURS, regression.RIVALS),
                (regression.WITH_GRAM, regression.RIVALS_WITH_GRAM),
            ):
                rivals = [peer.name for peer in others]
                best = best_of(outcome, rivals)
                cells += [
                    milliseconds(median_seconds(outcome, ours.name)),
                    f"{best.removesuffix(' with Gram').removesuffix(', no Gram')}, "
                    f"{milliseconds(median_seconds(outcome, best))}",
                    f"{faster(outcome, ours.name, rivals):.2g}x",
                ]
            first = name if share == next(iter(design["penalties"])) else ""
            rows.append([first, share, f"{entry['support']:,}", f"{entry['readings']:.1f}", *cells])
    contest = ["best of the others", "best / active set"]
    first = ["design", "penalty", "active", "readings"]
    return table([*first, ACTIVE_SET, *contest, f"{ACTIVE_SET} with Gram", *contest], rows)


def _convolution_sentence(data: dict) -> str:
    small, large = data["sizes"]

    def one(size: dict, fista: str) -> str:
        read = size["rate"]
        return (
            f"{size['n_unknowns']:,} unknowns in {milliseconds(read['seconds'])} by {read['n_spikes']:,} "
            f"spikes, {fista} {milliseconds(size['fista_seconds'])}"
        )

    def certified(size: dict, name: str, gap: float) -> dict:
        return next(row for row in size["certified_codes"] if (row["name"], row["wanted"]) == (name, gap))

    alone, fista = (certified(small, name, 1e-6) for name in ("spikes alone", "FISTA"))
    exact = certified(large, "active set", 1e-6)
    words = (
        f"Convolutional codes of a photograph, {small['n_unknowns']:,} unknowns, to a certified gap of 1e-6:",
        f"spikes alone {alone['seconds']:.2f} s, {alone['n_steps']:,} spikes; "
        f"FISTA {fista['seconds']:.2f} s.",
        f"To 1 % of the optimum, as the paper has it, by rates: {one(small, 'FISTA')};",
        f"{one(large, 'FISTA')}, {large['peak_memory']:.1f} GB. The active-set method",
        f"takes the large one to machine precision in {exact['seconds']:.1f} s "
        "([docs/convolution.md](docs/convolution.md)).",
    )
    return "\n".join(words)


def _convolution_coarse(data: dict) -> str:
    rows = [
        [
            f"{size['n_unknowns']:,} ({size['side']} x {size['side']})",
            *(
                f"{milliseconds(size[name]['seconds'])}: {size[name]['n_spikes']:,} spikes"
                for name in ("rate", "current")
            ),
            f"{milliseconds(size['fista_seconds'])}: {size['fista_iterations']} iterations",
            f"{size['fista_seconds'] / size['rate']['seconds']:.1f}",
            f"{size['peak_memory']:.2f} GB",
        ]
        for size in data["sizes"]
    ]
    header = [
        "unknowns",
        "spikes, rates",
        "spikes, average currents",
        "FISTA",
        "FISTA / rates",
        "peak memory",
    ]
    return table(header, rows)


def _convolution_exact(data: dict) -> str:
    rows = [
        [
            f"{size['n_unknowns']:,}, {size['support']:,} active",
            f"{row['wanted']:g}",
            row["name"],
            milliseconds(row["seconds"]),
            f"{row['n_steps']:,}",
            f"{row['gap']:.0e}",
        ]
        for size in data["sizes"]
        for row in size["certified_codes"]
    ]
    return table(["unknowns", "gap wanted", "method", "time", "spikes, iterations or rounds", "gap"], rows)


BLOCKS: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "beside-brian2": (("simulator",), _beside_brian2),
    "cost-of-spikes": (("simulator",), _cost_of_spikes),
    "spikes-alone": (("spikes",), _spikes_alone),
    "spikes-in-short": (("spikes",), _spikes_in_short),
    "spikes-needed": (("spikes",), spikes_alone.spikes_table),
    "spikes-control": (("spikes",), spikes_alone.control_table),
    "convergence": (("convergence",), convergence.slopes_table),
    "proved": (("proved",), proved_rates.constants_table),
    "clock-gaps": (("clock",), coarse_clock.gaps_tables),
    "clock-solver": (("clock",), coarse_clock.solver_tables),
    "one-signal": (("random",), _one_signal),
    "precise": (("random",), _precise),
    "hard": (("hard",), _hard),
    "regression": (("regression",), _regression),
    "batches": (("patches", "threads"), _batches),
    "threads": (("threads",), _threads),
    "sizes": (("size",), _sizes),
    "operations": (("operations",), operation_counts.short_table),
    "operations-summary": (("operations",), operation_counts.summary),
    "operations-energy": (("operations",), operation_counts.energy_table),
    "operations-sizes": (("operations",), operation_counts.ladder_table),
    "convolution": (("convolution",), _convolution_sentence),
    "convolution-coarse": (("convolution",), _convolution_coarse),
    "convolution-exact": (("convolution",), _convolution_exact),
}
"""Sections that a quotation needs, and what makes it."""
