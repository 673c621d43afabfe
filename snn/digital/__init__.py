"""Digital neurons: weights, potentials and currents as integers of a given width.

`DigitalFormat` says what the integers are, and ``simulate(network, duration, Clock(time_step, format))`` runs
a network in them; `DigitalNetwork.of` makes the integers of a network.
"""

from snn.digital.fixed_point import FixedPoint, FixedPointArray
from snn.digital.format import DigitalFormat
from snn.digital.network import DigitalNetwork
from snn.digital.registers import Registers

__all__ = ["DigitalFormat", "DigitalNetwork", "FixedPoint", "FixedPointArray", "Registers"]
