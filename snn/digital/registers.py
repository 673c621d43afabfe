"""What a run in integers did to its registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from snn.base.describe import Described
from snn.base.value import Value
from snn.digital.network import DigitalNetwork


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Registers(Value, Described):
    """The integers of a run: `SimulationResult.registers`.

    Attributes
    ----------
    network : DigitalNetwork
        The network that ran.
    membrane_potential, synaptic_current : ndarray of int, shape (n_neurons,)
        The registers at the end; ``result.state`` has them in the units of the real network.
    messages : ndarray of int, shape (n_neurons,)
        The sum of each neuron's messages.
    spike_messages : ndarray of int, shape (n_spikes,), or None
        The number in each message, if spikes were recorded.
    potential_saturations : ndarray of int, shape (n_neurons, 2)
        Steps in which the potential was below, and above, what its register holds; it then saturated, or
        wrapped around.  The potential of a neuron that is driven downwards comes to the lower end, and stays.
    current_saturations, message_saturations : ndarray of int, shape (n_neurons,)
        Steps in which the synaptic current, and the message, was beyond what its bits hold.  Messages of one
        bit, unless they are graded, say that a neuron fired, and are not counted.
    drive_saturations : int
        Entries of the drive beyond what its bits hold.
    """

    network: DigitalNetwork = field(repr=False)
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    messages: np.ndarray
    spike_messages: np.ndarray | None = field(repr=False)
    potential_saturations: np.ndarray
    current_saturations: np.ndarray
    message_saturations: np.ndarray
    drive_saturations: int

    _shown: ClassVar = (
        "messages", "potential_saturations", "current_saturations", "message_saturations",
    )  # fmt: skip
