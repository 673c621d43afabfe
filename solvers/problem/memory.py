"""The limit on memory for results that solvers compute from a dictionary."""

from __future__ import annotations

from typing import Any, ClassVar

from snn.base import checks
from snn.base.describe import Closed


class memory_limit(Closed):
    """Limit the memory for results that solvers compute from a dictionary; the default is 1 GiB.

    The limit holds in all threads for problems that are made after this call.  A problem keeps its limit.  In
    a ``with`` statement, the limit holds for problems that are made inside the block.  Solvers compare the
    limit with the size of a Gram matrix, 8 n_atoms^2 bytes.  If the matrix is larger than the limit, methods
    that do not need the matrix use the dictionary in single precision, with certified bounds on the errors,
    and code batches of signals as large as the limit allows.  Other methods raise MemoryError, and the
    message names methods that do not need the matrix.  Dictionaries, signals, results and a Gram matrix that
    the caller passes are not counted.

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
        if memory_limit._in_force is not self:  # the object is used in a second `with` statement
            self._set()
        return self

    def __exit__(self, *error: object) -> None:
        memory_limit._in_force = self._before

    def _set(self) -> None:
        self._before, memory_limit._in_force = memory_limit._in_force, self


memory_limit(2**30)  # the default limit is 1 GiB
