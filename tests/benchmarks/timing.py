"""How the benchmarks measure: answers first, compile time apart, medians with their spread."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping

import numba
import numpy
import sklearn


def median_seconds(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return (median, spread) of each call's time, the calls taking turns.

    Each is called once before, outside the clock.  The spread is (maximum - minimum) / median.
    """
    for call in calls.values():
        call()
    seconds = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    return {
        name: (statistics.median(values), (max(values) - min(values)) / statistics.median(values))
        for name, values in seconds.items()
    }


def versions() -> str:
    """Return one line on what was measured with."""
    return (
        f"Python {platform.python_version()}, NumPy {numpy.__version__}, Numba {numba.__version__}, "
        f"scikit-learn {sklearn.__version__}; one thread; medians"
    )


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [header, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
