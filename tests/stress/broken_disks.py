"""Save where a disk is full, read-only or missing, and from many processes at once: no file is ever broken.

    python -m tests.stress.broken_disks --failures 1000 --saves 1000

Failures: a network's state, a two-phase learner or a learner of kernels is saved over an earlier one, and
something goes wrong: files may be no larger than a random size, the disk is full (a small disk in memory,
where this process may make one), a call of the system fails, the folder is read-only or missing, the path is
that of a folder, or its name is too long.  The error must be an `OSError` in one sentence that names the
path, the earlier file must have the bytes that it had, and nothing else may be left beside it.

Saves: several processes save to one path, and others read it.  Every file that a reader finds must be whole,
and all of it of one writer.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import builtins
import errno
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from tqdm import tqdm

from dictlearn import LearningSettings, TwoPhaseLearner, TwoPhaseNetwork
from dictlearn.images.kernel_learner import KernelLearner, KernelSettings
from examples._results import write_results
from snn import NetworkState
from tests.stress.watched import CRASHED, HUNG, watched

NOBODY = 65534
SIZE_OF_DISK = 64 * 1024
N_WRITERS, N_READERS = 4, 2
PATIENCE = 60.0


# -- what is saved -------------------------------------------------------------------------------


def state_of(number: int) -> NetworkState:
    potential = np.full(4000, float(number))
    return NetworkState(membrane_potential=potential, synaptic_current=potential, time=number)


def learner_of(number: int) -> TwoPhaseLearner:
    network = TwoPhaseNetwork.consistent(np.random.default_rng(number).uniform(0.1, 1.0, (20, 30)))
    return TwoPhaseLearner(network, LearningSettings(penalty=0.1), scale=float(number + 1))


def kernels_of(number: int) -> KernelLearner:
    kernels = np.random.default_rng(number).standard_normal((6, 5, 5))
    return KernelLearner(kernels, KernelSettings(penalty=float(number + 1)))


SAVED: dict[str, tuple[Callable[[int], Any], type]] = {
    "state": (state_of, NetworkState),
    "learner": (learner_of, TwoPhaseLearner),
    "kernels": (kernels_of, KernelLearner),
}


# -- failures ------------------------------------------------------------------------------------


@contextmanager
def limited_files(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    """No file may be larger than a random size."""
    largest = int(rng.integers(0, path.stat().st_size))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield path
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def failing_call(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    """One of the calls of the system that saving makes fails."""
    number = int(rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES]))
    failure = OSError(number, os.strerror(number))
    which = str(rng.choice(["open", "write", "fsync", "replace"]))
    if which in ("fsync", "replace"):
        with mock.patch.object(os, which, side_effect=failure):
            yield path
        return
    n_left = int(rng.integers(0, 8)) if which == "write" else 0
    real_open = builtins.open

    def failing_open(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        nonlocal n_left
        if "w" not in mode:
            return real_open(file, mode, *more, **options)
        if which == "open":
            raise failure
        opened = real_open(file, mode, *more, **options)

        def write(data: bytes) -> int:
            nonlocal n_left
            n_left -= 1
            if n_left < 0:
                raise failure
            return type(opened).write(opened, data)

        return mock.MagicMock(
            wraps=opened,
            write=write,
            __enter__=lambda self: self,
            __exit__=lambda self, *_: opened.close(),
        )

    with mock.patch.object(builtins, "open", failing_open):
        yield path


@contextmanager
def read_only_folder(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    """The folder may not be written to."""
    del rng
    # Root may write anywhere.
    is_root = os.geteuid() == 0
    path.parent.chmod(0o555)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        if is_root:
            os.seteuid(0)
        path.parent.chmod(0o755)


@contextmanager
def missing_folder(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    del rng
    yield path.parent / "missing" / path.name


@contextmanager
def folder_for_file(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    """The path is that of a folder."""
    del rng
    folder = path.parent / "folder"
    folder.mkdir()
    try:
        yield folder
    finally:
        folder.rmdir()


@contextmanager
def file_for_folder(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    """The folder of the path is a file."""
    del rng
    yield path / "learner.npz"


@contextmanager
def long_name(path: Path, rng: np.random.Generator) -> Iterator[Path]:
    yield path.parent / ("x" * int(rng.integers(256, 1000)))


FAILURES: dict[str, Callable] = {
    "files of a limited size": limited_files,
    "a call that fails": failing_call,
    "a read-only folder": read_only_folder,
    "a missing folder": missing_folder,
    "a folder in the place of the file": folder_for_file,
    "a file in the place of the folder": file_for_folder,
    "a name that is too long": long_name,
}
FULL_DISK = "a full disk"


def fail(number: int, seed: int, folder: Path, small_disk: Path | None) -> tuple[str, str]:
    """Save once where it cannot be done; return the kind of failure, and what is wrong with what happened."""
    rng = np.random.default_rng([seed, number])
    kinds = [*FAILURES, *([FULL_DISK] * 2 if small_disk else [])]
    kind, what = str(rng.choice(kinds)), str(rng.choice(list(SAVED)))
    place = folder / str(number) if kind != FULL_DISK else small_disk / str(number)
    place.mkdir()
    place.chmod(0o755)
    try:
        return kind, _complaint(kind, what, place / "saved.npz", rng)
    except BaseException:
        return kind, traceback.format_exc()
    finally:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()


def _complaint(kind: str, what: str, path: Path, rng: np.random.Generator) -> str:
    make, loaded = SAVED[what]
    make(1).save(path)
    path.chmod(0o644)
    before = path.read_bytes()
    if kind == FULL_DISK:
        # All that is left but a little.
        left = os.statvfs(path.parent)
        n_bytes = left.f_bavail * left.f_frsize - int(rng.integers(0, len(before)))
        (path.parent / "ballast").write_bytes(bytes(max(n_bytes, 0)))
        target = path
        error = _error_of(lambda: make(2).save(path))
    else:
        with FAILURES[kind](path, rng) as target:
            error = _error_of(lambda: make(2).save(target))
    beside = sorted(file.name for file in path.parent.iterdir() if file.name != "ballast")
    if error is None:
        return f"{what} was saved"
    if not isinstance(error, OSError):
        return f"{what}: {''.join(traceback.format_exception(error))}"
    if "\n" in str(error) or str(error.filename) != str(target):
        return f"{what}: the error is: {error}"
    if path.read_bytes() != before:
        return f"{what}: the earlier file was changed by {error}"
    if beside != ["saved.npz"]:
        return f"{what}: {beside} are left after {error}"
    loaded.load(path)
    return ""


def _error_of(save: Callable[[], None]) -> BaseException | None:
    try:
        save()
    except BaseException as error:
        return error
    return None


@contextmanager
def disk_in_memory(folder: Path) -> Iterator[Path | None]:
    """A small disk, or None where this process may not make one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_OF_DISK}", "tmpfs", str(folder)]
    try:
        is_made = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_made = False
    try:
        yield folder if is_made else None
    finally:
        if is_made:
            subprocess.run(["umount", str(folder)], check=True)


