"""Digital neurons: weights, potentials and currents as integers of a given width.

`DigitalFormat` says what the integers are, `DigitalNetwork.of` makes them of a `SpikingNetwork`, and
`simulate_digital` runs them.
"""

from snn.digital.fixed_point import FixedPoint, FixedPointArray
from snn.digital.format import DigitalFormat
from snn.digital.network import DigitalNetwork
from snn.digital.simulate import DigitalResult, simulate_digital
from snn.digital.state import DigitalState
from snn.digital.time import Digital

__all__ = [
    "Digital",
    "DigitalFormat",
    "DigitalNetwork",
    "DigitalResult",
    "DigitalState",
    "FixedPoint",
    "FixedPointArray",
    "simulate_digital",
]
