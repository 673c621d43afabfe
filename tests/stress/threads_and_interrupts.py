"""Solve and learn from many threads at once, and under Ctrl-C at random moments: always the same bits.

    python -m tests.stress.threads_and_interrupts --rounds 1000

Together: in every round eight threads start at one barrier, and each gives a random method a problem that all
of them share and that nothing has been computed of yet, with one to four workers of its own; learners and
streams are each thread's.  Every answer must have the bits that one thread alone gets.

Interrupted: a signal as that of Ctrl-C comes while the main thread is in a solver, a stream or a learner,
with one to four workers.  Then the same object is used again, until it gets to its end.  The answer must have
the bits of a run without interruption.
"""

from __future__ import annotations

import os

# Of BLAS as many as a machine may have, whatever it has: no bit may depend on them.
os.environ["OPENBLAS_NUM_THREADS"] = "4"

import argparse
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dictlearn import LearningSettings, continue_learning, new_learner
from dictlearn.images.kernel_learner import KernelLearner, KernelSettings
from dictlearn.images.kernel_learning import learn_kernels, random_kernels
from examples._results import write_results
from solvers import (
    LassoProblem,
    PreparedLasso,
    SparseCodingStream,
    path,
    penalty_max,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_digital,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from tests.stress.kill_and_resume import state

N_THREADS, MOST_JOBS = 8, 4
# So long after the signal, nothing answers.
PATIENCE = 60.0
# More often than Python's five milliseconds, to meet races.
SWITCH_INTERVAL = 2e-5
Bits = list[bytes]


def _bits(*arrays: np.ndarray) -> Bits:
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


# -- what is computed ----------------------------------------------------------------------------


def dense_problem() -> LassoProblem:
    """Several signals, and a Gram matrix that is computed when a solver asks for it."""
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((80, 40)), rng.standard_normal((24, 40))
    return LassoProblem(dictionary, signals, 0.2 * penalty_max(dictionary, signals).max())


def long_problem() -> LassoProblem:
    """Products that are large enough for BLAS to divide them among threads."""
    rng = np.random.default_rng(1)
    dictionary, signals = rng.standard_normal((64, 5000)), rng.standard_normal((4, 5000))
    return LassoProblem(dictionary, signals, 0.5 * penalty_max(dictionary, signals).max(), positive=True)


def wide_problem() -> LassoProblem:
    """One signal and many atoms, of whose Gram matrix only parts are computed."""
    rng = np.random.default_rng(2)
    dictionary, signals = rng.standard_normal((900, 40)), rng.standard_normal((1, 40))
    return LassoProblem(dictionary, signals, 0.3 * penalty_max(dictionary, signals).max())


def _solution(solve: Callable, **options: Any) -> Callable[[LassoProblem, int], Bits]:
    def answer(problem: LassoProblem, n_jobs: int) -> Bits:
        workers = {"n_jobs": n_jobs} if solve in WITH_WORKERS else {}
        result = solve(problem, **options, **workers)
        return _bits(result.codes, result.duality_gap, result.n_steps)

    return answer


# scikit-learn's solvers have processes, not threads.
WITH_WORKERS = (solve_spiking, solve_active_set, solve_digital)


def _by_path(problem: LassoProblem, n_jobs: int) -> Bits:
    found = path(problem, [1.0, 0.7, 0.5], n_jobs=n_jobs)
    return _bits(found.codes, found.duality_gap)


SOLVERS: dict[str, Callable[[LassoProblem, int], Bits]] = {
    "spikes": _solution(solve_spiking, tol=1e-4),
    "spikes, rate": _solution(solve_spiking, readout="rate", tol=0.05),
    "spikes, polished": _solution(solve_spiking, polish=True, tol=1e-6),
    "active set": _solution(solve_active_set),
    "FISTA": _solution(solve_fista, tol=1e-5),
    "analog": _solution(solve_analog, tol=0.05),
    "coordinate descent": _solution(solve_coordinate_descent, tol=1e-5),
    "LARS": _solution(solve_lars),
    "digital": _solution(solve_digital, tol=0.05),
    "path": _by_path,
}
PROBLEMS = {"dense": dense_problem, "long": long_problem, "wide": wide_problem}


class Learning:
    """A two-phase learner and its signals."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        atoms = rng.uniform(size=(24, 30)) * (rng.uniform(size=(24, 30)) < 0.3)
        codes = rng.uniform(size=(200, 24)) * (rng.uniform(size=(200, 24)) < 0.1)
        self.signals = codes @ atoms + 0.01
        settings = LearningSettings(penalty=0.1, batch_size=16)
        self.learner = new_learner(self.signals, 24, settings=settings, rng=1)

    def go_on(self, n_jobs: int) -> Bits:
        continue_learning(self.learner, self.signals, n_samples=320, rng=1, n_jobs=n_jobs)
        return _bits(*state(self.learner).values())


class SignedLearning:
    """A two-phase learner of atoms and codes of either sign, and signals with missing entries."""

    def __init__(self) -> None:
        rng = np.random.default_rng(6)
        self.signals = rng.standard_normal((200, 30))
        self.mask = rng.uniform(size=self.signals.shape) < 0.8
        settings = LearningSettings(penalty=0.5, batch_size=16, positive_atoms=False, positive_code=False)
        self.learner = new_learner(self.signals, 24, mask=self.mask, settings=settings, rng=1)

    def go_on(self, n_jobs: int) -> Bits:
        continue_learning(self.learner, self.signals, mask=self.mask, n_samples=320, rng=1, n_jobs=n_jobs)
        return _bits(*state(self.learner).values())


class KernelLearning:
    """A learner of kernels and its images."""

    def __init__(self) -> None:
        rng = np.random.default_rng(4)
        self.images = [np.cumsum(rng.standard_normal((36, 36)), axis=1) * 0.1 for _ in range(2)]
        kernels = random_kernels(self.images, 4, (5, 5), rng)
        self.learner = KernelLearner(kernels, KernelSettings(penalty=0.5, tol=0.1))

    def go_on(self, n_jobs: int) -> Bits:
        learn_kernels(
            self.learner,
            self.images,
            n_passes=1,
            crop_size=(16, 16),
            batch_size=3,
            seed=0,
            n_jobs=n_jobs,
        )
        return _bits(self.learner.kernels, *self.learner.history.values())


class Streaming:
    """A stream, the frames that it has coded, and those to come."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        dictionary = rng.standard_normal((80, 40))
        steps = rng.standard_normal((12, 6, 40)) * 0.2
        self.frames = rng.standard_normal((1, 6, 40)) + np.cumsum(steps, axis=0)
        self.stream = SparseCodingStream(dictionary, 2.0)
        self.coded: list[np.ndarray] = []

    def go_on(self, n_jobs: int) -> Bits:
        del n_jobs
        while len(self.coded) < len(self.frames):
            codes = self.stream.code(self.frames[len(self.coded)], tol=1e-4).codes
            self.coded.append(codes)
        return _bits(*self.coded)


class Solving:
    """A solver and a problem, prepared or not."""

    def __init__(self, solver: str, kind: str, *, prepared: bool = False) -> None:
        self.solve = SOLVERS[solver]
        problem = PROBLEMS[kind]()
        self.problem = problem
        if prepared:
            shared = PreparedLasso(problem.dictionary, problem.penalty, positive=problem.positive)
            self.problem = shared.with_signals(problem.signals)

    def go_on(self, n_jobs: int) -> Bits:
        return self.solve(self.problem, n_jobs)


WORK: dict[str, Callable[[], Any]] = {
    **{
        f"{solver}, {kind}": lambda solver=solver, kind=kind: Solving(solver, kind)
        for solver in SOLVERS
        for kind in PROBLEMS
        # A solver that computes the Gram matrix leaves it with the problem, and those that need only parts of
        # it then use all: the same codes to rounding.
        if kind != "wide" or solver in ("spikes", "spikes, rate", "spikes, polished", "active set", "path")
    },
    "prepared": lambda: Solving("spikes", "dense", prepared=True),
    "two-phase learning": Learning,
    "two-phase learning, either sign": SignedLearning,
    "kernel learning": KernelLearning,
    "stream": Streaming,
}
OF_LEARNERS = ("two-phase learning", "two-phase learning, either sign", "kernel learning", "stream")


@cache
def expected(name: str) -> tuple[Bits, float]:
    """Return the bits of a work alone in one thread, and the seconds that it takes."""
    # Once before, because something may have to be compiled or loaded.
    WORK[name]().go_on(1)
    work, started = WORK[name](), time.monotonic()
    return work.go_on(1), time.monotonic() - started


# -- together, and interrupted -------------------------------------------------------------------


@dataclass
class Tally:
    """What happened."""

    rounds: int = 0
    calls: int = 0
    interrupts: int = 0
    renamed: int = 0
    """Interrupts that came out as an error of Python's threading or of Numba."""
    different: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds_to_stop: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.different or self.failed)

    def __str__(self) -> str:
        return (
            f"{self.rounds:,} rounds, {self.calls:,} calls, {self.interrupts:,} interrupts; "
            f"answers that differ: {len(self.different)}; calls that failed: {len(self.failed)}"
        )


