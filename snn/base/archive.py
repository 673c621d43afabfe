"""Objects in files: named arrays that are written completely or not at all, and checked by a schema."""

import io
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

DIGEST_SIZE = 32  # bytes of the SHA-256 digest at the end of a file
# Largest integer in a file: seeds are drawn up to this number, and counters may grow without an overflow.
LARGEST_INTEGER = 2**62


class Entry(NamedTuple):
    """The kind, shape and range of an array in an archive.

    Parameters
    ----------
    kinds : str
        Allowed characters of `numpy.dtype.kind`.
    shape : tuple or None
        Lengths of the axes, or names of lengths, such as "atoms"; None for any shape.
    least : float, optional
        The smallest number that is allowed.
    optional : bool, default False
        Whether a file may lack the array.
    """

    kinds: str
    shape: tuple[str | int, ...] | None
    least: float | None = None
    optional: bool = False


class Saved:
    """An object that can be written to a file and read again."""

    # If the entries are not constructor arguments, a subclass overrides `_entries` and `_of_entries`.
    _schema: ClassVar[Mapping[str, Entry]]

    def save(self, path: str | os.PathLike[str], **extra: Any) -> None:
        """Write the object to `path` (npz), completely or not at all; `load` ignores `extra` entries.

        If the process is killed or the disk is full, the previous file at `path` remains.
        """
        save_archive(path, {**self._entries(), **extra})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the saved object, equal to the bit; raise ValueError for a damaged file or another type."""
        with reading(path, cls.__name__) as entries:
            return cls._of_entries(entries)

    def _entries(self) -> dict[str, Any]:
        """Return the entries of the file; attributes that are None have no entry."""
        entries = {name: getattr(self, name) for name in self._schema}
        return {name: value for name, value in entries.items() if value is not None}

    @classmethod
    def _of_entries(cls, entries: Mapping[str, np.ndarray]) -> Self:
        """Return the object that a file describes, or raise an error."""
        return cls(**conforming(entries, cls._schema))


def save_archive(path: str | os.PathLike[str], entries: Mapping[str, Any]) -> None:
    """Write named arrays to `path` (npz), completely or not at all, even if several processes write it."""
    path = Path(path)
    # `tempfile` is not used, because only their owner can read its files.  A file name has at most 255 bytes.
    name = os.fsdecode(os.fsencode(path.name)[:200])
    part = path.with_name(f"{name}.{uuid.uuid4().hex[:16]}.part")
    for entry, value in entries.items():
        if np.asarray(value).dtype.hasobject:
            raise ValueError(f"{entry} must be made of numbers or text to be saved; got Python objects")
    # The archive is made in memory, because a zip file on a full disk would write again when it is deleted.
    packed = io.BytesIO()
    np.savez(packed, **entries)
    # The zip file ends with the length of its comment and the comment, which is the digest of all other
    # bytes.
    content = packed.getbuffer()[:-2]
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.write(DIGEST_SIZE.to_bytes(2, "little") + sha256(content).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[dict[str, np.ndarray]]:
    """Yield the arrays of a file; an error in its content becomes one sentence that names the file."""
    try:
        whole = Path(path).read_bytes()
        if sha256(memoryview(whole)[: -2 - DIGEST_SIZE]).digest() != whole[-DIGEST_SIZE:]:
            raise ValueError("its bytes have changed since it was written")
        with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
            # `save_archive` does not compress, so a small file cannot have entries that fill the memory.
            if sum(entry.file_size for entry in arrays.zip.infolist()) > len(whole):
                raise ValueError("its entries are larger than the file")
            entries = dict(arrays)
        yield entries
    except FileNotFoundError:
        raise
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"path must name a saved {kind}; got {os.fspath(path)!r} ({why})") from None


def conforming(entries: Mapping[str, np.ndarray], schema: Mapping[str, Entry]) -> dict[str, np.ndarray]:
    """Return the arrays that a schema names; raise ValueError if an array does not match it."""
    arrays, lengths = {}, dict[str | int, int]()
    for name, entry in schema.items():
        if entry.optional and name not in entries:
            continue
        arrays[name] = array = entries[name]
        shape = array.shape if entry.shape is None else entry.shape
        if (
            array.dtype.kind not in entry.kinds
            or len(shape) != array.ndim
            or any(
                seen != (length if isinstance(length, int) else lengths.setdefault(length, seen))
                for length, seen in zip(shape, array.shape, strict=True)
            )
        ):
            raise ValueError(f"{name} is of the wrong kind, {array.dtype} of shape {array.shape}")
        is_finite = array.dtype.kind != "f" or np.isfinite(array).all()
        is_small = array.dtype.kind not in "iu" or (array <= LARGEST_INTEGER).all()
        if not (is_finite and is_small) or (entry.least is not None and (array < entry.least).any()):
            raise ValueError(f"{name} has numbers that are not finite, too small or too large")
    return arrays
