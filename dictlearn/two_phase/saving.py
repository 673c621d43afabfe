"""Learners in files: what an archive of one must have, and how it is written and read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dictlearn.two_phase.history import N_SUMS, NAMES
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.settings import LearningSettings
from snn.archive import load_archive

if TYPE_CHECKING:
    from dictlearn.two_phase.learner import TwoPhaseLearner

COUNTERS = ("n_samples", "n_spikes", "n_bounded", "n_replaced", "n_saturated")


class Entry(NamedTuple):
    """What an array of an archive must be: its kinds (of `numpy.dtype.kind`), its shape and its smallest number.

    A shape has the names of its lengths: "atoms", "inputs", or None for any.
    """  # noqa: E501

    kinds: str
    shape: tuple[str | int | None, ...]
    least: float | None = None


LEARNER = {
    "feedforward": Entry("f", ("atoms", "inputs"), 0.0),
    "feedback": Entry("f", ("inputs", "atoms"), 0.0),
    "lateral": Entry("f", ("atoms", "atoms"), 0.0),
    "settings": Entry("U", ()),
    "scale": Entry("f", (), 0.0),
    "replace_dead": Entry("b", ()),
    "usage": Entry("f", ("atoms",), 0.0),
    "last_fired": Entry("iu", ("atoms",), 0),
    "last_compared": Entry("iu", ("atoms",), 0),
    "counters": Entry("iu", (len(COUNTERS),), 0),
    "mean_cost": Entry("f", (), 0.0),
    "sums": Entry("f", (N_SUMS,), 0.0),
    "history": Entry("f", (None, len(NAMES))),
    "rounding_seed": Entry("iu", (), 0),
}
CHECKPOINT = {"identity": Entry("U", ()), "seed": Entry("iu", (), 0)}


def read(path: str | os.PathLike, schema: Mapping[str, Entry], *, kind: str) -> dict[str, np.ndarray]:
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
def refusing(path: str | os.PathLike, kind: str) -> Iterator[None]:
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
    # RecursionError: of JSON that is nested too deeply.
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"path must name a saved {kind}; got {os.fspath(path)!r} ({error})") from None


def json_object(name: str, text: np.ndarray) -> dict[str, Any]:
    """Return the object that a text in JSON is.

    Parameters
    ----------
    name : str
        Its name in the message.
    text : ndarray of str, shape ()
        The text.
    """
    value = json.loads(str(text))
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object of JSON but {type(value).__name__}")
    return value


def load_learner(path: str | os.PathLike, new: Callable[..., TwoPhaseLearner]) -> TwoPhaseLearner:
    """Return the learner of a file; see `TwoPhaseLearner.load`.

    Parameters
    ----------
    path : path-like
        Where from.
    new : callable
        Makes a learner of a network and the arguments of `TwoPhaseLearner`.
    """
    kind = "TwoPhaseLearner"
    entries = read(path, LEARNER, kind=kind)
    with refusing(path, kind):
        counters = dict(zip(COUNTERS, entries["counters"].tolist(), strict=True))
        for name in ("last_fired", "last_compared"):
            if entries[name].max() > counters["n_samples"]:
                raise ValueError(f"{name} is later than the {counters['n_samples']} samples learned from")
        learner = new(
            TwoPhaseNetwork(entries["feedforward"], entries["feedback"], entries["lateral"]),
            LearningSettings.from_text(str(entries["settings"])),
            scale=float(entries["scale"]),
            replace_dead=bool(entries["replace_dead"]),
            rounding_seed=int(entries["rounding_seed"]),
        )
        learner.restore(entries, counters)
    return learner


def _require(name: str, array: np.ndarray, entry: Entry, lengths: dict[str, int]) -> None:
    """Raise ValueError unless an array is what the schema says; keep the lengths that it has first."""
    if array.dtype.kind not in entry.kinds:
        raise ValueError(f"{name} has the wrong kind of entries, {array.dtype}")
    shape = tuple(
        length if not isinstance(length, str) else lengths.setdefault(length, array.shape[axis])
        for axis, length in enumerate(entry.shape)
        if axis < array.ndim
    )
    if array.ndim != len(entry.shape) or any(
        length not in (None, seen) for length, seen in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(f"{name} has the wrong shape, {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} is not finite")
    if entry.least is not None and array.size and array.min() < entry.least:
        raise ValueError(f"{name} is too small, {array.min()}")
