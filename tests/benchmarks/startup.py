"""How long from a fresh interpreter to the first answer?"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure

from tests.benchmarks.report import Target, at_most, number
from tests.benchmarks.timing import WrongAnswerError, table

TITLE = "Start-up"
ROOT = Path(__file__).parents[2]
IMPORTS = """
import time
import numpy, numba
begin = time.perf_counter()
import snn, solvers, dictlearn
print(time.perf_counter() - begin)
"""
FIRST_ANSWER = """
import time
import numpy
import snn, solvers, dictlearn
rng = numpy.random.default_rng(0)
dictionary = rng.standard_normal((64, 32))
problem = solvers.LassoProblem(dictionary, rng.standard_normal((3, 32)), 2.0, positive=True)
begin = time.perf_counter()
result = solvers.solve_spiking(problem, tol=1e-6, polish=True)
print(time.perf_counter() - begin if result.converged else "wrong")
"""
WARM_UP = """
import time
import snn, solvers, dictlearn
found = [package.warm_up for package in (dictlearn, solvers, snn) if hasattr(package, "warm_up")]
begin = time.perf_counter()
for warm_up in found[:1]:
    warm_up()
print(time.perf_counter() - begin if found else "nan")
"""
IMPORT_LIMIT, CALL_LIMIT = 0.6, 0.5


def run(*, quick: bool) -> dict:
    repeats = 1 if quick else 11
    seconds_of(FIRST_ANSWER)  # fills the disk cache
    data = {
        "import": [seconds_of(IMPORTS) for _ in range(repeats)],
        "first_call": [seconds_of(FIRST_ANSWER) for _ in range(repeats)],
        "cold_first_call": None,
        "cold_warm_up": None,
    }
    if not quick:
        for name, program in (("cold_first_call", FIRST_ANSWER), ("cold_warm_up", WARM_UP)):
            with tempfile.TemporaryDirectory(prefix="cold-cache-") as cache:
                data[name] = seconds_of(program, NUMBA_CACHE_DIR=cache)
    return data


def seconds_of(program: str, **environment: str) -> float:
    """Return the seconds that a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        raise WrongAnswerError(
            f"a fresh interpreter must solve a small problem; got {done.stdout!r}"
        ) from None


def targets(data: dict) -> list[Target]:
    return [
        at_most(
            "import, beyond numpy and numba",
            IMPORT_LIMIT,
            statistics.median(data["import"]),
            f"< {IMPORT_LIMIT:g} s",
            " s",
        ),
        at_most(
            "first call, warm disk cache",
            CALL_LIMIT,
            statistics.median(data["first_call"]),
            f"< {CALL_LIMIT:g} s",
            " s",
        ),
    ]


def markdown(data: dict) -> str:
    rows = [
        [name, f"{statistics.median(data[key]):.3f} s", f"{min(data[key]):.3f} to {max(data[key]):.3f} s"]
        for name, key in (
            ("import of snn, solvers, dictlearn, beyond numpy and numba", "import"),
            ("first call of the solver, warm disk cache", "first_call"),
        )
    ]
    for name, key in (
        ("first call of the solver, empty disk cache", "cold_first_call"),
        ("`warm_up()`, empty disk cache", "cold_warm_up"),
    ):
        value = number(data[key])
        rows.append([name, "not measured" if value != value else f"{value:.1f} s", ""])
    return "Each in a fresh interpreter.\n\n" + table(["", "median", "range"], rows)


def plot(data: dict) -> Figure | None:
    return None
