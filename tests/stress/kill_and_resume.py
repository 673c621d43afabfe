"""Kill processes again and again while they learn or code: nothing is lost, outcomes are the same bits.

    python -m tests.stress.kill_and_resume --rounds 1200

There are five jobs: two-phase learning in one thread and in three, two-phase learning of atoms and codes of
either sign from signals with missing entries, learning of kernels from images, and coding of batches of
signals in three threads, each batch saved when it is done.  A round forks a child from
this process, which has everything imported and compiled, waits until it works, and kills it with SIGKILL a
random while later.  The next child of that job goes on from what was saved.  A job that gets to its end,
after about a second's work, is compared with a run without interruption in one thread; the next one starts
anew.  Whenever a child is dead, what was saved must load and be as far as it was before, or farther.
"""

from __future__ import annotations

import os

# One thread, so that a fork copies a whole process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dictlearn import TwoPhaseLearner, learn_dictionary
from dictlearn.images.kernel_learner import KernelLearner, KernelSettings
from dictlearn.images.kernel_learning import learn_kernels, random_kernels
from dictlearn.resumable import Course
from dictlearn.two_phase.learner import COUNTERS
from dictlearn.two_phase.settings import LearningSettings
from examples._results import write_results
from snn.base.archive import load_archive, save_archive
from solvers import LassoProblem, penalty_max, solve_spiking

N_SIGNALS, N_INPUTS, N_ATOMS = 600, 48, 64
N_SAMPLES = 5000
# So often that many a kill meets a write.
BATCH_SIZE, CHECKPOINT_EVERY = 8, 16
N_THREADS = 3
# Of kernels: passes through the images; of coding: the size of a batch of signals.
N_PASSES, SIGNALS_OF_BATCH = 2, 128
LONGEST_WAIT = 0.5
# More than a job takes, on any machine.
PATIENCE = 120.0


@dataclass(frozen=True)
class Job:
    """What children work on, in a folder of their own."""

    work: Callable[[Path, int], None]
    """Continue from what the folder has, in this number of threads."""
    n_threads: int
    reached: Callable[[Path], int]
    """How far what was saved is; ValueError if it is corrupt."""
    outcome: Callable[[Path], dict[str, np.ndarray]]
    """All numbers of what was saved."""


@dataclass
class Tally:
    """What happened to the children of one job."""

    rounds: int = 0
    kills: int = 0
    during_write: int = 0
    jobs_done: int = 0
    jobs_interrupted: int = 0
    lost_or_corrupt: int = 0
    different: int = 0
    failed: int = 0
    reached: list[int] = field(default_factory=list)
    """How far what was saved was after each round, a fresh start being 0."""

    def __str__(self) -> str:
        return (
            f"{self.rounds:,} rounds: {self.kills:,} kills, {self.during_write:,} of them during a write; "
            f"{self.jobs_done:,} jobs done, {self.jobs_interrupted:,} of them after a kill; checkpoints lost "
            f"or corrupt: {self.lost_or_corrupt}; outcomes that differ: {self.different}; children that "
            f"failed: {self.failed}"
        )

    @property
    def is_clean(self) -> bool:
        return not (self.lost_or_corrupt or self.different or self.failed)


def state(learner: TwoPhaseLearner) -> dict[str, np.ndarray]:
    """Everything that learning goes on from, or reports."""
    network = learner.network
    return {
        "feedforward": network.feedforward,
        "feedback": network.feedback,
        "lateral": network.lateral,
        "usage": learner.usage,
        "movement": learner.movement,
        "dictionary": learner.dictionary,
        "average": learner._averaged_rows,
        "last_fired": learner.last_fired,
        "last_compared": learner.last_compared,
        "counters": np.array([getattr(learner, name) for name in COUNTERS]),
        **learner.history,
    }


# -- two-phase learning --------------------------------------------------------------------------


def learn(folder: Path, n_threads: int, *, n_samples: int) -> None:
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(N_ATOMS, N_INPUTS)) * (rng.uniform(size=(N_ATOMS, N_INPUTS)) < 0.2)
    signals = (
        rng.uniform(size=(N_SIGNALS, N_ATOMS)) * (rng.uniform(size=(N_SIGNALS, N_ATOMS)) < 0.05)
    ) @ atoms
    learn_dictionary(
        signals + 0.01,
        N_ATOMS,
        settings=LearningSettings(penalty=0.1, batch_size=BATCH_SIZE),
        n_samples=n_samples,
        rng=1,
        n_jobs=n_threads,
        checkpoint=folder / "learner.npz",
        checkpoint_every=CHECKPOINT_EVERY,
    )


