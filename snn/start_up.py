"""Compiling kernels before they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from scipy import sparse
from tqdm import tqdm

from snn import checks
from snn.clock_driven import simulate_clocked
from snn.event_driven import simulate
from snn.network import SpikingNetwork
from snn.state import NetworkState
from snn.stencil import StencilWeights
from snn.weights import Block, BlockWeights, LateralInhibition, MirroredWeights, Weights

Tasks = Mapping[str, Callable[[], object]]
"""Small runs that between them call every kernel as users' runs do, by what they run."""


def warm_up(*, progress: bool = True) -> None:
    """Compile all kernels of `snn`, or load them from disk, so that no later call has to.

    Kernels are otherwise compiled at the first call that needs them, and kept on disk for the processes
    after: in ``__pycache__`` beside the sources, in the folder that the environment variable
    ``NUMBA_CACHE_DIR`` names, or where neither can be written to in Numba's folder for the user.  Call this
    before starting many processes, while making an image that they start from, or before measuring time.

    Parameters
    ----------
    progress : bool, default True
        Show a line that says what is compiled.

    Raises
    ------
    TypeError
        If `progress` is not a bool.
    """
    run_tasks(tasks(), progress=progress)


def run_tasks(tasks: Tasks, *, progress: bool) -> None:
    """Run all tasks, with a line that names the one that runs.

    Parameters
    ----------
    tasks : mapping of str to callable
        What to run.
    progress : bool
        Whether to show the line.
    """
    progress = checks.flag("progress", progress)
    with tqdm(tasks.items(), disable=not progress, unit="task") as bar:
        for name, task in bar:
            bar.set_description(f"compiling: {name}")
            task()


def _forms_of_weights() -> Iterator[tuple[str, Weights]]:
    inhibition = np.array([[0.0, -0.2], [-0.2, 0.0]])
    lateral = LateralInhibition(np.eye(2) - inhibition)
    yield "dense weights", inhibition
    yield "lateral inhibition", lateral
    yield "mirrored weights", MirroredWeights(lateral=inhibition, exchange=np.ones(2))
    yield "mirrored lateral inhibition", MirroredWeights(lateral=lateral, exchange=np.ones(2))
    narrow = sparse.csr_array(inhibition)
    yield "sparse weights", narrow
    wide = (narrow.data, narrow.indices.astype(np.int64), narrow.indptr.astype(np.int64))
    yield "sparse weights, 64-bit indices", sparse.csr_array(wide, shape=narrow.shape)
    yield "a stencil of weights", StencilWeights(inhibition[:, np.newaxis, np.newaxis, :], (1, 1))
    yield "blocks of weights", BlockWeights(2, (Block(first_source=0, first_target=0, values=inhibition),))


def tasks() -> Tasks:
    """Return the tasks that call all kernels of `snn`."""
    runs = {}
    for name, weights in _forms_of_weights():
        n_neurons = weights.shape[0]
        network = SpikingNetwork(weights, np.full(n_neurons, 0.7), np.ones(n_neurons))
        runs[name] = partial(simulate, network, 5.0, record_spikes=True)
        runs[f"{name}, on a clock"] = partial(simulate_clocked, network, 5.0, time_step=0.5)
    runs["a run that goes on"] = partial(simulate, network, 5.0, state=NetworkState.at_rest(n_neurons))
    return runs
