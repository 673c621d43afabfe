"""Compiling kernels before they are needed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numba.core import event
from scipy.sparse import csr_array
from tqdm import tqdm

from snn._kernels.active_set import FEWEST_SCREENED
from snn._kernels.compile_notice import NOTICE
from snn._kernels.compiling import is_kept_on_disk
from snn.base import checks
from snn.digital import DigitalFormat
from snn.network import NetworkState, SpikingNetwork
from snn.run.clock import Clock
from snn.run.imperfect import Imperfections
from snn.run.simulate import simulate
from snn.weights import Block, DenseRows, Segments, SparseWeights, examples

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
    """
    run_tasks((tasks,), progress=progress)


def run_tasks(sources: Sequence[Callable[[], Tasks]], *, progress: bool) -> None:
    """Run all tasks; if there is anything to compile, a second process runs them from the last on."""
    progress = checks.flag("progress", progress)
    todo = _all_of(sources)
    with NOTICE.silent(), _second_process(sources), tqdm(todo, disable=not progress, unit="task") as bar:
        for name, task in bar:
            bar.set_description(f"compiling: {name}")
            task()


def _all_of(sources: Sequence[Callable[[], Tasks]]) -> list[tuple[str, Callable[[], object]]]:
    return [item for source in sources for item in source().items()]


class _SecondProcess(event.Listener):
    """Starts a process that compiles too, when the first kernel is not on disk."""

    def __init__(self, sources: Sequence[Callable[[], Tasks]]) -> None:
        self._modules = [source.__module__ for source in sources]
        self._process: subprocess.Popen[bytes] | None = None

    def on_start(self, compilation: event.Event) -> None:
        """Start it, unless it runs."""
        if self._process is None:
            program = (
                "import importlib, sys; sys.path[:] = sys.argv[1].split(chr(0x1F)); "
                "from snn import precompile; "
                "precompile.run_backwards([importlib.import_module(name) for name in sys.argv[2:]])"
            )
            path = "\x1f".join(entry for entry in sys.path if isinstance(entry, str))
            command = [sys.executable, "-c", program, path, *self._modules]
            # Without one, all is compiled here.
            with contextlib.suppress(OSError, ValueError):
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )

    def on_end(self, compilation: event.Event) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """End the process, which may be in the middle of a kernel: files on disk are whole or not there."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def _second_process(sources: Sequence[Callable[[], Tasks]]) -> Iterator[None]:
    """Let a second process compile, where there is a processor, an interpreter and a disk for it."""
    is_of_use = is_kept_on_disk() and (os.cpu_count() or 1) > 1
    if not is_of_use or not sys.executable or getattr(sys, "frozen", False):
        yield
        return
    second = _SecondProcess(sources)
    try:
        with event.install_listener("numba:compile", second):
            yield
    finally:
        second.stop()


def run_backwards(modules: Sequence[Any]) -> None:
    """Run the tasks of some modules, the last first: what the second process does."""
    for _, task in reversed(_all_of([module.tasks for module in modules])):
        task()


def tasks() -> Tasks:
    """Return the tasks that call all kernels of `snn`."""
    runs: dict[str, Callable[[], object]] = {}
    for weights in examples():
        name, n_neurons = type(weights).__name__, weights.shape[0]
        network = SpikingNetwork(weights, np.full(n_neurons, 0.7), np.ones(n_neurons))
        runs[name] = partial(simulate, network, 5.0, record_spikes=True)
        runs[f"{name}, on a clock"] = partial(simulate, network, 5.0, Clock(0.5))
    runs["a continued run"] = partial(simulate, network, 5.0, state=NetworkState.at_rest(n_neurons))
    chip, integers = Imperfections(), DigitalFormat()
    runs["integers"] = partial(simulate, network, 5.0, Clock(0.5, integers))
    runs["imperfect neurons"] = partial(simulate, network, 5.0, Clock(0.5, imperfections=chip))
    runs["imperfect integers"] = partial(simulate, network, 5.0, Clock(0.5, integers, imperfections=chip))
    # Larger ones have an active set: one for each record of weights that kernels know.
    n_neurons = FEWEST_SCREENED
    inhibition = -0.01 * (1.0 - np.eye(n_neurons))
    for weights in (
        DenseRows(inhibition),
        Segments.of_blocks(n_neurons, (Block(0, 0, inhibition),)),
        SparseWeights(csr_array(inhibition)),
    ):
        network = SpikingNetwork(weights, np.full(n_neurons, 0.7), np.ones(n_neurons))
        runs[f"{type(weights).__name__}, an active set"] = partial(simulate, network, 5.0)
    return runs
