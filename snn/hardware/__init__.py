"""A core in gates for digital networks: its memories, a generator in Amaranth, and files for other programs.

Needs the extra ``sparsespike[hardware]``.
"""

from snn.base.extras import require

require("amaranth", extra="hardware")  # all of this room is written in it

from snn.hardware.core import Action, Core  # noqa: E402
from snn.hardware.layout import CoreLayout  # noqa: E402
from snn.hardware.verilog import to_verilog  # noqa: E402

__all__ = ["Action", "Core", "CoreLayout", "to_verilog"]
