"""Save on a failing disk and from many processes, and damage files: no file is broken or read wrongly.

    python -m tests.stress.broken_disks --failures 1000 --saves 1000 --files 10000

If a save over an earlier file fails, it raises `OSError`, keeps the bytes of the earlier file, and leaves no
other file.  If several processes save to one path, a reader finds a complete file of one writer.  A file with
changed bytes or entries loads the bits that were written, or raises a ValueError that names the file.  A
complete file with wrong numbers is refused, or the loaded object works or says why it cannot.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import errno
import io
import json
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np

from dictlearn import LearningSettings, learn_dictionary
from dictlearn.images.kernels import KernelLearner, KernelSettings
from snn import NetworkState, SpikingNetwork, simulate
from snn.base.archive import save_archive
from tests.dictlearn.two_phase.learners import planted, state
from tests.stress.kill_and_resume import SIGNED, kernel_state

IMAGES = np.random.default_rng(0).standard_normal((2, 12, 13))
CALLS = ["fsync", "replace", "size", "folder", "missing"]


def state_of(number):
    potential = np.full(500, float(number))
    return NetworkState(membrane_potential=potential, synaptic_current=potential, time=number)


def digital_of(number):
    pending = np.full((3, 5), number)
    return NetworkState(membrane_potential=pending[0], synaptic_current=pending[1], pending=pending)


def learner_of(number, **signs):
    settings = LearningSettings(penalty=0.1, batch_size=8, **signs)
    return learn_dictionary(
        planted(8, 12, 40, signs)[1], 8, settings=settings, n_samples=1000 + 8 * number, rng=1
    )


def kernels_of(number):
    start = np.random.default_rng(number).standard_normal((3, 3, 3))
    learner = KernelLearner(start, KernelSettings(penalty=0.5))
    learner.learn(IMAGES)
    return learner


def simulated(one):
    network = SpikingNetwork(np.zeros((one.n_neurons,) * 2), np.ones(one.n_neurons))
    simulate(network, 1.0, state=one, max_spikes=1000)


# Functions for each kind of file: make an object, read all its numbers, and continue with it.
KINDS = {
    "network state": (state_of, vars, simulated),
    "digital state": (digital_of, vars, vars),
    "learner": (learner_of, state, lambda one: one.learn(np.ones((4, one.n_inputs)))),
    "signed learner": (
        lambda n: learner_of(n, **SIGNED),
        state,
        lambda one: one.learn(np.ones((4, one.n_inputs))),
    ),
    "kernels": (kernels_of, kernel_state, lambda one: one.learn(IMAGES)),
}


def failures(n_failures, folder, rng):
    """Let one of the system calls of a save fail; yield the faults."""
    made = [(kind[0](0), kind[0](1)) for kind in KINDS.values()]
    limits, path = resource.getrlimit(resource.RLIMIT_FSIZE), folder / "saved.npz"
    for number in range(n_failures):
        one, other = made[number % len(made)]
        one.save(path)
        before, name = path.read_bytes(), str(rng.choice(CALLS))
        target = {"folder": folder, "missing": folder / "none" / "saved.npz"}.get(name, path)
        failure = OSError(int(rng.choice([errno.ENOSPC, errno.EIO, errno.EACCES])), "it failed")
        if name == "size":
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(rng.integers(0, len(before))), limits[1]))
        try:
            with mock.patch.object(os, name if name in CALLS[:2] else "getlogin", side_effect=failure):
                other.save(target)
            yield f"{name}: it was saved"
        except OSError:
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if path.read_bytes() != before or list(folder.iterdir()) != [path]:
            yield f"{name}: the earlier file was changed, or something is left"


def saves(n_saves, folder, _):
    """Save from four processes to one path, and read meanwhile; yield the faults."""
    path, children = folder / "shared.npz", []
    state_of(0).save(path)
    for writer in range(4):
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(600)
            for number in range(writer, n_saves, 4):
                state_of(number).save(path)
            os._exit(0)
    while children:
        found = NetworkState.load(path)
        if not (found.membrane_potential == found.time).all():
            yield "a mixture of two files"
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            children.remove(ended)
            if status:
                yield f"a writer ended with {status}"


def damaged(path, whole, rng):
    """Return a file with changed bits, blocks or entries, and whether it may load with other numbers."""
    how, data = int(rng.integers(6)), np.frombuffer(whole, dtype=np.uint8).copy()
    place = int(rng.integers(len(data)))
    if how == 0:
        data[rng.integers(0, len(data), 2 ** int(rng.integers(6)))] ^= 1 << int(rng.integers(8))
    elif how == 1:
        data = data[:place]
    elif how == 2:
        data[place : place + 512] = 0
    if how < 3:
        return data.tobytes(), False
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        comment, entries = archive.comment, {name: archive.read(name) for name in archive.namelist()}
    one, other = rng.choice(list(entries), 2, replace=False)
    if how == 3:
        entries[one], entries[other] = entries[other], entries[one]
    elif how == 4:
        entries[one] = entries[one][:-1] + bytes([entries[one][-1] ^ 1 << int(rng.integers(8))])
    else:  # a complete file with one wrong array
        arrays = dict(np.load(io.BytesIO(whole)))
        array = arrays[one.removesuffix(".npy")]
        number = rng.choice([np.nan, np.inf, -1.0, 0.0, 1e308] if array.dtype.kind == "f" else [-1, 0, 2**62])
        wrong = (
            array[None],
            array.ravel()[:-1],
            "{",
            "[" * 100_000,
            array.astype("U9"),
            np.full(array.shape, number),
        )
        arrays[one.removesuffix(".npy")] = wrong[int(rng.integers(len(wrong)))]
        save_archive(path, arrays)
        return path.read_bytes(), True
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.comment = comment
    return file.getvalue(), False


def files(n_files, folder, rng):
    """Damage files of each kind, and read them; yield the faults."""
    for name, (make, content, use) in KINDS.items():
        path, one = folder / f"{name}.npz", make(0)
        one.save(path)
        whole, written = path.read_bytes(), content(one)
        for number in range(n_files):
            data, may_differ = damaged(path, whole, rng)
            path.write_bytes(data)
            try:
                found = type(one).load(path)
                if may_differ:
                    use(found)
                elif not all(np.array_equal(value, written[key]) for key, value in content(found).items()):
                    yield f"{name}, {number}: other numbers"
            except Exception as error:
                refused = isinstance(error, ValueError) and str(path) in str(error) and "\n" not in str(error)
                says_why = isinstance(error, (ValueError, TypeError, RuntimeError, ArithmeticError))
                if not refused and not (may_differ and says_why and len(str(error).split()) > 3):
                    yield f"{name}, {number}: {type(error).__name__}: {error}"


def main():
    """Return 0 if no file was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("failures", 1000), ("saves", 1000), ("files", 10_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of what was found")
    parser.add_argument("--quiet", action="store_true", help="as other programs have it; little is printed")
    options, faults = parser.parse_args(), []
    warnings.simplefilter("ignore")
    for act in (failures, saves, files):
        with tempfile.TemporaryDirectory() as folder:
            count = getattr(options, act.__name__)
            faults += act(count, Path(folder), np.random.default_rng(options.seed))
    if options.results:
        options.results.write_text(json.dumps({"files": options.files, "faults": faults}))
    print(*faults, sep="\n", file=sys.stderr)
    print(f"{options.failures} failures, {options.saves} saves, {options.files} files; faults: {len(faults)}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
