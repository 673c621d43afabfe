"""The integers of a digital network between two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.archive import Entry, Saved
from snn.base.describe import Described

LARGEST_INTEGER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalState(Saved, Described):
    """What a run of a digital network continues from; it continues with the same bits.

    Parameters
    ----------
    membrane_potential, synaptic_current : array_like of int, shape (n_neurons,)
        The registers.
    pending : array_like of int, shape (n_slots, n_neurons)
        Sums of weights times messages that are on their way: row d arrives at the end of the step after d
        more steps.  There are as many rows as the longest delay, and one, which is zero at the beginning of a
        step unless there are delays.
    """

    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    pending: np.ndarray

    _schema: ClassVar = {
        "membrane_potential": Entry("iu", ("neurons",)),
        "synaptic_current": Entry("iu", ("neurons",)),
        "pending": Entry("iu", ("slots", "neurons")),
    }

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self, *, membrane_potential: ArrayLike, synaptic_current: ArrayLike, pending: ArrayLike
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("membrane_potential", "synaptic_current", "pending"):
            array = np.asarray(getattr(self, name))
            if array.dtype.kind not in "iu":
                raise TypeError(f"{name} must be an array of integers; got dtype {array.dtype}")
            if array.size and array.max() > LARGEST_INTEGER:
                raise ValueError(f"{name} must be made of integers of 64 bits; got {array.max()}")
            # A copy: the caller may change its own.
            object.__setattr__(self, name, checks.read_only(np.array(array, dtype=np.int64, order="C")))
        shape = self.membrane_potential.shape
        if len(shape) != 1 or self.synaptic_current.shape != shape or self.pending.shape[1:] != shape:
            raise ValueError(
                "membrane_potential and synaptic_current must have shape (n_neurons,), and pending shape "
                f"(n_slots, n_neurons); got {shape}, {self.synaptic_current.shape} and {self.pending.shape}"
            )
