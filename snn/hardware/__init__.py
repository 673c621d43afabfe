"""A core in gates for digital networks: a generator in Amaranth, and files for other programs.

Needs the extra ``sparsespike[hardware]``.
"""

from snn.base.extras import require

require("amaranth", extra="hardware")  # all of this room is written in it

from snn.hardware.verilog import to_verilog  # noqa: E402

__all__ = ["to_verilog"]
