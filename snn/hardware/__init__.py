"""A core in gates that runs a digital network: Amaranth generates the core, and writes Verilog.

Needs the extra ``sparsespike[hardware]``.
"""

from snn.base import checks

checks.installed("amaranth", extra="hardware")  # the modules below import it

from snn.hardware.capacity import Capacity  # noqa: E402
from snn.hardware.layout import CoreLayout  # noqa: E402
from snn.hardware.simulated import SimulatedCore  # noqa: E402
from snn.hardware.verilog import to_verilog  # noqa: E402

__all__ = ["Capacity", "CoreLayout", "SimulatedCore", "to_verilog"]
