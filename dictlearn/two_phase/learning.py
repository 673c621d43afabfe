"""Dictionary learning from all of some signals, epoch after epoch."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.resumable import Batch, Course, batches_in_order, digest, learn_batches, seed_of_order
from dictlearn.signals import checked_known_signals, warn_if_ill_scaled
from dictlearn.two_phase.learner import RECORD_EVERY, TwoPhaseLearner
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.start import checked_settings, new_learner
from dictlearn.two_phase.threads import learning_threads, thread_count
from snn.base import checks


def learn_dictionary(
    signals: ArrayLike,
    n_atoms: int | None = None,
    *,
    mask: ArrayLike | None = None,
    penalty: float | ArrayLike | None = None,
    settings: LearningSettings | None = None,
    n_samples: int | None = None,
    start: ArrayLike | TwoPhaseNetwork | None = None,
    replace_dead: bool = False,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    callback_every: int = RECORD_EVERY,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
) -> TwoPhaseLearner:
    """Learn a dictionary with the two-phase spiking network.

    Minimises, over dictionaries D of unit-norm atoms and codes a, the mean over the signals x of
    ``1/2 ||x - a D||^2 + penalty ||a||_1`` (with `PaperSteps`: the paper's objective, which has
    ``lambda2 / 2 ||D||^2`` in place of unit norms).  Signals, atoms and codes are not negative, unless
    settings say otherwise (`positive_atoms`, `positive_code`).  Every weight changes by what its own neuron
    observes.

    The same as `new_learner` and then `continue_learning`.  Call those to keep what was learned when an
    error or Ctrl-C ends learning early.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_inputs)
        Not negative, unless the settings say that they may be.
    mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
        True where a signal is known, by default everywhere.  Elsewhere it is not looked at and may be NaN;
        the objective is then ``1/2 ||m (x - a D)||^2 + penalty ||a||_1``, m the mask.
    n_atoms, penalty, settings, start, replace_dead
        As for `new_learner`.
    n_samples, n_jobs, progress, callback, callback_every, checkpoint, checkpoint_every
        As for `continue_learning`.
    rng : int or Generator, optional
        For the start and the order of the samples.

    Returns
    -------
    TwoPhaseLearner
        Its `dictionary` has unit norms; its `network` is the one that learned.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or the checkpoint is of something else.
    RunawayFeedbackError
        If the network runs away.

    Warns
    -----
    IllPosedWarning
        If one signal of ten or more has more energy than all others together, or their mean has nearly all.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952.
    """
    settings = checked_settings(settings, penalty)
    checked, known = checked_known_signals(signals, None, mask, signed=settings.signs.signed_inputs)
    warn_if_ill_scaled("signals", checked if known is None else np.where(known, checked, 0.0))
    learner = new_learner(
        signals,
        n_atoms,
        mask=mask,
        settings=settings,
        start=start,
        replace_dead=replace_dead,
        rng=copy.deepcopy(rng),  # a generator gives the same number below
    )
    continue_learning(
        learner,
        signals,
        mask=mask,
        n_samples=n_samples,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
        callback=callback,
        callback_every=callback_every,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        any_start=start is None and rng is None,
    )
    return learner


def continue_learning(
    learner: TwoPhaseLearner,
    signals: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    n_samples: int | None = None,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    callback_every: int = RECORD_EVERY,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
    any_start: bool = False,
) -> None:
    """Let a learner learn from signals until it has learned from `n_samples` samples.

    Whatever ends learning early, a runaway, Ctrl-C, a full disk or an error of the callback: the learner has
    the weights after the last whole batch.  Called again with the same signals and `rng`, it continues there,
    and ends with the same bits as if it had never stopped.

    Parameters
    ----------
    learner : TwoPhaseLearner
        What learns, in place.
    signals : array_like, shape (n_signals, n_inputs)
        Not negative, unless the settings say that they may be.  Drawn in a new random order each epoch.
    mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
        As for `learn_dictionary`.
    n_samples : int, optional
        When to end, those learned from before included; by default ten times the signals.
    rng : int or Generator, optional
        For the order of the samples.
    n_jobs : int, optional
        Threads that a batch is divided among; the result does not depend on it.
    progress : bool, default False
        Show a progress bar with the objective as the network observes it.
    callback : callable, optional
        Called with the learner every `callback_every` samples and at the end; learning stops if it returns
        True.
    callback_every : int, default 1000
        In samples.
    checkpoint : path-like, optional
        Where the learner is saved every `checkpoint_every` samples and at the end.  If the file exists, the
        learner becomes the saved one first, and ends with the same bits as if it had never stopped.  If
        `n_samples` is larger than in the first call, this holds only if the first one ended at the end of an
        epoch, or of a full batch.
    checkpoint_every : int, default 10_000
        In samples.
    any_start : bool, default False
        Accept a checkpoint that began with other weights than those of a new learner.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or the checkpoint is of something else.
    RunawayFeedbackError
        If the network runs away.
    """
    checks.instance_of("learner", learner, TwoPhaseLearner)
    signals, mask = checked_known_signals(
        signals, learner.n_inputs, mask, signed=learner.settings.signs.signed_inputs
    )
    course = Course(
        progress=progress,
        callback=callback,
        callback_every=callback_every,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )
    n_threads = thread_count(n_jobs)
    with learning_threads(n_threads) as executor:

        def learn(rows: np.ndarray) -> float:
            known = None if mask is None else mask[rows]
            return learner.learn(signals[rows], mask=known, n_threads=n_threads, executor=executor)

        learn_samples(
            learner,
            learn,
            partial(batches_in_order, len(signals)),
            n_signals=len(signals),
            # Values that are not known are not looked at.
            data=lambda: digest([signals] if mask is None else [np.where(mask, signals, 0.0), mask]),
            n_samples=n_samples,
            rng=rng,
            any_start=any_start,
            course=course,
        )


def learn_samples(
    learner: TwoPhaseLearner,
    learn: Callable[[Batch], float],
    batches: Callable[..., Iterable[Batch]],
    *,
    n_signals: int,
    data: Callable[[], str],
    n_samples: int | None,
    rng: int | np.random.Generator | None,
    any_start: bool,
    course: Course,
) -> None:
    """Let a learner learn from signals, wherever they are: what `continue_learning` does."""
    end = 10 * n_signals if n_samples is None else checks.positive_integer("n_samples", n_samples)
    any_start = checks.flag("any_start", any_start)
    first_seed = seed_of_order(rng)

    def identity() -> dict[str, Any]:
        synapses = learner.synapses
        weights = (synapses.feedforward, synapses.feedback, synapses.lateral)
        return {
            "data": data(),
            "settings": learner.settings.as_text(),
            "replace_dead": learner.replace_dead,
            "number of atoms": learner.n_atoms,
            "seed": None if rng is None else first_seed,
            "start": digest(weights) if learner.n_samples == 0 and not any_start else None,
        }

    def in_order(seed: int) -> Iterable[Batch]:
        return batches(end, batch_size=learner.settings.batch_size, seed=seed, first=learner.n_samples)

    learn_batches(
        learner,
        learn,
        in_order,
        end=end,
        seed=first_seed,
        course=course,
        identity=identity,
    )
