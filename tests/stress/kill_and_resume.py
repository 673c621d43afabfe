"""Kill a learning process again and again: no checkpoint is lost, and the outcome is the same to the bit.

    python -m tests.stress.kill_and_resume --rounds 1000

A round forks a child from this process, which has everything imported and compiled, waits until it learns,
and kills it with SIGKILL a random while later.  The next child goes on from the checkpoint.  A child that
gets to the end, of about a second's work, is compared with a run without interruption; the next one starts
anew.  Whenever a child is dead, the checkpoint must load and be as far as it was before, or farther.
"""

from __future__ import annotations

import os

# One thread, so that a fork copies a whole process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dictlearn import TwoPhaseLearner, learn_dictionary
from dictlearn.two_phase.saving import COUNTERS
from dictlearn.two_phase.settings import LearningSettings

N_SIGNALS, N_INPUTS, N_ATOMS = 600, 48, 64
N_SAMPLES = 5000
# So often that many a kill meets a write.
BATCH_SIZE, CHECKPOINT_EVERY = 8, 16
LONGEST_WAIT = 0.5
# More than a job takes, on any machine.
PATIENCE = 60.0


@dataclass
class Tally:
    """What happened."""

    rounds: int = 0
    kills: int = 0
    during_write: int = 0
    jobs_done: int = 0
    jobs_interrupted: int = 0
    lost_or_corrupt: int = 0
    different: int = 0
    failed: int = 0

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
        "last_fired": learner.last_fired,
        "last_compared": learner.last_compared,
        "counters": np.array([getattr(learner, name) for name in COUNTERS]),
        **learner.history,
    }


def are_equal(first: TwoPhaseLearner, second: TwoPhaseLearner) -> bool:
    """Whether two learners are the same to the last bit."""
    ours, theirs = state(first), state(second)
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


def job(n_samples: int, checkpoint: Path | None) -> TwoPhaseLearner:
    """Learn, from where the checkpoint is."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(N_ATOMS, N_INPUTS)) * (rng.uniform(size=(N_ATOMS, N_INPUTS)) < 0.2)
    signals = (
        rng.uniform(size=(N_SIGNALS, N_ATOMS)) * (rng.uniform(size=(N_SIGNALS, N_ATOMS)) < 0.05)
    ) @ atoms
    return learn_dictionary(
        signals + 0.01,
        N_ATOMS,
        settings=LearningSettings(penalty=0.1, batch_size=BATCH_SIZE),
        n_samples=n_samples,
        rng=1,
        checkpoint=checkpoint,
        checkpoint_every=CHECKPOINT_EVERY,
    )


def play(n_rounds: int, n_samples: int, folder: Path, rng: np.random.Generator, progress: bool) -> Tally:
    """Fork, kill and compare, `n_rounds` times and until the last job is done."""
    # tqdm's own lock is shared by all processes: a child killed while it has it would stop every other.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    uninterrupted = job(n_samples, None)
    checkpoint = folder / "learner.npz"
    tally = Tally()
    reached, n_kills = 0, 0
    with tqdm(total=n_rounds, disable=not progress, unit="kill") as bar:
        while tally.rounds < n_rounds or reached:
            tally.rounds += 1
            bar.update(tally.rounds <= n_rounds)
            # After the last round no job is killed, so that the last job is compared as well.
            wait = rng.uniform(0.0, LONGEST_WAIT) if tally.rounds <= n_rounds else PATIENCE
            ended = _fork_and_kill(n_samples, checkpoint, wait)
            if ended is None and tally.rounds > n_rounds:
                ended = 1  # it hangs
            if ended is None:
                tally.kills += 1
                n_kills += 1
                tally.during_write += checkpoint.with_name(f"{checkpoint.name}.part").exists()
            elif ended != 0:
                tally.failed += 1
                return tally
            try:
                learner = TwoPhaseLearner.load(checkpoint)
            except (FileNotFoundError, ValueError) as error:
                if isinstance(error, ValueError) or reached:
                    tally.lost_or_corrupt += 1
                    print(f"round {tally.rounds}: {error}", file=sys.stderr)
                    checkpoint.unlink(missing_ok=True)
                reached = 0
                continue
            if learner.n_samples < reached:
                tally.lost_or_corrupt += 1
                print(f"round {tally.rounds}: {learner.n_samples} after {reached}", file=sys.stderr)
            reached = learner.n_samples
            if reached >= n_samples:
                tally.jobs_done += 1
                tally.jobs_interrupted += n_kills > 0
                tally.different += not are_equal(learner, uninterrupted)
                checkpoint.unlink()
                reached, n_kills = 0, 0
    return tally


def _fork_and_kill(n_samples: int, checkpoint: Path, wait: float) -> int | None:
    """Return the exit status of a child that had time enough, or None of one that was killed."""
    seen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(seen)
            os.write(tell, b"!")
            job(n_samples, checkpoint)
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
    parser.add_argument("--rounds", type=int, default=1000, help="children to kill (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=N_SAMPLES, help="of a job (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="when to kill (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tally = play(
            options.rounds,
            options.samples,
            Path(folder),
            np.random.default_rng(options.seed),
            progress=not options.quiet,
        )
    print(f"{tally}  ({time.monotonic() - started:.0f} s)")
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
