"""Warnings of signals and penalties that nothing, or little, can be learned from."""

from __future__ import annotations

import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dictlearn.two_phase.learner import TwoPhaseLearner
from snn.caller_warnings import warn_caller
from solvers import IllPosedWarning

# Correlated with the atoms together: bounds the memory.
SIGNALS_AT_ONCE = 4096
# A single signal of fewer may well have most of the energy.
SIGNALS_TO_COMPARE = 10


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


def warn_if_one_signal_dominates(signals: np.ndarray) -> None:
    """Warn if one of many signals has more energy than all others together.

    The unit of the network is the root mean square norm of the signals: all others then hardly make it spike.

    Parameters
    ----------
    signals : ndarray, shape (n_signals, n_inputs)
        What is to be learned from.
    """
    largest = float(np.abs(signals).max())
    if largest == 0.0:
        return
    # Divided first, because squares of very large or small numbers leave the range of floats.
    energies = ((signals / largest) ** 2).sum(axis=1)
    if np.count_nonzero(energies) < SIGNALS_TO_COMPARE:
        return
    worst = int(np.argmax(energies))
    if energies[worst] > 0.5 * energies.sum():
        others = np.median(np.sqrt(energies[energies > 0.0]))
        warn_caller(
            f"X[{worst}] has more energy than all other signals together, a norm of "
            f"{math.sqrt(energies[worst]) / others:.3g} times the median: remove it, or bring "
            "signals to unit norm (dictlearn.normalise)",
            IllPosedWarning,
        )
