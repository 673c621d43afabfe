"""Checkpoints of learning: of what they are, and whether learning can continue from them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.saving import CHECKPOINT, json_object, read, refusing


def require_path(checkpoint: str | os.PathLike) -> None:
    """Raise TypeError or ValueError now if the first save, ten thousand samples later, would fail.

    Parameters
    ----------
    checkpoint : path-like
        The value to check.
    """
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path; got {type(checkpoint).__name__}")
    if not Path(checkpoint).absolute().parent.is_dir():
        raise ValueError(f"checkpoint must lie in a folder that exists; got {os.fspath(checkpoint)!r}")


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


def digest(arrays: Sequence[np.ndarray]) -> str:
    """Return a short text that differs if the numbers of any of the arrays do.

    Parameters
    ----------
    arrays : sequence of ndarray
        The arrays.
    """
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(np.ascontiguousarray(array))
    return total.hexdigest()


def resumed(checkpoint: str | os.PathLike, identity: str) -> tuple[TwoPhaseLearner, int]:
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
    with refusing(checkpoint, kind):
        before = json_object("identity", entries["identity"])
    for name, value in json.loads(identity).items():
        if value is not None and before.get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(checkpoint)!r} was made with other {name}: "
                "give it another name, or delete it to start anew"
            )
    return TwoPhaseLearner.load(checkpoint), int(entries["seed"])
