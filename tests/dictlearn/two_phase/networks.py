"""What the tests of the two-phase network run: atoms, codes, and networks of every kind."""

import numpy as np

from dictlearn import TwoPhaseNetwork

N_INPUTS, N_ATOMS = 24, 32


def sparse_atoms(n_atoms, rng):
    """Not negative, three entries in ten large."""
    shape = (n_atoms, N_INPUTS)
    return rng.uniform(size=shape) * (rng.uniform(size=shape) < 0.3) + 0.01


def sparse_dictionary():
    """Sparse, non-negative atoms of norms 0.7 to 1.3: thresholds other than 1."""
    rng = np.random.default_rng(1)
    atoms = sparse_atoms(N_ATOMS, rng)
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True) * rng.uniform(0.7, 1.3, (N_ATOMS, 1))


def sparse_codes(n_signals, n_atoms, share, rng):
    """Return codes in which each signal has this share of the atoms."""
    shape = (n_signals, n_atoms)
    return rng.uniform(0.5, 1.5, shape) * (rng.uniform(size=shape) < share)


def mismatched(dictionary, strength, seed=3):
    """F, B and H perturbed independently: inconsistent and asymmetric, not negative."""
    rng = np.random.default_rng(seed)
    network = TwoPhaseNetwork.consistent(dictionary)
    return TwoPhaseNetwork(
        *(
            matrix * rng.uniform(1.0 - strength, 1.0 + strength, matrix.shape)
            for matrix in (network.feedforward, network.feedback, network.lateral)
        )
    )
