"""A number that a page quotes equals the number in the one table that it comes from."""

import re

import pytest

from tests.docs.pages import ROOT

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def text_of(page):
    return re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8"))


def table(page, *heads):
    """Return the rows of the table whose head has these words; an empty cell repeats the cell above it."""
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
    """Return the first number of a cell; a time is in seconds."""
    value, unit = re.search(r"((?:\d[\d,]*)?(?:\.?\d+)(?:e-?\d+)?) ?(us|ms|s)?\b", text).groups()
    return float(value.replace(",", "")) * UNITS.get(unit, 1.0)


PEERS = table("docs/performance.md", "| 64 x 256", "1,024 x 4,096")
SPIKES = table("docs/performance.md", "certified gap", "random, 64 x 256", "patches")
HARD = table("docs/performance.md", "design", "gap by spikes")
LEARNING = table("docs/dictionary_learning.md", "time of 10,240 samples")
SIMULATED = table("docs/performance.md", "neurons", "a spike", "Brian2")


def spikes_alone(gap):
    return [number(cell) for row in SPIKES if row[:2] == [gap, "spikes alone"] for cell in row[2:]]


def cell(rows, name, column=-1):
    """Return the number in a column of the row that begins with this name."""
    return number(next(row for row in rows if row[0] == name)[column])


def slower_than_active_set():
    """Return the sorted ratios of the time of spikes alone to that of the active set, for all designs."""
    times = {row[0]: [number(cell) for cell in row[1:]] for row in PEERS}
    ratios = [a / b for a, b in zip(times["spikes alone"], times["active set"], strict=True)]
    return sorted(ratios + [number(row[3]) / number(row[4]) for row in HARD])


def quoted_by_the_readme():
    """Return the numbers of each row of the README's table, from the pages to which the rows are linked."""
    many = table("docs/performance.md", "a patch", "3,000 patches, to 1e-6")
    wide = table("docs/performance.md", "design", "readings")
    masks = table("docs/masks.md", "a patch", "of one call")
    wide_code = table("docs/many_atoms.md", "peak of the process")
    programs = table("docs/programs.md", "quadprog", "Clarabel")
    half = re.search(
        r"solves half-samples in ([.\d]+ ms) each, celer in ([.\d]+ ms)", text_of("docs/regression.md")
    )
    squares = re.search(
        r"take ([.\d]+ us) a signal. SciPy's `nnls` takes ([.\d]+ us)", text_of("docs/performance.md")
    )
    genes = next(row for row in wide if row[0].startswith("like gene") and row[1] == "0.1")
    ecg = next(row for row in LEARNING if row[0].startswith("windows of an ECG"))
    one = ("active set", "spikes alone", "scikit-learn coordinate descent", "SPAMS", "celer")
    return {
        "one signal": [cell(PEERS, name, 2) for name in one],
        "one of 3,000 patches": [
            cell(many, name) for name in ("active set", "spikes alone", "scikit-learn lasso_cd", "SPAMS")
        ],
        "64 samples of 6,800 genes": [number(genes[4]), number(genes[5])],
        "a half-sample": [number(text) for text in half.groups()],
        "non-negative least squares": [number(text) for text in squares.groups()],
        "a patch with its own missing pixels": [
            cell(masks, name, 1)
            for name in ("`solve_active_set`, one call", "scikit-learn's `Lasso`, one problem each")
        ],
        "a code in 16,384 atoms": [number(wide_code[0][k]) for k in (1, 4, 3)],
        "learning 128 atoms": [number(ecg[k]) for k in (1, 3, 2)],
        "a quadratic program": [number(programs[0][k]) for k in (1, 4, 5)],
        "simulating 256 neurons": [cell(SIMULATED, "256", 2), cell(SIMULATED, "256")],
    }


def test_the_table_of_the_readme_is_that_of_the_pages():
    rows = {
        re.match(r"\[(.+?)\]", row[0]).group(1): row[1:]
        for row in table("README.md", "sparsespike", "others")
    }
    times = {
        name: re.findall(r"(?<!\w)[\d,.]*\d(?: (?:us|ms|s)\b)?", " ".join(cells))
        for name, cells in rows.items()
    }
    quoted = {name: [number(time) for time in texts] for name, texts in times.items()}
    assert quoted == {name: pytest.approx(values) for name, values in quoted_by_the_readme().items()}


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


@pytest.mark.parametrize(
    ("page", "sentence", "values"),
    [
        ("README.md", r"most data, and takes ([\d.]+) to ([\d.]+) times as long", RATIOS[:: len(RATIOS) - 1]),
        ("README.md", r"to 1e-6: (\d+) for 64 x 256 random atoms, ([\d,]+) if .*? up to ([\d,]+) for",
         [TO_1E6[0], TO_1E6[4], HARDEST]),
        ("docs/limits.md", r"Learning takes ([\d.]+) to ([\d.]+) times as long", RATIOS[:: len(RATIOS) - 1]),
        ("docs/limits.md", r"some (\d+) spikes for random atoms, and up to ([\d,]+) spikes",
         [TO_1E6[0], HARDEST]),
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
    """The sentence and its table agree in all digits that the sentence gives."""
    quoted = re.search(sentence, text_of(page))
    assert quoted, f"{page} has no sentence like {sentence}"
    for said, value in zip(quoted.groups(), values, strict=True):
        digits = len(said.replace(",", "").replace(".", "").strip("0"))
        assert float(said.replace(",", "")) == float(f"{value:.{digits}g}"), f"{page}: {quoted.group()}"
