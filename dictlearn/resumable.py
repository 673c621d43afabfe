"""Learning from batches: the order of samples, learners that can be resumed, and the loop that feeds them."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from tqdm import tqdm

from snn.base import checks
from snn.base.archive import Entry, Saved, conforming, json_object, reading
from snn.base.describe import Drawn
from snn.base.value import Value, checked

Batch = TypeVar("Batch")
"""The type of what describes a batch: row numbers, or crops."""


class History:
    """How learning went: a table with a name for each column.

    Attributes
    ----------
    rows : ndarray, shape (n_rows, n_columns)
        One for each entry; another array after each `add`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.rows = np.empty((0, len(self.names)))

    def add(self, *values: float) -> None:
        """Add an entry, with a value for each name."""
        self.rows = np.vstack([self.rows, values])

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values of each name."""
        return dict(zip(self.names, self.rows.T.copy(), strict=True))

    def last(self, name: str) -> float | None:
        """Return the last value of a name; None before the first entry."""
        return self.rows[-1, self.names.index(name)].item() if len(self.rows) else None


class Resumable(Saved, Drawn):
    """A learner that can be saved, copied and resumed after any batch, with the same bits.

    A class that inherits it counts what it has learned from in an attribute: `_counter` is its name, `_unit`
    what it counts.  `_checkpoint` is the schema of the entries that a checkpoint has beside the learner's.
    """

    _counter: ClassVar[str]
    _unit: ClassVar[str]
    _checkpoint: ClassVar[Mapping[str, Entry]] = {"identity": Entry("U", ())}

    @property
    def _position(self) -> int:
        return getattr(self, self._counter)

    def copy_from(self, other: Self) -> None:
        """Replace everything by copies of what another learner has.

        Parameters
        ----------
        other : learner
            Of the same class and any size.
        """
        vars(self).update(copy.deepcopy(vars(other)))


@dataclass(frozen=True, kw_only=True)
class Course(Value):
    """What happens beside learning, checked: see `dictlearn.continue_learning`."""

    progress: bool = checked(checks.flag, default=False)
    callback: Callable[[Any], bool | None] | None = None
    callback_every: int = checked(checks.positive_integer, default=1)
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = checked(checks.positive_integer, default=1)

    def _check(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable; got {type(self.callback).__name__}")
        if self.checkpoint is not None:
            try:
                folder = Path(self.checkpoint).absolute().parent
            except TypeError:
                raise TypeError(f"checkpoint must be a path; got {type(self.checkpoint).__name__}") from None
            # Now, and not at the first save, ten thousand samples later.
            is_there = folder.is_dir()
            if not is_there or not os.access(folder, os.W_OK):
                rule = "can be written" if is_there else "exists"
                raise ValueError(
                    f"checkpoint must lie in a folder that {rule}; got {os.fspath(self.checkpoint)!r}"
                )


def learn_batches(
    learner: Resumable,
    learn: Callable[[Batch], float],
    batches: Callable[[int], Iterable[Batch]],
    *,
    end: int,
    seed: int,
    course: Course,
    identity: Callable[[], Mapping[str, Any]],
) -> None:
    """Let a learner learn batch after batch, from where it or its checkpoint is."""
    path, save = course.checkpoint, None
    if path is not None:
        made_with = json.loads(json.dumps(identity()))
        if Path(path).exists():
            saved, entries = _resumed(path, learner, made_with)
            _require_before(f"checkpoint {os.fspath(path)!r}", saved, end)
            learner.copy_from(saved)
            made_with, seed = entries["identity"], entries.get("seed", seed)
        about = {"identity": json.dumps(made_with), "seed": seed}
        about = {name: about[name] for name in learner._checkpoint}

        def save() -> None:
            learner.save(path, **about)

    _require_before("learner", learner, end)
    disable, unit = not course.progress, learner._unit
    with tqdm(total=end, initial=learner._position, disable=disable, unit=unit) as bar:
        for batch in batches(seed):
            before = learner._position
            objective = learn(batch)
            now = learner._position
            bar.update(now - before)
            bar.set_postfix_str(f"objective {objective:.4g}", refresh=False)
            done = now >= end
            every = course.callback_every
            if course.callback is not None and (done or now // every > before // every):
                done = bool(course.callback(learner)) or done
            every = course.checkpoint_every
            if save is not None and (done or now // every > before // every):
                save()
            if done:
                break


def _resumed(
    path: str | os.PathLike[str], learner: Resumable, made_with: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the saved learner and the entries beside it; ValueError if data or settings differ."""
    with reading(path, f"checkpoint of a {type(learner).__name__}") as arrays:
        entries: dict[str, Any] = {**conforming(arrays, learner._checkpoint)}
        entries["identity"] = json_object("identity", entries["identity"])
        saved = learner._of_entries(arrays)
    for name, value in made_with.items():
        if value is not None and entries["identity"].get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(path)!r} was made with other {name}: "
                "give it another name, or delete it to start anew"
            )
    if "seed" in entries:
        entries["seed"] = int(entries["seed"])
    return saved, entries


def _require_before(name: str, learner: Resumable, end: int) -> None:
    if learner._position > end:
        units = learner._counter.removeprefix("n_")
        raise ValueError(
            f"{name} has learned from {learner._position:,} {units} already; this call asks for {end:,}: "
            "ask for more, or start anew"
        )


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return a short text that differs if the numbers of any of the arrays do."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


# -- the order of samples ------------------------------------------------------------------------


def seed_of_order(rng: int | np.random.Generator | None) -> int:
    """Return the seed of the order of samples, of the start and of rounding."""
    return int(np.random.default_rng(rng).integers(2**62))


def batches_in_order(
    n_signals: int, n_samples: int, *, batch_size: int, seed: int, first: int = 0
) -> Iterator[np.ndarray]:
    """Yield which signals are in each batch: all of them in a new random order each epoch.

    Batches end with the epoch.  The order depends on the seed and the epoch alone, so that learning can
    continue from the `first` sample without other state.
    """
    place = first
    while place < n_samples:
        epoch = place // n_signals
        order = np.random.default_rng([seed, epoch]).permutation(n_signals)
        end = min(n_signals, n_samples - epoch * n_signals)
        for start in range(place - epoch * n_signals, end, batch_size):
            yield order[start : min(start + batch_size, end)]
        place = epoch * n_signals + end
