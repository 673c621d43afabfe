"""Which kernels run which form of weights."""

from collections.abc import Callable
from typing import NamedTuple

from snn._kernels import simulation, workspace
from snn._kernels.convolution import grid, loop
from snn._kernels.forms import CompressedRows, Rows, Segments, Stencil


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

GRID = Engine(grid.settings_of, grid.single_step, grid.overshoot, grid.new_grid, loop.advance)

ENGINES = {Rows: EVENT_LOOP, Segments: EVENT_LOOP, CompressedRows: EVENT_LOOP, Stencil: GRID}
