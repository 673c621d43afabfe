"""Solve a hundred thousand nasty problems, and have each status and gap judged in exact arithmetic.

    python -m tests.stress.random_problems --problems 100000 --seed 0

A problem is random (`nasty_problems`), so are the method and its tolerance.  Of each answer it is checked:

- the reported duality gap is a number, not negative, and not below the exact one (`exact_judge`);
- a signal that is said to have converged has an exact gap of at most tol times its exact energy;
- objective and codes are finite, signs are as asked for, atoms of norm zero have zero codes;
- a code is the same, to the bit, without the other signals of its batch (spikes and active set);
- what the caller passed is as it was;
- an error is a TypeError or ValueError of the library, in one sentence, and what breaks a rule is refused; a
  MemoryError names what exceeds the limit;
- warnings are of the two kinds that are documented, and point at the line of the call.

With ``--results FILE`` a summary is written there every thousand problems, and a run that was stopped goes on
from it.  ``--only N`` runs one problem again, and says what happened.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import contextlib
import copy
import json
import math
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

import solvers
from examples._results import write_results
from snn.digital import DigitalFormat, FixedPoint
from solvers import (
    IllPosedWarning,
    LassoProblem,
    PreparedLasso,
    SparseCodingResult,
    SparseCodingStream,
    Status,
    memory_limit,
    path,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_digital,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from tests.stress.exact_judge import Judge
from tests.stress.nasty_problems import LIMITED, NastyProblem, nasty_problem
from tests.stress.watched import CRASHED, HUNG, watched

ROOT = Path(solvers.__file__).parents[1]
# Seconds of this process for one problem, and seconds of the clock after which it is hung.
PATIENCE_OF_PROCESS, PATIENCE = 60.0, 300.0
# A share of the energy, which the library rounds.
ENERGY_ROUNDING = Fraction(1, 10**14)
# Shares of the objective, a sum of terms that are not negative, and of the square of what the terms of a code
# may add up to, of which a residual keeps some 70 bits.
OBJECTIVE_ROUNDING, ROUNDING_OF_TERMS = Fraction(1, 10**10), Fraction(1, 10**30)
SAVE_EVERY = 1000
COMMAND = "python -m tests.stress.random_problems"
SENTENCE = re.compile(r"[^\n]+[^.\n]")
# Decades of the picture: of tolerances, and of gaps; below the last all are one.
TOLERANCES, GAPS = np.arange(-16.0, 2.01, 0.25), np.arange(-20.0, 4.01, 0.25)


class Broken(AssertionError):
    """A promise was not kept."""


Solved = Iterator[tuple[SparseCodingResult, np.ndarray, float]]
"""Results, with the signals that they are of, and the multiple of the penalty."""


def _problem(nasty: NastyProblem) -> LassoProblem:
    return LassoProblem(nasty.dictionary, nasty.signals, nasty.penalty, **nasty.arguments)


def _whole(solve: Callable[..., SparseCodingResult], draw: Callable, starts: float = 0.0) -> Callable:
    """Return a method that solves a problem at once; `draw` returns random arguments."""

    def method(nasty: NastyProblem, rng: np.random.Generator, tol: float) -> Solved:
        arguments = draw(rng)
        problem = _problem(nasty)
        if rng.random() < starts:
            arguments["start"] = _start(rng, nasty)
        result = solve(problem, tol=tol, **arguments)
        everyone = np.arange(problem.n_signals)
        yield result, everyone, 1.0
        # With almost no memory, few signals go another way than many.
        is_whole = solve in (solve_spiking, solve_active_set) and LIMITED not in nasty.tags
        if is_whole and problem.n_signals > 1 and "start" not in arguments:
            one = int(rng.integers(problem.n_signals))
            alone = solve(problem.subset(slice(one, one + 1)), tol=tol, **arguments)
            if not np.array_equal(alone.codes[0], result.codes[one]):
                raise Broken("the code of a signal depends on the others of its batch")
            yield alone, everyone[one : one + 1], 1.0

    return method


def _start(rng: np.random.Generator, nasty: NastyProblem) -> Any:
    shape = (len(nasty.values), len(nasty.atoms))
    start = rng.standard_normal(shape) * (rng.random(shape) < 0.4) * 10.0 ** rng.uniform(-6, 6)
    start = np.abs(start) if nasty.positive else start
    return sparse.csr_array(start) if rng.random() < 0.3 else start


def _one_by_one(nasty: NastyProblem, rng: np.random.Generator, tol: float) -> Solved:
    """Solve by `PreparedLasso`."""
    arguments = dict(nasty.arguments)
    own = {
        name: arguments.pop(name)
        for name in ("mask", "feature_weights")
        if name in arguments and (np.ndim(arguments[name]) == 2 or rng.random() < 0.3)
    }
    prepared = PreparedLasso(nasty.dictionary, nasty.penalty, **arguments)
    solve = solve_active_set if rng.random() < 0.6 else solve_spiking
    signals = nasty.signals
    for row in range(len(nasty.values)):
        one = signals[row : row + 1]
        mask = {name: array if np.ndim(array) == 1 else array[row : row + 1] for name, array in own.items()}
        yield solve(prepared.with_signals(one, **mask), tol=tol), np.array([row]), 1.0


def _stream(nasty: NastyProblem, rng: np.random.Generator, tol: float) -> Solved:
    """Code signal after signal by a stream, and perhaps all of them again."""
    arguments = dict(nasty.arguments)
    masks = [None] * len(nasty.values)
    if np.ndim(arguments.get("mask")) == 2:
        masks = list(arguments.pop("mask"))
    stream = SparseCodingStream(nasty.dictionary, nasty.penalty, **arguments)
    limits = {"max_duration": float(rng.choice([30.0, 1000.0]))}
    if rng.random() < 0.3:
        limits["max_spikes"] = int(rng.integers(1, 200))
    for _ in range(int(rng.integers(1, 3))):
        for row, mask in enumerate(masks):
            frame = nasty.values[row] if sparse.issparse(nasty.signals) else nasty.signals[row]
            yield stream.code(frame, mask=mask, tol=tol, **limits), np.array([row]), 1.0


def _path(nasty: NastyProblem, rng: np.random.Generator, tol: float) -> Solved:
    # Powers of two, so that penalties are multiplied without rounding.
    multiples = 2.0 ** -np.cumsum(rng.integers(1, 6, size=int(rng.integers(1, 6)))).astype(float)
    # The active set as often as two others; the analog flow would take minutes without a limit of its time.
    names = [name for name, method in solvers.METHODS.items() if method.takes.start and name != "analog"]
    method = str(rng.choice(["active_set", *names]))
    found = path(_problem(nasty), multiples, method=method, tol=max(tol, 1e-10))
    for result, multiple in zip(found.results, multiples, strict=True):
        yield result, np.arange(len(nasty.values)), float(multiple)


def _few_threads(rng: np.random.Generator) -> dict[str, Any]:
    return {"n_jobs": 2} if rng.random() < 0.02 else {}


def _of_spikes(**fixed: Any) -> Callable[[np.random.Generator], dict[str, Any]]:
    def draw(rng: np.random.Generator) -> dict[str, Any]:
        arguments = {"max_duration": float(rng.choice([30.0, 300.0, 2000.0])), **fixed, **_few_threads(rng)}
        if "refine" in fixed:
            arguments["refine"] = bool(rng.random() < 0.7)
        if "time_step" in fixed:
            arguments["time_step"] = float(rng.choice([0.0625, 0.25, 1.0]))
        return arguments

    return draw


def _of_digital(rng: np.random.Generator) -> dict[str, Any]:
    arguments = {"max_duration": float(rng.choice([50.0, 300.0])), "refine": bool(rng.random() < 0.7)}
    if rng.random() < 0.5:
        arguments["format"] = DigitalFormat(weights=FixedPoint(bits=int(rng.integers(3, 17))))
    if not arguments["refine"] and rng.random() < 0.5:
        arguments["readout"] = "rate"
    return arguments


METHODS: dict[str, tuple[float, Callable]] = {
    # How often, and the method.
    "spikes, smooth": (5.0, _whole(solve_spiking, _of_spikes(refine=True), starts=0.1)),
    "spikes, rate": (1.5, _whole(solve_spiking, _of_spikes(readout="rate"))),
    "spikes, current": (1.5, _whole(solve_spiking, _of_spikes(readout="current"))),
    "spikes, polished": (3.0, _whole(solve_spiking, _of_spikes(polish=True))),
    "spikes on a clock": (1.5, _whole(solve_spiking, _of_spikes(time_step=0.25), starts=0.1)),
    "active set": (5.0, _whole(solve_active_set, _few_threads, starts=0.2)),
    "prepared": (2.0, _one_by_one),
    "stream": (2.0, _stream),
    "path": (1.0, _path),
    "FISTA": (2.0, _whole(solve_fista, lambda rng: {"max_iter": int(rng.choice([20, 300, 2000]))}, 0.2)),
    "coordinate descent": (
        1.0,
        _whole(solve_coordinate_descent, lambda rng: {"max_iter": int(rng.choice([100, 1000]))}, 0.2),
    ),
    "LARS": (1.0, _whole(solve_lars, lambda rng: {})),
    "analog": (0.5, _whole(solve_analog, lambda rng: {"max_duration": float(rng.choice([5.0, 50.0]))}, 0.2)),
    "digital": (1.0, _whole(solve_digital, _of_digital)),
}
# Methods of the registry that are above, by their functions.
ABOVE = {
    *("spiking", "spiking_one_window", "spiking_rate", "spiking_current", "active_set_from_spikes"),
    *("active_set", "fista", "coordinate_descent", "lars", "analog", "digital"),
}
METHODS |= {
    name: (0.5, _whole(method, _few_threads, 0.2 if method.takes.start else 0.0))
    for name, method in solvers.METHODS.items()
    if name not in ABOVE
}
CHANCES = np.array([chance for chance, _ in METHODS.values()])
CHANCES /= CHANCES.sum()


def run(seed: int, number: int) -> dict[str, Any]:
    """Solve one problem; return what happened: method, outcome, and the rows that were judged."""
    rng = np.random.default_rng([seed, number])
    nasty = nasty_problem(rng)
    name = str(rng.choice(list(METHODS), p=CHANCES))
    if name == "stream" and "feature_weights" in nasty.arguments:
        name = "prepared"  # a stream has none
    tol = float(10.0 ** rng.uniform(-13.0, -1.0)) if rng.random() < 0.95 else float(rng.choice([1e-16, 10.0]))
    told: dict[str, Any] = {"method": name, "tags": nasty.tags, "rows": [], "outcome": "solved"}
    before = _contents(nasty)
    started = time.process_time()
    try:
        with _limit_of_time(), memory_limit(1.0) if LIMITED in nasty.tags else contextlib.nullcontext():
            told["rows"] = list(_judged(nasty, METHODS[name][1], rng, tol))
        if nasty.is_broken:
            raise Broken("what breaks a rule was not refused")
    except (TypeError, ValueError, MemoryError) as error:
        told["outcome"] = "refused"
        told["message"] = f"{type(error).__name__}: {error}"
        complaint = _complaint_of_refusal(error)
        if complaint:
            told.update(
                outcome="failed", message=f"{complaint}: {''.join(traceback.format_exception(error))}"
            )
    except Exception as error:
        told["outcome"] = "failed"
        told["message"] = "".join(traceback.format_exception(error))
    if told["outcome"] != "failed" and _contents(nasty) != before:
        told.update(outcome="failed", message="an argument was changed")
    told["seconds"] = time.process_time() - started
    return told


def _judged(
    nasty: NastyProblem, method: Callable, rng: np.random.Generator, tol: float
) -> Iterator[tuple[bool, float, float]]:
    """Yield of each code whether it converged, and the decades of tol and of the exact gap as a share of the
    energy."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = list(method(nasty, rng, tol))
    judges: dict[float, Judge] = {}
    is_missed = False
    for result, signals, multiple in results:
        if multiple not in judges:
            judges[multiple] = Judge(
                nasty.atoms,
                nasty.values,
                nasty.l1 * multiple,
                nasty.l2 * multiple,
                nasty.weights,
                positive=nasty.positive,
            )
        _check_result(nasty, result, len(signals))
        is_missed |= not result.converged
        for row, signal_of_row in enumerate(signals):
            yield _check_code(judges[multiple], result, row, int(signal_of_row))
    _check_warnings(caught, is_missed and result.method != "stream")