def together(rng: np.random.Generator, tally: Tally) -> None:
    """Let threads solve one problem, and learn and stream, all at once."""
    kind = str(rng.choice(list(PROBLEMS)))
    problem = PROBLEMS[kind]()
    barrier = threading.Barrier(N_THREADS)
    names = [name for name in WORK if name.endswith(f", {kind}")]
    threads = []
    for number in range(N_THREADS):
        # Some learn, most share the problem.
        is_shared = number > 1
        name = str(rng.choice(names if is_shared else OF_LEARNERS))
        alone, _ = expected(name)
        n_jobs = int(rng.integers(1, MOST_JOBS + 1))

        def work(
            name: str = name, n_jobs: int = n_jobs, is_shared: bool = is_shared, alone: Bits = alone
        ) -> None:
            barrier.wait()
            try:
                if is_shared:
                    found = SOLVERS[name.removesuffix(f", {kind}")](problem, n_jobs)
                else:
                    found = WORK[name]().go_on(n_jobs)
            except BaseException:
                tally.failed.append(f"{name}: {traceback.format_exc()}")
                return
            if found != alone:
                tally.different.append(f"{name} with n_jobs={n_jobs} beside others")

        threads.append(threading.Thread(target=work))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.rounds += 1
    tally.calls += N_THREADS


