"""Where learning starts: random dictionaries and networks, and learners that have not learned yet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import checked_atoms, unit_norm
from dictlearn.resumable import seed_of_order
from dictlearn.signals import amplitude_scale, checked_known_signals
from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import LEAST_THRESHOLD
from snn.base import checks


def random_dictionary(
    n_atoms: int, n_inputs: int, *, positive: bool = True, rng: int | np.random.Generator | None = None
) -> np.ndarray:
    """Return unit-norm atoms of independent entries, shape (n_atoms, n_inputs).

    Parameters
    ----------
    n_atoms, n_inputs : int
        Positive.
    positive : bool, default True
        Whether entries are magnitudes ``|N(0, 1)|``, or else ``N(0, 1)``.
    rng : int or Generator, optional
        Where they come from.
    """
    n_atoms = checks.positive_integer("n_atoms", n_atoms)
    n_inputs = checks.positive_integer("n_inputs", n_inputs)
    atoms = np.random.default_rng(rng).standard_normal((n_atoms, n_inputs))
    return unit_norm(np.abs(atoms) if checks.flag("positive", positive) else atoms)


def random_network(
    n_atoms: int, n_inputs: int, *, rng: int | np.random.Generator | None = None
) -> TwoPhaseNetwork:
    """Return a network of independent random weights, neither consistent nor symmetric, none negative.

    F and B are two random dictionaries, and H has the thresholds 1 and otherwise the entries of a
    Gram matrix of such atoms on average, each multiplied by its own number between 1/2 and 3/2.

    Parameters
    ----------
    n_atoms, n_inputs, rng
        As for `random_dictionary`.

    Notes
    -----
    Weights of either sign cannot begin like this: where F and B are unrelated, feedback excites as often as
    it inhibits, and the network runs away.
    """
    rng = np.random.default_rng(rng)
    feedforward = random_dictionary(n_atoms, n_inputs, rng=rng)
    feedback = random_dictionary(n_atoms, n_inputs, rng=rng)
    lateral = (2.0 / np.pi) * rng.uniform(0.5, 1.5, (n_atoms, n_atoms))
    np.fill_diagonal(lateral, 1.0)
    return TwoPhaseNetwork(feedforward, feedback.T, lateral)


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
        Not negative, unless the settings say that they may be.  Their root mean square norm sets the
        learner's scale.
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
        A dictionary, brought to unit norms, or a network, with the signs of the settings.  By default
        `random_dictionary`.
    replace_dead : bool, default False
        Whether atoms that have long been silent are replaced, by what samples are missing most.
    rng : int or Generator, optional
        For the start.

    Returns
    -------
    TwoPhaseLearner
    """
    settings = checked_settings(settings, penalty)
    signals, mask = checked_known_signals(signals, None, mask, signed=settings.signs.signed_inputs)
    return learner_for(
        signals.shape[1],
        n_atoms,
        scale=lambda amplitude: amplitude_scale(signals, amplitude, mask),
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
    settings: LearningSettings,
    start: ArrayLike | TwoPhaseNetwork | None,
    replace_dead: bool,
    rng: int | np.random.Generator | None,
) -> TwoPhaseLearner:
    """Return a learner for signals of `n_inputs` features, wherever they are, as `new_learner` does.

    `scale` returns the learner's scale of an amplitude.
    """
    # A generator gives the same number twice: the stream of the start must not depend on the rounding.
    rounding_rng = copy.deepcopy(rng)
    if n_atoms is not None:
        n_atoms = checks.positive_integer("n_atoms", n_atoms)
    if start is None:
        if n_atoms is None:
            raise TypeError("n_atoms must be given, or a start that has some")
        start = random_dictionary(n_atoms, n_inputs, positive=settings.positive_atoms, rng=seed_of_order(rng))
    network = starting_network(start, n_inputs, settings.signs)
    if n_atoms not in (None, network.n_atoms):
        raise ValueError(f"start has {network.n_atoms} atoms but n_atoms is {n_atoms}")
    return TwoPhaseLearner(
        network,
        settings,
        scale=scale(settings.amplitude),
        replace_dead=replace_dead,
        rounding_seed=seed_of_order(rounding_rng),
    )


def checked_settings(settings: LearningSettings | None, penalty: Any) -> LearningSettings:
    """Return the settings, or those of a penalty alone."""
    if settings is None:
        if penalty is None:
            raise TypeError("penalty must be given, or settings that have one")
        return LearningSettings(penalty=penalty)
    if penalty is not None:
        raise TypeError("penalty must not be given twice, alone and in settings")
    checks.instance_of("settings", settings, LearningSettings)
    return settings


def starting_network(start: ArrayLike | TwoPhaseNetwork, n_inputs: int, signs: Signs) -> TwoPhaseNetwork:
    """Return the network that learning starts from: of atoms brought to unit norm, or the one given."""
    if isinstance(start, TwoPhaseNetwork):
        network = start
        if network.signs != signs:
            raise ValueError(f"start must have the settings' {signs}; got {network.signs}")
        least = np.diagonal(network.lateral).min()
        if least < LEAST_THRESHOLD:
            raise ValueError(f"start must have thresholds of at least {LEAST_THRESHOLD}; got {least}")
    else:
        atoms = checked_atoms("start", start, positive=signs.positive_atoms)
        network = TwoPhaseNetwork.consistent(unit_norm(atoms), **signs._asdict())
    if network.n_inputs != n_inputs:
        raise ValueError(f"start has {network.n_inputs} inputs but signals have {n_inputs} features")
    return network