def _check_result(nasty: NastyProblem, result: SparseCodingResult, n_signals: int) -> None:
    codes = result.codes
    if codes.shape != (n_signals, len(nasty.atoms)):
        raise Broken(f"codes have the shape {codes.shape}")
    if not np.isfinite(codes).all():
        raise Broken("a code is not finite")
    if nasty.positive and codes.min() < 0.0:
        raise Broken("a code is negative")
    if codes[:, ~nasty.atoms.any(axis=1)].any():
        raise Broken("an atom of norm zero has a code")
    if np.count_nonzero(result.sparse_codes.data) != np.count_nonzero(codes):
        raise Broken("sparse codes have duplicates")
    for name in ("objective", "duality_gap", "kkt_violation"):
        figures = getattr(result, name)
        # A gap is infinite where squares of correlations leave the range of floats: nothing is certified.
        largest = math.inf if name == "duality_gap" else np.finfo(float).max
        if figures.shape != (n_signals,) or not ((figures >= 0.0) & (figures <= largest)).all():
            raise Broken(f"{name} is {figures}")
    if (result.n_steps < 0).any():
        raise Broken(f"n_steps is {result.n_steps}")


def _check_code(
    judge: Judge, result: SparseCodingResult, row: int, signal_of_row: int
) -> tuple[bool, float, float]:
    verdict = judge.judge(result.codes[row], signal_of_row)
    has_converged = bool(result.status[row] == Status.CONVERGED)
    if np.isinf(result.duality_gap[row]) and not has_converged:
        return False, decades(Fraction(result.tol)), decades(verdict.gap, verdict.energy)
    reported = Fraction(float(result.duality_gap[row]))
    gap = verdict.gap
    if reported < gap and judge.has_small_penalty(signal_of_row):
        gap = judge.distance(result.codes[row], signal_of_row)
    if reported < gap:
        raise Broken(f"the reported gap is {float(reported)}, below the exact one, {float(gap)}")
    objective = Fraction(float(result.objective[row]))
    rounding = OBJECTIVE_ROUNDING * verdict.objective + ROUNDING_OF_TERMS * verdict.terms**2
    if abs(objective - verdict.objective) > rounding:
        raise Broken(
            f"the reported objective is {float(objective)}, the exact one {float(verdict.objective)}"
        )
    tol, energy = Fraction(result.tol), verdict.energy
    if has_converged and gap > tol * energy * (1 + ENERGY_ROUNDING):
        raise Broken(f"converged, but the exact gap is {float(gap / energy)} of the energy")
    if has_converged and reported > tol * energy * (1 + ENERGY_ROUNDING):
        raise Broken(f"converged, but the reported gap is {float(reported / energy)} of the energy")
    if not has_converged and reported < tol * energy * (1 - ENERGY_ROUNDING):
        raise Broken(f"not converged, but the reported gap is {float(reported / energy)} of the energy")
    return has_converged, decades(tol), decades(gap, energy)


