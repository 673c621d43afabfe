"""The limit on memory for what solvers compute from a dictionary."""

from __future__ import annotations

from typing import Any, ClassVar

from snn.base import checks
from snn.base.describe import Closed


class memory_limit(Closed):
    """Limit the memory that solvers take for what they compute from a dictionary; 1 GiB by default.

    The limit holds, in all threads, for problems that are made from now on, and stays with them.  In a
    ``with`` statement it holds for problems that are made within.  It is compared with the size of a Gram
    matrix, 8 n_atoms^2 bytes.  If the matrix is larger, methods that do not need it use the dictionary in
    single precision, with certified bounds on the errors, and batches of signals as large as the limit
    allows; other methods raise MemoryError and name methods that do not need it.  Dictionaries, signals,
    results and a Gram matrix that the caller passes are not counted.

    Parameters
    ----------
    n_bytes : float
        The limit in bytes, positive: ``4e9`` are 4 GB.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoProblem, memory_limit
    >>> with memory_limit(4e9):
    ...     problem = LassoProblem(np.eye(3), [[1.0, 0.0, 2.0]], 0.5)
    """

    _in_force: ClassVar[Any] = None

    def __init__(self, n_bytes: float) -> None:
        self._n_bytes = int(checks.positive_number("n_bytes", n_bytes))
        self._set()

    def __enter__(self) -> memory_limit:
        if memory_limit._in_force is not self:  # entered again
            self._set()
        return self

    def __exit__(self, *error: object) -> None:
        memory_limit._in_force = self._before

    def _set(self) -> None:
        self._before, memory_limit._in_force = memory_limit._in_force, self


memory_limit(2**30)  # the default
