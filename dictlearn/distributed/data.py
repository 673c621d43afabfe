"""Where samples are, a file that workers open or blocks of a Dask array, and in which order they come."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dictlearn.resumable import batches_in_order

if TYPE_CHECKING:
    from dask.array import Array
    from distributed import Client, Future

# Of a file, read at a time before learning: 16 MB.
VALUES_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples of one batch, all in one place."""

    place: int
    numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)


class NpyFile:
    """A .npy file of samples that every worker can open.

    Attributes
    ----------
    n_signals, n_inputs : int
        Its shape.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise ValueError(f"data must be the path of a .npy file; got {self.path!r} ({error})") from None
        if not isinstance(array, np.ndarray) or array.ndim != 2 or not array.size:
            raise ValueError(
                f"data must hold a 2-D array, (n_signals, n_inputs); got {self.path!r} with shape "
                f"{getattr(array, 'shape', None)}"
            )
        if array.dtype.kind not in "biuf":
            raise TypeError(f"data must hold real numbers; got {self.path!r} with dtype {array.dtype}")
        self.n_signals, self.n_inputs = array.shape
        self._header = (array.shape, str(array.dtype))

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return some samples: of the file as this machine has it."""
        try:
            array = _mapped(self.path, os.stat(self.path).st_mtime_ns)
        except OSError as error:
            raise OSError(
                f"worker {platform.node()} cannot read {self.path!r} ({error.strerror or error}): the file "
                "must be at this path on all workers"
            ) from None
        if (array.shape, str(array.dtype)) != self._header:
            raise ValueError(
                f"data must be the same file on all workers; {self.path!r} on {platform.node()} has shape "
                f"{array.shape} and dtype {array.dtype}"
            )
        return np.asarray(array[rows])

    # -- as the learner uses it ------------------------------------------------------------------

    def pieces(self) -> list[tuple[int, slice, int]]:
        """Return places, rows, and which sample is the first of these; of all samples in their order."""
        step = max(VALUES_AT_ONCE // self.n_inputs, 1)
        return [(0, slice(first, first + step), first) for first in range(0, self.n_signals, step)]

    def batches(self, n_samples: int, *, batch_size: int, seed: int, first: int) -> Iterator[Rows]:
        """Yield batches in the order of `batches_in_order`: a new random order of all samples each epoch."""
        for numbers in batches_in_order(
            self.n_signals, n_samples, batch_size=batch_size, seed=seed, first=first
        ):
            yield Rows(0, numbers)

    def at(self, place: int) -> NpyFile:
        """Return what a task is given: the file, which its worker opens."""
        return self

    def close(self) -> None:
        """Do nothing."""


@lru_cache(maxsize=4)
def _mapped(path: str, modified: int) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


class Blocks:
    """The blocks of a Dask array, computed by the cluster when their turn comes."""

    def __init__(self, array: Array, client: Client) -> None:
        if array.ndim != 2:
            raise ValueError(f"data must be 2-D, (n_signals, n_inputs); got shape {array.shape}")
        if np.isnan(array.shape).any():
            raise ValueError("data must know the lengths of its blocks: call data.compute_chunk_sizes()")
        if len(array.chunks[1]) != 1:
            raise ValueError(
                f"data must have whole rows in its blocks; got {len(array.chunks[1])} blocks in a row: pass "
                "data.rechunk({1: -1})"
            )
        if not all(array.shape):
            raise ValueError(f"data must have samples and features; got shape {array.shape}")
        self.n_signals, self.n_inputs = array.shape
        self._lengths = [length for length in array.chunks[0] if length]
        blocks = array.to_delayed()[:, 0]
        self._blocks = [block for block, length in zip(blocks, array.chunks[0], strict=True) if length]
        self._client = client
        self._futures: dict[int, Future] = {}

    def pieces(self) -> list[tuple[int, slice, int]]:
        """Return places, rows, and which sample is the first of these; of all samples in their order."""
        starts = np.cumsum(self._lengths) - self._lengths
        return [(block, slice(None), int(first)) for block, first in enumerate(starts)]

    def batches(self, n_samples: int, *, batch_size: int, seed: int, first: int) -> Iterator[Rows]:
        """Yield batches: in each epoch all blocks in a new random order, the samples of each likewise.

        Batches end with the block, so that all samples of one are in one place.  A single block has the order
        of `batches_in_order`.  The order depends on the seed, the epoch and the lengths of the blocks alone.
        """
        epoch, place = divmod(first, self.n_signals)
        at = epoch * self.n_signals
        while at < n_samples:
            rng = np.random.default_rng([seed, epoch])
            several = len(self._lengths) > 1
            order = rng.permutation(len(self._lengths)).tolist() if several else [0]
            for position, block in enumerate(order):
                numbers = rng.permutation(self._lengths[block])[: n_samples - at]
                coming = {block, *order[position + 1 : position + 2]}
                if place < len(numbers):
                    self._keep(coming)
                for start in range(place, len(numbers), batch_size):
                    yield Rows(block, numbers[start : start + batch_size])
                place = max(place - len(numbers), 0)
                at += len(numbers)
                if at >= n_samples:
                    break
            epoch += 1

    def _keep(self, blocks: set[int]) -> None:
        """Have these blocks computed and kept, and let the cluster forget others."""
        # What is needed next is computed before the rest is forgotten: they may share work.
        self._futures = {block: self.at(block) for block in sorted(blocks)}

    def at(self, place: int) -> Future:
        """Return what a task is given: the future of a block, which the cluster forgets after the task."""
        future = self._futures.get(place)
        if future is not None and future.status not in ("cancelled", "lost"):
            return future
        future = self._client.compute(self._blocks[place])
        if place in self._futures:
            self._futures[place] = future
        return future

    def close(self) -> None:
        """Let the cluster forget all blocks."""
        self._futures.clear()


def samples_of(data: Any, client: Client) -> NpyFile | Blocks:
    """Return where samples are."""
    from dask.array import Array

    if isinstance(data, Array):
        return Blocks(data, client)
    if isinstance(data, np.memmap):
        if data.filename is None or Path(data.filename).suffix != ".npy":
            raise TypeError("data must be a memory-mapped .npy file; got a numpy.memmap of another file")
        file = NpyFile(data.filename)
        if (file.n_signals, file.n_inputs) != data.shape:
            raise ValueError(
                f"data must be all of its file, shape {(file.n_signals, file.n_inputs)}; got shape "
                f"{data.shape}: pass a dask.array of it"
            )
        return file
    if isinstance(data, (str, os.PathLike)):
        return NpyFile(data)
    raise TypeError(
        f"data must be the path of a .npy file or a dask.array; got {type(data).__name__}: for an array in "
        "memory call learn_dictionary, or pass dask.array.from_array(data)"
    )
