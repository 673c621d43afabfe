"""Where learning starts."""

from __future__ import annotations

import numpy as np

from dictlearn.atoms import unit_norm
from dictlearn.two_phase.network import TwoPhaseNetwork
from snn import checks


def random_dictionary(
    n_atoms: int, n_inputs: int, *, rng: int | np.random.Generator | None = None
) -> np.ndarray:
    """Return unit-norm atoms of independent magnitudes |N(0, 1)|, shape (n_atoms, n_inputs).

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
