"""Which kernels run which form of weights."""

from collections.abc import Callable
from typing import NamedTuple

from snn._kernels import simulation, workspace
from snn._kernels.forms import CompressedRows, Rows, Segments


class Engine(NamedTuple):
    """How a run prepares, steps and advances networks of some forms of weights."""

    settings_of: Callable
    single_step: Callable
    overshoot: Callable
    new_memory: Callable
    advance: Callable


EVENT_LOOP = Engine(
    workspace.settings_of,
    workspace.single_step,
    workspace.overshoot,
    workspace.new_memory,
    simulation.advance,
)

ENGINES = {Rows: EVENT_LOOP, Segments: EVENT_LOOP, CompressedRows: EVENT_LOOP}
