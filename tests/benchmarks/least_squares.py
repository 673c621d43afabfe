"""Non-negative least squares: a penalty of zero, many right-hand sides, beside SciPy."""

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import nnls

from solvers import LassoProblem, solve_active_set, solve_fista
from tests.benchmarks.report import Target, at_most
from tests.benchmarks.timing import Timing, spread, table, timed, verify

TITLE = "Non-negative least squares"
GAP = 1e-10
NEEDED = 0.3
OURS, FISTA, SCIPY = "active set", "FISTA", "scipy.optimize.nnls, each"


def designs(*, quick: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return columns, a row each, and right-hand sides of each design."""
    n_columns, n_rows, n_signals = (20, 50, 5) if quick else (200, 500, 100)
    rng = np.random.default_rng(0)
    shares = rng.random((n_signals, n_columns)) * (rng.random((n_signals, n_columns)) < 0.3)
    positive = rng.random((n_columns, n_rows))
    noise = 0.5 * rng.standard_normal((n_signals, n_rows))
    random = rng.standard_normal((n_columns, n_rows))
    size = f"{n_rows} x {n_columns}"
    return {
        f"non-negative columns, {size}": (positive, shares @ positive + noise),
        f"random columns, {size}": (random, rng.standard_normal((n_signals, n_rows))),
    }


def run(*, quick: bool) -> dict:
    found = {}
    for name, (columns, signals) in designs(quick=quick).items():

        def problem(columns: np.ndarray = columns, signals: np.ndarray = signals) -> LassoProblem:
            return LassoProblem(columns, signals, 0.0, positive=True)

        ways = {
            OURS: lambda problem=problem: solve_active_set(problem(), tol=GAP).codes,
            FISTA: lambda problem=problem: solve_fista(problem(), tol=GAP).codes,
            SCIPY: lambda columns=columns, signals=signals: np.array(
                [nnls(columns.T, signal)[0] for signal in signals]
            ),
        }
        gaps = {way: verify(problem(), call(), GAP, way) for way, call in ways.items()}
        timings = timed(ways, quick=quick, warm=True)
        found[name] = {way: {"gap": gaps[way], **timings[way]._asdict()} for way in ways}
    return {"designs": found, "n_signals": len(signals)}


def _median(entry: dict) -> float:
    return Timing(**{name: value for name, value in entry.items() if name != "gap"}).median


def targets(data: dict) -> list[Target]:
    return [
        at_most(
            f"{name}, {data['n_signals']} right-hand sides, certified to {GAP:g}, beside SciPy",
            NEEDED,
            _median(entries[OURS]) / _median(entries[SCIPY]),
            f"<= {NEEDED:g}x",
            "x",
        )
        for name, entries in data["designs"].items()
    ]


def markdown(data: dict) -> str:
    rows = []
    for name, entries in data["designs"].items():
        for way, entry in entries.items():
            timing = Timing(**{key: value for key, value in entry.items() if key != "gap"})
            beside = timing.median / _median(entries[SCIPY])
            rows.append([name, way, f"{entry['gap']:.1g}", spread(timing), f"{beside:.2g}x"])
            name = ""
    return (
        f"{data['n_signals']} right-hand sides, a penalty of zero, codes that must not be negative.  The "
        "problem is made within the time, Gram matrix and certificates too; the gap is the largest, in units "
        "of 1/2 ||signal||².\n\n" + table(["", "method", "certified gap", "time", "of SciPy's"], rows)
    )


def plot(data: dict) -> Figure | None:
    return None
