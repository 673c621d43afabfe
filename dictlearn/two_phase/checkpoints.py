"""Checkpoints of learning: of what they are, and whether learning can continue from them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dictlearn.two_phase.learner import TwoPhaseLearner
from snn.archive import load_archive


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


def identity_of(
    signals: np.ndarray,
    mask: np.ndarray | None,
    learner: TwoPhaseLearner,
    *,
    any_start: bool,
    seed: int | None,
) -> str:
    """Return what a checkpoint must agree with, as JSON; None where any value is accepted.

    Parameters
    ----------
    signals : ndarray
        What is learned from.
    mask : ndarray of bool or None
        Of the signals.
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
            "data": _digest([signals] if mask is None else [signals, mask]),
            "settings": learner.settings.as_text(),
            "replace_dead": learner.replace_dead,
            "number of atoms": learner.n_atoms,
            "seed": seed,
            "start": _digest(weights) if is_compared else None,
        }
    )


def _digest(arrays: Sequence[np.ndarray]) -> str:
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
    entries = load_archive(checkpoint, ("identity", "seed"), kind="checkpoint of learn_dictionary")
    before = json.loads(str(entries["identity"]))
    for name, value in json.loads(identity).items():
        if value is not None and before.get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(checkpoint)!r} was made with other {name}: "
                "give it another name, or delete it to start anew"
            )
    return TwoPhaseLearner.load(checkpoint), int(entries["seed"])
