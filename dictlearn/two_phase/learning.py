"""Dictionary learning from all of some signals: epochs, progress, checkpoints."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sized
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from dictlearn.archives import digest, require_path
from dictlearn.order import batches_in_order, seed_of_order
from dictlearn.signals import amplitude_scale, checked_known_signals, warn_if_one_dominates
from dictlearn.two_phase.checkpoints import identity_of, resumed
from dictlearn.two_phase.history import RECORD_EVERY
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.start import random_dictionary, starting_network
from dictlearn.two_phase.threads import learning_threads, thread_count
from snn.base import checks

Batch = TypeVar("Batch", bound=Sized)
"""What says which signals are in a batch: their numbers, wherever these are."""


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
    """Learn a dictionary for non-negative signals with the two-phase spiking network.

    Minimises, over non-negative dictionaries D of unit-norm atoms and codes a >= 0, the mean over the
    signals x of ``1/2 ||x - a D||^2 + penalty ||a||_1`` (with `PaperSteps`: the paper's objective, which has
    ``lambda2 / 2 ||D||^2`` in place of unit norms).  Every weight changes by what its own neuron observes.

    The same as `new_learner` and then `continue_learning`.  Call those to keep what was learned when an
    error or Ctrl-C ends learning early.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_inputs)
        Not negative: split signed signals with `split_channels`.
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
        If one signal of ten or more has more energy than all others together.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952.
    """
    checked, known = checked_known_signals(signals, None, mask)
    warn_if_one_dominates("signals", checked if known is None else np.where(known, checked, 0.0))
    learner = new_learner(
        signals,
        n_atoms,
        mask=mask,
        penalty=penalty,
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


def new_learner(
    signals: ArrayLike,
    n_atoms: int | None = None,
    *,
    mask: ArrayLike | None = None,
    penalty: float | ArrayLike | None = None,
    settings: LearningSettings | None = None,
    start: ArrayLike | TwoPhaseNetwork | None = None,
    replace_dead: bool = False,
    rng: int | np.random.Generator | None = None,
) -> TwoPhaseLearner:
    """Return a learner for signals, which has not learned yet.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_inputs)
        Not negative.  Their root mean square norm sets the learner's scale.
    mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
        True where a signal is known, by default everywhere.  The mean square of an input, of which that norm
        is made, is that of its known values.
    n_atoms : int, optional
        Needed unless `start` is given.
    penalty : float or array_like, shape (n_atoms,), optional
        lambda1, positive, of all atoms or of each.  Needed unless `settings` is given.
    settings : LearningSettings, optional
        How to run and teach the network; by default as its documentation says.
    start : array_like, shape (n_atoms, n_inputs), or TwoPhaseNetwork, optional
        A non-negative dictionary, brought to unit norms, or a network.  By default `random_dictionary`.
    replace_dead : bool, default False
        Whether atoms that have long been silent are replaced, by what samples are missing most.
    rng : int or Generator, optional
        For the start.

    Returns
    -------
    TwoPhaseLearner

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    """
    signals, mask = checked_known_signals(signals, None, mask)
    return learner_for(
        signals.shape[1],
        n_atoms,
        scale=lambda amplitude: amplitude_scale(signals, amplitude, mask),
        penalty=penalty,
        settings=settings,
        start=start,
        replace_dead=replace_dead,
        rng=rng,
    )


def learner_for(
    n_inputs: int,
    n_atoms: int | None,
    *,
    scale: Callable[[float], float],
    penalty: Any,
    settings: LearningSettings | None,
    start: ArrayLike | TwoPhaseNetwork | None,
    replace_dead: bool,
    rng: int | np.random.Generator | None,
) -> TwoPhaseLearner:
    """Return a learner for signals, wherever they are.

    Parameters
    ----------
    n_inputs : int
        Features of the signals.
    scale : callable
        Returns the learner's scale of an amplitude.
    n_atoms, penalty, settings, start, replace_dead, rng
        As for `new_learner`.
    """
    if settings is None:
        if penalty is None:
            raise TypeError("penalty must be given, or settings that have one")
        settings = LearningSettings(penalty=penalty)
    elif penalty is not None:
        raise TypeError("penalty must not be given twice, alone and in settings")
    checks.instance_of("settings", settings, LearningSettings)
    # A generator gives the same number twice: the stream of the start must not depend on the rounding.
    rounding_rng = copy.deepcopy(rng)
    if start is None:
        if n_atoms is None:
            raise TypeError("n_atoms must be given, or a start that has some")
        start = random_dictionary(n_atoms, n_inputs, rng=seed_of_order(rng))
    network = starting_network("start", start, n_inputs)
    if n_atoms not in (None, network.n_atoms):
        raise ValueError(f"start has {network.n_atoms} atoms but n_atoms is {n_atoms}")
    return TwoPhaseLearner(
        network,
        settings,
        scale=scale(settings.amplitude),
        replace_dead=replace_dead,
        rounding_seed=seed_of_order(rounding_rng),
    )


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
        Not negative.  Drawn in a new random order each epoch.
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
        learner becomes the saved one first, and ends with the same bits as if it had never stopped (with a
        larger `n_samples` than before: if the smaller one was whole epochs, or else whole batches).
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
    signals, mask = checked_known_signals(signals, learner.n_inputs, mask)
    n_threads = thread_count(n_jobs)
    with learning_threads(n_threads) as executor:

        def learn(rows: np.ndarray) -> float:
            known = None if mask is None else mask[rows]
            return learner.learn(signals[rows], mask=known, n_threads=n_threads, executor=executor)

        learn_all(
            learner,
            len(signals),
            learn,
            batches=partial(batches_in_order, len(signals)),
            # Values that are not known are not looked at.
            data=lambda: digest([signals] if mask is None else [np.where(mask, signals, 0.0), mask]),
            n_samples=n_samples,
            rng=rng,
            progress=progress,
            callback=callback,
            callback_every=callback_every,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            any_start=any_start,
        )


def learn_all(
    learner: TwoPhaseLearner,
    n_signals: int,
    learn: Callable[[Batch], float],
    *,
    batches: Callable[..., Iterable[Batch]],
    data: Callable[[], str],
    n_samples: int | None,
    rng: int | np.random.Generator | None,
    progress: bool,
    callback: Callable[[TwoPhaseLearner], bool | None] | None,
    callback_every: int,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int,
    any_start: bool,
) -> None:
    """Let a learner learn from signals, wherever they are: what `continue_learning` does.

    Parameters
    ----------
    learner, n_samples, rng, progress, callback, callback_every, checkpoint, checkpoint_every, any_start
        As for `continue_learning`.
    n_signals : int
        How many there are.
    learn : callable
        Lets the learner learn from one batch, and returns the objective.
    batches : callable
        Returns the batches, as `batches_in_order` does of everything but the number of signals.
    data : callable
        Returns a digest of the signals.
    """
    n_samples = 10 * n_signals if n_samples is None else checks.positive_integer("n_samples", n_samples)
    checks.flag("progress", progress)
    checkpoint_every = checks.positive_integer("checkpoint_every", checkpoint_every)
    callback_every = checks.positive_integer("callback_every", callback_every)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable; got {type(callback).__name__}")
    any_start = checks.flag("any_start", any_start)
    seed = seed_of_order(rng)
    save = None
    if checkpoint is not None:
        require_path(checkpoint)
        known_seed = None if rng is None else seed
        identity = identity_of(data(), learner, any_start=any_start, seed=known_seed)
        if Path(checkpoint).exists():
            saved, seed = resumed(checkpoint, identity)
            _require_less(f"checkpoint {os.fspath(checkpoint)!r}", saved, n_samples)
            learner.copy_from(saved)
        save = partial(learner.save, checkpoint, identity=identity, seed=seed)
    _require_less("learner", learner, n_samples)
    learn_batches(
        learner,
        batches(n_samples, batch_size=learner.settings.batch_size, seed=seed, first=learner.n_samples),
        learn,
        n_samples=n_samples,
        progress=progress,
        callback=callback,
        callback_every=callback_every,
        save=save,
        save_every=checkpoint_every,
    )


def learn_batches(
    learner: TwoPhaseLearner,
    batches: Iterable[Batch],
    learn: Callable[[Batch], float],
    *,
    n_samples: int,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    callback_every: int = RECORD_EVERY,
    save: Callable[[], None] | None = None,
    save_every: int = 10_000,
) -> None:
    """Let a learner learn batch after batch: what `continue_learning` does with checked arguments.

    Parameters
    ----------
    learner : TwoPhaseLearner
        What learns.
    batches : iterable of ndarray of int
        Which signals are in each.
    learn : callable
        Lets it learn from one batch, and returns the objective.
    n_samples : int
        When to end.
    progress, callback, callback_every
        As for `continue_learning`.
    save : callable, optional
        Called every `save_every` samples and at the end.
    save_every : int, default 10_000
        In samples.
    """
    with tqdm(total=n_samples, initial=learner.n_samples, disable=not progress, unit="sample") as bar:
        for rows in batches:
            n_before = learner.n_samples
            objective = learn(rows)
            bar.update(len(rows))
            bar.set_postfix_str(f"objective {objective:.4g}", refresh=False)
            done = learner.n_samples >= n_samples
            if callback is not None and (
                done or learner.n_samples // callback_every > n_before // callback_every
            ):
                done = bool(callback(learner)) or done
            if save is not None and (done or learner.n_samples // save_every > n_before // save_every):
                save()
            if done:
                break


def _require_less(name: str, learner: TwoPhaseLearner, n_samples: int) -> None:
    if learner.n_samples > n_samples:
        raise ValueError(
            f"{name} has learned from {learner.n_samples:,} samples already; n_samples is {n_samples:,}"
        )
