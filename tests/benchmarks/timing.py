"""How the benchmarks measure: answers first, compile time apart, medians with their spread."""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numba
import numpy
import numpy as np
import sklearn
from scipy import sparse

from solvers import LassoProblem
from solvers.certificate.optimality import measure


class WrongAnswerError(AssertionError):
    """An answer is not what it must be: nothing is timed that is not right."""


class Timing(NamedTuple):
    """Seconds of a call: median and quartiles."""

    median: float
    low: float
    high: float
    repeats: int


def timed(
    calls: Mapping[str, Callable[[], object]],
    *,
    quick: bool = False,
    seconds: float = 1.0,
    warm: bool = False,
) -> dict[str, Timing]:
    """Return the time of each call, the calls taking turns.

    Each is called once before, outside the clock, unless they are `warm`.  Those that take
    `seconds` in all, and three rounds, are done, and those that take four seconds; none does more than 51,
    but those that take less than a tenth of a second in all.
    """
    budget, least, most = (0.0, 3, 3) if quick else (seconds, 3, 51)
    short, long = 0.0 if quick else 0.1, 4.0
    for call in () if warm else calls.values():
        call()
    taken = {name: [] for name in calls}
    going = True
    while going:
        going = False
        for name, call in calls.items():
            rounds, spent = len(taken[name]), sum(taken[name])
            if (rounds >= least and spent >= budget) or (rounds >= most and spent >= short) or spent >= long:
                continue
            going = True
            begin = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - begin)
    return {name: summary(values) for name, values in taken.items()}


def summary(seconds: Sequence[float]) -> Timing:
    """Return median and quartiles."""
    return Timing(*(float(q) for q in np.quantile(seconds, [0.5, 0.25, 0.75])), len(seconds))


def first_call(call: Callable[[], object]) -> float:
    """Return the seconds of a call that may compile."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def in_rows(problem: LassoProblem, codes) -> np.ndarray:
    """Return codes as the library has them, a dense row a signal, from whatever shape a peer gives."""
    if sparse.issparse(codes):
        codes = codes.toarray()
    codes = np.asarray(codes)
    wanted = (problem.n_signals, problem.n_atoms)
    if problem.n_signals == 1 and codes.size == problem.n_atoms:
        codes = codes.reshape(wanted)
    # Coordinate descent and LARS may leave a positive code at minus a rounding error.
    if problem.positive and -1e-12 < codes.min() < 0.0:
        codes = np.maximum(codes, 0.0)
    return np.ascontiguousarray(codes, dtype=float)


def relative_gaps(problem: LassoProblem, codes) -> np.ndarray:
    """Return the duality gap of each code in units of 1/2 ||signal||^2, as certified."""
    gaps = measure(problem, in_rows(problem, codes)).duality_gap
    return np.divide(gaps, problem.energies, out=np.zeros_like(gaps), where=problem.energies > 0.0)


def verify(problem: LassoProblem, codes, tol: float, name: str) -> float:
    """Return the largest relative gap of the codes; raise WrongAnswerError if it is above `tol`."""
    worst = float(relative_gaps(problem, codes).max())
    if not worst <= tol:
        raise WrongAnswerError(f"{name} must reach a relative gap of {tol:g}; got {worst:.3g}")
    return worst


def versions(*packages: str) -> str:
    """Return one line on what was measured with."""
    named = [
        f"Python {platform.python_version()}",
        f"NumPy {numpy.__version__}",
        f"Numba {numba.__version__}",
        f"scikit-learn {sklearn.__version__}",
    ]
    for package in packages:
        try:
            named.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            named.append(f"{package} not installed")
    return ", ".join(named) + "; one thread; medians"


def processor() -> str:
    """Return the name of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} processors" if names else platform.machine()


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [header, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    """Return a time in a unit that suits it."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} us"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def spread(timing: Timing) -> str:
    """Return a median and half the distance of the quartiles."""
    half = 50.0 * (timing.high - timing.low) / timing.median
    return f"{milliseconds(timing.median)} ±{half:.0f} %"
