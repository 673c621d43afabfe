"""Checkpoints of learning: of what they are, and whether learning can continue from them."""

from __future__ import annotations

import json
import os

from dictlearn.archives import digest, read, require_same_task
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.saving import CHECKPOINT


def identity_of(data: str, learner: TwoPhaseLearner, *, any_start: bool, seed: int | None) -> str:
    """Return what a checkpoint must agree with, as JSON; None where any value is accepted.

    Parameters
    ----------
    data : str
        The `digest` of what is learned from.
    learner : TwoPhaseLearner
        As it is before learning.
    any_start : bool
        Whether the start may differ.
    seed : int or None
        Of the order of the samples; None if it may differ.
    """
    network = learner.network
    weights = [network.feedforward, network.feedback, network.lateral]
    is_compared = learner.n_samples == 0 and not any_start
    return json.dumps(
        {
            "data": data,
            "settings": learner.settings.as_text(),
            "replace_dead": learner.replace_dead,
            "number of atoms": learner.n_atoms,
            "seed": seed,
            "start": digest(weights) if is_compared else None,
        }
    )


def resumed(checkpoint: str | os.PathLike[str], identity: str) -> tuple[TwoPhaseLearner, int]:
    """Return the learner of a checkpoint and its seed, if it is a checkpoint of the same task.

    Parameters
    ----------
    checkpoint : path-like
        Where from.
    identity : str
        From `identity_of`.

    Raises
    ------
    ValueError
        If the checkpoint was made with anything else.
    """
    kind = "checkpoint of learn_dictionary"
    entries = read(checkpoint, CHECKPOINT, kind=kind)
    require_same_task(checkpoint, entries["identity"], identity, kind=kind)
    return TwoPhaseLearner.load(checkpoint), int(entries["seed"])
