"""Damage files of every kind that is written: each loads as it was, or is refused in one sentence.

    python -m tests.stress.corrupted_archives --files 10000

The same number of files of each kind (`tests.stress.archive_kinds`) is damaged, in turns:

- bits flipped, in one place or many; cut short; a block of zeros or of garbage; two blocks exchanged;
- entries swapped, missing, or changed, in an archive that is otherwise whole;
- an archive that is whole and says what no such file says: wrong types, shapes, numbers, settings, JSON.

A damaged file must load with the bits that were written, or end in one ValueError that names it.  One that is
whole but wrong may load as well, where going on with it works or ends in an error that says why.  NIR files
are read by other packages, nir and h5py, and have no checksums: there only what `from_nir` makes of them
counts, and crashes and hangs of h5py are counted, too.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dictlearn.two_phase.phases import RunawayFeedbackError
from examples._results import write_results
from snn import RunawayError
from tests.stress.archive_kinds import KINDS, ForeignError, same
from tests.stress.watched import CRASHED, HUNG, watched

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "docs" / "results" / "reliability_archives.json"
PATIENCE = 60.0
PATIENCE_WITH_NIR = 3.0
SENTENCES = (ValueError, TypeError, RunawayError, RunawayFeedbackError, OverflowError, FloatingPointError)
"""Errors that say in a sentence why something cannot go on."""

UNCHANGED, REFUSED, AS_WRITTEN, FOREIGN, OTHER, BARE = (
    "loaded as it was", "refused", "loaded as the file says", "refused by nir or h5py",
    "other numbers", "bare error",
)  # fmt: skip
FAILURES = (OTHER, BARE, CRASHED, HUNG)


# -- damage to bytes -----------------------------------------------------------------------------


def flipped_bits(whole: bytes, rng: np.random.Generator) -> bytes:
    data = np.frombuffer(whole, dtype=np.uint8).copy()
    places = rng.integers(0, len(data), 2 ** int(rng.integers(0, 6)))
    data[places] ^= np.left_shift(1, rng.integers(0, 8, len(places))).astype(np.uint8)
    return data.tobytes()


def flipped_in_directory(whole: bytes, rng: np.random.Generator) -> bytes:
    """Bits of names, sizes, checksums and offsets, and of the headers of arrays, where few bytes say much."""
    data = bytearray(whole)
    marks = [
        i for i in range(len(whole) - 4) if whole[i : i + 4] in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06")
    ]
    marks += [i for i in range(len(whole) - 6) if whole[i : i + 6] == b"\x93NUMPY"]
    start = int(rng.choice(marks)) if marks else 0
    place = min(start + int(rng.integers(0, 100)), len(data) - 1)
    data[place] ^= 1 << int(rng.integers(8))
    return bytes(data)


def cut_short(whole: bytes, rng: np.random.Generator) -> bytes:
    return whole[: int(rng.integers(0, len(whole)))]


def lost_block(whole: bytes, rng: np.random.Generator) -> bytes:
    size = int(rng.choice([16, 512, 4096]))
    start = int(rng.integers(0, len(whole)))
    block = bytes(size) if rng.uniform() < 0.5 else rng.bytes(size)
    return (whole[:start] + block + whole[start + size :])[: len(whole)]


def moved_block(whole: bytes, rng: np.random.Generator) -> bytes:
    first, second = sorted(rng.integers(0, len(whole), 2).tolist())
    size = min(512, second - first)
    parts = (
        whole[:first],
        whole[second : second + size],
        whole[first + size : second],
        whole[first : first + size],
    )
    return (b"".join(parts) + whole[second + size :])[: len(whole)]


# -- damage to entries ---------------------------------------------------------------------------


def entries_of(whole: bytes) -> tuple[dict[str, bytes], bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}, archive.comment


def archive_of(entries: dict[str, bytes], comment: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.comment = comment
    return file.getvalue()


def swapped_entries(whole: bytes, rng: np.random.Generator) -> bytes:
    entries, comment = entries_of(whole)
    one, other = rng.choice(list(entries), 2, replace=False)
    entries[one], entries[other] = entries[other], entries[one]
    return archive_of(entries, comment)


def changed_entry(whole: bytes, rng: np.random.Generator) -> bytes:
    """A bit of an entry, with a checksum of its own that is right."""
    entries, comment = entries_of(whole)
    name = str(rng.choice(list(entries)))
    data = bytearray(entries[name])
    data[-1 - int(rng.integers(0, min(8, len(data))))] ^= 1 << int(rng.integers(8))
    entries[name] = bytes(data)
    return archive_of(entries, comment)


def missing_entry(whole: bytes, rng: np.random.Generator) -> bytes:
    entries, comment = entries_of(whole)
    del entries[str(rng.choice(list(entries)))]
    return archive_of(entries, comment if rng.uniform() < 0.5 else b"")


# -- whole, and wrong ----------------------------------------------------------------------------

NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e308, 5e-324, 1e-200, 0.5)
INTEGERS = (-1, 0, 2**63 - 1, -(2**63), 10**6)
JSON_VALUES = (
    None, True, -1, 0, 1e400, -1e400, float("nan"), 0.5, 10**400, "", "x", "\x00", [], [1], {}, {"kind": []},
    {"kind": "UsageSteps"}, [[[]]], "currents",
)  # fmt: skip
DEEP = "[" * 100_000 + "]" * 100_000
TEXTS = (
    DEEP,
    '{"a":' * 50_000,
    "",
    "{",
    "null",
    "5",
    "[]",
    "{}",
    "NaN",
    "é\x00\ud800",
    '{"penalty": 1}',
    "9" * 5000,
)


def wrong_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array of another type, of another shape, or with other numbers."""
    kind = int(rng.integers(10))
    if array.dtype.kind == "U":
        return wrong_text(str(array), rng)
    if kind == 0:
        return np.array(rng.choice(["5", "", "nan", "[]"]))
    if kind == 1:
        return array.astype(rng.choice(["f4", "f2", "c16", "i1", "u8", "b", "i8", "f8", ">f8"]))
    if kind == 2:
        return np.array([b"x", b"yz"])
    if kind == 3:
        return np.array(["2020-01-01"], dtype="datetime64[D]")
    if kind == 4:
        return np.zeros(array.shape, dtype=[("a", "f8"), ("b", "i4")])
    if kind == 5:
        shapes = (
            array[np.newaxis],
            array.T,
            array.ravel(),
            array[:0] if array.ndim else np.zeros(0),
            np.array(0),
        )
        return shapes[int(rng.integers(len(shapes)))]
    if kind == 6:
        return np.concatenate([np.atleast_1d(array)] * 2)
    if kind == 7 and array.ndim:
        return array[:-1]
    wrong = array.copy()
    value = rng.choice(NUMBERS) if array.dtype.kind == "f" else int(rng.choice(INTEGERS))
    if array.dtype.kind == "b" or not array.size:
        return np.array(2)
    wrong.flat[int(rng.integers(array.size)) if kind == 8 else slice(None)] = value
    return wrong


