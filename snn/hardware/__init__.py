"""A core in gates for digital networks: a generator in Amaranth, written in Verilog.

Needs the extra ``sparsespike[hardware]``.
"""

from snn.base import checks

checks.installed("amaranth", extra="hardware")  # all of this room is written in it

from snn.hardware.verilog import to_verilog  # noqa: E402

__all__ = ["to_verilog"]
