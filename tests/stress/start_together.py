"""Start many processes at once on one cache of kernels, and kill some: no process uses outdated code.

    python -m tests.stress.start_together --rounds 200

Before a round the source of a kernel changes, so that the kernels of earlier rounds on disk are out of date.
Then processes start together.  Each calls the kernel with arrays of several types in a random order, and some
are killed at a random time.  All sums must be right, also in a last process that is not killed.
"""

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numba
import numpy as np

from snn._kernels import compiling

SOURCE = """
from snn._kernels.compiling import compiled

@compiled
def weighted_sum(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += {factor}.0 * values[i]
    return total
"""
LENGTH = 100
# Latest time of a kill, in seconds: the processes of a round take less time on two processors.
LONGEST_WAIT = 2.0


def call_all(factor, seed):
    """Call the kernel with arrays that are different types to Numba; return whether all sums are right."""
    kernel = importlib.import_module("kernel_under_stress").weighted_sum
    values = [np.ones(LENGTH, dtype) for dtype in ("f8", "f8", "f4", "i8", "i4")] + [
        np.ones((LENGTH, 2))[:, 0]
    ]
    values[0].flags.writeable = False
    return all(kernel(values[k]) == factor * LENGTH for k in np.random.default_rng(seed).permutation(6))


def fork(factor, seed):
    """Return the id of a new process that calls the kernel; a wrong sum gives the exit status 2."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if call_all(factor, seed) else 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # the child must not flush or clean up for the parent
    return child


def ends_of(waiting):
    """Wait for all processes, kill each at its end time, and return the exit codes."""
    ends = []
    while waiting:
        for child, end in list(waiting.items()):
            if time.monotonic() >= end:
                os.kill(child, signal.SIGKILL)
            finished, status = os.waitpid(child, os.WNOHANG)
            if finished:
                was_doomed = np.isfinite(waiting.pop(child))
                code = os.waitstatus_to_exitcode(status)
                ends.append("killed" if was_doomed and code == -signal.SIGKILL else code)
        time.sleep(1e-3)
    return ends


def play(options, folder):
    """Run all rounds in one folder and return the exit codes of the processes."""
    rng, ends = np.random.default_rng(options.seed), []
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # the source changes more often than the clock of some file systems ticks
    numba.njit(lambda values: values[0])(np.ones(1))  # Numba sets itself up once, before all forks
    for factor in range(2, 2 + options.rounds):
        Path(folder, "kernel_under_stress.py").write_text(SOURCE.format(factor=factor), encoding="utf-8")
        importlib.invalidate_caches()
        compiling._digest_of_files.cache_clear()
        started, waiting = time.monotonic(), {}
        for seed in rng.integers(2**31, size=options.processes).tolist():
            end = started + rng.uniform(0.0, LONGEST_WAIT) if rng.uniform() < options.kill else np.inf
            waiting[fork(factor, seed)] = end
        ends += ends_of(waiting) + ends_of({fork(factor, 0): np.inf})
    return ends


def main():
    """Return 0 if every answer was right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=8, help="in a round")
    parser.add_argument("--kill", type=float, default=0.3, help="share of them")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ends = play(options, folder)
    n_killed, n_right = ends.count("killed"), ends.count(0)
    n_wrong = ends.count(2)
    n_failed = len(ends) - n_killed - n_right - n_wrong
    print(f"{len(ends)} processes, {n_killed} killed; wrong answers: {n_wrong}; failed: {n_failed}")
    return int(n_wrong + n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