def wrong_text(text: str, rng: np.random.Generator) -> np.ndarray:
    """Return a text, or JSON with other values of other types."""
    if rng.uniform() < 0.3:
        text = str(TEXTS[int(rng.integers(len(TEXTS)))])
    else:
        try:
            values = json.loads(text)
            name = str(rng.choice(list(values)))
            if rng.uniform() < 0.2:
                del values[name]
            elif rng.uniform() < 0.2:
                values["unknown"] = values.pop(name)
            elif isinstance(values[name], dict) and values[name] and rng.uniform() < 0.8:
                values[name][str(rng.choice(list(values[name])))] = JSON_VALUES[
                    int(rng.integers(len(JSON_VALUES)))
                ]
            else:
                values[name] = JSON_VALUES[int(rng.integers(len(JSON_VALUES)))]
            text = json.dumps(values)
        except (ValueError, TypeError, AttributeError):
            text = "{"
    return np.array(text.encode("utf-8", "replace").decode())


def wrong_content(whole: bytes, rng: np.random.Generator) -> bytes:
    """An archive as `numpy.savez` writes it, whole, with one to three entries that are wrong."""
    with np.load(io.BytesIO(whole)) as archive:
        entries = dict(archive)
    for name in rng.choice(list(entries), min(int(rng.integers(1, 4)), len(entries)), replace=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of casts
            entries[name] = wrong_array(entries[name], rng)
    file = io.BytesIO()
    np.savez(file, **entries)
    return file.getvalue()


def lying_header(whole: bytes, rng: np.random.Generator) -> bytes:
    """An array whose header says another length, of an archive whose checksums are right."""
    entries, _ = entries_of(whole)
    name = str(rng.choice(list(entries)))
    header = {
        "descr": str(rng.choice(["<f8", "<i8", "|b1", "<U1", "|O", "<f4", "x"])),
        "fortran_order": bool(rng.integers(2)),
        "shape": ((), (1,), (5,), (2**40,), (2**62, 2**62), (-1,), (0,), (3, 3))[int(rng.integers(8))],
    }
    text = (repr(header) + "\n").encode()
    data = entries[name][entries[name].index(b"\n") + 1 :]
    entries[name] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data
    return archive_of(entries, b"")


BYTES = {
    "bits flipped": flipped_bits,
    "bits of headers flipped": flipped_in_directory,
    "cut short": cut_short,
    "a block lost": lost_block,
    "blocks exchanged": moved_block,
}
ENTRIES = {
    "entries swapped": swapped_entries,
    "an entry changed": changed_entry,
    "an entry missing": missing_entry,
}
WHOLE = {"whole, with wrong entries": wrong_content, "whole, with a wrong header": lying_header}


# -- one file ------------------------------------------------------------------------------------


class Fuzzer:
    """Files of one kind, damaged by number.

    Parameters
    ----------
    name : str
        Of `KINDS`.
    folder : Path
        For the files.
    seed : int
        Of the damage.
    """

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.kind = KINDS[name]
        self.is_ours = name != "network in NIR"
        self.seed = [seed, list(KINDS).index(name)]
        self.path = folder / f"{name}.{'npz' if self.is_ours else 'nir'}"
        self.kind.write(self.path)
        self.whole = self.path.read_bytes()
        self.content = self.kind.content(self.kind.read(self.path))
        self.damages = {**BYTES, **(ENTRIES | WHOLE if self.is_ours else {})}

    def examine(self, number: int) -> tuple[str, str]:
        """Damage a file, and read it; return what became of it, and what is wrong."""
        rng = np.random.default_rng([*self.seed, number])
        damage = list(self.damages)[number % len(self.damages)]
        damaged = self.damages[damage](self.whole, rng)
        self.path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._read(damaged, may_differ=damage in WHOLE or not self.is_ours)
        except Exception as error:  # whatever it is, it should not be
            return BARE, f"{type(error).__name__}: {error}"

    def _read(self, damaged: bytes, *, may_differ: bool) -> tuple[str, str]:
        try:
            found = self.kind.read(self.path)
        except ForeignError:
            return FOREIGN, ""
        except ValueError as error:
            return self._refused(error, damaged)
        except TypeError as error:
            return (REFUSED, "") if not self.is_ours else (BARE, f"TypeError: {error}")
        if same(self.kind.content(found), self.content):
            return UNCHANGED, ""
        if not may_differ:
            return OTHER, "loaded, with other numbers"
        try:
            self.kind.use(found)
        except SENTENCES as error:
            if len(str(error).split()) < 4:
                raise
        return AS_WRITTEN, ""

    def _refused(self, error: ValueError, damaged: bytes) -> tuple[str, str]:
        sentence = str(error)
        is_named = str(self.path) in sentence and sentence.startswith(
            ("path must name a saved", "checkpoint ")
        )
        if "\n" in sentence or (self.is_ours and not is_named) or len(sentence.split()) < 4:
            return BARE, f"ValueError: {sentence}"
        if self.path.read_bytes() != damaged:
            return BARE, "the damaged file was changed"
        return REFUSED, ""


# -- many files ----------------------------------------------------------------------------------


def play(names: list[str], n_files: int, seed: int, *, quiet: bool, only: int | None = None) -> dict:
    """Return what became of the files, by kind and by damage."""
    outcomes: dict[str, dict[str, dict[str, int]]] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            fuzzer = Fuzzer(name, Path(folder), seed)
            patience = PATIENCE if fuzzer.is_ours else PATIENCE_WITH_NIR
            table = outcomes.setdefault(name, {})
            first, last = (0, n_files) if only is None else (only, only + 1)
            cases = watched(fuzzer.examine, first, last, patience=patience)
            for number, seen in tqdm(cases, total=last - first, disable=quiet, unit="file", desc=name):
                damage = list(fuzzer.damages)[number % len(fuzzer.damages)]
                outcome, wrong = (seen, seen) if seen in (CRASHED, HUNG) else seen
                counts = table.setdefault(damage, {})
                counts[outcome] = counts.get(outcome, 0) + 1
                if outcome in FAILURES and (fuzzer.is_ours or outcome not in (CRASHED, HUNG)):
                    failures.append(
                        f"{name}, {damage}: {wrong}\n  python -m tests.stress.corrupted_archives "
                        f"--kind {name!r} --seed {seed} --only {number}"
                    )
                    print(failures[-1], file=sys.stderr)
    command = f"python -m tests.stress.corrupted_archives --files {n_files} --seed {seed}"
    return {"command": command, "seed": seed, "files": n_files, "failures": failures, "kinds": outcomes}


def main() -> int:
    """Return 0 if every file was unchanged or refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000, help="of each kind (default: %(default)s)")
    parser.add_argument("--kind", choices=KINDS, help="of this kind alone")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--only", type=int, help="the file of this number, and write nothing")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: %(default)s")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    started = time.monotonic()
    names = [options.kind] if options.kind else list(KINDS)
    data = play(names, options.files, options.seed, quiet=options.quiet, only=options.only)
    data["seconds"] = round(time.monotonic() - started)
    if options.only is None and options.kind is None:
        write_results(options.output, data)
    for name, table in data["kinds"].items():
        total: dict[str, int] = {}
        for counts in table.values():
            for outcome, count in counts.items():
                total[outcome] = total.get(outcome, 0) + count
        print(f"{name}: " + ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(total.items())))
    return int(bool(data["failures"]))


if __name__ == "__main__":
    sys.exit(main())
