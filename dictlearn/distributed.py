"""Learning on a Dask cluster, from a file that may be larger than memory.

Batches run on its workers, which read the samples; the weights change where learning was called.
"""

from __future__ import annotations

import copy
import os
import platform
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.resumable import Course, batches_in_order, digest
from dictlearn.signals import checked_signals, scale_to
from dictlearn.two_phase.fit import CourseOptions, checked_settings, learn_samples, learner_for
from dictlearn.two_phase.learner import RECORD_EVERY, TwoPhaseLearner
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.settings import LearningSettings
from snn.base import checks, extras
from solvers.workers.blas import one_blas_thread
from solvers.workers.shared import Shared

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["continue_learning_on", "learn_dictionary_on"]

# Read at a time before learning: 16 MB.
VALUES_AT_ONCE = 2_000_000


def learn_dictionary_on(
    client: Client,
    path: str | os.PathLike[str],
    n_atoms: int | None = None,
    *,
    penalty: float | ArrayLike | None = None,
    settings: LearningSettings | None = None,
    start: ArrayLike | TwoPhaseNetwork | None = None,
    replace_dead: bool = False,
    rng: int | np.random.Generator | None = None,
    rows_per_task: int = 64,
    **course: Unpack[CourseOptions],
) -> TwoPhaseLearner:
    """Learn a dictionary on a Dask cluster, as `learn_dictionary` does from an array in memory.

    For each batch the network is sent to the workers once.  They read the samples and run the network on
    them, `rows_per_task` at a time; what the neurons observed comes back in the order of the samples, and the
    weights change here.  What a sample causes does not depend on the others.  So the bits are those of
    `learn_dictionary` of the same array in memory, for any number of workers, whichever die.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    path : path-like
        A .npy file of an array of shape (n_signals, n_inputs), of any real type; not negative, unless the
        settings allow it.  It must be at this path here and on all workers.
    n_atoms, penalty, settings, start, replace_dead
        As for `learn_dictionary`.  Large batches use many workers: ``LearningSettings(batch_size=1024)``.
    rng : int or Generator, optional
        For the start and the order of the samples.
    rows_per_task : int, default 64
        Samples of a task; the result does not depend on it.
    **course
        n_samples, progress, callback, callback_every, checkpoint, checkpoint_every: as for
        `continue_learning`.  Checkpoints are written here, not by workers.

    Returns
    -------
    TwoPhaseLearner

    Raises
    ------
    ImportError
        If Dask is not installed: ``pip install 'sparsespike[dask]'``.
    OSError
        If the file cannot be read, here or by a worker.
    RunawayFeedbackError
        If the network runs away.
    distributed.KilledWorker
        If a task was begun several times and its worker died each time.
    """
    settings = checked_settings(settings, penalty)
    samples = _samples(client, path)
    samples.check(settings)
    learner = learner_for(
        samples.n_inputs,
        n_atoms,
        scale=samples.scale,
        settings=settings,
        start=start,
        replace_dead=replace_dead,
        rng=copy.deepcopy(rng),  # a generator gives the same number below
    )
    _learn(client, learner, samples, rng, rows_per_task, **course)
    return learner


def continue_learning_on(
    client: Client,
    learner: TwoPhaseLearner,
    path: str | os.PathLike[str],
    *,
    rng: int | np.random.Generator | None = None,
    rows_per_task: int = 64,
    **course: Unpack[CourseOptions],
) -> None:
    """Let a learner learn on a Dask cluster, as `continue_learning` does from an array in memory.

    Whatever ends learning early, Ctrl-C or the end of the cluster: the learner has the weights after the last
    whole batch.  Called again with the same file and `rng`, it ends with the same bits as if it had never
    stopped.

    Parameters
    ----------
    client, path, rows_per_task
        As for `learn_dictionary_on`.
    learner : TwoPhaseLearner
        Learns in place.
    rng
        As for `learn_dictionary_on`.
    **course
        As for `learn_dictionary_on`.
    """
    checks.instance_of("learner", learner, TwoPhaseLearner)
    samples = _samples(client, path)
    if samples.n_inputs != learner.n_inputs:
        raise ValueError(
            f"path has {samples.n_inputs} features but the network has {learner.n_inputs} inputs"
        )
    samples.check(learner.settings)
    _learn(client, learner, samples, rng, rows_per_task, **course)


