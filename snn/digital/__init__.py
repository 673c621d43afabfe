"""Digital neurons: weights, potentials and currents as integers of a given width.

`DigitalFormat` has their widths and rounding; ``simulate(network, duration, Clock(time_step, format))`` runs
a network of them.  `DigitalNetwork.of` rounds the numbers of a network; `Action` has the commands of a core.
"""

from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork, Registers
from snn.digital.format import DigitalFormat, FixedPoint

__all__ = ["Action", "DigitalFormat", "DigitalNetwork", "FixedPoint", "Registers"]
