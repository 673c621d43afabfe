"""Values whose arrays stay read-only wherever they are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from snn.base import checks


class Unchanging:
    """A value that is the same after it was pickled, copied, or sent to a worker: its arrays are read-only.

    NumPy drops the flag on the way.  Caches rely on it, and kernels are compiled once more for arrays that
    may be written.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: _read_only(value) for name, value in state.items()})


def _read_only(value: Any) -> Any:
    """Return an array as a read-only one, and so for the arrays of a tuple or of compressed rows."""
    if isinstance(value, np.ndarray):
        return checks.read_only(value)
    if isinstance(value, tuple):
        parts = [_read_only(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if issparse(value):
        for part in (value.data, value.indices, value.indptr):
            part.flags.writeable = False
    return value
