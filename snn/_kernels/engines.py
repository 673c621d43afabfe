"""Which kernels run which form of weights."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import config

from snn._kernels import screened_simulation, simulation, workspace
from snn._kernels.convolution import grid, loop
from snn._kernels.forms import CompressedRows, Rows, Segments, Stencil


class Engine(NamedTuple):
    """How a run prepares, steps and advances networks of some forms of weights."""

    settings_of: Callable
    single_step: Callable
    overshoot: Callable
    new_memory: Callable
    advance: Callable


def _without_warnings(kernel: Callable) -> Callable:
    """Return a kernel that does not warn of infinities where it is not compiled, to debug it."""
    # Kernels divide by zero on purpose: the quotient is not used, and a branch would cost more.
    if not config.DISABLE_JIT:
        return kernel

    @functools.wraps(kernel)
    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return kernel(*arguments)

    return call


_ADVANCE = _without_warnings(simulation.advance)
_ADVANCE_SCREENED = _without_warnings(screened_simulation.advance)


def _advance(
    form: tuple,
    neurons: tuple,
    states: np.ndarray,
    settings: workspace.Settings,
    memories: tuple,
    active: np.ndarray,
    first: int,
    stops: tuple,
    budget: int,
    spikes: tuple,
) -> tuple:
    """Call the kernel that these settings need: most networks are small, and never have an active set."""
    memory, more = memories
    if settings.room == 0:
        return _ADVANCE(form, neurons, states, settings, memory, active, first, stops, budget, spikes)
    return _ADVANCE_SCREENED(
        form, neurons, states, settings, memory, more, active, first, stops, budget, spikes
    )


EVENT_LOOP = Engine(
    workspace.settings_of,
    workspace.single_step,
    workspace.overshoot,
    workspace.new_memory,
    _advance,
)

GRID = Engine(
    grid.settings_of, grid.single_step, grid.overshoot, grid.new_grid, _without_warnings(loop.advance)
)

ENGINES = {Rows: EVENT_LOOP, Segments: EVENT_LOOP, CompressedRows: EVENT_LOOP, Stencil: GRID}
