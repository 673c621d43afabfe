"""Dictionary learning on the workers of a Dask cluster."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.distributed.data import Blocks, NpyFile, Rows, samples_of
from dictlearn.distributed.parts import energies_of, run_part, summary_of
from dictlearn.resumable import Course, digest
from dictlearn.two_phase.fit import checked_settings, learn_samples, learner_for
from dictlearn.two_phase.learner import RECORD_EVERY, TwoPhaseLearner
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.settings import LearningSettings
from snn.base import checks, extras
from solvers.workers.cluster import run_on_cluster
from solvers.workers.transport import Shared

if TYPE_CHECKING:
    from dask.array import Array
    from distributed import Client

    Data: TypeAlias = str | os.PathLike[str] | np.memmap | Array


def learn_dictionary_on(
    client: Client,
    data: Data,
    n_atoms: int | None = None,
    *,
    penalty: float | ArrayLike | None = None,
    settings: LearningSettings | None = None,
    n_samples: int | None = None,
    start: ArrayLike | TwoPhaseNetwork | None = None,
    replace_dead: bool = False,
    rng: int | np.random.Generator | None = None,
    rows_per_task: int = 64,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    callback_every: int = RECORD_EVERY,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
) -> TwoPhaseLearner:
    """Learn a dictionary from data on a Dask cluster, as `learn_dictionary` does from an array in memory.

    For each batch the network is sent to all workers once.  They read the samples and run the network on
    them, `rows_per_task` at a time; what the neurons observed comes back in the order of the samples, and the
    weights change here.  What a sample causes does not depend on the others.  So a file gives the same bits
    as `learn_dictionary` does of the same array in memory, for any number of workers, whichever die.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    data : path-like, numpy.memmap or dask.array.Array, shape (n_signals, n_inputs)
        Not negative, unless the settings allow it; of any real type.  The path of a .npy file that is at the
        same place on all workers, which open it themselves; or an array, whose blocks must have whole rows.
        A file is in a new random order each epoch; of an array its blocks are, and the samples within each.
        Batches end with a block.
    n_atoms, penalty, settings, start, replace_dead
        As for `learn_dictionary`.  Large batches use many workers: ``LearningSettings(batch_size=1024)``.
    n_samples, progress, callback, callback_every, checkpoint, checkpoint_every
        As for `learn_dictionary`; checkpoints are written here, not by workers.
    rng : int or Generator, optional
        For the start and the order of the samples.
    rows_per_task : int, default 64
        Samples of a task; the result does not depend on it.

    Returns
    -------
    TwoPhaseLearner

    Raises
    ------
    ImportError
        If Dask is not installed: ``pip install 'sparsespike[dask]'``.
    TypeError, ValueError, OSError
        If an argument is of the wrong kind, shape or value, the checkpoint is of something else, or a worker
        cannot read the file.
    RunawayFeedbackError
        If the network runs away.
    RuntimeError
        If workers died again and again.
    """
    settings = checked_settings(settings, penalty)
    samples = _samples(client, data)
    survey = _Survey(client, samples, settings)
    try:
        learner = learner_for(
            samples.n_inputs,
            n_atoms,
            scale=survey.scale,
            settings=settings,
            start=start,
            replace_dead=replace_dead,
            rng=copy.deepcopy(rng),  # a generator gives the same number below
        )
        _learn(
            client,
            learner,
            samples,
            survey,
            rows_per_task,
            n_samples=n_samples,
            rng=rng,
            progress=progress,
            callback=callback,
            callback_every=callback_every,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
        )
    finally:
        samples.close()
    return learner


def continue_learning_on(
    client: Client,
    learner: TwoPhaseLearner,
    data: Data,
    *,
    n_samples: int | None = None,
    rng: int | np.random.Generator | None = None,
    rows_per_task: int = 64,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    callback_every: int = RECORD_EVERY,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
) -> None:
    """Let a learner learn from data on a Dask cluster, as `continue_learning` does from an array in memory.

    Whatever ends learning early, Ctrl-C or the end of the cluster: the learner has the weights after the last
    whole batch.  Called again with the same data and `rng`, it ends with the same bits as if it had never
    stopped.

    Parameters
    ----------
    client, data, rows_per_task
        As for `learn_dictionary_on`.
    learner : TwoPhaseLearner
        What learns, in place.
    n_samples, rng, progress, callback, callback_every, checkpoint, checkpoint_every
        As for `continue_learning`.

    Raises
    ------
    ImportError, TypeError, ValueError, OSError, RunawayFeedbackError, RuntimeError
        As `learn_dictionary_on`.
    """
    checks.instance_of("learner", learner, TwoPhaseLearner)
    samples = _samples(client, data)
    if samples.n_inputs != learner.n_inputs:
        raise ValueError(
            f"data has {samples.n_inputs} features but the network has {learner.n_inputs} inputs"
        )
    try:
        _learn(
            client,
            learner,
            samples,
            _Survey(client, samples, learner.settings),
            rows_per_task,
            n_samples=n_samples,
            rng=rng,
            progress=progress,
            callback=callback,
            callback_every=callback_every,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
        )
    finally:
        samples.close()


def _samples(client: Client, data: Data) -> NpyFile | Blocks:
    extras.require("dask.array", extra="dask")
    distributed = extras.require("distributed", extra="dask")
    checks.instance_of("client", client, distributed.Client)
    return samples_of(data, client)


def _learn(
    client: Client,
    learner: TwoPhaseLearner,
    samples: NpyFile | Blocks,
    survey: _Survey,
    rows_per_task: int,
    *,
    n_samples: int | None,
    rng: int | np.random.Generator | None,
    **course: Any,
) -> None:
    rows_per_task = checks.positive_integer("rows_per_task", rows_per_task)

    def learn(rows: Rows) -> float:
        run = partial(_run, client, learner, samples, rows, rows_per_task)
        return learner.learn_batch(len(rows), run)

    learn_samples(
        learner,
        learn,
        samples.batches,
        n_signals=samples.n_signals,
        data=survey.digest,
        n_samples=n_samples,
        rng=rng,
        course=Course(**course),
    )


def _run(
    client: Client,
    learner: TwoPhaseLearner,
    samples: NpyFile | Blocks,
    rows: Rows,
    rows_per_task: int,
    batch: Batch,
) -> Observed:
    """Return what neurons observed of a batch on the workers."""

    def part(k: int) -> tuple[Any, ...]:
        start, stop = k * rows_per_task, min((k + 1) * rows_per_task, batch.n_rows)
        return start, stop, samples.at(rows.place), rows.numbers[start:stop]

    shared = Shared((batch, learner.synapses))
    n_parts = -(-batch.n_rows // rows_per_task)
    parts = _checked(run_on_cluster(client, run_part, shared, part, n_parts, all_at_once=True))
    return Observed.joined(parts)


def _checked(outcomes: list[Any]) -> list[Any]:
    """Return what workers returned; raise the first error among it."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return outcomes


class _Survey:
    """What is to be known of data before learning: workers read them once, and once more for the scale."""

    def __init__(self, client: Client, samples: NpyFile | Blocks, settings: LearningSettings) -> None:
        self._client = client
        self._samples = samples
        summaries = self._read(summary_of, (samples.n_inputs, settings.signs.signed_inputs))
        self._largest = max(summary.largest for summary in summaries)
        self._digests = [summary.digest for summary in summaries]

    def digest(self) -> str:
        """Return a short text that differs if the data do."""
        return digest([np.frombuffer("".join(self._digests).encode(), dtype=np.uint8)])

    def scale(self, amplitude: float) -> float:
        """Return what `amplitude_scale` returns, with the same bits."""
        if self._largest == 0.0:
            raise ValueError("data must not all be zero: there is nothing to learn")
        energies = np.concatenate(self._read(energies_of, self._largest))
        return amplitude / (self._largest * float(np.sqrt(np.mean(energies))))

    def _read(self, function: Callable[..., Any], shared: Any) -> list[Any]:
        pieces, samples = self._samples.pieces(), self._samples

        def piece(k: int) -> tuple[Any, ...]:
            place, rows, first = pieces[k]
            return samples.at(place), rows, first

        return _checked(run_on_cluster(self._client, function, Shared(shared), piece, len(pieces)))
