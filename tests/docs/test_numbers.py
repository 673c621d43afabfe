"""A number that a page quotes equals the number in the one table that it comes from."""

import re

import pytest

from tests.docs.pages import ROOT

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
# Rows of the README, as docs/performance.md calls them.
ROWS = {
    "spikes alone, `solve_spiking`": "spikes alone",
    "active set, `solve_active_set`": "active set",
    "FISTA, step size given": "FISTA, lean",
    "scikit-learn": "scikit-learn coordinate descent",
}


def text_of(page):
    return re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8"))


def table(page, *heads):
    """Return the rows of the table whose head has these words; an empty cell repeats the one above it."""
    found = []
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            if found:
                return found[2:]
        elif found or all(head in line for head in heads):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append([cell or (found[-1][k] if found else "") for k, cell in enumerate(cells)])
    raise LookupError(f"{page} must have a table with {heads}")


def number(text):
    """Return the first number of a cell, in seconds if it is a time."""
    value, unit = re.search(r"([\d,]+(?:\.\d+)?(?:e-?\d+)?) ?(us|ms|s)?\b", text).groups()
    return float(value.replace(",", "")) * UNITS.get(unit, 1.0)


PEERS = table("docs/performance.md", "| 64 x 256", "1,024 x 4,096")
SPIKES = table("docs/performance.md", "certified gap", "random, 64 x 256", "patches")
HARD = table("docs/performance.md", "design", "gap by spikes")
LEARNING = table("docs/dictionary_learning.md", "time of 10,240 samples")


def spikes_alone(gap):
    return [number(cell) for row in SPIKES if row[:2] == [gap, "spikes alone"] for cell in row[2:]]


def slower_than_active_set():
    """Return how many times as long spikes alone take as the active set, on all designs."""
    times = {row[0]: [number(cell) for cell in row[1:]] for row in PEERS}
    ratios = [a / b for a, b in zip(times["spikes alone"], times["active set"], strict=True)]
    return sorted(ratios + [number(row[3]) / number(row[4]) for row in HARD])


def test_the_table_of_the_readme_is_that_of_the_page():
    measured = {row[0]: [number(cell) for cell in row[1:]] for row in PEERS}
    quoted = table("README.md", "| 64 x 256", "1,024 x 4,096")
    assert len(quoted) > 5
    for name, *cells in quoted:
        assert [number(cell) for cell in cells] == pytest.approx(measured[ROWS.get(name, name)]), name


def test_operations_are_those_of_the_same_spikes():
    heads, columns = ("certified gap", "random, 64 x 256", "patches"), (2, 3, 5)
    measured = [row for row in table("docs/performance.md", *heads) if row[1] == "spikes alone"]
    rows = {row[0]: [number(row[k]) for k in columns] for row in measured}
    counted = table("docs/operations.md", "synaptic operations", "active set")
    assert {gap: [number(row[2]) for row in counted[:6] if row[1] == gap] for gap in rows} == rows


RATIOS = sorted(number(row[-1]) for row in LEARNING)
TO_1E3, TO_1E6 = spikes_alone("0.001"), spikes_alone("1e-06")
HARDEST = max(number(row[1]) for row in HARD)
THREADS = sorted(number(row[-1]) for row in table("docs/performance.md", "one thread", "two threads"))
CONVOLUTION = [
    1e3 * number(row[3])
    for method in ("active set", "FISTA")
    for row in table("docs/convolution.md", "unknowns", "gap wanted")
    if row[0].startswith("32,256") and row[1:3] == ["1e-06", method]
]
# Bits of weights for 1 % by one run, then in stages: of gaps and of objectives.
PAIRS = ", ".join([r"(\d+) / (\d+)"] * 3)
BITS = [number(row[k]) for k in (1, 2) for row in table("docs/digital.md", "bits for 1 %", "weights, stages")]
BRIAN2 = [number(table("docs/performance.md", "neurons", "a spike", "Brian2")[0][-1])]


@pytest.mark.parametrize(
    ("page", "sentence", "values"),
    [
        ("README.md", r"most data, and takes ([\d.]+) to ([\d.]+) times as long", RATIOS[:: len(RATIOS) - 1]),
        ("README.md", r"Brian2 \(C\+\+\) takes (\d+) times as long", BRIAN2),
        ("README.md", r"alike: (\d+) for 64 x 256 random atoms, ([\d,]+) if .*? up to ([\d,]+) for",
         [TO_1E6[0], TO_1E6[4], HARDEST]),
        ("docs/limits.md", r"Learning takes ([\d.]+) to ([\d.]+) times as long", RATIOS[:: len(RATIOS) - 1]),
        ("docs/validation.md", f" {PAIRS}; in stages {PAIRS} ", BITS),
        ("docs/limits.md", r"some (\d+) spikes to 1e-6 for random atoms to ([\d,]+)", [TO_1E6[0], HARDEST]),
        ("docs/choosing.md", r"([\d.]+) to ([\d.]+) times as fast as spikes alone",
         slower_than_active_set()[:: len(HARD) + 2]),
        ("docs/choosing.md", r"(\d+) to ([\d,]+) spikes to 1e-3, (\d+) to ([\d,]+) to 1e-6",
         [min(TO_1E3), max(TO_1E3), min(TO_1E6), max(TO_1E6)]),
        ("docs/choosing.md", r"32,256 coefficients in (\d+) ms, .*? FISTA takes (\d+) ms", CONVOLUTION),
        ("docs/choosing.md", r"two threads are ([\d.]+) to ([\d.]+) times as fast", THREADS),
        ("docs/choosing.md", r"exponentially with spikes: (\d+) spikes to 1e-6", [TO_1E6[1]]),
    ],
)  # fmt: skip
def test_a_sentence_quotes_its_table(page, sentence, values):
    """Numbers agree in all digits that the sentence gives."""
    quoted = re.search(sentence, text_of(page))
    assert quoted, f"{page} has no sentence like {sentence}"
    for said, value in zip(quoted.groups(), values, strict=True):
        digits = len(said.replace(",", "").replace(".", "").strip("0"))
        assert float(said.replace(",", "")) == float(f"{value:.{digits}g}"), f"{page}: {quoted.group()}"
