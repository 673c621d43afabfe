"""The state of a network between two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.archive import Entry, Saved
from snn.base.html import Described, number, value_range
from snn.base.unchanging import Unchanging


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NetworkState(Unchanging, Saved, Described):
    """What a run continues from: potentials, synaptic currents, and the time.

    Parameters
    ----------
    membrane_potential : array_like, shape (n_neurons,)
        v, at most the firing threshold (a neuron at its threshold fires at once).
    synaptic_current : array_like, shape (n_neurons,)
        The part of the soma current that spikes caused, mu - beta.
    time : float, default 0.0
        In synaptic time constants.
    """

    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    time: float = 0.0

    _schema: ClassVar = {
        "membrane_potential": Entry("f", ("neurons",)),
        "synaptic_current": Entry("f", ("neurons",)),
        "time": Entry("f", ()),
    }

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self, *, membrane_potential: ArrayLike, synaptic_current: ArrayLike, time: float = 0.0
        ) -> None: ...

    def __post_init__(self) -> None:
        potential = checks.real_array(
            "membrane_potential", self.membrane_potential, shape=(None,), meaning="one potential a neuron"
        )
        current = checks.real_array(
            "synaptic_current", self.synaptic_current, shape=potential.shape, meaning="one current a neuron"
        )
        object.__setattr__(self, "membrane_potential", checks.read_only(potential))
        object.__setattr__(self, "synaptic_current", checks.read_only(current))
        object.__setattr__(self, "time", checks.real_number("time", self.time))

    @classmethod
    def at_rest(cls, n_neurons: int) -> NetworkState:
        """Return the state of `n_neurons` neurons at time 0, all potentials and currents zero."""
        n_neurons = checks.positive_integer("n_neurons", n_neurons)
        return cls.unchecked(np.zeros(n_neurons), np.zeros(n_neurons), 0.0)

    @classmethod
    def unchecked(
        cls, membrane_potential: np.ndarray, synaptic_current: np.ndarray, time: float
    ) -> NetworkState:
        """Build without validation from finite float64 arrays of one length; takes ownership of both."""
        state = object.__new__(cls)
        object.__setattr__(state, "membrane_potential", checks.read_only(membrane_potential))
        object.__setattr__(state, "synaptic_current", checks.read_only(synaptic_current))
        object.__setattr__(state, "time", time)
        return state

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return len(self.membrane_potential)

    def _facts(self) -> dict[str, str]:
        return {
            "neurons": number(self.n_neurons),
            "time": f"{self.time:.6g}",
            "potentials": value_range(self.membrane_potential),
            "synaptic currents": value_range(self.synaptic_current),
        }