def decades(number: Fraction, unit: Fraction = Fraction(1)) -> float:
    """Return the logarithm of number / unit; minus infinity of zero."""
    return math.log10(float(number / unit)) if unit and number and float(number / unit) else -math.inf


def _check_warnings(caught: list[warnings.WarningMessage], is_missed: bool) -> None:
    for warning in caught:
        if not issubclass(warning.category, (ConvergenceWarning, IllPosedWarning)):
            raise Broken(f"warned of {warning.category.__name__}: {warning.message}, {warning.filename}")
        if Path(warning.filename) != Path(__file__):
            raise Broken(f"a warning points at {warning.filename}: {warning.message}")
        if not SENTENCE.fullmatch(str(warning.message)):
            raise Broken(f"a warning is not a sentence: {warning.message}")
    if is_missed and not any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        raise Broken("a signal missed tol without a warning")


def _complaint_of_refusal(error: Exception) -> str | None:
    """Return what is wrong with an error."""
    frames = traceback.extract_tb(error.__traceback__)
    if not Path(frames[-1].filename).is_relative_to(ROOT) or frames[-1].filename == __file__:
        return "an error of another program"
    message = str(error)
    if not SENTENCE.fullmatch(message) or not re.search(r" (must|has|have|needs?|is|takes?) ", message):
        return "not one sentence"
    return None


