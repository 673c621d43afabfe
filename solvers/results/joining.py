"""What batches of signals came to, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from solvers._kernels.batch import CompressedRows
from solvers.certificate.optimality import Optimality

Record = TypeVar("Record")

# The largest of the 32-bit indices of sparse matrices.
LARGEST_INDEX = np.iinfo(np.int32).max


def joined(outcomes: Sequence[Record]) -> Record:
    """Return the outcomes of several batches as one.

    Parameters
    ----------
    outcomes : sequence of NamedTuple
        Records of one type, whose fields `joined_values` takes.
    """
    first: Any = outcomes[0]
    if len(outcomes) == 1:
        return first
    columns = ([getattr(outcome, name) for outcome in outcomes] for name in first._fields)
    return type(first)(*(joined_values(values) for values in columns))


def joined_values(values: Sequence[Any]) -> Any:
    """Return values of several batches, one after the other, of one of the kinds that outcomes have.

    Parameters
    ----------
    values : sequence
        Arrays, sparse arrays, `CompressedRows`, `Optimality`, mappings of these, or None.
    """
    first = values[0]
    if first is None:
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(values)
    if isinstance(first, sparse.csr_array):
        return sparse.vstack(values, format="csr")
    if isinstance(first, CompressedRows):
        return _joined_rows(values)
    if isinstance(first, Mapping):
        return {name: joined_values([value[name] for value in values]) for name in first}
    if isinstance(first, Optimality):
        names = [field.name for field in fields(Optimality)]
        return Optimality(
            **{name: joined_values([getattr(value, name) for value in values]) for name in names}
        )
    raise TypeError(f"values must be of a kind that outcomes have; got {type(first).__name__}")


def _joined_rows(parts: Sequence[CompressedRows]) -> CompressedRows:
    lengths = np.concatenate([np.diff(part.pointers) for part in parts])
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    if pointers[-1] <= LARGEST_INDEX:
        pointers = pointers.astype(np.int32)
    return CompressedRows(
        pointers,
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
