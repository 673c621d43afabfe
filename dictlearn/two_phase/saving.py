"""Two-phase learners in files: what an archive of one must have, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from dictlearn.archives import Entry, read, refusing
from dictlearn.two_phase.history import N_SUMS, NAMES
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.settings import LearningSettings
from snn.base.caller_warnings import without_warnings

if TYPE_CHECKING:
    from dictlearn.two_phase.learner import TwoPhaseLearner

COUNTERS = ("n_samples", "n_spikes", "n_bounded", "n_replaced", "n_saturated")


LEARNER = {
    "feedforward": Entry("f", ("atoms", "inputs"), 0.0),
    "feedback": Entry("f", ("inputs", "atoms"), 0.0),
    "lateral": Entry("f", ("atoms", "atoms"), 0.0),
    "settings": Entry("U", ()),
    "scale": Entry("f", (), 0.0),
    "replace_dead": Entry("b", ()),
    "usage": Entry("f", ("atoms",), 0.0),
    "last_fired": Entry("iu", ("atoms",), 0),
    "last_compared": Entry("iu", ("atoms",), 0),
    "counters": Entry("iu", (len(COUNTERS),), 0),
    "mean_cost": Entry("f", (), 0.0),
    "sums": Entry("f", (N_SUMS,), 0.0),
    "history": Entry("f", (None, len(NAMES))),
    "rounding_seed": Entry("iu", (), 0),
}
CHECKPOINT = {"identity": Entry("U", ()), "seed": Entry("iu", (), 0)}


def load_learner(path: str | os.PathLike[str], new: Callable[..., TwoPhaseLearner]) -> TwoPhaseLearner:
    """Return the learner of a file; see `TwoPhaseLearner.load`.

    Parameters
    ----------
    path : path-like
        Where from.
    new : callable
        Makes a learner of a network and the arguments of `TwoPhaseLearner`.
    """
    kind = "TwoPhaseLearner"
    entries = read(path, LEARNER, kind=kind)
    with refusing(path, kind):
        counters = dict(zip(COUNTERS, entries["counters"].tolist(), strict=True))
        for name in ("last_fired", "last_compared"):
            if entries[name].max() > counters["n_samples"]:
                raise ValueError(f"{name} is later than the {counters['n_samples']} samples learned from")
        with without_warnings():  # of settings, which who made them was warned of
            settings = LearningSettings.from_text(str(entries["settings"]))
        learner = new(
            TwoPhaseNetwork(entries["feedforward"], entries["feedback"], entries["lateral"]),
            settings,
            scale=float(entries["scale"]),
            replace_dead=bool(entries["replace_dead"]),
            rounding_seed=int(entries["rounding_seed"]),
        )
        learner.restore(entries, counters)
    return learner