def _contents(nasty: NastyProblem) -> list[Any]:
    """Return a copy of the numbers of all arguments."""
    things = [nasty.signals, nasty.penalty, *nasty.arguments.values()]
    dictionary = nasty.dictionary
    things.append(getattr(dictionary, "kernels", dictionary))
    contents: list[Any] = []
    for thing in things:
        if sparse.issparse(thing):
            contents += [thing.data.tobytes(), thing.indices.tobytes(), thing.indptr.tobytes()]
        elif isinstance(thing, np.ndarray):
            contents += [thing.tobytes(), thing.dtype, thing.shape, thing.strides]
        elif hasattr(thing, "__dict__"):
            contents.append(
                [np.asarray(value).tobytes() for value in (getattr(thing, "l1", 0), getattr(thing, "l2", 0))]
            )
        else:
            contents.append(repr(copy.copy(thing)))
    return contents


@contextlib.contextmanager
def _limit_of_time() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Broken(f"not done after {PATIENCE_OF_PROCESS:.0f} s")

    handler = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_OF_PROCESS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, handler)


class Summary:
    """Counts of what happened, as they are written to a file."""

    def __init__(self, seed: int) -> None:
        self.seed, self.problems, self.seconds = seed, 0, 0.0
        self.methods: dict[str, Counter] = {name: Counter() for name in METHODS}
        self.worst = dict.fromkeys(METHODS, -math.inf)
        self.slowest = dict.fromkeys(METHODS, 0.0)
        self.tags: Counter = Counter()
        self.failures: list[dict[str, Any]] = []
        shape = (2, len(TOLERANCES) - 1, len(GAPS) - 1)
        self.picture = np.zeros(shape, dtype=int)

    def add(self, number: int, told: dict[str, Any] | str) -> None:
        """Count one problem."""
        self.problems += 1
        if told in (CRASHED, HUNG):
            told = {"method": "unknown", "tags": [], "rows": [], "outcome": "failed", "message": told}
        counts = self.methods.setdefault(told["method"], Counter())
        counts["problems"] += 1
        counts[told["outcome"]] += 1
        self.tags.update(told["tags"])
        self.slowest[told["method"]] = max(self.slowest.get(told["method"], 0.0), told.get("seconds", 0.0))
        if told["outcome"] == "failed":
            self.failures.append({"number": number, **{key: told[key] for key in ("method", "message")}})
        for has_converged, tol, gap in told["rows"]:
            counts["converged" if has_converged else "not converged"] += 1
            if has_converged:
                self.worst[told["method"]] = max(self.worst[told["method"]], gap - tol)
            column = np.clip(np.searchsorted(TOLERANCES, tol, side="right") - 1, 0, len(TOLERANCES) - 2)
            row = np.clip(np.searchsorted(GAPS, gap, side="right") - 1, 0, len(GAPS) - 2)
            self.picture[int(has_converged), column, row] += 1

    def forget(self, failure: dict[str, Any], tags: list[str]) -> None:
        """Take a problem that failed out, so that it can be added again."""
        self.problems -= 1
        counts = self.methods[failure["method"]]
        counts.subtract(["problems", "failed"])
        self.methods[failure["method"]] = +counts
        self.tags.subtract(tags)
        self.failures.remove(failure)

    @classmethod
    def read(cls, file: Path, seed: int) -> Summary:
        """Return the summary of a file, or an empty one."""
        summary = cls(seed)
        if not file.exists():
            return summary
        text = json.loads(file.read_text(encoding="utf-8"))
        if text["seed"] != seed:
            raise SystemExit(f"{file} is of seed {text['seed']}")
        summary.problems, summary.seconds = text["problems"], text["seconds"]
        for name, counts in text["methods"].items():
            worst = counts.pop("largest gap / (tol * energy) of the converged")
            summary.worst[name] = math.log10(worst) if worst else -math.inf
            summary.slowest[name] = counts.pop("longest seconds")
            summary.methods[name] = Counter(counts)
        summary.tags = Counter(text["nasty"])
        summary.failures = text["failures"]
        for has_converged, name in enumerate(("not converged", "converged")):
            for column, row, count in text["picture"][name]:
                summary.picture[has_converged, column, row] = count
        return summary

    def write(self, file: Path) -> None:
        """Write all that `read` reads."""
        picture = {
            name: [
                [int(column), int(row), int(self.picture[has_converged, column, row])]
                for column, row in np.argwhere(self.picture[has_converged])
            ]
            for has_converged, name in enumerate(("not converged", "converged"))
        }
        text = {
            "command": f"{COMMAND} --problems {self.problems} --seed {self.seed}",
            "seed": self.seed,
            "problems": self.problems,
            "seconds": round(self.seconds, 1),
            "methods": {
                name: {
                    **{key: counts[key] for key in sorted(counts)},
                    "largest gap / (tol * energy) of the converged": float(f"{10 ** self.worst[name]:.6g}"),
                    "longest seconds": round(self.slowest[name], 3),
                }
                for name, counts in self.methods.items()
                if counts
            },
            "nasty": dict(sorted(self.tags.items())),
            "failures": self.failures,
            "picture": {"decades of tol": [-16.0, 0.25], "decades of gap": [-20.0, 0.25], **picture},
        }
        write_results(file, text)

    def __str__(self) -> str:
        total: Counter = sum(self.methods.values(), Counter())
        worst = max(self.worst.values(), default=-math.inf)
        return (
            f"{self.problems:,} problems: {total['solved']:,} solved, {total['refused']:,} refused, "
            f"{len(self.failures)} failed; {total['converged']:,} codes converged, the worst at "
            f"{10**worst:.3g} of what it may be; {total['not converged']:,} codes reported as not converged"
        )


