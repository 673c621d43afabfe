"""The dictionary that a problem has, whatever its caller passed."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from solvers.problem.dense_dictionary import DenseDictionary
from solvers.problem.dictionary import Dictionary
from solvers.problem.sparse_dictionary import SparseDictionary


def dictionary_of(value: Any) -> Dictionary:
    """Return the dictionary of what a caller passed: an array, a sparse matrix, or a `Dictionary`."""
    if isinstance(value, Dictionary):
        return value
    return SparseDictionary(value) if sparse.issparse(value) else DenseDictionary(value)
