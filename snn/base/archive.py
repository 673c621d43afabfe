"""Named arrays in a file, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np


def save_archive(path: str | os.PathLike[str], entries: Mapping[str, Any]) -> None:
    """Write named arrays to `path` (npz).

    A process killed, or a disk found full, while it writes leaves what was at `path` before.  Processes may
    save to one path at the same time: one of them is the last, and readers find a whole file.  A killed
    process leaves what it wrote so far beside `path`, with the suffix ".part"; no other process uses it, and
    it can be deleted.

    Parameters
    ----------
    path : path-like
        Where to.
    entries : mapping of str to array_like
        What.

    Raises
    ------
    OSError
        If it cannot be written there; it names `path`.
    """
    path = Path(path)
    # Not a temporary file of the library's: those are readable by their owner alone.
    temporary = path.with_name(f"{_shortened(path.name)}.{uuid.uuid4().hex[:16]}.part")
    try:
        with open(temporary, "w+b") as file:
            np.savez(file, **entries)
            with zipfile.ZipFile(file, "a") as archive:
                archive.comment = _digest(archive)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.strerror:
            # Of the file that the caller knows, and not of the temporary one.
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _shortened(name: str) -> str:
    """Return a name to which others can be added, where file systems have at most 255 bytes for one."""
    return os.fsdecode(os.fsencode(name)[:200])


def load_archive(path: str | os.PathLike[str], names: Iterable[str], *, kind: str) -> dict[str, np.ndarray]:
    """Read the named arrays that `save_archive` wrote.

    What is read is what was written, to the bit: every entry has a checksum, and all of them together have
    one, in the comment of the archive.  One without a comment, as of `numpy.savez`, has only the former.

    Parameters
    ----------
    path : path-like
        Where from.
    names : iterable of str
        Which.
    kind : str
        What the file should be, for the error.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not an archive with these names.
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            if archive.comment and archive.comment != _digest(archive):
                raise ValueError("its entries are not those that were written together")
            return {name: _read(archive, name) for name in names}
    except FileNotFoundError:
        raise
    except Exception as error:
        raise refusal(path, kind, error) from None


def refusal(path: str | os.PathLike[str], kind: str, error: Exception) -> ValueError:
    """Return the error, of one line, that a file is not what it should be.

    Parameters
    ----------
    path : path-like
        Of the file.
    kind : str
        What it should be.
    error : Exception
        Of any library: why it is not.
    """
    why = " ".join(str(error).split()) or type(error).__name__
    return ValueError(f"path must name a saved {kind}; got {os.fspath(path)!r} ({why})")


def _digest(archive: zipfile.ZipFile) -> bytes:
    """Return a text that differs if the name or the checksum of any entry does."""
    entries = sorted((entry.filename, entry.file_size, entry.CRC) for entry in archive.infolist())
    return hashlib.blake2b(repr(entries).encode(), digest_size=16).hexdigest().encode()


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return one entry.

    It is read in pieces, so that it is in memory once.  `zipfile` compares the checksum when it gives the
    last byte.  An array whose header says less does not reach it: so nothing must be left.
    """
    with archive.open(f"{name}.npy") as content:
        array = np.lib.format.read_array(content, allow_pickle=False)
        if content.read(1):
            raise ValueError(f"{name} is longer than its shape says")
    return array
