"""Save where the disk fails and from many processes at once, and damage files: none is broken or read wrongly.

    python -m tests.stress.broken_disks --failures 1000 --saves 1000 --files 10000

A save over an earlier file that fails ends in an `OSError` that names the path; the earlier file has its bytes, and
nothing is left beside it.  Of several processes that save to one path, readers find whole files of one writer.  A
file of which bytes or entries were changed loads with the bits that were written, or ends in one ValueError that
names it; one that is whole and says something wrong is refused, or what was read works or says why not.
"""

# ruff: noqa: E501 - a case a line reads better

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import errno
import io
import json
import signal
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np

from dictlearn import KernelLearner, KernelSettings, LearningSettings, learn_dictionary
from snn import NetworkState, SpikingNetwork, simulate
from snn.digital import DigitalState
from tests.dictlearn.two_phase.learners import state
from tests.stress.kill_and_resume import kernel_state

RNG = np.random.default_rng(0)
SIGNALS, IMAGES = RNG.standard_normal((40, 12)), RNG.standard_normal((2, 12, 13))


def state_of(number):
    potential = np.full(500, float(number))
    return NetworkState(membrane_potential=potential, synaptic_current=potential, time=number)


def digital_of(number):
    arrays = {
        "membrane_potential": np.arange(5),
        "synaptic_current": np.arange(5),
        "pending": np.full((3, 5), number),
    }
    return DigitalState(**arrays)


def learner_of(number, **signs):
    settings = LearningSettings(penalty=0.3, batch_size=8, **signs)
    signals = SIGNALS if signs else np.abs(SIGNALS)
    return learn_dictionary(signals, 8, settings=settings, n_samples=1000 + 8 * number, rng=1)


def kernels_of(number):
    learner = KernelLearner(
        np.random.default_rng(number).standard_normal((3, 3, 3)), KernelSettings(penalty=0.5)
    )
    learner.learn(IMAGES)
    return learner


def simulated(state):
    simulate(
        SpikingNetwork(np.zeros((state.n_neurons,) * 2), np.ones(state.n_neurons)),
        1.0,
        state=state,
        max_spikes=1000,
    )


# How to make one, all numbers of it, and how to go on with it.
KINDS = {
    "network state": (state_of, vars, simulated),
    "digital state": (digital_of, vars, vars),
    "learner": (learner_of, state, lambda one: one.learn(np.abs(np.resize(SIGNALS, (4, one.n_inputs))))),
    "signed learner": (lambda number: learner_of(number, positive_atoms=False, positive_code=False), state, lambda one: one.learn(np.resize(SIGNALS, (4, one.n_inputs)))),
    "kernels": (kernels_of, kernel_state, lambda one: one.learn(np.resize(IMAGES, (1, *(3 * side for side in one.kernel_size), *one.kernels.shape[3:])))),
}  # fmt: skip


def failures(n_failures, folder, rng):
    """Let one of the calls that saving makes fail; yield what is wrong."""
    made = [(kind[0](0), kind[0](1)) for kind in KINDS.values()]
    for number in range(n_failures):
        (one, other), path = made[number % len(made)], folder / "saved.npz"
        one.save(path)
        before = path.read_bytes()
        failure = OSError(int(rng.choice([errno.ENOSPC, errno.EIO, errno.EACCES])), "it failed")
        name = str(rng.choice(["fsync", "replace", "size", "folder", "missing"]))
        target = {"folder": folder, "missing": folder / "none" / "saved.npz"}.get(name, path)
        limited = mock.patch.object(
            os, name if name in ("fsync", "replace") else "fsync", side_effect=failure
        )
        if name == "size":
            import resource

            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(rng.integers(0, len(before))), limits[1]))
        try:
            with limited:
                other.save(target)
            yield f"{name}: it was saved"
        except OSError as error:
            if (
                str(target) not in str(error)
                and target.name not in str(error)
                and "it failed" not in str(error)
            ):
                yield f"{name}: {error}"
        finally:
            if name == "size":
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if path.read_bytes() != before or [file.name for file in folder.iterdir()] != [path.name]:
            yield f"{name}: the earlier file was changed, or something is left"


def saves(n_saves, folder, _):
    """Save from four processes to one path, and read meanwhile; yield what is wrong."""
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


def damaged(whole, rng):
    """Return a file of which bits, blocks or entries were changed, and whether that may be read as something else."""
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
    else:  # whole, with a wrong array
        array, comment, file = np.load(io.BytesIO(entries[one])), b"", io.BytesIO()
        bad = (
            rng.choice([np.nan, np.inf, -1.0, 0.0, 1e308])
            if array.dtype.kind == "f"
            else rng.choice([-1, 0, 2**62])
        )
        wrong = (
            array[np.newaxis],
            array.ravel()[:-1],
            np.array("{"),
            np.array("[" * 100_000),
            array.astype("c16") if array.dtype.kind != "U" else np.array(5),
            np.full(array.shape, bad),
        )
        np.save(file, wrong[int(rng.integers(len(wrong)))])
        entries[one] = file.getvalue()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.comment = comment
    return file.getvalue(), how == 5


def files(n_files, folder, rng):
    """Damage files of each kind, and read them; yield what is wrong."""
    for name, (make, content, use) in KINDS.items():
        path, one = folder / f"{name}.npz", make(0)
        one.save(path)
        whole, written = path.read_bytes(), content(one)
        for number in range(n_files):
            data, may_differ = damaged(whole, rng)
            path.write_bytes(data)
            try:
                found = type(one).load(path)
                same = all(np.array_equal(value, written[key]) for key, value in content(found).items())
                if same or not may_differ:
                    if not same:
                        yield f"{name}, {number}: other numbers"
                    continue
                use(found)
            except (ValueError, TypeError, RuntimeError, OverflowError, FloatingPointError) as error:
                refused = isinstance(error, ValueError) and str(path) in str(error) and "\n" not in str(error)
                if not refused and not (may_differ and len(str(error).split()) > 3):
                    yield f"{name}, {number}: {type(error).__name__}: {error}"
            except Exception as error:
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
    for act, count in ((failures, options.failures), (saves, options.saves), (files, options.files)):
        with tempfile.TemporaryDirectory() as folder:
            faults += act(count, Path(folder), np.random.default_rng(options.seed))
    if options.results:
        options.results.write_text(json.dumps({"files": options.files, "faults": faults}))
    print(*faults, sep="\n", file=sys.stderr)
    print(
        f"{options.failures} failures, {options.saves} saves, {options.files} files of each kind; faults: {len(faults)}"
    )
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
