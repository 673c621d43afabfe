"""Compilation of kernels before the first call that needs them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array
from tqdm import tqdm

from snn._kernels.active_neurons import FEWEST_SCREENED
from snn._kernels.compile_notice import NOTICE
from snn.base import checks
from snn.digital import DigitalFormat
from snn.network import NetworkState, SpikingNetwork
from snn.run.imperfect import Imperfections
from snn.run.simulate import simulate
from snn.run.time import Clock
from snn.weights import Connection, DenseRows, Segments, examples

BACKWARDS = """
import sys
from importlib import import_module
for tasks in reversed([import_module(name).tasks() for name in sys.argv[1:]]):
    for task in reversed(tasks.values()):
        task()
"""
# Small runs by name.  Together, the runs call every kernel with the types of users' runs.
Tasks: TypeAlias = Mapping[str, Callable[[], object]]


def warm_up(*, progress: bool = True) -> None:
    """Compile all kernels of `snn`, or load them from disk, so that no later call has to compile.

    Without `warm_up`, the first call that needs a kernel compiles this kernel.  Compiled kernels are stored
    on disk for later processes.  The folder is named by the environment variable ``NUMBA_CACHE_DIR``, or else
    it is ``__pycache__`` next to the sources, or if that is not writable, Numba's folder for the user.  Call
    `warm_up` before starting many processes, building an image, or measuring time.

    Parameters
    ----------
    progress : bool, default True
        Show a progress bar that names the kernels.
    """
    run_tasks((tasks,), progress=progress)


def run_tasks(sources: Sequence[Callable[[], Tasks]], *, progress: bool) -> None:
    """Run all tasks; until the end, a second process runs the same tasks in reverse order."""
    progress = checks.flag("progress", progress)
    todo = [task for source in sources for task in source().items()]
    second: subprocess.Popen[bytes] | None = None
    # In a frozen program, `sys.executable` is the program and not an interpreter.
    if (os.cpu_count() or 1) > 1 and not getattr(sys, "frozen", False):
        command = [sys.executable, "-c", BACKWARDS, *(source.__module__ for source in sources)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
        none = subprocess.DEVNULL
        # If no second process starts, this process compiles all kernels.
        with contextlib.suppress(OSError, ValueError):
            second = subprocess.Popen(command, env=environment, stdin=none, stdout=none, stderr=none)
    sentence, NOTICE.sentence = NOTICE.sentence, ""  # the progress bar replaces the notice
    try:
        with tqdm(todo, disable=not progress, unit="task") as bar:
            for name, task in bar:
                bar.set_description(f"compiling: {name}")
                task()
    finally:
        NOTICE.sentence = sentence
        # The second process may be writing a kernel.  A killed process leaves no incomplete file.
        if second is not None:
            second.kill()
            second.wait()


def tasks() -> Tasks:
    """Return the tasks that call all kernels of `snn`."""
    runs: dict[str, Callable[[], object]] = {}
    chip, slow = Imperfections(), Imperfections(delays=np.ones((2, 2)))
    for weights in examples():
        name, n_neurons = type(weights).__name__, weights.shape[0]
        network = SpikingNetwork(weights, np.full(n_neurons, 0.7), np.ones(n_neurons))
        runs[name] = partial(simulate, network, 5.0, record_spikes=True)
        runs[f"{name}, on a clock"] = partial(simulate, network, 5.0, Clock(0.5))
        runs[f"{name}, imperfect neurons"] = partial(simulate, network, 5.0, Clock(0.5, imperfections=chip))
    runs["a continued run"] = partial(simulate, network, 5.0, state=NetworkState.at_rest(n_neurons))
    integers = DigitalFormat()
    runs["integers"] = partial(simulate, network, 5.0, Clock(0.5, integers))
    runs["delays of synapses"] = partial(simulate, network, 5.0, Clock(0.5, imperfections=slow))
    runs["imperfect integers"] = partial(simulate, network, 5.0, Clock(0.5, integers, imperfections=chip))
    # Only larger networks with one of three forms of weights have an active set.
    n_neurons = FEWEST_SCREENED
    inhibition = -0.01 * (1.0 - np.eye(n_neurons))
    for weights in (
        DenseRows(inhibition),
        Segments(n_neurons, (Connection(0, 0, inhibition.shape, 0),), inhibition.ravel()),
        csr_array(inhibition),
    ):
        network = SpikingNetwork(weights, np.full(n_neurons, 0.7), np.ones(n_neurons))
        runs[f"{type(weights).__name__}, an active set"] = partial(simulate, network, 5.0)
    return runs