def play_failures(n_failures: int, seed: int, folder: Path, progress: bool) -> dict[str, Any]:
    """Make this number of saves fail."""
    counts: Counter = Counter()
    complaints = []
    folder.chmod(0o755)
    with disk_in_memory(folder / "disk") as small_disk:
        cases = watched(
            lambda number: fail(number, seed, folder, small_disk), 0, n_failures, patience=PATIENCE
        )
        for number, told in tqdm(cases, total=n_failures, disable=not progress, unit="failure"):
            kind, complaint = ("unknown", told) if told in (CRASHED, HUNG) else told
            counts[kind] += 1
            if complaint:
                complaints.append(f"{number}, {kind}: {complaint}")
    return {"failures": dict(sorted(counts.items())), "complaints": complaints}


# -- saves at the same time ----------------------------------------------------------------------


def play_saves(n_saves: int, folder: Path) -> dict[str, Any]:
    """Have several processes save to one path while others read it."""
    path = folder / "shared.npz"
    state_of(0).save(path)
    children, pipes = [], []
    for number in range(N_WRITERS + N_READERS):
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            outcome: dict[str, Any] = {"failed": "unknown"}
            try:
                os.close(told)
                if number < N_WRITERS:
                    outcome = _write(path, range(number, n_saves, N_WRITERS))
                else:
                    outcome = _read(path)
            finally:
                os.write(tell, json.dumps(outcome).encode())
                os._exit(0)
        os.close(tell)
        children.append(child)
        pipes.append(told)
    for child in children[:N_WRITERS]:
        os.waitpid(child, 0)
    for child in children[N_WRITERS:]:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    outcomes = []
    for told in pipes:
        with os.fdopen(told) as pipe:
            outcomes.append(json.loads(pipe.read()))
    return {
        "writers": N_WRITERS,
        "readers": N_READERS,
        "saves": sum(one.get("saves", 0) for one in outcomes),
        "reads": sum(one.get("reads", 0) for one in outcomes),
        "different files read": max(one.get("different", 0) for one in outcomes),
        "complaints": [one["failed"] for one in outcomes if one.get("failed")],
        "left beside": sorted(file.name for file in folder.iterdir() if file != path),
    }


def _write(path: Path, numbers: range) -> dict[str, Any]:
    try:
        for number in numbers:
            state_of(number).save(path)
    except Exception:
        return {"failed": traceback.format_exc()}
    return {"saves": len(numbers)}


def _read(path: Path) -> dict[str, Any]:
    """Read until told to end."""
    is_over = False

    def end(*_: Any) -> None:
        nonlocal is_over
        is_over = True

    signal.signal(signal.SIGTERM, end)
    n_reads, found = 0, set()
    try:
        while not is_over:
            state = NetworkState.load(path)
            if not (state.membrane_potential == state.time).all():
                return {"failed": f"a mixture: {state}"}
            found.add(state.time)
            n_reads += 1
    except Exception:
        return {"failed": traceback.format_exc()}
    return {"reads": n_reads, "different": len(found)}


def main() -> int:
    """Return 0 if no file was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--failures", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--saves", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of the summary")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        failed = play_failures(options.failures, options.seed, Path(folder), progress=not options.quiet)
    with tempfile.TemporaryDirectory() as folder:
        saved = play_saves(options.saves, Path(folder))
    seconds = time.monotonic() - started
    for kind, count in failed["failures"].items():
        print(f"{count:,} saves with {kind}")
    print(
        f"{saved['saves']:,} saves by {N_WRITERS} processes to one path, {saved['reads']:,} reads of "
        f"{saved['different files read']:,} files or more"
    )
    complaints = [*failed["complaints"], *saved["complaints"], *saved["left beside"]]
    print(f"complaints: {len(complaints)}  ({seconds:.0f} s)")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if options.results:
        command = f"python -m tests.stress.broken_disks --failures {options.failures} --saves {options.saves}"
        summary = {
            "command": command,
            "seconds": round(seconds, 1),
            "failing": failed["failures"],
            "together": {name: saved[name] for name in ("writers", "readers", "saves", "reads")},
            "failures": complaints,
        }
        write_results(options.results, summary)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
