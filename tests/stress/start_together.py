"""Start many processes at once on one cache of kernels, and kill some: none computes with the wrong code.

    python -m tests.stress.start_together --rounds 200

Before a round the source of a kernel changes, so that what earlier rounds left on disk is out of date.  Then
processes start together, and each calls the kernel with arrays of several types, in an order of its own: it
compiles for a type, or loads what another compiled.  Some are killed with SIGKILL at a random time.  Every
answer must be right, and so must those of a last process, which no other disturbs.

With ``--numba`` the kernel is cached by Numba itself, which fails: an index that is written before the code
it names leads, after a kill or a race, to the code of another type or of older sources.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from snn._kernels import compiling

SOURCE = """
{imports}

@{decorator}
def weighted_sum(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += {factor}.0 * values[i]
    return total
"""
OURS = {"imports": "from snn._kernels.compiling import compiled", "decorator": "compiled"}
NUMBAS = {"imports": "from numba import njit", "decorator": "njit(cache=True)"}
LENGTH = 100
# Longer than the processes of a round take on two processors.
LONGEST_WAIT = 2.0


@dataclass
class Tally:
    """What happened."""

    processes: int = 0
    kills: int = 0
    wrong: int = 0
    failed: int = 0

    def __str__(self) -> str:
        return (
            f"{self.processes:,} processes, {self.kills:,} of them killed; "
            f"wrong answers: {self.wrong}; processes that failed: {self.failed}"
        )

    @property
    def is_clean(self) -> bool:
        return not (self.wrong or self.failed)


WRONG_ANSWER, FAILURE = 2, 1


def arguments() -> list[np.ndarray]:
    """Arrays that are different types to Numba, all with the sum LENGTH."""
    floats = np.ones(LENGTH)
    read_only = np.ones(LENGTH)
    read_only.flags.writeable = False
    return [
        floats,
        read_only,
        floats.astype(np.float32),
        floats.astype(np.int64),
        floats.astype(np.int32),
        np.ones((LENGTH, 2))[:, 0],
    ]


def call_all(factor: int, seed: int) -> int:
    """Call the kernel with each type; return the exit status."""
    kernel = importlib.import_module("kernel_under_stress").weighted_sum
    rng = np.random.default_rng(seed)
    values = arguments()
    for k in rng.permutation(len(values)):
        answer = kernel(values[k])
        if answer != factor * LENGTH:
            print(f"wrong: {answer} for {values[k].dtype}, not {factor * LENGTH}", file=sys.stderr)
            return WRONG_ANSWER
    return 0


def fork(factor: int, seed: int) -> int:
    """Return the id of a new process that calls the kernel."""
    child = os.fork()
    if child:
        return child
    status = FAILURE
    try:
        status = call_all(factor, seed)
    except BaseException:
        traceback.print_exc()
    finally:
        # Nothing of the parent's is to be flushed or cleaned up twice.
        os._exit(status)


def play(options: argparse.Namespace, folder: Path) -> Tally:
    """Play all rounds in one folder."""
    rng = np.random.default_rng(options.seed)
    form = NUMBAS if options.numba else OURS
    sys.path.insert(0, str(folder))
    # The source changes more often than the clock of some file systems ticks.
    sys.dont_write_bytecode = True
    compile_something()
    tally = Tally()
    for number in tqdm(range(options.rounds), disable=options.quiet, unit="round"):
        factor = 2 + number
        source = SOURCE.format(factor=factor, **form)
        (folder / "kernel_under_stress.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        compiling._digest_of_files.cache_clear()
        started = time.monotonic()
        waiting = {}
        for seed_of_process in rng.integers(2**31, size=options.processes):
            doomed = rng.uniform() < options.kill
            end = started + rng.uniform(0.0, LONGEST_WAIT) if doomed else np.inf
            waiting[fork(factor, int(seed_of_process))] = end
        watch(waiting, tally)
        watch({fork(factor, 0): np.inf}, tally)
    return tally


def compile_something() -> None:
    """Have Numba set itself up once, before all forks."""
    from numba import njit

    njit(lambda values: values[0])(np.ones(1))


def watch(waiting: dict[int, float], tally: Tally) -> None:
    """Wait for all processes, and kill those whose end has come."""
    tally.processes += len(waiting)
    while waiting:
        for child, end in list(waiting.items()):
            if time.monotonic() >= end:
                os.kill(child, signal.SIGKILL)
            finished, status = os.waitpid(child, os.WNOHANG)
            if not finished:
                continue
            del waiting[child]
            code = os.waitstatus_to_exitcode(status)
            killed = code == -signal.SIGKILL and np.isfinite(end)
            tally.kills += killed
            tally.wrong += code == WRONG_ANSWER
            tally.failed += code not in (0, WRONG_ANSWER) and not killed
        time.sleep(1e-3)


def main() -> int:
    """Return 0 if every answer was right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=8, help="in a round (default: %(default)s)")
    parser.add_argument("--kill", type=float, default=0.3, help="share of them (default: %(default)s)")
    parser.add_argument("--numba", action="store_true", help="with Numba's own cache")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tally = play(options, Path(folder))
    print(f"{tally}  ({time.monotonic() - started:.0f} s)")
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