def learn_signed(folder: Path, n_threads: int, *, n_samples: int) -> None:
    rng = np.random.default_rng(3)
    atoms = rng.standard_normal((N_ATOMS, N_INPUTS)) / np.sqrt(N_INPUTS)
    codes = rng.standard_normal((N_SIGNALS, N_ATOMS)) * (rng.uniform(size=(N_SIGNALS, N_ATOMS)) < 0.05)
    signals = codes @ atoms
    learn_dictionary(
        signals,
        N_ATOMS,
        mask=rng.uniform(size=signals.shape) < 0.8,
        settings=LearningSettings(
            penalty=0.1, batch_size=BATCH_SIZE, positive_atoms=False, positive_code=False
        ),
        n_samples=n_samples,
        rng=1,
        n_jobs=n_threads,
        checkpoint=folder / "learner.npz",
        checkpoint_every=CHECKPOINT_EVERY,
    )


def learner_reached(folder: Path) -> int:
    path = folder / "learner.npz"
    return TwoPhaseLearner.load(path).n_samples if path.exists() else 0


def learner_outcome(folder: Path) -> dict[str, np.ndarray]:
    return state(TwoPhaseLearner.load(folder / "learner.npz"))


# -- kernels of images ---------------------------------------------------------------------------


def learn_from_images(folder: Path, n_threads: int) -> None:
    rng = np.random.default_rng(0)
    images = [np.cumsum(rng.standard_normal((44, 44)), axis=1) * 0.1 for _ in range(2)]
    images = [image - image.mean() for image in images]
    settings = KernelSettings(penalty=0.5, tol=0.05, replace_dead=True)
    learn_kernels(
        KernelLearner(random_kernels(images, 5, (5, 5), rng), settings),
        images,
        n_passes=N_PASSES,
        crop_size=(16, 16),
        batch_size=2,
        seed=0,
        n_jobs=n_threads,
        course=Course(checkpoint=folder / "kernels.npz"),
    )


def kernels_reached(folder: Path) -> int:
    path = folder / "kernels.npz"
    return KernelLearner.load(path).n_batches if path.exists() else 0


def kernels_outcome(folder: Path) -> dict[str, np.ndarray]:
    learner = KernelLearner.load(folder / "kernels.npz")
    names = [name for name, value in vars(learner).items() if isinstance(value, np.ndarray)]
    statistics = vars(learner._statistics)
    return {
        **{name: getattr(learner, name) for name in names},
        **{name: value for name, value in statistics.items() if isinstance(value, (np.ndarray, float))},
        "counters": np.array([learner.n_samples, learner.n_batches, learner.n_replaced]),
        **learner.history,
    }


# -- coding --------------------------------------------------------------------------------------


def code(folder: Path, n_threads: int, *, n_batches: int) -> None:
    rng = np.random.default_rng(2)
    dictionary = rng.standard_normal((96, 32))
    signals = rng.standard_normal((n_batches * SIGNALS_OF_BATCH, 32))
    problem = LassoProblem(dictionary, signals, 0.15 * penalty_max(dictionary, signals).max())
    for number in range(codes_reached(folder), n_batches):
        first = number * SIGNALS_OF_BATCH
        batch = problem.subset(slice(first, first + SIGNALS_OF_BATCH))
        result = solve_spiking(batch, tol=1e-4, n_jobs=n_threads)
        save_archive(
            folder / f"codes-{number}.npz",
            {name: getattr(result, name) for name in ("codes", "duality_gap", "spike_counts")},
        )


def codes_reached(folder: Path) -> int:
    files = list(folder.glob("codes-*.npz"))
    for file in files:
        load_archive(file, ("codes", "duality_gap", "spike_counts"), kind="batch of codes")
    return len(files)


def codes_outcome(folder: Path) -> dict[str, np.ndarray]:
    names = ("codes", "duality_gap", "spike_counts")
    return {
        f"{name} {file.name}": array
        for file in folder.glob("codes-*.npz")
        for name, array in load_archive(file, names, kind="batch of codes").items()
    }


