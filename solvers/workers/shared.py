"""Values that tasks on a Dask cluster share, and that each process of the cluster gets only once."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from snn.base.value import cached_property

if TYPE_CHECKING:
    from distributed import Client, Future

# The alignment of arrays, in bytes, for which kernels are compiled.
ALIGNMENT = 16


class Shared:
    """An object that many tasks share, stored as a pickle and its arrays, which arrive read-only."""

    def __init__(self, pickled: bytes, arrays: Sequence[np.ndarray]) -> None:
        self._pickled = pickled
        self._arrays = [a if a.ctypes.data % ALIGNMENT == 0 else a.copy() for a in arrays]
        self._numbers = {_place(array): k for k, array in enumerate(self._arrays) if array.nbytes}

    @classmethod
    def of(cls, content: Any) -> Shared:
        """Return the shared form of an object; the caller's program may define the object's classes."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = cloudpickle.dumps(content, protocol=5, buffer_callback=buffers.append)
        return cls(pickled, [_as_bytes(buffer) for buffer in buffers])

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self._pickled, self._arrays)

    @cached_property
    def content(self) -> Any:
        """The object, unpickled at its first use, because schedulers may lack its classes."""
        return self.whole(self._pickled, range(len(self._arrays)))

    def without(self, task: Any) -> tuple[bytes, list[int]]:
        """Return the pickle of a task without the shared arrays, and the indices of these arrays."""
        numbers: list[int] = []

        def stays(buffer: pickle.PickleBuffer) -> bool:
            number = self._numbers.get(_place(_as_bytes(buffer)))
            if number is not None:
                numbers.append(number)
            return number is None

        return cloudpickle.dumps(task, protocol=5, buffer_callback=stays), numbers

    def whole(self, pickled: bytes, numbers: Sequence[int]) -> Any:
        """Return the object of a pickle without arrays, whose shared arrays have the indices `numbers`."""
        return pickle.loads(pickled, buffers=[self._arrays[k].data.toreadonly() for k in numbers])

    def on(self, client: Client) -> Future:
        """Return a future of this object on a cluster; its workers copy the object from each other."""
        import dask

        # The object is sent as the result of a task, because Dask repeats a task if all workers with its
        # result die.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return client.submit(_itself, self, pure=False)


def _itself(shared: Shared) -> Shared:
    return shared


def _as_bytes(buffer: pickle.PickleBuffer) -> np.ndarray:
    return np.frombuffer(buffer.raw(), dtype=np.uint8)


def _place(array: np.ndarray) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes
