"""Networks to test on."""

import numpy as np

from snn import SignPairWeights, SpikingNetwork

# Figure 1 of Tang, Lin and Davies (2017), atoms in rows; as printed, and with unit norms.
PRINTED_DICTIONARY = np.array([[0.3313, 0.8835, 0.3313], [0.8148, 0.3621, 0.4527], [0.4364, 0.2182, 0.8729]])
UNIT_DICTIONARY = PRINTED_DICTIONARY / np.linalg.norm(PRINTED_DICTIONARY, axis=1, keepdims=True)
FIGURE_1_SIGNAL = np.array([0.5, 1.0, 1.5])
FIGURE_1_PENALTY = 0.1
# Computed by two independent programs, to the digits given (theory.md, section 2); neurons counted from 0.
FIRST_SPIKES = [
    (0.607629, 2), (0.748468, 0), (1.248547, 1), (1.563859, 2),
    (2.290987, 0), (2.634709, 2), (3.506289, 2), (3.695049, 0),
]  # fmt: skip


def classo_network(dictionary, signal, penalty):
    """The network whose rates solve min 1/2 |s - a D|^2 + penalty |a|_1, a >= 0 (theory.md, section 3)."""
    gram = dictionary @ dictionary.T
    norms = np.diag(gram).copy()
    weights = np.diag(norms) - gram
    np.fill_diagonal(weights, 0.0)
    return SpikingNetwork(weights, dictionary @ signal - penalty, norms)


def golden_network():
    return classo_network(UNIT_DICTIONARY, FIGURE_1_SIGNAL, FIGURE_1_PENALTY)


def random_dictionary(rng, n_atoms, n_features, *, non_negative=False):
    dictionary = rng.standard_normal((n_atoms, n_features))
    if non_negative:
        dictionary = np.abs(dictionary)
    return dictionary / np.linalg.norm(dictionary, axis=1, keepdims=True)


def random_weights(rng, n_neurons, *, density=1.0, sign=0, strength=1.0):
    """Asymmetric weights; the excitation a source sends out in all is less than `strength`.

    With thresholds of at least 1 and strength < 1 a spike causes less than one spike, so rates stay
    bounded whatever the inhibition.
    """
    weights = rng.uniform(-1.0, 1.0, (n_neurons, n_neurons))
    if sign:
        weights = sign * np.abs(weights)
    weights[rng.uniform(size=weights.shape) > density] = 0.0
    np.fill_diagonal(weights, 0.0)
    sent = np.maximum(weights, 0.0).sum(axis=1)
    return weights * np.where(sent > strength, strength / np.maximum(sent, 1e-12), 1.0)[:, np.newaxis]


def random_network(rng, n_neurons, *, density=1.0, sign=0, strength=0.8):
    return SpikingNetwork(
        random_weights(rng, n_neurons, density=density, sign=sign, strength=strength),
        rng.uniform(-0.5, 1.5, n_neurons),
        rng.uniform(1.0, 2.0, n_neurons),
    )


def random_sign_pair_network(rng, n_pairs, *, cross=0.5, penalty=0.1):
    """Pairs as the signed LASSO makes them: c - penalty drives one neuron, -c - penalty the other."""
    dictionary = random_dictionary(rng, n_pairs, max(n_pairs // 2, 2))
    lateral = -(dictionary @ dictionary.T)
    np.fill_diagonal(lateral, 0.0)
    correlations = dictionary @ rng.standard_normal(dictionary.shape[1])
    return SpikingNetwork(
        SignPairWeights(lateral=lateral, cross=np.full(n_pairs, cross)),
        np.concatenate([correlations - penalty, -correlations - penalty]),
    )


def dense_weights(network):
    return network.weights.toarray()
