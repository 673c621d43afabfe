"""How much memory solvers may take for what they compute of a dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from snn.base import checks
from snn.base.locks import ForkSafeLock

DEFAULT = 2**30


@dataclass(frozen=True)
class Memory:
    """The limit that held when a model was made.

    Attributes
    ----------
    limit : int
        In bytes.
    """

    limit: int

    def fits(self, n_bytes: int, *, share: float = 1.0) -> bool:
        """Return whether so many bytes are within a share of the limit."""
        return n_bytes <= share * self.limit


_LOCK = ForkSafeLock()
_current = Memory(DEFAULT)


def current_memory() -> Memory:
    """Return the limit for models that are made now."""
    return _current


class memory_limit:
    """Say how much memory solvers may take for what they compute of a dictionary; 1 GiB by default.

    The limit holds for problems that are made from now on, in all threads, and stays with them; used in a
    ``with`` statement, for those that are made within.  It is compared with the size of a Gram matrix before
    one is computed, 8 n_atoms^2 bytes.  Where that is larger, methods that can do without take the dictionary
    in its place, in single precision with certified bounds on the errors, and batches of signals as large as
    the limit allows; the others raise MemoryError and name those that can.  Dictionaries, signals, results
    and a Gram matrix that is given are not counted.

    Parameters
    ----------
    n_bytes : float
        The limit in bytes, positive: ``4e9`` are 4 GB.

    Raises
    ------
    TypeError, ValueError
        If it is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoProblem, memory_limit
    >>> with memory_limit(4e9):
    ...     problem = LassoProblem(np.eye(3), [[1.0, 0.0, 2.0]], 0.5)
    """

    def __init__(self, n_bytes: float) -> None:
        self._limit = Memory(int(checks.positive_number("n_bytes", n_bytes)))
        self._set()

    def __enter__(self) -> memory_limit:
        if current_memory() is not self._limit:  # used once more
            self._set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _current
        with _LOCK:
            _current = self._before

    def _set(self) -> None:
        global _current
        with _LOCK:
            self._before, _current = _current, self._limit
