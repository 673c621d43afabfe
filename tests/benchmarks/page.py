"""Write what was measured into the tables of the pages: ``python -m tests.benchmarks.page [FILE ...]``.

A file is the output of ``python -m tests.benchmarks``, by default out/benchmarks.json. Each table of a page
follows a comment ``<!-- table: NAME -->``. A table is written if the files have all its rows, and is
otherwise left as it is. The checks in `tests/docs/test_numbers.py` then name the sentences that quote other
numbers.
"""

import json
import re
import sys
from collections.abc import Callable

from tests.benchmarks.cases import COUNTED, DESCENTS, DESIGNS, HARD, ROOT, WIDE
from tests.benchmarks.timing import in_words, table

SIZES = {"64 x 256": "64 x 256", "256 x 1,024": "256 x 1024", "1,024 x 4,096": "1024 x 4096"}
GAPS = ("0.001", "1e-06")
ONE = (
    "spikes alone",
    "spikes alone, prepared",
    "active set",
    "active set, from spikes",
    "FISTA, lean",
    "SPAMS",
    "scikit-learn coordinate descent",
    "celer",
    "skglm",
)
READ = ("spikes alone", "spikes alone, one window", "spikes alone, rate", "FISTA, lean")
MANY = (
    "spikes alone",
    "spikes alone, clock of 1/4",
    "active set",
    "active set, from spikes",
    "FISTA",
    "SPAMS",
    "scikit-learn lasso_cd",
)
TASKS = {
    "split patches, 256 x 128": "split patches, 256 x 128, batches of 32",
    "the same, batches of 512": "split patches, 256 x 128, batches of 512",
    "signed patches, 256 x 64": "signed patches, 256 x 64, batches of 32",
    "signed numbers, 64 x 64": "signed numbers, 64 x 64, batches of 32",
    "the same, codes of either sign": "signed numbers, 64 x 64, signed codes, batches of 32",
    "the same, offset of 4 deviations": "signed numbers, 64 x 64, offset of 4 deviations, batches of 32",
    "the same, offset of 20 deviations": "signed numbers, 64 x 64, offset of 20 deviations, batches of 32",
    "planted atoms, 100 x 47": "planted, 100 x 47, batches of 32",
    "windows of an ECG, 128 x 64": "windows of an ECG, 128 x 64, batches of 32",
    "windows of an EEG, 128 x 64": "windows of an EEG, 128 x 64, batches of 32",
}

Rows = dict[tuple[str, str], dict]


def in_digits(count: int) -> str:
    """Return a count in three digits, with a unit."""
    size, unit = next(each for each in ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1, "")) if count >= each[0])
    return f"{count / size:.3g}{unit}"


def one_signal(rows: Rows) -> str:
    cells = [
        [name, *(in_words(rows[f"one signal, {size}, 1e-06", name]["seconds"]) for size in SIZES.values())]
        for name in ONE
    ]
    return table(["", *SIZES], cells)


def simulated(rows: Rows) -> str:
    cells = []
    for n_neurons in (256, 1024, 4096):
        row = rows[f"simulate, {n_neurons} neurons", "simulate"]
        n_spikes = row["notes"].removesuffix(" spikes")
        each = in_words(row["seconds"] / int(n_spikes.replace(",", "")))
        cells.append([f"{n_neurons:,}", n_spikes, in_words(row["seconds"]), each, ""])
    cells[0][-1] = f"{rows['simulate, 256 neurons', 'Brian2 C++, rk4, step 1e-3']['ratio']:.0f} times as long"
    return table(["neurons", "spikes in t = 100", "time", "a spike", "Brian2"], cells)


def by_spikes(rows: Rows) -> str:
    def cell(design: str, gap: str, name: str) -> str:
        row = rows.get((f"spikes alone, {design}, {gap}", name))
        if row is None and name in READ[1:3]:
            return "-"
        row = rows[f"spikes alone, {design}, {gap}", name]
        return f"{row['notes'].partition(' spikes')[0]}: {in_words(row['seconds'])}".removeprefix(": ")

    cells = [[gap, name, *(cell(design, gap, name) for design in DESIGNS)] for gap in GAPS for name in READ]
    reached = [row for row in cells if set(row[2:]) != {"-"}]
    return table(["certified gap", "", *DESIGNS], reached)


def beside_descents(rows: Rows, case: str) -> list[str]:
    """Return the times of the active set and of the best coordinate descent, and their ratio."""
    ours = rows[case, "active set"]["seconds"]
    names = [peer.name for peer in DESCENTS if (case, peer.name) in rows]
    best = min(names, key=lambda name: rows[case, name]["seconds"])
    theirs = rows[case, best]["seconds"]
    return [in_words(ours), f"{best}, {in_words(theirs)}", f"{theirs / ours:.2g}x"]


def hard_designs(rows: Rows) -> str:
    cells = []
    for design in HARD:
        row = rows[f"hard design, {design}", "spikes alone"]
        spikes, gap = row["notes"].split(" spikes, gap ")
        beside = beside_descents(rows, f"hard design, {design}")
        cells.append([design, spikes, gap, in_words(row["seconds"]), *beside])
    best = ("active set", "best of scikit-learn, celer, skglm", "best / active set")
    return table(["design", "spikes", "gap by spikes", "spikes alone", *best], cells)


def regressions(rows: Rows) -> str:
    cells = []
    for design, shares in WIDE.items():
        for share in shares:
            case = f"regression, {design}, penalty {share}"
            active, readings = re.findall(r"[\d.]+", rows[case, "active set"]["notes"])
            name = design if share == shares[0] else ""
            cells.append([name, f"{share}", active, readings, *beside_descents(rows, case)])
    best = ("active set", "best of the others", "best / active set")
    return table(["design", "penalty", "active", "readings", *best], cells)


def operations(rows: Rows) -> str:
    cells = []
    for design in COUNTED:
        for gap in GAPS:
            case = f"operations, {design}, {gap}"
            (*network, certificate), *others = (
                [in_digits(int(count)) for count in rows[case, name]["notes"].split(", ")]
                for name in ("spiking", "fista", "active_set")
            )
            cells.append(
                [
                    design if gap == GAPS[0] else "",
                    gap,
                    *network,
                    *(count for (count,) in others),
                    certificate,
                ]
            )
    network = ("spikes", "synaptic operations", "neuron updates", "read-out")
    return table(["", "gap", *network, "FISTA", "active set", "certificate"], cells)


def masks(rows: Rows) -> str:
    ways = [
        row for (case, name), row in rows.items() if case == "a mask for each patch" and name != "control"
    ]
    if not ways:
        raise KeyError("a mask for each patch")
    cells = [[row["method"], in_words(row["seconds"]), f"{row['ratio']:.2g}"] for row in ways]
    return table(["", "a patch", "of one call"], cells)


def many_signals(rows: Rows) -> str:
    def cell(case: str, name: str) -> str:
        """Return the time of a method, or "" if the case was measured without this method."""
        row = rows.get((case, name)) if rows[case, MANY[0]] else None
        return in_words(row["seconds"]) if row else ""

    cases = ("patches of the demo, 1e-3", "3,000 patches, 0.001", "3,000 patches, 1e-06")
    cells = [[name, *(cell(case, name) for case in cases)] for name in MANY]
    return table(
        [
            "a patch",
            "4,240 patches of `make demo`, to 1e-3",
            "3,000 patches, to 1e-3",
            "3,000 patches, to 1e-6",
        ],
        cells,
    )


def two_threads(rows: Rows) -> str:
    cells = []
    for label, name in (("spikes alone", "solve_spiking"), ("active set", "solve_active_set")):
        one, two = (rows["two threads", f"{name}, {n}"]["seconds"] for n in ("1 thread", "2 threads"))
        cells.append([label, in_words(one), in_words(two), f"{one / two:.2f}"])
    return table(["3,000 patches, to 1e-6", "one thread", "two threads", "times as fast"], cells)


def learned(rows: Rows) -> str:
    def told(case: str, name: str) -> str:
        row = rows[f"learn {case}", name]
        objective = re.search(r"objective ([\d.]+)", row["notes"])[1]
        return f"{in_words(row['seconds'])}, {objective}"

    cells = []
    for label, case in TASKS.items():
        network, spams = (rows[f"learn {case}", name]["seconds"] for name in ("two-phase network", "SPAMS"))
        has_third = (f"learn {case}", "scikit-learn") in rows
        cells.append(
            [
                label,
                told(case, "two-phase network"),
                told(case, "SPAMS"),
                told(case, "scikit-learn") if has_third else "",
                f"{network / spams:.1f}",
            ]
        )
    head = "time of 10,240 samples, one thread (`python -m tests.benchmarks learn`)"
    names = ("network: time, objective", "SPAMS: time, objective", "scikit-learn", "network / SPAMS")
    return table([head, *names], cells)


TABLES: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "one signal": ("docs/performance.md", one_signal),
    "hard designs": ("docs/performance.md", hard_designs),
    "wide regression": ("docs/performance.md", regressions),
    "operations": ("docs/operations.md", operations),
    "masks": ("docs/masks.md", masks),
    "simulate": ("docs/performance.md", simulated),
    "spikes alone": ("docs/performance.md", by_spikes),
    "many signals": ("docs/performance.md", many_signals),
    "two threads": ("docs/performance.md", two_threads),
    "learn": ("docs/dictionary_learning.md", learned),
}


def main(files: list[str]) -> int:
    rows: Rows = {}
    for file in files or ["out/benchmarks.json"]:
        with open(file, encoding="utf-8") as text:
            rows |= {(row["case"], row["method"]): row for row in json.load(text)["rows"] if "method" in row}
    for name, (page, written) in TABLES.items():
        path = ROOT / page
        before, line, after = path.read_text(encoding="utf-8").partition(f"<!-- table: {name} -->\n")
        try:
            new = written(rows)
        except KeyError as missing:
            print(f"{page}, {name}: left, since {missing} was not measured")
            continue
        rest = re.sub(r"\A(?:\|.*\n)+", "", after)
        path.write_text(f"{before}{line}{new}\n{rest}", encoding="utf-8")
        print(f"{page}, {name}: written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
