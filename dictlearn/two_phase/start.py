"""Where learning starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import checked_atoms, unit_norm
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.synapses import LEAST_THRESHOLD
from snn.base import checks


def random_dictionary(
    n_atoms: int, n_inputs: int, *, rng: int | np.random.Generator | None = None
) -> np.ndarray:
    """Return unit-norm atoms of independent magnitudes ``|N(0, 1)|``, shape (n_atoms, n_inputs).

    Parameters
    ----------
    n_atoms, n_inputs : int
        Positive.
    rng : int or Generator, optional
        Where they come from.
    """
    n_atoms = checks.positive_integer("n_atoms", n_atoms)
    n_inputs = checks.positive_integer("n_inputs", n_inputs)
    atoms = np.abs(np.random.default_rng(rng).standard_normal((n_atoms, n_inputs)))
    return unit_norm(atoms)


def random_network(
    n_atoms: int, n_inputs: int, *, rng: int | np.random.Generator | None = None
) -> TwoPhaseNetwork:
    """Return a network of independent random weights, neither consistent nor symmetric.

    F and B are two random dictionaries, and H has the thresholds 1 and otherwise the entries of a
    Gram matrix of such atoms on average, each multiplied by its own number between 1/2 and 3/2.

    Parameters
    ----------
    n_atoms, n_inputs, rng
        As for `random_dictionary`.
    """
    rng = np.random.default_rng(rng)
    feedforward = random_dictionary(n_atoms, n_inputs, rng=rng)
    feedback = random_dictionary(n_atoms, n_inputs, rng=rng)
    lateral = (2.0 / np.pi) * rng.uniform(0.5, 1.5, (n_atoms, n_atoms))
    np.fill_diagonal(lateral, 1.0)
    return TwoPhaseNetwork(feedforward, feedback.T, lateral)


def starting_network(name: str, start: ArrayLike | TwoPhaseNetwork, n_inputs: int) -> TwoPhaseNetwork:
    """Return the network that learning starts from: of atoms brought to unit norm, or the one given.

    Parameters
    ----------
    name : str
        Its name in messages.
    start : array_like, shape (n_atoms, n_inputs), or TwoPhaseNetwork
        The value to check.
    n_inputs : int
        Features of the signals.
    """
    if isinstance(start, TwoPhaseNetwork):
        network = start
        least = np.diagonal(network.lateral).min()
        if least < LEAST_THRESHOLD:
            raise ValueError(f"{name} must have thresholds of at least {LEAST_THRESHOLD}; got {least}")
    else:
        atoms = checked_atoms(name, start, meaning="(n_atoms, n_inputs)")
        network = TwoPhaseNetwork.consistent(unit_norm(atoms))
    if network.n_inputs != n_inputs:
        raise ValueError(f"{name} has {network.n_inputs} inputs but signals have {n_inputs} features")
    return network
