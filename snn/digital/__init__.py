"""Digital neurons: weights, potentials and currents as integers of a given width."""

from snn.digital.fixed_point import FixedPoint, FixedPointArray

__all__ = ["FixedPoint", "FixedPointArray"]
