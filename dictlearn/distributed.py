"""Learning on a Dask cluster from signals in a file, which may be larger than memory."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import numpy as np

from dictlearn.signals import checked_signals
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.samples import Samples, blocks_of_rows
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks
from solvers.workers.blas import one_blas_thread
from solvers.workers.shared import Shared

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ClusterSamples"]


class ClusterSamples(Samples):
    """Signals in a file that the workers of a Dask cluster read, in place of an array in memory.

    `learn_dictionary`, `new_learner` and `continue_learning` take these signals.  For each batch the network
    is sent to the workers once.  In each task, a worker reads `rows_per_task` samples and runs the network on
    these samples.  Observations return in the order of the samples, and weights change in the calling
    process.  Results have the same bits as results from an array in memory, for any number of workers, even
    if workers die.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    path : path-like
        A .npy file with a real array of shape (n_signals, n_inputs).  The file must have this path on this
        machine and on all workers, and must not change.
    rows_per_task : int, default 64
        Number of samples in a task; the result does not depend on this number.

    Raises
    ------
    ImportError
        If Dask is not installed: ``pip install 'sparsespike[dask]'``.
    OSError
        If the file cannot be read on this machine or, during learning, by a worker.
    """

    def __init__(self, client: Client, path: str | os.PathLike[str], *, rows_per_task: int = 64) -> None:
        distributed = checks.installed("distributed", extra="dask")
        self._client = checks.instance_of("client", client, distributed.Client)
        self._rows_per_task = checks.positive_integer("rows_per_task", rows_per_task)
        self._file = NpyFile(path)
        self.n_signals, self.n_inputs = self._file.shape
        self.largest = 0.0
        self._checked: bool | None = None

    def check(self, n_inputs: int | None, *, signed: bool) -> None:
        """Read and check all samples; if they were checked by the same rules before, do nothing."""
        if n_inputs not in (None, self.n_inputs):
            raise ValueError(
                f"path must name samples of {n_inputs} features, the network's; got {self.n_inputs}"
            )
        if self._checked == signed:
            return
        for rows in blocks_of_rows(*self._file.shape):
            signals, _ = checked_signals(self._file[rows], self.n_inputs, first=rows.start, signed=signed)
            self.largest = max(self.largest, float(np.abs(signals).max()))
        self._checked = signed

    def _read(self, rows: np.ndarray | slice) -> tuple[np.ndarray, None]:
        """Return samples in C order, because sums along rows in another order round differently."""
        return np.ascontiguousarray(self._file[rows], dtype=np.float64), None

    def run(self, batch: Batch, synapses: Synapses, rows: np.ndarray, n_threads: int) -> Observed:
        """Run a batch on the workers; if a worker dies, another worker repeats its tasks."""
        n_rows = self._rows_per_task
        starts = range(0, batch.n_rows, n_rows)
        futures = self._client.map(
            _run_rows,
            starts,
            [rows[start : start + n_rows] for start in starts],
            n_rows=n_rows,
            file=self._file,
            shared=Shared.of((batch, synapses)).on(self._client),
            pure=False,
        )
        try:
            return Observed.joined(self._client.gather(futures))
        except BaseException:
            self._client.cancel(futures)
            raise


class NpyFile:
    """A .npy file of samples, which every worker opens on its own machine."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"path must name a .npy file; got {type(path).__name__}: pass an array in memory to "
                "learn_dictionary"
            )
        self.path = os.path.abspath(os.fspath(path))
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise ValueError(f"path must name a .npy file; got {self.path!r} ({error})") from None
        if not isinstance(array, np.ndarray) or array.ndim != 2 or not array.size:
            raise ValueError(
                f"path must name a file with a 2-D array, (n_signals, n_inputs); got {self.path!r} with "
                f"shape {getattr(array, 'shape', None)}"
            )
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"path must name a file of real numbers; got {self.path!r} with dtype {array.dtype}"
            )
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return rows of the file, read on this machine."""
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise OSError(
                f"worker {platform.node()} cannot read {self.path!r} ({error.strerror or error}): the file "
                "must be at this path on all workers"
            ) from None
        if (array.shape, array.dtype) != (self.shape, self.dtype):
            raise ValueError(
                f"path must name the same file on all workers; got another for {self.path!r} on "
                f"{platform.node()}, of shape {array.shape} and dtype {array.dtype}: copy the file"
            )
        return np.asarray(array[rows])


def _run_rows(start: int, rows: np.ndarray, *, n_rows: int, file: NpyFile, shared: Shared) -> Observed:
    """Return what neurons observe of `n_rows` rows of a batch; a worker calls this function."""
    batch, synapses = shared.content
    with one_blas_thread():
        signals = np.empty((0, synapses.n_inputs))
        if len(rows):
            signed = not synapses.signs.positive_signals
            signals, _ = checked_signals(file[rows], synapses.n_inputs, signed=signed)
        return batch.run(synapses, signals, start=start, stop=min(start + n_rows, batch.n_rows))
