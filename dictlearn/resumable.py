"""Learning from batches: the order of samples, learners that can be resumed, and the loop that feeds them."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from tqdm import tqdm

from snn._interrupts import one_thread
from snn.base import checks
from snn.base.archive import Entry, Saved, conforming, reading
from snn.base.describe import Drawn
from snn.base.value import Value, assign, checked

# Type of the value that describes a batch: indices of rows, or crops of images.
Batch = TypeVar("Batch")
# Version of the files of learners, which increases when the contents of files change.
FILE_VERSION = 4


class History:
    """A table of numbers recorded during learning, with a name for each column."""

    def __init__(self, names: Sequence[str], rows: np.ndarray | None = None) -> None:
        self.names = tuple(names)
        # Each row is an entry of the history.  `add` makes a new array.
        self.rows = np.empty((0, len(self.names))) if rows is None else rows

    def add(self, *values: float) -> None:
        """Add an entry to the history, with a value for each column."""
        self.rows = np.vstack([self.rows, values])

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values of each column by its name."""
        return dict(zip(self.names, self.rows.T.copy(), strict=True))

    def last(self, name: str) -> float | None:
        """Return the last value of a column; None before the first entry."""
        return self.rows[-1, self.names.index(name)].item() if len(self.rows) else None


def in_file(kinds: str, shape: tuple[str | int, ...], least: float | None = None, **options: Any) -> Any:
    """Return a dataclass field of a learner that is saved as an entry of its file."""
    return field(metadata={"entry": Entry(kinds, shape, least)}, **options)


class Resumable(Saved, Drawn):
    """A learner that can be saved, copied and resumed after any batch, with the same bits."""

    # A subclass is a dataclass whose fields are its state.  Fields made by `in_file` are saved unchanged.
    # `_counter` is the name of the attribute that counts the samples or batches learned from.

    _counter: ClassVar[str]
    settings: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        entries = {
            name: each.metadata["entry"] for name, each in vars(cls).items() if isinstance(each, Field)
        }
        cls._schema = {**getattr(cls, "_schema", {}), **entries}
        cls._assignable = (*cls._assignable, *cls.__annotations__)

    @property
    def _position(self) -> int:
        return getattr(self, self._counter)

    @property
    def _unit(self) -> str:
        return self._counter.removeprefix("n_")

    @classmethod
    def _conforming(
        cls, entries: Mapping[str, np.ndarray], others: Mapping[str, Entry]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the values of fields, and the other entries; raise ValueError if an entry is invalid."""
        if (version := int(entries.get("version", 1))) != FILE_VERSION:
            raise ValueError(f"of format {version}, but this version of sparsespike reads {FILE_VERSION}")
        arrays = conforming(entries, {**cls._schema, **others})
        values = {name: arrays.pop(name) for name in cls._schema}
        return {name: value if value.ndim else value.item() for name, value in values.items()}, arrays


@dataclass(frozen=True, kw_only=True)
class Course(Value):
    """The checked options of progress, callbacks and checkpoints; see `dictlearn.continue_learning`."""

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
            # Check the folder now, because the first checkpoint comes only after many samples.
            is_there = folder.is_dir()
            if not is_there or not os.access(folder, os.W_OK):
                rule = "can be written" if is_there else "exists"
                raise ValueError(
                    f"checkpoint must lie in a folder that {rule}; got {os.fspath(self.checkpoint)!r}"
                )


@one_thread
def learn_batches(
    learner: Resumable,
    learn: Callable[[Batch], float],
    batches: Callable[[int], Iterable[Batch]],
    *,
    end: int,
    seed: int,
    any_seed: bool = False,
    course: Course,
    identity: Callable[[], Mapping[str, Any]],
) -> None:
    """Learn batch after batch, from the state of the learner or of its checkpoint."""
    path, save = course.checkpoint, None
    if path is not None:
        made_with = {"seed": seed, **json.loads(json.dumps(identity()))}
        if Path(path).exists():
            saved, made_with = _resumed(path, learner, made_with, any_seed)
            _require_before(f"checkpoint {os.fspath(path)!r}", saved, end)
            assign(learner, **vars(saved))
            seed = made_with["seed"]

        def save() -> None:
            learner.save(path, identity=json.dumps(made_with))

    _require_before("learner", learner, end)
    disable, unit = not course.progress, f" {learner._unit}"
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
    path: str | os.PathLike[str], learner: Resumable, made_with: dict[str, Any], any_seed: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the saved learner and its identity; raise ValueError if the identity is not `made_with`."""
    with reading(path, f"checkpoint of a {type(learner).__name__}") as arrays:
        before = json.loads(str(conforming(arrays, {"identity": Entry("U", ())})["identity"]))
        before["seed"] = int(before["seed"])
        saved = learner._of_entries(arrays)
    if saved.settings == learner.settings:  # an older file may name equal settings in another order
        before["settings"] = made_with["settings"]
    for name, value in made_with.items():
        may_differ = value is None or (name == "seed" and any_seed)
        if not may_differ and before.get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(path)!r} must be of this call, but was made with other {name}: "
                "choose another file, or delete this one to start anew"
            )
    return saved, before


def _require_before(name: str, learner: Resumable, end: int) -> None:
    if learner._position > end:
        raise ValueError(
            f"{name} must have learned from at most {end:,} {learner._unit}, the number of this call; got "
            f"{learner._position:,} {learner._unit} already: ask for more, or start anew"
        )


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return a hash of the arrays as a short text."""
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
    """Yield the row numbers of each batch; each epoch has all signals in a new random order."""
    # The last batch of an epoch may be smaller.  The order depends only on the seed and the epoch, so that
    # learning can continue from the sample `first` without any other state.
    place = first
    while place < n_samples:
        epoch = place // n_signals
        order = np.random.default_rng([seed, epoch]).permutation(n_signals)
        end = min(n_signals, n_samples - epoch * n_signals)
        for start in range(place - epoch * n_signals, end, batch_size):
            yield order[start : min(start + batch_size, end)]
        place = epoch * n_signals + end
