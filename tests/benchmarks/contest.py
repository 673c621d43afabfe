"""Peers side by side on the same problems: answers certified, then timed in turns."""

from collections.abc import Sequence

import numpy as np

from solvers import LassoProblem
from tests.benchmarks.peers import Peer, calibrated, missing, present, quiet
from tests.benchmarks.timing import milliseconds, table, timed, verify


def contest(
    problems: Sequence[LassoProblem],
    peers: Sequence[Peer],
    tol: float,
    *,
    quick: bool,
    required: Sequence[Peer] = (),
    seconds: float = 0.5,
) -> dict:
    """Return what each peer took to a certified relative gap of `tol` on each problem.

    Each is called for `seconds` a problem, and three times at least.  A peer that never gets there
    has NaN; one that is `required` to raises WrongAnswerError instead.
    """
    entrants = present(peers)
    record = {
        peer.name: {"seconds": [], "low": [], "high": [], "gap": 0.0, "own_tol": [], "gram": peer.takes_gram}
        for peer in entrants
    }
    for problem in problems:
        calls = {}
        for peer in entrants:
            call, own_tol = calibrated(peer, problem, tol)
            entry = record[peer.name]
            if call is None:
                if peer in required:
                    with quiet():
                        verify(problem, peer.ask(problem)(tol), tol, peer.name)
                for name in ("seconds", "low", "high", "own_tol"):
                    entry[name].append(float("nan"))
                continue
            # Again, as it will be timed: a second call must not differ from the first.
            with quiet():
                entry["gap"] = max(entry["gap"], verify(problem, call(), tol, peer.name))
            entry["own_tol"].append(own_tol)
            calls[peer.name] = call
        with quiet():
            times = timed(calls, quick=quick, seconds=seconds, warm=True)
        for name, timing in times.items():
            record[name]["seconds"].append(timing.median)
            record[name]["low"].append(timing.low)
            record[name]["high"].append(timing.high)
    return {"tol": tol, "peers": record, "missing": missing(peers), "n_problems": len(problems)}


def _seconds(outcome: dict, name: str) -> np.ndarray:
    """Return the time of each problem, NaN where the peer did not get there."""
    return np.array(outcome["peers"][name]["seconds"], dtype=float)


def faster(outcome: dict, entrant: str, rivals: Sequence[str]) -> float:
    """Return how many times faster `entrant` is than the best of the rivals: the median over the problems."""
    entered = [name for name in rivals if name in outcome["peers"]]
    if not entered:
        return float("nan")
    best = np.min([np.nan_to_num(_seconds(outcome, name), nan=np.inf) for name in entered], axis=0)
    ratios = best / _seconds(outcome, entrant)
    return float(np.median(ratios)) if np.isfinite(ratios).all() else float("nan")


def best_of(outcome: dict, rivals: Sequence[str]) -> str:
    """Return the rival that is fastest by its median."""
    medians = {name: float(np.median(_seconds(outcome, name))) for name in rivals if name in outcome["peers"]}
    return min(medians, key=lambda name: np.nan_to_num(medians[name], nan=np.inf)) if medians else "none"


def median_seconds(outcome: dict, name: str) -> float:
    """Return the median time of a peer; NaN if it did not get there on every problem, or is not there."""
    return float(np.median(_seconds(outcome, name))) if name in outcome["peers"] else float("nan")


def contest_table(outcome: dict, ours: str) -> str:
    """Return the times, fastest first."""
    mine = _seconds(outcome, ours)
    rows = []
    for name, entry in outcome["peers"].items():
        seconds = _seconds(outcome, name)
        if np.isnan(seconds).any():
            rows.append((np.inf, [name, "yes" if entry["gram"] else "no", "not reached", "", "", ""]))
            continue
        half = 50.0 * np.median((np.array(entry["high"]) - np.array(entry["low"])) / seconds)
        ranked = [
            name,
            "yes" if entry["gram"] else "no",
            f"{milliseconds(float(np.median(seconds)))} ±{half:.0f} %",
            f"{milliseconds(float(seconds.min()))} to {milliseconds(float(seconds.max()))}",
            f"{entry['gap']:.1e}",
            f"{np.median(seconds / mine):.2f}x",
        ]
        rows.append((float(np.median(seconds)), ranked))
    header = ["method", "Gram", "median time", "over the problems", "largest gap", f"time / {ours}"]
    written = table(header, [row for _, row in sorted(rows, key=lambda pair: pair[0])])
    if outcome["missing"]:
        written += f"\n\nNot installed, and so not here: {', '.join(outcome['missing'])}."
    return written
