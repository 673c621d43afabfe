"""Compiling kernels before they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
from tqdm import tqdm

from snn._kernels.compile_notice import NOTICE
from snn.base import checks
from snn.digital import DigitalFormat, DigitalNetwork, simulate_digital
from snn.network import SpikingNetwork
from snn.run.simulate import simulate, simulate_clocked
from snn.state import NetworkState
from snn.weights import examples

Tasks: TypeAlias = Mapping[str, Callable[[], object]]
"""Small runs by name: together they call every kernel as users' runs do."""


def warm_up(*, progress: bool = True) -> None:
    """Compile all kernels of `snn`, or load them from disk, so that no later call has to.

    Otherwise the first call that needs a kernel compiles it.  Compiled kernels are stored on disk for later
    processes: in the folder that the environment variable ``NUMBA_CACHE_DIR`` names, or else in
    ``__pycache__`` beside the sources, or else in Numba's folder for the user.  Call this before starting
    many processes, while building an image that they start from, or before measuring time.

    Parameters
    ----------
    progress : bool, default True
        Show a line that names what is compiled.

    Raises
    ------
    TypeError
        If `progress` is not a bool.
    """
    run_tasks(tasks(), progress=progress)


def run_tasks(tasks: Tasks, *, progress: bool) -> None:
    """Run all tasks, and show the name of the running one.

    Parameters
    ----------
    tasks : mapping of str to callable
        What to run.
    progress : bool
        Whether to show the line.
    """
    progress = checks.flag("progress", progress)
    with NOTICE.silent(), tqdm(tasks.items(), disable=not progress, unit="task") as bar:
        for name, task in bar:
            bar.set_description(f"compiling: {name}")
            task()


def tasks() -> Tasks:
    """Return the tasks that call all kernels of `snn`."""
    runs: dict[str, Callable[[], object]] = {}
    for weights in examples():
        name, n_neurons = type(weights).__name__, weights.shape[0]
        network = SpikingNetwork(weights, np.full(n_neurons, 0.7), np.ones(n_neurons))
        runs[name] = partial(simulate, network, 5.0, record_spikes=True)
        runs[f"{name}, on a clock"] = partial(simulate_clocked, network, 5.0, time_step=0.5)
    runs["a continued run"] = partial(simulate, network, 5.0, state=NetworkState.at_rest(n_neurons))
    digital = DigitalNetwork.of(network, DigitalFormat(), time_step=0.5)
    runs["a digital network"] = partial(simulate_digital, digital, 10)
    return runs