class Interrupter:
    """Ctrl-C after a while."""

    def __init__(self) -> None:
        self.sent = 0.0
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, *_: Any) -> None:
        raise KeyboardInterrupt

    def start(self, seconds: float) -> None:
        self.sent = time.monotonic() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def interrupted(name: str, rng: np.random.Generator, tally: Tally) -> None:
    """Interrupt one work, at most three times, until it is done."""
    alone, seconds = expected(name)
    interrupter = Interrupter()
    work = WORK[name]()
    n_interrupts = 0
    tally.rounds += 1
    while True:
        n_jobs = int(rng.integers(1, MOST_JOBS + 1))
        tally.calls += 1
        try:
            try:
                if n_interrupts < 3:
                    interrupter.start(max(rng.uniform(0.0, 1.1) * seconds, 1e-5))
                found = work.go_on(n_jobs)
            finally:
                interrupter.stop()
        except KeyboardInterrupt:
            interrupter.stop()
            n_interrupts += 1
            tally.interrupts += 1
            late = time.monotonic() - interrupter.sent
            tally.seconds_to_stop.append(late)
            if late > PATIENCE:
                tally.failed.append(f"{name}: {late:.0f} s after the interrupt")
            continue
        except Exception as error:
            if not _hides_an_interrupt(error):
                tally.failed.append(f"{name}: {traceback.format_exc()}")
                return
            n_interrupts += 1
            tally.interrupts += 1
            tally.renamed += 1
            continue
        if found != alone:
            tally.different.append(f"{name} with n_jobs={n_jobs} after {n_interrupts} interrupts")
        return


def _hides_an_interrupt(error: BaseException | None) -> bool:
    """Return whether an error came of a KeyboardInterrupt in the middle of Python's threading or of Numba.

    Inside of a lock's exit, or of the unpickling of an exception, they raise an error of their own.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def play(n_rounds: int, rng: np.random.Generator, progress: bool) -> dict[str, Tally]:
    """Play this number of rounds of both."""
    tallies = {"together": Tally(), "interrupted": Tally()}
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        for _ in tqdm(range(n_rounds), disable=not progress, unit="round", desc="together"):
            together(rng, tallies["together"])
    finally:
        sys.setswitchinterval(before)
    for _ in tqdm(range(n_rounds), disable=not progress, unit="round", desc="interrupted"):
        name = str(rng.choice(list(WORK)))
        interrupted(name, rng, tallies["interrupted"])
    return tallies


def main() -> int:
    """Return 0 if all answers were the same."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1000, help="of each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of the summary")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    started = time.monotonic()
    tallies = play(options.rounds, np.random.default_rng(options.seed), progress=not options.quiet)
    seconds = time.monotonic() - started
    complaints = []
    for name, tally in tallies.items():
        print(f"{name}: {tally}")
        complaints += [*tally.different, *tally.failed]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"{seconds:.0f} s")
    if options.results:
        late = np.array(tallies["interrupted"].seconds_to_stop)
        summary = {
            "command": f"python -m tests.stress.threads_and_interrupts --rounds {options.rounds}",
            "seconds": round(seconds, 1),
            "failures": complaints,
            "together": {
                "rounds": tallies["together"].rounds,
                "threads at once": N_THREADS,
                "calls": tallies["together"].calls,
                "different": tallies["together"].different,
                "failed": tallies["together"].failed,
            },
            "interrupted": {
                "rounds": tallies["interrupted"].rounds,
                "calls": tallies["interrupted"].calls,
                "interrupts": tallies["interrupted"].interrupts,
                "renamed": tallies["interrupted"].renamed,
                "different": tallies["interrupted"].different,
                "failed": tallies["interrupted"].failed,
                "seconds to stop": [round(float(value), 4) for value in np.sort(late)],
            },
        }
        write_results(options.results, summary)
    return 0 if all(tally.is_clean for tally in tallies.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
