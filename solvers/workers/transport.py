"""How the tasks of a call travel to other processes: what they have in common goes once to each process."""

from __future__ import annotations

import io
import mmap
import pickle
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from snn.base import checks
from snn.base.locks import ForkSafeLock

# Bytes: of SIMD registers, and of what joblib and Dask promise for the arrays they bring.
ALIGNMENT = 64
NEEDED_ALIGNMENT = 16
# Opened in one process at a time; those of calls before are forgotten.
MOST_OPENED = 2


class Task(NamedTuple):
    """A task as it travels: its pickle, and which arrays of what is shared it refers to."""

    pickled: bytes
    positions: list[int]


class Shared:
    """What the tasks of a call have in common, in one array of bytes.

    joblib and Dask send a large array, an argument of many tasks, once to each process; of an object with
    arrays in it they send a copy with every task.

    Attributes
    ----------
    key : str
        A name that no other has.
    packed : ndarray of uint8
        The content, for `opened`.
    """

    def __init__(self, content: Any, *, maps_by_name: bool = False) -> None:
        self.key = uuid.uuid4().hex
        self._pickler = _MapsByName if maps_by_name else cloudpickle.Pickler
        self._buffers: list[pickle.PickleBuffer] = []
        # As joblib and Dask do it: also for classes that are defined in the caller's program.
        pickled = self._dumps(content, self._buffers.append)
        pieces = [buffer.raw() for buffer in self._buffers]
        # Kept with the buffers: an array is known by where it is.
        self._positions = {_place(piece): k for k, piece in enumerate(pieces) if piece.nbytes}
        ends = np.cumsum([0, *(-(-piece.nbytes // ALIGNMENT) * ALIGNMENT for piece in pieces)])
        index = pickle.dumps((pickled, ends[:-1].tolist(), [piece.nbytes for piece in pieces]))
        self.packed = np.zeros(ends[-1] + len(index) + 8, dtype=np.uint8)
        for begin, piece in zip(ends, pieces, strict=False):
            self.packed[begin : begin + piece.nbytes] = np.frombuffer(piece, dtype=np.uint8)
        self.packed[ends[-1] : -8] = np.frombuffer(index, dtype=np.uint8)
        self.packed[-8:] = np.frombuffer(len(index).to_bytes(8, "little"), dtype=np.uint8)

    def task(self, content: Any) -> Task:
        """Return a task as it travels, without the arrays that are shared."""
        positions: list[int] = []

        def stays(buffer: pickle.PickleBuffer) -> bool:
            position = self._positions.get(_place(buffer.raw()))
            if position is not None:
                positions.append(position)
            return position is None

        return Task(self._dumps(content, stays), positions)

    def _dumps(self, content: Any, buffer_callback: Callable[[pickle.PickleBuffer], object]) -> bytes:
        with io.BytesIO() as file:
            self._pickler(file, protocol=5, buffer_callback=buffer_callback).dump(content)
            return file.getvalue()


class FileMap(NamedTuple):
    """Where the numbers of an array are in a file."""

    path: str
    offset: int
    """In bytes."""
    dtype: np.dtype
    shape: tuple[int, ...]

    def array(self) -> np.ndarray:
        """Return the array, read-only."""
        mapped = np.memmap(self.path, self.dtype, mode="r", offset=self.offset, shape=self.shape)
        return checks.read_only(mapped.view(np.ndarray))


class _MapsByName(cloudpickle.Pickler):
    """Writes arrays that are memory maps as `FileMap`."""

    def reducer_override(self, obj: Any) -> Any:
        """As of `pickle.Pickler`."""
        found = file_map(obj) if isinstance(obj, np.ndarray) else None
        return super().reducer_override(obj) if found is None else (FileMap.array, (found,))


def file_map(array: np.ndarray) -> FileMap | None:
    """Return where the numbers of an array are in a file that it is a memory map of, in one piece.

    It is None of another array, and of a map whose changes the file does not have.
    """
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    # `frombuffer`, and the like, of a map have the map as their base, but no name.
    if not (isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)):
        return None
    if root.filename is None or root.mode == "c" or not array.flags.c_contiguous:
        return None
    begin = array.ctypes.data - root.ctypes.data
    return FileMap(str(root.filename), root.offset + begin, array.dtype, array.shape)


class Opened(NamedTuple):
    """What is shared, as a process has it."""

    content: Any
    buffers: list[memoryview]

    def task(self, task: Task) -> Any:
        """Return what a task is about; its shared arrays are those of `content`, read-only."""
        return pickle.loads(task.pickled, buffers=[self.buffers[position] for position in task.positions])


_opened: OrderedDict[str, Opened] = OrderedDict()
_LOCK = ForkSafeLock()


def opened(key: str, packed: np.ndarray) -> Opened:
    """Return what is shared; it is unpacked once in each process."""
    with _LOCK:
        if key not in _opened:
            while len(_opened) >= MOST_OPENED:
                _opened.popitem(last=False)
            _opened[key] = _unpacked(packed)
        return _opened[key]


def _unpacked(packed: np.ndarray) -> Opened:
    if packed.ctypes.data % NEEDED_ALIGNMENT:
        # Kernels are compiled for arrays whose numbers do not straddle addresses.
        packed = packed.copy()
    everything = packed.data.toreadonly()
    end = len(packed) - 8
    begin = end - int.from_bytes(everything[end:], "little")
    pickled, begins, sizes = pickle.loads(everything[begin:end])
    buffers = [everything[first : first + size] for first, size in zip(begins, sizes, strict=True)]
    return Opened(pickle.loads(pickled, buffers=buffers), buffers)


def _place(piece: memoryview) -> tuple[int, int]:
    """Return where a piece of memory is, and how long it is."""
    return np.frombuffer(piece, dtype=np.uint8).ctypes.data, piece.nbytes
