"""Kill processes again and again while they learn: no saved work is lost, and the results have the same bits.

    python -m tests.stress.kill_and_resume --rounds 1200

A round forks a child, which continues one of the jobs from its saved file, and kills the child with SIGKILL
after a random time.  After each kill the saved file must load, and must not have less progress than before.
A finished job is compared with a job that was never killed; then the job starts anew.
"""

import os

# Use one thread, because a fork copies only the thread that calls it.
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

from dictlearn import LearningSettings, TwoPhaseLearner, learn_dictionary
from dictlearn.images.kernels import Crops, KernelLearner, KernelSettings, learn_kernels, random_kernels
from dictlearn.resumable import Course
from tests.dictlearn.two_phase.learners import planted, state

# Seconds: PATIENCE is longer than any job takes on any machine; LONGEST_WAIT is the latest time of a kill.
PATIENCE, LONGEST_WAIT = 120.0, 0.5
SIGNED = {"positive_atoms": False, "positive_code": False}


def learn(path, n_samples, n_threads, **signs):
    """Learn with the two-phase network, with so many checkpoints that kills often interrupt a write."""
    signals = planted(64, 48, 600, signs)[1]
    mask = np.random.default_rng(0).uniform(size=signals.shape) < 0.8 if signs else None
    settings = LearningSettings(penalty=0.1, batch_size=8, **signs)
    task = {"settings": settings, "mask": mask, "n_samples": n_samples // (2 if signs else 1), "rng": 1}
    learn_dictionary(signals, 64, n_jobs=n_threads, checkpoint=path, checkpoint_every=16, **task)


def learn_from_images(path, n_samples, n_threads):
    rng = np.random.default_rng(0)
    images = [np.cumsum(rng.standard_normal((44, 44)), axis=1) * 0.1 for _ in range(2)]
    images = [image - image.mean() for image in images]
    settings = KernelSettings(penalty=0.5, tol=0.05, replace_dead=True)
    learner = KernelLearner(random_kernels(images, 5, (5, 5), rng), settings)
    crops = Crops(images, (16, 16), (5, 5), 1, 2, 0)
    learn_kernels(learner, crops, n_passes=2, n_jobs=n_threads, course=Course(checkpoint=path))


def kernel_state(learner):
    names = ("kernels", "n_samples", "n_batches", "n_replaced", "last_used")
    return {**{name: getattr(learner, name) for name in names}, **learner.history}


# A job: its work, the class that reads its file, the attribute that counts progress, and all its numbers.
LEARNER = (TwoPhaseLearner, "n_samples", state)
JOBS = {
    "learning": (lambda path, n: learn(path, n, 1), *LEARNER),
    "learning in three threads": (lambda path, n: learn(path, n, 3), *LEARNER),
    "signed, masked": (lambda path, n: learn(path, n, 3, **SIGNED), *LEARNER),
    "kernels": (lambda path, n: learn_from_images(path, n, 3), KernelLearner, "n_batches", kernel_state),
}


def forked(work, wait):
    """Return the exit status of a child, or None if it was killed."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)  # a child must not flush the buffers of its parent
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(1e-3)
    os.kill(child, signal.SIGKILL)
    return 0 if os.waitpid(child, 0)[1] == 0 else None  # the child may have ended in the meantime


def play(name, folder, n_rounds, n_samples, rng, counts):
    """Fork and kill the children of one job; yield the faults."""
    (work, kind, counter, content), path, expected, reached = JOBS[name], folder / "learner.npz", None, 0
    for number in range(-1, n_rounds + 1):  # the first and the last child are not killed
        is_whole = number in (-1, n_rounds)
        folder.mkdir(exist_ok=True)
        status = forked(
            lambda: work(path, n_samples), PATIENCE if is_whole else rng.uniform(0.0, LONGEST_WAIT)
        )
        counts["kills"] += status is None
        if status or (status is None and is_whole):
            yield f"{name}: a child ended with {status}"
            return
        for part in folder.glob("*.part"):
            counts["during writes"] += 1
            part.unlink()
        try:
            learner = kind.load(path) if path.exists() else None
        except ValueError as error:
            yield f"{name}: {error}"
            return
        now = 0 if learner is None else getattr(learner, counter)
        if expected is None:
            end, expected = now, content(learner)
        if now < reached or (status == 0 and now < end):
            yield f"{name}: {now} after {reached}"
        reached = now
        if now >= end:
            counts["done"] += 1
            found, reached = content(learner), 0
            if not all(np.array_equal(found[key], value) for key, value in expected.items()):
                yield f"{name}: another outcome"
            shutil.rmtree(folder)


def main():
    """Return 0 if no job had a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("rounds", 1200), ("samples", 5000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of what was found")
    parser.add_argument("--quiet", action="store_true", help="as other programs have it; little is printed")
    options, counts, faults = parser.parse_args(), {"kills": 0, "during writes": 0, "done": 0}, []
    # All processes share tqdm's lock: a child that is killed while it holds the lock would stop all others.
    tqdm.set_lock(threading.RLock())
    rng, rounds = np.random.default_rng(options.seed), options.rounds // len(JOBS)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(JOBS):
            faults += play(name, Path(folder) / str(number), rounds, options.samples, rng, counts)
    if options.results:
        options.results.write_text(json.dumps({"rounds": options.rounds, **counts, "faults": faults}))
    print(*faults, sep="\n", file=sys.stderr)
    print(f"{options.rounds} rounds: {counts}; faults: {len(faults)}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