def main() -> int:
    """Return 0 if every promise was kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of the summary")
    parser.add_argument("--only", type=int, help="number of the one problem to run")
    parser.add_argument("--again", action="store_true", help="first those that failed before")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    if options.only is not None:
        told = run(options.seed, options.only)
        print(json.dumps(told, indent=1), told.get("message", ""), sep="\n")
        return int(told["outcome"] == "failed")
    summary = Summary.read(options.results, options.seed) if options.results else Summary(options.seed)
    if options.again:
        for failure in list(summary.failures):
            told = run(options.seed, failure["number"])
            summary.forget(failure, told["tags"])
            summary.add(failure["number"], told)
    started = time.monotonic() - summary.seconds
    cases = watched(
        lambda number: run(options.seed, number), summary.problems, options.problems, patience=PATIENCE
    )
    with tqdm(total=options.problems, initial=summary.problems, disable=options.quiet) as bar:
        for number, told in cases:
            summary.add(number, told)
            summary.seconds = time.monotonic() - started
            bar.update()
            if summary.failures and summary.failures[-1]["number"] == number:
                print(f"--seed {options.seed} --only {number}: {summary.failures[-1]}", file=sys.stderr)
            if options.results and (number + 1) % SAVE_EVERY == 0:
                summary.write(options.results)
    if options.results:
        summary.write(options.results)
    print(f"{summary}  ({summary.seconds:.0f} s)")
    return int(bool(summary.failures))


if __name__ == "__main__":
    sys.exit(main())