def jobs(n_samples: int) -> dict[str, Job]:
    """Return the jobs; `n_samples` of two-phase learning say how long they are."""

    def learn_so_many(folder: Path, n_threads: int) -> None:
        learn(folder, n_threads, n_samples=n_samples)

    def learn_so_many_signed(folder: Path, n_threads: int) -> None:
        learn_signed(folder, n_threads, n_samples=n_samples // 2)

    def code_so_many(folder: Path, n_threads: int) -> None:
        code(folder, n_threads, n_batches=max(2, n_samples // 250))

    return {
        "two-phase learning": Job(learn_so_many, 1, learner_reached, learner_outcome),
        "two-phase learning in three threads": Job(
            learn_so_many, N_THREADS, learner_reached, learner_outcome
        ),
        "two-phase learning, either sign, masked": Job(
            learn_so_many_signed, N_THREADS, learner_reached, learner_outcome
        ),
        "kernels of images": Job(learn_from_images, N_THREADS, kernels_reached, kernels_outcome),
        "coding in three threads": Job(code_so_many, N_THREADS, codes_reached, codes_outcome),
    }


# -- the rounds ----------------------------------------------------------------------------------


class Children:
    """The children of one job, one after the other."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder, self.tally = job, folder, Tally()
        self._reached = self._n_kills = 0
        # In one thread, which leaves nothing that a fork would not copy.
        self._clear()
        job.work(folder, 1)
        self._end = job.reached(folder)
        self._uninterrupted = job.outcome(folder)
        self._clear()

    @property
    def is_under_way(self) -> bool:
        return self._reached > 0

    def round(self, wait: float) -> None:
        """Fork, kill after a while, and look at what is left."""
        tally = self.tally
        tally.rounds += 1
        ended = _fork_and_kill(lambda: self.job.work(self.folder, self.job.n_threads), wait)
        if ended is None and wait == PATIENCE:
            ended = 1  # it hangs
        if ended is None:
            tally.kills += 1
            self._n_kills += 1
            parts = list(self.folder.glob("*.part"))
            tally.during_write += len(parts) > 0
            for part in parts:
                part.unlink()
        elif ended != 0:
            tally.failed += 1
        try:
            reached = self.job.reached(self.folder)
        except ValueError as error:
            reached = -1
            print(f"round {tally.rounds}: {error}", file=sys.stderr)
        tally.reached.append(reached)
        if reached < self._reached or (ended == 0 and reached < self._end):
            tally.lost_or_corrupt += 1
            print(f"round {tally.rounds}: {reached} after {self._reached}", file=sys.stderr)
            self._clear()
        elif reached >= self._end:
            tally.jobs_done += 1
            tally.jobs_interrupted += self._n_kills > 0
            found = self.job.outcome(self.folder)
            tally.different += found.keys() != self._uninterrupted.keys() or not all(
                np.array_equal(found[name], self._uninterrupted[name]) for name in found
            )
            self._clear()
        else:
            self._reached = reached

    def _clear(self) -> None:
        self._reached = self._n_kills = 0
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()


def play(n_rounds: int, n_samples: int, folder: Path, rng: np.random.Generator, progress: bool) -> dict:
    """Fork, kill and compare, `n_rounds` times and until the last jobs are done."""
    # tqdm's own lock is shared by all processes: a child killed while it has it would stop every other.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    children = {
        name: Children(job, folder / str(number))
        for number, (name, job) in enumerate(jobs(n_samples).items())
    }
    for _ in tqdm(range(n_rounds), disable=not progress, unit="round"):
        one = children[str(rng.choice(list(children)))]
        one.round(rng.uniform(0.0, LONGEST_WAIT))
        if one.tally.failed:
            break
    for one in children.values():
        # Not killed, so that the last job is compared as well.
        if one.is_under_way and not one.tally.failed:
            one.round(PATIENCE)
    return {name: one.tally for name, one in children.items()}


def _fork_and_kill(work: Callable[[], None], wait: float) -> int | None:
    """Return the exit status of a child that had time enough, or None of one that was killed."""
    seen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(seen)
            os.write(tell, b"!")
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # Nothing of the parent's is to be flushed or cleaned up twice.
            os._exit(status)
    os.close(tell)
    os.read(seen, 1)
    os.close(seen)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(1e-3, max(deadline - time.monotonic(), 0.0)))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    # It may have ended in the meantime.
    return 0 if status == 0 else None


def main() -> int:
    """Return 0 if nothing was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1200, help="children to fork (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=N_SAMPLES, help="of a job (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="when to kill (default: %(default)s)")
    parser.add_argument("--results", type=Path, help="file of the summary")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tallies = play(
            options.rounds,
            options.samples,
            Path(folder),
            np.random.default_rng(options.seed),
            progress=not options.quiet,
        )
    seconds = time.monotonic() - started
    for name, tally in tallies.items():
        print(f"{name}: {tally}")
    print(f"{sum(tally.kills for tally in tallies.values()):,} kills in {seconds:.0f} s")
    if options.results:
        summary = {
            "command": f"python -m tests.stress.kill_and_resume --rounds {options.rounds}",
            "seconds": round(seconds, 1),
            "failures": [name for name, tally in tallies.items() if not tally.is_clean],
            "jobs": {name: asdict(tally) for name, tally in tallies.items()},
        }
        write_results(options.results, summary)
    return 0 if all(tally.is_clean for tally in tallies.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
