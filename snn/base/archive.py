"""Objects in files: named arrays, written whole or not at all, and read as a schema says."""

import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

DIGEST_SIZE = 16


class Entry(NamedTuple):
    """The kind, shape and range of an array of an archive.

    Parameters
    ----------
    kinds : str
        Kinds of numbers, as of `numpy.dtype.kind`.
    shape : tuple or None
        Lengths, or names of lengths, such as "atoms" and "inputs"; None for any shape.
    least : float, optional
        The smallest number.
    optional : bool, default False
        Whether a file may be without it.
    """

    kinds: str
    shape: tuple[str | int, ...] | None
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
        with reading(path, cls.__name__) as entries:
            return cls._of_entries(entries)

    def _entries(self) -> dict[str, Any]:
        """Return the entries of the file, without those that are None."""
        entries = {name: getattr(self, name) for name in self._schema}
        return {name: value for name, value in entries.items() if value is not None}

    @classmethod
    def _of_entries(cls, entries: Mapping[str, np.ndarray]) -> Self:
        """Return the object of a file, or raise an error if there is none."""
        return cls(**conforming(entries, cls._schema))


def save_archive(path: str | os.PathLike[str], entries: Mapping[str, Any]) -> None:
    """Write named arrays to `path` (npz), whole or not at all, also where several processes write at once.

    A killed process leaves its part beside `path`, with the suffix ".part"; it can be deleted.
    """
    path = Path(path)
    # At most 255 bytes, and not a temporary file of the library's: those are readable by their owner alone.
    name = os.fsdecode(os.fsencode(path.name)[:200])
    part = path.with_name(f"{name}.{uuid.uuid4().hex[:16]}.part")
    for entry, value in entries.items():
        if np.asarray(value).dtype.hasobject:
            raise ValueError(f"{entry} must be made of numbers or text to be saved; got Python objects")
    # In memory first: an archive whose disk is full writes once more when it is collected.
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **entries)
    # The digest of all bytes is the comment that ends the file, behind its length.
    content = packed.getbuffer()[:-2]
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.write(DIGEST_SIZE.to_bytes(2, "little") + _digest(content))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[dict[str, np.ndarray]]:
    """Give the arrays of a file; whatever is wrong with its content is one sentence that names the file."""
    try:
        whole = Path(path).read_bytes()
        if _digest(memoryview(whole)[: -2 - DIGEST_SIZE]) != whole[-DIGEST_SIZE:]:
            raise ValueError("its bytes are not those that were written")
        with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
            entries = dict(arrays)
        yield entries
    except FileNotFoundError:
        raise
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"path must name a saved {kind}; got {os.fspath(path)!r} ({why})") from None


def conforming(entries: Mapping[str, np.ndarray], schema: Mapping[str, Entry]) -> dict[str, np.ndarray]:
    """Return the arrays that a schema names, or raise ValueError unless each is as it says."""
    found, lengths = {}, dict[str | int, int]()
    for name, entry in schema.items():
        if entry.optional and name not in entries:
            continue
        found[name] = array = entries[name]
        shape = array.shape if entry.shape is None else entry.shape
        if array.dtype.kind not in entry.kinds:
            raise ValueError(f"{name} has the wrong kind of entries, {array.dtype}")
        if len(shape) != array.ndim or any(
            seen != (length if isinstance(length, int) else lengths.setdefault(length, seen))
            for length, seen in zip(shape, array.shape, strict=True)
        ):
            raise ValueError(f"{name} has the wrong shape, {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
        if entry.least is not None and array.size and array.min() < entry.least:
            raise ValueError(f"{name} is too small, {array.min()}")
    return found


def json_object(name: str, text: str | np.ndarray) -> dict[str, Any]:
    """Return the object that a text in JSON, of shape (), is."""
    value = json.loads(str(text))
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object of JSON; got {type(value).__name__}")
    return value


def _digest(content: memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()