class NpyFile:
    """A .npy file of samples, which every machine opens for itself."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"path must be that of a .npy file; got {type(path).__name__}: an array in memory is for "
                "learn_dictionary"
            )
        self.path = os.path.abspath(os.fspath(path))
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise ValueError(f"path must be that of a .npy file; got {self.path!r} ({error})") from None
        if not isinstance(array, np.ndarray) or array.ndim != 2 or not array.size:
            raise ValueError(
                f"path must be that of a 2-D array, (n_signals, n_inputs); got {self.path!r} with shape "
                f"{getattr(array, 'shape', None)}"
            )
        if array.dtype.kind not in "biuf":
            raise TypeError(f"path must be that of real numbers; got {self.path!r} with dtype {array.dtype}")
        self.n_signals, self.n_inputs = array.shape
        self._header = array.shape, array.dtype

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return some samples of the file as this machine has it."""
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise OSError(
                f"worker {platform.node()} cannot read {self.path!r} ({error.strerror or error}): the file "
                "must be at this path on all workers"
            ) from None
        if (array.shape, array.dtype) != self._header:
            raise ValueError(
                f"path must be that of the same file on all workers; {self.path!r} on {platform.node()} has "
                f"shape {array.shape} and dtype {array.dtype}"
            )
        return np.asarray(array[rows])

    def check(self, settings: LearningSettings) -> None:
        """Read all samples once, check them, and note their digest and their largest magnitude."""
        self.largest = 0.0
        self.digest = digest(self._checked_blocks(settings.signs.signed_inputs))

    def _checked_blocks(self, signed: bool) -> Iterator[np.ndarray]:
        for first, block in self._blocks():
            signals = checked_signals(block, self.n_inputs, first=first, signed=signed)
            self.largest = max(self.largest, float(np.abs(signals).max()))
            yield signals

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        step = max(VALUES_AT_ONCE // self.n_inputs, 1)
        for first in range(0, self.n_signals, step):
            yield first, self[first : first + step]

    def scale(self, amplitude: float) -> float:
        """Return what `amplitude_scale` returns, with the same bits."""
        energies = [
            # In C order: sums along rows round differently in another one.
            ((np.ascontiguousarray(block, dtype=np.float64) / (self.largest or 1.0)) ** 2).sum(axis=1)
            for _, block in self._blocks()
        ]
        return scale_to(amplitude, self.largest, float(np.mean(np.concatenate(energies))))


def _samples(client: Client, path: str | os.PathLike[str]) -> NpyFile:
    distributed = extras.require("distributed", extra="dask")
    checks.instance_of("client", client, distributed.Client)
    return NpyFile(path)


def _learn(
    client: Client,
    learner: TwoPhaseLearner,
    samples: NpyFile,
    rng: int | np.random.Generator | None,
    rows_per_task: int,
    *,
    n_samples: int | None = None,
    callback_every: int = RECORD_EVERY,
    checkpoint_every: int = 10_000,
    **course: Any,
) -> None:
    rows_per_task = checks.positive_integer("rows_per_task", rows_per_task)

    def learn(rows: np.ndarray) -> float:
        return learner.learn_batch(len(rows), partial(_run, client, learner, samples, rows, rows_per_task))

    learn_samples(
        learner,
        learn,
        partial(batches_in_order, samples.n_signals),
        n_signals=samples.n_signals,
        data=lambda: samples.digest,
        n_samples=n_samples,
        rng=rng,
        course=Course(callback_every=callback_every, checkpoint_every=checkpoint_every, **course),
    )


def _run(
    client: Client, learner: TwoPhaseLearner, samples: NpyFile, rows: np.ndarray, n_some: int, batch: Batch
) -> Observed:
    """Return what neurons observe of a batch on the workers, which do again what dying ones lose."""
    starts = range(0, batch.n_rows, n_some)
    futures = client.map(
        _run_some,
        starts,
        [rows[start : start + n_some] for start in starts],
        n_some=n_some,
        samples=samples,
        shared=Shared.of((batch, learner.synapses)).on(client),
        pure=False,
    )
    try:
        return Observed.joined(client.gather(futures))
    except BaseException:
        client.cancel(futures)
        raise


def _run_some(start: int, rows: np.ndarray, *, n_some: int, samples: NpyFile, shared: Shared) -> Observed:
    """Return what neurons observe of some rows of a batch, in a worker."""
    batch, synapses = shared.content
    with one_blas_thread():
        signals = np.empty((0, synapses.n_inputs))
        if len(rows):
            signed = synapses.signs.signed_inputs
            signals = checked_signals(samples[rows], synapses.n_inputs, signed=signed)
        return batch.run(synapses, signals, start=start, stop=min(start + n_some, batch.n_rows))
