"""Learners in files: what an archive must have, and whether a checkpoint is one of the same task."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snn.base.archive import load_archive, refusal


class Entry(NamedTuple):
    """What an array of an archive must be: its kinds (of `numpy.dtype.kind`), its shape and its smallest number.

    A shape has the names of its lengths, such as "atoms" and "inputs", numbers, or None for any; it is None if
    any will do.
    """  # noqa: E501

    kinds: str
    shape: tuple[str | int | None, ...] | None
    least: float | None = None


def read(path: str | os.PathLike[str], schema: Mapping[str, Entry], *, kind: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file, each as the schema says.

    Parameters
    ----------
    path : path-like
        Where from.
    schema : mapping of str to Entry
        What it must have.
    kind : str
        What the file should be, for the error.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is something else.
    """
    entries = load_archive(path, schema, kind=kind)
    with refusing(path, kind):
        lengths: dict[str, int] = {}
        for name, entry in schema.items():
            _require(name, entries[name], entry, lengths)
    return entries


@contextmanager
def refusing(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Say of whatever is wrong with the content of a file, in one sentence, which file it is.

    Parameters
    ----------
    path : path-like
        Of the file.
    kind : str
        What it should be.
    """
    try:
        yield
    # RecursionError: of JSON that is nested too deeply; OverflowError: of its integers, which have no end.
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise refusal(path, kind, error) from None


def json_object(name: str, text: str | np.ndarray) -> dict[str, Any]:
    """Return the object that a text in JSON is.

    Parameters
    ----------
    name : str
        Its name in the message.
    text : str or ndarray of str, shape ()
        The text.
    """
    value = json.loads(str(text))
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object of JSON but {type(value).__name__}")
    return value


def require_path(checkpoint: str | os.PathLike[str]) -> None:
    """Raise TypeError or ValueError now if the first save, ten thousand samples later, would fail.

    Parameters
    ----------
    checkpoint : path-like
        The value to check.
    """
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path; got {type(checkpoint).__name__}")
    if not Path(checkpoint).absolute().parent.is_dir():
        raise ValueError(f"checkpoint must lie in a folder that exists; got {os.fspath(checkpoint)!r}")


def digest(arrays: Sequence[np.ndarray]) -> str:
    """Return a short text that differs if the numbers of any of the arrays do.

    Parameters
    ----------
    arrays : sequence of ndarray
        The arrays.
    """
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def require_same_task(
    checkpoint: str | os.PathLike[str], before: str | np.ndarray, now: str, *, kind: str
) -> None:
    """Raise ValueError if a checkpoint was made with anything else than what learns now.

    Parameters
    ----------
    checkpoint : path-like
        For the message.
    before : str or ndarray of str
        Its identity, an object of JSON.
    now : str
        That of what learns now; None in it agrees with any value.
    kind : str
        What the file should be, for the message.
    """
    with refusing(checkpoint, kind):
        made_with = json_object("identity", before)
    for name, value in json.loads(now).items():
        if value is not None and made_with.get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(checkpoint)!r} was made with other {name}: "
                "give it another name, or delete it to start anew"
            )


def _require(name: str, array: np.ndarray, entry: Entry, lengths: dict[str, int]) -> None:
    """Raise ValueError unless an array is what the schema says; keep the lengths that it has first."""
    if array.dtype.kind not in entry.kinds:
        raise ValueError(f"{name} has the wrong kind of entries, {array.dtype}")
    wanted = array.shape if entry.shape is None else entry.shape
    shape = tuple(
        length if not isinstance(length, str) else lengths.setdefault(length, array.shape[axis])
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
