"""Digital neurons: weights, potentials and currents as integers of a given width.

`DigitalFormat` says what the integers are, and ``simulate(network, duration, Clock(time_step, format))`` runs
a network in them; `DigitalNetwork.of` makes the integers of a network.  `Action` has the commands of a core.
"""

from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork, Registers
from snn.digital.format import DigitalFormat, FixedPoint

__all__ = ["Action", "DigitalFormat", "DigitalNetwork", "FixedPoint", "Registers"]
