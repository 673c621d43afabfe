"""Kill processes again and again while they learn or code: nothing is lost, outcomes are the same bits.

    python -m tests.stress.kill_and_resume --rounds 1200

A round forks a child, which goes on with one of the jobs from what was saved, and kills it with SIGKILL a random
while later.  Whenever a child is dead, what was saved must load, and be as far as it was before, or farther.  A
job that gets to its end is compared with one that no kill met, in one thread, and starts anew.
"""

# ruff: noqa: E501 - a case a line reads better

import os

# One thread, so that a fork copies a whole process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dictlearn import KernelLearner, KernelSettings, LearningSettings, TwoPhaseLearner, learn_dictionary
from dictlearn.images.kernel_learning import learn_kernels, random_kernels
from dictlearn.resumable import Course
from snn.base.archive import load_archive, save_archive
from solvers import LassoProblem, penalty_max, solve_spiking
from tests.dictlearn.two_phase.learners import state

# More than a job takes, on any machine.
PATIENCE, LONGEST_WAIT = 120.0, 0.5
CODES = ("codes", "duality_gap", "spike_counts")


def learning(n_threads, **signs):
    """A job of two-phase learning, with checkpoints so often that many a kill meets a write."""

    def work(folder, n_samples, n_threads=n_threads):
        rng = np.random.default_rng(0)
        signals = (
            rng.standard_normal((600, 64))
            * (rng.uniform(size=(600, 64)) < 0.05)
            @ rng.standard_normal((64, 48))
        )
        settings = LearningSettings(penalty=0.4, batch_size=8, **signs)
        options = {"mask": rng.uniform(size=signals.shape) < 0.8} if signs else {}
        signals = signals if signs else np.abs(signals)
        file = {"checkpoint": folder / "learner.npz", "checkpoint_every": 16}
        options |= {"settings": settings, "n_samples": n_samples // (2 if signs else 1), "rng": 1, **file}
        learn_dictionary(signals, 64, n_jobs=n_threads, **options)

    return work, lambda folder: _learned(TwoPhaseLearner, folder, "n_samples", state)


def kernels(folder, n_samples, n_threads=3):
    rng = np.random.default_rng(0)
    images = [np.cumsum(rng.standard_normal((44, 44)), axis=1) * 0.1 for _ in range(2)]
    images = [image - image.mean() for image in images]
    start = random_kernels(images, 5, (5, 5), rng)
    learner = KernelLearner(start, KernelSettings(penalty=0.5, tol=0.05, replace_dead=True))
    course = Course(checkpoint=folder / "learner.npz")
    task = {"n_passes": 2, "crop_size": (16, 16), "batch_size": 2, "seed": 0, "course": course}
    learn_kernels(learner, images, n_jobs=n_threads, **task)


def kernel_state(learner):
    counters = {
        name: getattr(learner, name) for name in ("n_samples", "n_batches", "n_replaced", "last_used")
    }
    return {"kernels": learner.kernels, **counters, **learner.history}


def coding(folder, n_samples, n_threads=3):
    """Batches of codes, each saved when it is done."""
    rng, n_batches = np.random.default_rng(2), max(2, n_samples // 250)
    dictionary, signals = rng.standard_normal((96, 32)), rng.standard_normal((n_batches * 128, 32))
    problem = LassoProblem(dictionary, signals, 0.15 * penalty_max(dictionary, signals).max())
    for number in range(codes(folder)[0], n_batches):
        result = solve_spiking(
            problem.subset(slice(128 * number, 128 * number + 128)), tol=1e-4, n_jobs=n_threads
        )
        save_archive(folder / f"codes-{number}.npz", {name: getattr(result, name) for name in CODES})


def codes(folder):
    files = sorted(folder.glob("codes-*.npz"))
    loaded = {file.name: load_archive(file, CODES, kind="batch of codes") for file in files}
    return len(files), {f"{name} {key}": value for name, one in loaded.items() for key, value in one.items()}


def _learned(kind, folder, counter, content):
    """Return how far a saved learner is, and all of it."""
    path = folder / "learner.npz"
    learner = kind.load(path) if path.exists() else None
    return (0, {}) if learner is None else (getattr(learner, counter), content(learner))


# How a job works, and what it has saved: how far it is, and all its numbers; ValueError if that is corrupt.
JOBS = {
    "learning": learning(1),
    "learning in three threads": learning(3),
    "learning, either sign, masked": learning(3, positive_atoms=False, positive_code=False),
    "kernels": (kernels, lambda folder: _learned(KernelLearner, folder, "n_batches", kernel_state)),
    "coding": (coding, codes),
}


def forked(work, wait):
    """Return the exit status of a child that had time enough, or None of one that was killed."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # nothing of the parent's is to be flushed twice
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status)
        time.sleep(1e-3)
    os.kill(child, signal.SIGKILL)
    return 0 if os.waitpid(child, 0)[1] == 0 else None  # it may have ended in the meantime


def play(name, folder, n_rounds, n_samples, rng, counts):
    """Fork and kill the children of one job; yield what is wrong."""
    (work, saved), reached = JOBS[name], 0
    folder.mkdir()
    work(folder, n_samples, 1)
    end, expected = saved(folder)
    shutil.rmtree(folder)
    for number in range(n_rounds + 1):
        folder.mkdir(exist_ok=True)
        wait = PATIENCE if number == n_rounds else rng.uniform(0.0, LONGEST_WAIT)
        status = forked(lambda: work(folder, n_samples), wait)
        counts["kills"] += status is None
        if status or (status is None and wait == PATIENCE):
            yield f"{name}: a child ended with {status}"
            return
        for part in folder.glob("*.part"):
            counts["during writes"] += 1
            part.unlink()
        try:
            now, found = saved(folder)
        except ValueError as error:
            now, found = -1, {}
            yield f"{name}: {error}"
        if now < reached or (status == 0 and now < end):
            yield f"{name}: {now} after {reached}"
        elif now >= end:
            counts["done"] += 1
            if found.keys() != expected.keys() or not all(
                np.array_equal(found[k], expected[k]) for k in found
            ):
                yield f"{name}: another outcome"
        reached = now if reached <= now < end else 0
        if not reached:
            shutil.rmtree(folder)


def main():
    """Return 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("rounds", 1200), ("samples", 5000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of what was found")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    # tqdm's own lock is shared by all processes: a child killed while it has it would stop every other.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    counts, faults, rng = {"kills": 0, "during writes": 0, "done": 0}, [], np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(tqdm(JOBS, disable=options.quiet, unit="job")):
            rounds = options.rounds // len(JOBS)
            faults += play(name, Path(folder) / str(number), rounds, options.samples, rng, counts)
    if options.results:
        options.results.write_text(json.dumps({"rounds": options.rounds, **counts, "faults": faults}))
    print(*faults, sep="\n", file=sys.stderr)
    print(f"{options.rounds} rounds: {counts}; faults: {len(faults)}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
