"""Dictionary learning from all of some signals: epochs, progress, checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dictlearn.atoms import checked_atoms, unit_norm
from dictlearn.history import RECORD_EVERY
from dictlearn.learner import LEAST_THRESHOLD, TwoPhaseLearner
from dictlearn.network import TwoPhaseNetwork
from dictlearn.order import batches_in_order, seed_of_order
from dictlearn.settings import LearningSettings
from dictlearn.signals import amplitude_scale, checked_signals
from dictlearn.start import random_dictionary
from dictlearn.threads import learning_threads, thread_count
from snn import checks
from snn.archive import load_archive


def learn_dictionary(
    signals: np.ndarray,
    n_atoms: int | None = None,
    *,
    penalty: float | None = None,
    settings: LearningSettings | None = None,
    n_samples: int | None = None,
    start: np.ndarray | TwoPhaseNetwork | None = None,
    replace_dead: bool = False,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int = 10_000,
) -> TwoPhaseLearner:
    """Learn a dictionary for non-negative signals with the two-phase spiking network.

    Minimises, over non-negative dictionaries D of unit-norm atoms and codes a >= 0, the mean over the
    signals x of ``1/2 ||x - a D||^2 + penalty ||a||_1`` (with `PaperSteps`: the paper's objective, which has
    ``lambda2 / 2 ||D||^2`` in place of unit norms).  Every weight changes by what its own neuron sees.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_inputs)
        Not negative: split signed signals with `split_channels`.  Drawn in a new random order each epoch.
    n_atoms : int, optional
        Needed unless `start` is given.
    penalty : float, optional
        lambda1, positive.  Needed unless `settings` is given.
    settings : LearningSettings, optional
        How to run and teach the network; by default as its documentation says.
    n_samples : int, optional
        How many samples to learn from; by default ten times the signals.
    start : array_like, shape (n_atoms, n_inputs), or TwoPhaseNetwork, optional
        A non-negative dictionary, brought to unit norms, or a network.  By default `random_dictionary`.
    replace_dead : bool, default False
        Whether atoms that have long been silent start anew, from what samples are missing most.
    rng : int or Generator, optional
        For the start and the order of the samples.
    n_jobs : int, optional
        Threads that a batch is divided among; the result does not depend on it.
    progress : bool, default False
        Show a progress bar with the objective as the network sees it.
    callback : callable, optional
        Called with the learner at every thousand samples and at the end; learning stops if it returns True.
    checkpoint : path-like, optional
        Where the learner is saved every `checkpoint_every` samples and at the end.  If the file exists,
        learning goes on from there, and ends with the same bits as if it had never stopped (with a larger
        `n_samples` than before: if the smaller one was whole epochs, or else whole batches).
    checkpoint_every : int, default 10_000
        In samples.

    Returns
    -------
    TwoPhaseLearner
        Its `dictionary` has unit norms; its `network` is what learned.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or the checkpoint is of something else.
    RunawayFeedbackError
        If the network runs away.

    Notes
    -----
    Whatever ends learning early, a runaway, Ctrl-C, a full disk or an error of the callback: the exception
    has the learner in its attribute `learner`, with the weights after the last whole batch.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952.
    """
    signals = checked_signals(signals, None)
    if settings is None:
        if penalty is None:
            raise TypeError("penalty must be given, or settings that have one")
        settings = LearningSettings(penalty=penalty)
    elif penalty is not None:
        raise TypeError("penalty must not be given twice, alone and in settings")
    checks.instance_of("settings", settings, LearningSettings)
    n_samples = 10 * len(signals) if n_samples is None else checks.positive_integer("n_samples", n_samples)
    checkpoint_every = checks.positive_integer("checkpoint_every", checkpoint_every)
    n_threads = thread_count(n_jobs)
    checks.flag("progress", progress)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable; got {type(callback).__name__}")
    if checkpoint is not None:
        # Now rather than after the first ten thousand samples.
        if not isinstance(checkpoint, (str, os.PathLike)):
            raise TypeError(f"checkpoint must be a path; got {type(checkpoint).__name__}")
        if not Path(checkpoint).absolute().parent.is_dir():
            raise ValueError(f"checkpoint must lie in a folder that exists; got {os.fspath(checkpoint)!r}")
    seed = seed_of_order(rng)
    n_inputs = signals.shape[1]
    if start is None and n_atoms is None:
        raise TypeError("n_atoms must be given, or a start that has some")
    network = starting_network(
        random_dictionary(n_atoms, n_inputs, rng=seed) if start is None else start, n_inputs
    )
    if n_atoms not in (None, network.n_atoms):
        raise ValueError(f"start has {network.n_atoms} atoms but n_atoms is {n_atoms}")
    given = TwoPhaseLearner(
        network,
        settings,
        scale=amplitude_scale(signals, settings.amplitude),
        replace_dead=replace_dead,
    )
    learner = given
    if checkpoint is not None:
        identity = _identity(signals, given, start is not None, seed if rng is not None else None)
        if Path(checkpoint).exists():
            learner, seed = _resumed(checkpoint, identity)
            if learner.n_samples > n_samples:
                raise ValueError(
                    f"checkpoint {os.fspath(checkpoint)!r} has learned from {learner.n_samples:,} samples "
                    f"already; n_samples is {n_samples:,}"
                )
    try:
        with (
            learning_threads(n_threads) as executor,
            tqdm(total=n_samples, initial=learner.n_samples, disable=not progress, unit="sample") as bar,
        ):
            batches = batches_in_order(
                len(signals),
                n_samples,
                batch_size=settings.batch_size,
                seed=seed,
                first=learner.n_samples,
            )
            for batch in batches:
                place = learner.n_samples
                objective = learner.learn(signals[batch], n_threads=n_threads, executor=executor)
                bar.update(len(batch))
                bar.set_postfix_str(f"objective {objective:.4g}", refresh=False)
                done = learner.n_samples >= n_samples
                if callback is not None and (
                    done or learner.n_samples // RECORD_EVERY > place // RECORD_EVERY
                ):
                    done = bool(callback(learner)) or done
                if checkpoint is not None and (
                    done or learner.n_samples // checkpoint_every > place // checkpoint_every
                ):
                    learner.save(checkpoint, identity=identity, seed=seed)
                if done:
                    break
    except BaseException as error:
        error.learner = learner
        raise
    return learner


def starting_network(start: np.ndarray | TwoPhaseNetwork, n_inputs: int) -> TwoPhaseNetwork:
    """Return the network that learning starts from: of atoms brought to unit norm, or the one given.

    Parameters
    ----------
    start : array_like, shape (n_atoms, n_inputs), or TwoPhaseNetwork
        What came in.
    n_inputs : int
        Features of the signals.
    """
    if isinstance(start, TwoPhaseNetwork):
        network = start
        least = np.diagonal(network.lateral).min()
        if least < LEAST_THRESHOLD:
            raise ValueError(f"start must have thresholds of at least {LEAST_THRESHOLD}; got {least}")
    else:
        atoms = checked_atoms("dictionary", start, meaning="(n_atoms, n_inputs)")
        network = TwoPhaseNetwork.consistent(unit_norm(atoms))
    if network.n_inputs != n_inputs:
        raise ValueError(f"start has {network.n_inputs} inputs but signals have {n_inputs} features")
    return network


def _identity(signals: np.ndarray, learner: TwoPhaseLearner, is_start_given: bool, seed: int | None) -> str:
    """Return what a checkpoint must agree with to be gone on from, as JSON; None where it need not."""
    synapses = learner._synapses
    is_start_known = is_start_given or seed is not None
    return json.dumps(
        {
            "data": _digest([signals]),
            "settings": learner.settings.as_text(),
            "replace_dead": learner.replace_dead,
            "number of atoms": learner.n_atoms,
            "rng": seed,
            "start": _digest([synapses.feedforward, synapses.feedback, synapses.lateral])
            if is_start_known
            else None,
        }
    )


def _digest(arrays: Sequence[np.ndarray]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(np.ascontiguousarray(array))
    return total.hexdigest()


def _resumed(checkpoint: str | os.PathLike, identity: str) -> tuple[TwoPhaseLearner, int]:
    """Return the learner of a checkpoint and its seed, if it is one of the same task."""
    entries = load_archive(checkpoint, ("identity", "seed"), kind="checkpoint of learn_dictionary")
    before = json.loads(str(entries["identity"]))
    for name, value in json.loads(identity).items():
        if value is not None and before.get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(checkpoint)!r} was made with other {name}: "
                "give it another name, or delete it to start anew"
            )
    return TwoPhaseLearner.load(checkpoint), int(entries["seed"])
