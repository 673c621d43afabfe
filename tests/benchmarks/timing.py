"""Timing of verified answers: compile time is separate, calls take turns, results are medians and spreads."""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from solvers import LassoProblem
from solvers.certificate.corrected import corrected_gaps
from solvers.certificate.optimality import measure


class WrongAnswerError(AssertionError):
    """An answer is wrong; only right answers are timed."""


class Timing(NamedTuple):
    """Seconds of a call: median and quartiles."""

    median: float
    low: float
    high: float
    rounds: int


def timed(
    calls: Mapping[str, Callable[[], object]], *, seconds: float = 1.0, least: int = 3, most: int = 51
) -> dict[str, Timing]:
    """Return the time of each call; the calls take turns, after one round that does not count."""
    for call in calls.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    going = set(calls)
    while going:
        for name in [name for name in calls if name in going]:
            begin = time.perf_counter()
            calls[name]()
            taken[name].append(time.perf_counter() - begin)
            rounds, spent = len(taken[name]), sum(taken[name])
            if (rounds >= least and spent >= seconds) or rounds >= most:
                going.discard(name)
    return {
        name: Timing(*np.quantile(values, [0.5, 0.25, 0.75]).tolist(), len(values))
        for name, values in taken.items()
    }


def in_rows(problem: LassoProblem, codes) -> np.ndarray:
    """Return codes in the library's form, a dense row per signal, from any shape that a peer returns."""
    codes = np.asarray(codes.toarray() if sparse.issparse(codes) else codes)
    wanted = (problem.n_signals, problem.n_atoms)
    if problem.n_signals == 1 and codes.size == problem.n_atoms:
        codes = codes.reshape(wanted)
    # Coordinate descent and LARS may return a negative rounding error for a non-negative code.
    if problem.penalty.is_positive and -1e-12 < codes.min() < 0.0:
        codes = np.maximum(codes, 0.0)
    return np.ascontiguousarray(codes, dtype=float)


def largest_gap(problem: LassoProblem, codes) -> float:
    """Return the largest certified gap of some codes in units of 1/2 ||signal||^2."""
    rows = in_rows(problem, codes)
    gaps = corrected_gaps(problem, sparse.csr_array(rows), measure(problem, rows).duality_gap)
    return float(
        np.divide(gaps, problem.energies, out=np.zeros_like(gaps), where=problem.energies > 0.0).max()
    )


def verify(problem: LassoProblem, codes, tol: float, name: str) -> None:
    """Raise WrongAnswerError if a relative gap is above `tol`."""
    worst = largest_gap(problem, codes)
    if not worst <= tol:
        raise WrongAnswerError(f"{name} must reach a relative gap of {tol:g}; got {worst:.3g}")


def machine() -> str:
    """Return one line that describes the machine and the versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = f"{names[0]}, {len(names)} processors" if names else platform.machine()
    packages = ("numpy", "numba", "scikit-learn", "celer", "skglm", "spams-bin", "brian2")
    installed = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
    versions = ", ".join(f"{name} {installed.get(name, 'not installed')}" for name in packages)
    return f"{processor}; Python {platform.python_version()}, {versions}; one thread; medians"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [header, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)


def in_words(seconds: float) -> str:
    """Return a time in a unit that suits it."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} us"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"
