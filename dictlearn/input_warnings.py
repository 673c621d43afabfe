"""Warnings of signals and penalties that nothing, or little, can be learned from."""

from __future__ import annotations

import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dictlearn.two_phase.learner import TwoPhaseLearner
from snn.base.caller_warnings import warn_caller

# Correlated with the atoms together: bounds the memory.
SIGNALS_AT_ONCE = 4096


def warn_of_silence(learner: TwoPhaseLearner, signals: np.ndarray) -> None:
    """Warn if no atom codes any signal, or else if some have long been silent.

    Parameters
    ----------
    learner : TwoPhaseLearner
        What learned.
    signals : ndarray, shape (n_signals, n_inputs)
        What it learned from.
    """
    atoms, penalty = learner.dictionary.T, learner.settings.penalties(learner.n_atoms)
    pieces = np.array_split(signals, math.ceil(len(signals) / SIGNALS_AT_ONCE))
    largest = np.max([(piece @ atoms).max(axis=0) for piece in pieces], axis=0)
    n_dead = len(learner.dead_atoms)
    if (largest <= penalty).all():
        atom = int(np.argmax(largest / penalty))
        message = (
            f"no atom codes any signal: alpha is {penalty[atom]:g}, but the largest correlation of a signal "
            f"with an atom is {largest[atom]:.3g}"
        )
    elif n_dead:
        message = (
            f"{n_dead} of {learner.n_atoms} atoms are dead: silent for the last 1,000 samples or more; "
            "replace_dead=True replaces them"
        )
    else:
        return
    warn_caller(message, ConvergenceWarning)
