"""Objects in files: named arrays, written whole or not at all, and read as a schema says."""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

# RecursionError: JSON that is nested too deeply; OverflowError: its integers, which have no end.
CONTENT_ERRORS = (KeyError, TypeError, ValueError, RecursionError, OverflowError)


class Entry(NamedTuple):
    """The kind, shape and range of an array of an archive.

    Attributes
    ----------
    kinds : str
        Kinds of numbers, as of `numpy.dtype.kind`.
    shape : tuple or None
        Names of its lengths, such as "atoms" and "inputs", numbers, or None for any; None for any shape.
    least : float, optional
        The smallest number.
    optional : bool, default False
        Whether a file may be without it.
    """

    kinds: str
    shape: tuple[str | int | None, ...] | None
    least: float | None = None
    optional: bool = False


class Saved:
    """An object that can be written to a file, and read again.

    A class that inherits it has the entries of its file in `_schema`.  Unless they are its attributes and the
    arguments of its constructor, it defines `_entries` and `_of_entries` as well.
    """

    _schema: ClassVar[Mapping[str, Entry]]

    def save(self, path: str | os.PathLike[str], **extra: Any) -> None:
        """Write everything to `path` (npz), whole or not at all.

        If the process is killed or the disk is full, the file that was at `path` before remains.

        Parameters
        ----------
        path : path-like
            Where to write.
        **extra : array_like
            Further entries, which `load` ignores.
        """
        save_archive(path, {**self._entries(), **extra})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote, to the bit; a learner or a network continues as if it had never stopped.

        Parameters
        ----------
        path : path-like
            The file; a damaged one, and one of something else, is a ValueError.
        """
        entries = read(path, cls._schema, kind=cls.__name__)
        with refusing(path, cls.__name__):
            return cls._of_entries(entries)

    def _entries(self) -> dict[str, Any]:
        """Return the entries of the file."""
        return {name: getattr(self, name) for name in self._schema}

    @classmethod
    def _of_entries(cls, entries: dict[str, Any]) -> Self:
        """Return the object of a file; TypeError or ValueError if there is none."""
        return cls(**entries)


def save_archive(path: str | os.PathLike[str], entries: Mapping[str, Any]) -> None:
    """Write named arrays to `path` (npz), whole or not at all, also where several processes write at once.

    A killed process leaves its part beside `path`, with the suffix ".part"; it can be deleted.
    """
    path = Path(path)
    # At most 255 bytes, and not a temporary file of the library's: those are readable by their owner alone.
    name = os.fsdecode(os.fsencode(path.name)[:200])
    temporary = path.with_name(f"{name}.{uuid.uuid4().hex[:16]}.part")
    # In memory first: an archive whose disk is full writes once more when it is collected.
    packed = io.BytesIO()
    np.savez(packed, **entries)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.comment = _digest(archive)
    try:
        with open(temporary, "wb") as file:
            file.write(packed.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.strerror:
            # The caller knows the name of the file, and not of the temporary one.
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def load_archive(
    path: str | os.PathLike[str], names: Iterable[str], *, kind: str, optional: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Read named arrays; each has a checksum, and all together have one, which files of NumPy lack."""
    with refusing(path, kind, wrong=(Exception,)), open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        if archive.comment and archive.comment != _digest(archive):
            raise ValueError("its entries are not those that were written together")
        there = archive.namelist()
        return {
            name: _read(archive, name) for name in names if name not in optional or f"{name}.npy" in there
        }


def read(path: str | os.PathLike[str], schema: Mapping[str, Entry], *, kind: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file, each as the schema says; optional ones if it has them."""
    optional = {name for name, entry in schema.items() if entry.optional}
    entries = load_archive(path, schema, kind=kind, optional=optional)
    with refusing(path, kind):
        lengths: dict[str, int] = {}
        for name, array in entries.items():
            _require(name, array, schema[name], lengths)
    return entries


@contextmanager
def refusing(
    path: str | os.PathLike[str], kind: str, *, wrong: tuple[type[Exception], ...] = CONTENT_ERRORS
) -> Iterator[None]:
    """Turn whatever is wrong with the content of a file into one sentence that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except wrong as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"path must name a saved {kind}; got {os.fspath(path)!r} ({why})") from None


def json_object(name: str, text: str | np.ndarray) -> dict[str, Any]:
    """Return the object that a text in JSON is.

    Shapes: text ().
    """
    return as_object(name, json.loads(str(text)))


def as_object(name: str, value: Any) -> dict[str, Any]:
    """Return a value that JSON gave, if it is an object of JSON."""
    if type(value) is not dict:
        raise ValueError(f"{name} must be an object of JSON; got {type(value).__name__}")
    return value


def _digest(archive: zipfile.ZipFile) -> bytes:
    """Return a text that differs if the name or the checksum of any entry does."""
    entries = sorted((entry.filename, entry.file_size, entry.CRC) for entry in archive.infolist())
    return hashlib.blake2b(repr(entries).encode(), digest_size=16).hexdigest().encode()


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return one entry; `zipfile` compares the checksum at the last byte, so nothing may be left."""
    with archive.open(f"{name}.npy") as content:
        array = np.lib.format.read_array(content, allow_pickle=False)
        if content.read(1):
            raise ValueError(f"{name} is longer than its shape says")
    return array


def _require(name: str, array: np.ndarray, entry: Entry, lengths: dict[str, int]) -> None:
    """Raise ValueError unless an array is what the schema says; keep the lengths that it has first."""
    if array.dtype.kind not in entry.kinds:
        raise ValueError(f"{name} has the wrong kind of entries, {array.dtype}")
    wanted = array.shape if entry.shape is None else entry.shape
    shape = tuple(
        lengths.setdefault(length, array.shape[axis]) if type(length) is str else length
        for axis, length in enumerate(wanted)
        if axis < array.ndim
    )
    if array.ndim != len(wanted) or any(
        length not in (None, seen) for length, seen in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(f"{name} has the wrong shape, {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} is not finite")
    if entry.least is not None and array.size and array.min() < entry.least:
        raise ValueError(f"{name} is too small, {array.min()}")
