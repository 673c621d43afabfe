"""The registry of weight forms for all tests of forms.  A new form is one line of `FORMS`.

A form stores a dense matrix W, `weights[source, target]` with a zero diagonal.  Not every matrix fits every
form: `nearest` keeps the numbers of a matrix that the form can store, and returns a matrix that fits.
Tests compare with this dense matrix, and not with the result of `toarray` of the form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from snn import DenseRows, SpikingNetwork, StencilWeights, Weights
from snn.weights import Connection, Segments

NOT_LOOKED_AT = 3.0  # stored on the diagonal, which nothing may read
GRID_SHAPE, REACH = (3, 2), (1, 1)
GRID_KERNEL = (4, 4, 2)  # (height, width, stride): kernels overlap only with kernels of adjacent positions


def random_dictionary(rng, n_atoms, n_features, *, non_negative=False):
    dictionary = rng.standard_normal((n_atoms, n_features))
    if non_negative:
        dictionary = np.abs(dictionary)
    return dictionary / np.linalg.norm(dictionary, axis=1, keepdims=True)


def random_weights(rng, n_neurons, *, density=1.0, sign=0, strength=1.0):
    """Return asymmetric weights; the total excitation that a source sends is less than `strength`.

    With thresholds of at least 1 and a strength below 1, a spike causes less than one spike, so rates stay
    bounded for any inhibition.
    """
    weights = rng.uniform(-1.0, 1.0, (n_neurons, n_neurons))
    if sign:
        weights = sign * np.abs(weights)
    weights[rng.uniform(size=weights.shape) > density] = 0.0
    np.fill_diagonal(weights, 0.0)
    sent = np.maximum(weights, 0.0).sum(axis=1)
    return weights * np.where(sent > strength, strength / np.maximum(sent, 1e-12), 1.0)[:, np.newaxis]


def dense_weights(network):
    return network.weights.toarray()


class WeightForm(NamedTuple):
    """A way to store a dense matrix, and the matrices that fit this form."""

    store: Callable[[np.ndarray], Any]
    nearest: Callable[[np.ndarray], np.ndarray] = np.copy
    multiple: int = 1  # the number of neurons is a multiple of `multiple`
    signed: bool = False  # the neurons are the positive and negative neurons of atoms
    screened: bool = True  # runs use screening if few of many neurons fire
    atoms: Callable[[np.random.Generator, int, int, float], np.ndarray] | None = None

    def n_neurons(self, about: int) -> int:
        """Return a possible number of neurons, at least `about`."""
        return self.multiple * -(-about // self.multiple)


def strength_of(weights: np.ndarray) -> np.ndarray:
    return NOT_LOOKED_AT * np.eye(len(weights)) - weights


def on_demand(weights: np.ndarray) -> DenseRows:
    strength = strength_of(weights)
    return DenseRows.on_demand(len(weights), lambda sources: strength[sources], -1.0)


def overlapping_blocks(weights: np.ndarray) -> Segments:
    """Return four quarters and a block over their middle, which holds half of the weights in the middle."""
    n, half, quarter = len(weights), len(weights) // 2, len(weights) // 4
    middle = slice(quarter, n - quarter)
    outer = strength_of(weights)
    outer[middle, middle] *= 0.5
    ranges = [(0, half), (half, n)] if half else [(0, n)]
    blocks = [(i, k, 2.0 * outer[i:j, k:m], -0.5) for i, j in ranges for k, m in ranges]
    inner = 0.5 * strength_of(weights)[middle, middle]
    return segments_of(n, [*blocks, (quarter, quarter, -inner, 1.0)])


def segments_of(n_neurons: int, blocks: list) -> Segments:
    """Return weights of dense blocks, given as (first source, first target, values, factor)."""
    ends = np.cumsum([0, *(values.size for _, _, values, _ in blocks)])
    connections = [
        Connection(source, target, values.shape, int(end), factor)
        for (source, target, values, factor), end in zip(blocks, ends[:-1], strict=True)
    ]
    return Segments(
        n_neurons, connections, np.concatenate([np.empty(0), *(values.ravel() for _, _, values, _ in blocks)])
    )


def sign_pairs(store_lateral: Callable[[np.ndarray], DenseRows]) -> Callable[[np.ndarray], DenseRows]:
    """Return a function that stores [[L, X - L], [X - L, L]], with L stored by `store_lateral`."""

    def store(weights: np.ndarray) -> DenseRows:
        n_pairs = len(weights) // 2
        cross = weights[:n_pairs, n_pairs:].diagonal()
        return store_lateral(weights[:n_pairs, :n_pairs]).sign_pairs(cross)

    return store


def nearest_sign_pairs(weights: np.ndarray) -> np.ndarray:
    n_pairs = len(weights) // 2
    lateral = weights[:n_pairs, :n_pairs]
    crossed = np.diag(weights[:n_pairs, n_pairs:].diagonal()) - lateral
    return np.block([[lateral, crossed], [crossed, lateral]])


def grid_offsets():
    """Yield (row offset, column offset, source positions, target positions) of each offset within `REACH`."""
    places = [(row, column) for row in range(GRID_SHAPE[0]) for column in range(GRID_SHAPE[1])]
    for i in range(-REACH[0], REACH[0] + 1):
        for j in range(-REACH[1], REACH[1] + 1):
            pairs = [(p, (p[0] + i, p[1] + j)) for p in places if (p[0] + i, p[1] + j) in places]
            yield i, j, [places.index(p) for p, _ in pairs], [places.index(q) for _, q in pairs]


def grid(weights: np.ndarray) -> StencilWeights:
    n_channels = len(weights) // (GRID_SHAPE[0] * GRID_SHAPE[1])
    by_place = weights.reshape(-1, n_channels, weights.shape[1] // n_channels, n_channels)
    values = np.zeros((n_channels, 2 * REACH[0] + 1, 2 * REACH[1] + 1, n_channels))
    for i, j, sources, targets in grid_offsets():
        values[:, i + REACH[0], j + REACH[1]] = by_place[sources[0], :, targets[0]]
    return StencilWeights(values, GRID_SHAPE)


def nearest_on_grid(weights: np.ndarray) -> np.ndarray:
    """Return a matrix in which all weights of an offset equal the weights at its first place."""
    n_channels = len(weights) // (GRID_SHAPE[0] * GRID_SHAPE[1])
    by_place = weights.reshape(-1, n_channels, weights.shape[1] // n_channels, n_channels)
    result = np.zeros(by_place.shape)
    for _, _, sources, targets in grid_offsets():
        for source, target in zip(sources, targets, strict=True):
            result[source, :, target] = by_place[sources[0], :, targets[0]]
    return result.reshape(weights.shape)


def random_atoms(rng: np.random.Generator, n_atoms: int, n_features: int, coherence: float) -> np.ndarray:
    """Return atoms of norm one that share a direction; `coherence` is the share of this direction."""
    atoms = random_dictionary(rng, n_atoms, n_features)
    atoms = coherence * atoms[:1] + (1.0 - coherence) * atoms
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def grid_atoms(rng: np.random.Generator, n_atoms: int, _: int, coherence: float) -> np.ndarray:
    """Return kernels at every position of an image, atoms in the order of the grid's neurons."""
    height, width, stride = GRID_KERNEL
    kernels = random_atoms(rng, n_atoms // (GRID_SHAPE[0] * GRID_SHAPE[1]), height * width, coherence)
    shape = [stride * (n - 1) + side for n, side in zip(GRID_SHAPE, (height, width), strict=True)]
    atoms = np.zeros((*GRID_SHAPE, len(kernels), *shape))
    for row in range(GRID_SHAPE[0]):
        for column in range(GRID_SHAPE[1]):
            rows = slice(stride * row, stride * row + height)
            columns = slice(stride * column, stride * column + width)
            atoms[row, column, :, rows, columns] = kernels.reshape(-1, height, width)
    return atoms.reshape(n_atoms, -1)


def one_position(weights: np.ndarray) -> StencilWeights:
    return StencilWeights(weights[:, np.newaxis, np.newaxis, :], (1, 1))


def lateral_inhibition(weights: np.ndarray) -> DenseRows:
    return DenseRows(strength_of(weights), -1.0)


FORMS = {
    "dense": WeightForm(np.copy),
    "sparse": WeightForm(sparse.csr_array, screened=False),
    "lateral inhibition": WeightForm(lateral_inhibition),
    "on demand": WeightForm(on_demand),
    "sign pairs": WeightForm(sign_pairs(DenseRows), nearest_sign_pairs, 2, True),
    "sign pairs, lateral inhibition": WeightForm(sign_pairs(lateral_inhibition), nearest_sign_pairs, 2, True),
    "sign pairs, on demand": WeightForm(sign_pairs(on_demand), nearest_sign_pairs, 2, True),
    "blocks": WeightForm(overlapping_blocks),
    "grid": WeightForm(
        grid, nearest_on_grid, GRID_SHAPE[0] * GRID_SHAPE[1], screened=False, atoms=grid_atoms
    ),
    "one position": WeightForm(one_position, screened=False),
}
NAMES = tuple(FORMS)
ANY_MATRIX = tuple(name for name, form in FORMS.items() if form.nearest is np.copy)


def require_sums(form: Weights, weights: np.ndarray) -> None:
    """Require that sums over weights and degrees of neurons equal the values from the dense matrix."""
    assert form.shape == weights.shape
    amounts = np.random.default_rng(0).standard_normal((3, len(weights)))
    np.testing.assert_allclose(form.transpose_product(amounts), amounts @ weights, rtol=0, atol=1e-13)
    np.testing.assert_allclose(form.transpose_product(amounts[0]), amounts[0] @ weights, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(form.tocsr().toarray(), form.toarray())
    degrees = np.count_nonzero(weights, axis=1)
    every = np.arange(len(weights))
    np.testing.assert_array_equal(form.out_degrees(every), degrees)
    np.testing.assert_array_equal(form.out_degrees(every[::-2]), degrees[::-2])


def stored(name: str, weights: np.ndarray, soma_bias, firing_threshold=1.0) -> SpikingNetwork:
    """Return the network whose weights, a dense matrix that fits, are stored in the form `name`."""
    return SpikingNetwork(FORMS[name].store(np.asarray(weights, dtype=float)), soma_bias, firing_threshold)


def in_form(network: SpikingNetwork, name: str) -> SpikingNetwork:
    """Return the network with weights stored in another form, which must fit the weights."""
    return stored(name, dense_weights(network), network.soma_bias, network.firing_threshold)


def bounded(weights: np.ndarray, strength: float) -> np.ndarray:
    """Scale the matrix so that no source excites by more than `strength`; its form still fits."""
    sent = np.maximum(weights, 0.0).sum(axis=1).max()
    return weights * min(1.0, strength / sent) if sent > 0.0 else weights


def random_matrix(name: str, rng, about: int, *, density=1.0, sign=0, strength=0.8) -> np.ndarray:
    """Return a dense matrix of about `about` neurons that fits the form.

    With thresholds of at least 1 and a strength below 1, each spike causes less than one: rates stay bounded.
    """
    n_neurons = FORMS[name].n_neurons(about)
    weights = random_weights(rng, n_neurons, density=density, sign=sign, strength=strength)
    return bounded(FORMS[name].nearest(weights), strength)


def sparse_coding(name: str, rng, about: int, n_features: int, support: int, *, coherence=0.0):
    """Return (weights, soma_bias) of a network that codes a signal: few of its many neurons fire."""
    form = FORMS[name]
    n_neurons = form.n_neurons(about)
    n_atoms = n_neurons // 2 if form.signed else n_neurons
    atoms = (form.atoms or random_atoms)(rng, n_atoms, n_features, coherence)
    code = np.zeros(n_atoms)
    code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.3, 1.5, support)
    signal = code @ atoms
    correlations = atoms @ (signal + 0.01 * rng.standard_normal(len(signal)))
    penalty = rng.uniform(0.02, 0.3) * correlations.max()
    gram = atoms @ atoms.T
    lateral = np.diag(gram.diagonal()) - gram
    np.fill_diagonal(lateral, 0.0)
    if form.signed:
        crossed = np.diag(gram.diagonal()) - lateral
        bias = np.concatenate([correlations - penalty, -correlations - penalty])
        return np.block([[lateral, crossed], [crossed, lateral]]), bias
    return lateral, correlations - penalty
