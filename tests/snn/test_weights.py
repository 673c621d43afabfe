"""Every form of weights obeys the protocol; other objects and excessive weights are refused."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from snn import Clock, DenseRows, NetworkState, SpikingNetwork, StencilWeights, simulate
from snn.weights import Connection, Segments, SparseWeights, Weights, examples
from tests.reference.exact_spikes import judge
from tests.reference.networks import LARGEST_RATIO, moderate_state
from tests.reference.weight_forms import random_dictionary, require_sums, segments_of
from tests.tiers import examples as tried

clocked = pytest.mark.parametrize(
    "run", [simulate, lambda *a, **k: simulate(*a, time=Clock(0.5), **k)], ids=["exact", "clock"]
)

# -- the protocol --


@dataclass(frozen=True, eq=False, repr=False)
class Chain(Weights):
    """Weights with which each neuron excites the next neuron, with only the required methods."""

    weight: float
    n_neurons: int

    @property
    def shape(self):
        return self.n_neurons, self.n_neurons

    def toarray(self):
        return np.diag(np.full(self.n_neurons - 1, self.weight), 1)

    @property
    def kernel_form(self):
        return DenseRows(self.toarray()).kernel_form


@pytest.mark.parametrize("weights", [*examples(), Chain(0.5, 3)], ids=lambda weights: type(weights).__name__)
def test_every_form_says_the_same_as_its_array(weights):
    weights.compute_rows(np.arange(weights.shape[0]))
    array = np.asarray(weights)
    n = len(array)
    assert weights.shape == (n, n)
    require_sums(weights, array)
    assert (weights._largest_magnitudes() >= np.abs(array).max(axis=0)).all()
    for target in range(n):
        column = weights._column(target, np.arange(n)[::-1])
        np.testing.assert_allclose(column, array[::-1, target], atol=1e-15)
    copies = [weights, copy.copy(weights), copy.deepcopy(weights), pickle.loads(pickle.dumps(weights))]
    for other in copies:
        np.testing.assert_array_equal(other.toarray(), array)


# -- blocks and grids of any kind --


def added_up(blocks, n_neurons):
    array = np.zeros((n_neurons, n_neurons))
    for source, target, values, factor in blocks:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                array[source + i, target + j] += factor * value
    np.fill_diagonal(array, 0.0)
    return array


def random_blocks(rng):
    """Return blocks of any place, shape and sign, which may overlap; a spike causes less than one spike."""
    n_neurons = int(rng.integers(2, 60))
    blocks = []
    for _ in range(rng.integers(1, 6)):
        source, target = np.sort(rng.integers(0, n_neurons + 1, (2, 2)), axis=1)
        if source[0] == source[1] or target[0] == target[1]:
            continue
        values = rng.uniform(-1.0, rng.integers(0, 2), (source[1] - source[0], target[1] - target[0]))
        values[rng.uniform(size=values.shape) > rng.choice([0.3, 1.0])] = 0.0
        excitation = np.maximum(values, 0.0).sum(axis=1).max()
        factor = min(rng.uniform(0.0, 3.0), 0.16 / max(excitation, 1e-300))
        blocks.append((int(source[0]), int(target[0]), values, factor))
    return segments_of(n_neurons, blocks), added_up(blocks, n_neurons)


def random_stencil(rng):
    """Return a stencil that may reach beyond its grid; a source excites by less than one threshold in all."""
    n_channels, reach = int(rng.integers(1, 20)), rng.integers(0, 4, 2)
    values = rng.uniform(
        -1.0, rng.integers(0, 2), (n_channels, 2 * reach[0] + 1, 2 * reach[1] + 1, n_channels)
    )
    values[rng.uniform(size=values.shape) > rng.choice([0.3, 1.0])] = 0.0
    values[np.arange(n_channels), reach[0], reach[1], np.arange(n_channels)] = 0.0
    values *= 0.8 / max(np.maximum(values, 0.0).sum(axis=(1, 2, 3)).max(), 0.8)
    rows, columns = rng.integers(1, 6, 2).tolist()
    by_place = np.zeros((rows, columns, n_channels) * 2)
    for row, column in np.ndindex(rows, columns):
        for other_row, other_column in np.ndindex(rows, columns):
            i, j = other_row - row + reach[0], other_column - column + reach[1]
            if 0 <= i <= 2 * reach[0] and 0 <= j <= 2 * reach[1]:
                by_place[row, column, :, other_row, other_column] = values[:, i, j]
    n_neurons = rows * columns * n_channels
    return StencilWeights(values, (rows, columns)), by_place.reshape(n_neurons, n_neurons)


@pytest.mark.property
@pytest.mark.parametrize("made", [random_blocks, random_stencil])
@tried(25)
@given(seed=st.integers(0, 2**20))
def test_blocks_and_grids_of_any_shape(made, seed):
    rng = np.random.default_rng(seed)
    weights, array = made(rng)
    n = len(array)
    np.testing.assert_allclose(weights.toarray(), array, rtol=0, atol=1e-15)
    array = weights.toarray()
    require_sums(weights, array)
    threshold = rng.uniform(1.0, 2.0, n)
    network = SpikingNetwork(weights, rng.uniform(-0.5, 1.5, n), threshold)
    state = moderate_state(rng, threshold) if seed % 2 else None
    run = simulate(network, 30.0, state=state, record_spikes=True)
    assert judge(run, array, state=state).fault == ""


def test_segments_by_hand():
    values = np.array([0.1, 0.2, 0.3])
    segments = segmented(values=values)
    np.testing.assert_allclose(np.asarray(segments), [[0, 0.1, 0.2], [0, 0, -0.6], [0, 0, 0]], rtol=1e-15)
    np.testing.assert_allclose(segments._largest_magnitudes(), [0.0, 0.1, 0.6], rtol=1e-15)
    values[:] = [0.0, 1.0, 1.0]  # values may change between runs
    np.testing.assert_array_equal(np.asarray(segments), [[0, 0, 1], [0, 0, -2], [0, 0, 0]])
    np.testing.assert_array_equal(segments.out_degrees(np.arange(3)), [1, 1, 0])
    np.testing.assert_array_equal(segments.kernel_form.values, segments.values)


@tried(10)
@given(seed=st.integers(0, 2**20))
def test_ties_all_over_a_grid(seed):
    """Many neurons cross at one time with different slopes; slightly late neurons do not fire then."""
    rng = np.random.default_rng(seed)
    n_channels = int(rng.integers(1, 9))
    values = np.full((n_channels, 3, 3, n_channels), -0.5)
    values[np.arange(n_channels), 1, 1, np.arange(n_channels)] = 0.0
    n_neurons, crossing = 12 * n_channels, rng.uniform(0.1, 20.0)
    threshold = 10.0 ** rng.uniform(-3.0, 3.0, n_neurons)
    drive = threshold * rng.uniform(1.5, 20.0, n_neurons) / crossing
    current = threshold * rng.uniform(-1.0, 1.0, n_neurons)
    potential = threshold - drive * crossing + current * np.expm1(-crossing)
    # Late by at least 5e-8, at slopes of up to 200 thresholds; the tolerance is 1e-10, at slopes of 0.075.
    is_late = rng.uniform(size=n_neurons) < 0.2
    potential[is_late] -= 1e-5 * threshold[is_late]
    network = SpikingNetwork(StencilWeights(values, (3, 4)), drive, threshold)
    state = NetworkState(membrane_potential=potential, synaptic_current=current)
    run = simulate(network, crossing + 1e-8, state=state, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, np.flatnonzero(~is_late))
    assert len(set(run.spikes.times)) <= 1
    np.testing.assert_allclose(run.spikes.times, crossing, rtol=1e-9)


# -- rows on demand --


class CountedRows:
    """Rows of a Gram matrix that record which rows were asked for."""

    def __init__(self, gram):
        self.gram, self.asked, self.n_calls = gram, [], 0

    def __call__(self, sources):
        self.n_calls += 1
        self.asked.extend(sources.tolist())
        return self.gram[sources]


def coding_problem(rng, n_atoms, n_features=40, support=6):
    dictionary = random_dictionary(rng, n_atoms, n_features)
    code = np.zeros(n_atoms)
    code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.3, 1.5, support)
    correlations = dictionary @ (code @ dictionary)
    return dictionary @ dictionary.T, correlations - 0.15 * correlations.max()


def test_only_rows_that_are_needed_are_computed_and_once():
    gram, bias = coding_problem(np.random.default_rng(3), 400)
    rows = CountedRows(gram)
    network = SpikingNetwork(DenseRows.on_demand(400, rows, -1.0), bias)
    first = simulate(network, 60.0)
    assert first.n_spikes > 50
    assert set(np.flatnonzero(first.spike_counts)) <= set(rows.asked)
    assert len(rows.asked) == len(set(rows.asked)) == network.weights.n_stored < 240
    second = simulate(network, 60.0)
    np.testing.assert_array_equal(first.spike_counts, second.spike_counts)
    assert len(rows.asked) == network.weights.n_stored
    other = copy.deepcopy(network.weights)  # a copy stores its own rows
    missing = np.setdiff1d(np.arange(400), rows.asked)[:2]
    other.compute_rows(missing[:1])
    np.testing.assert_array_equal(other._column(missing[1], missing[:1]), -gram[missing[1], missing[:1]])
    assert other.n_stored == network.weights.n_stored + 1


def test_if_memory_lacks_for_rows_needed_soon_only_the_rows_needed_now_are_computed():
    gram, bias = coding_problem(np.random.default_rng(3), 300)

    def rows(sources):
        if len(sources) > 1:
            raise MemoryError
        return gram[sources]

    runs = [
        simulate(SpikingNetwork(weights, bias), 10.0, record_spikes=True)
        for weights in (DenseRows.on_demand(300, rows, -1.0), DenseRows(gram, -1.0))
    ]
    np.testing.assert_array_equal(*[run.spikes.neurons for run in runs])
    assert runs[0].n_spikes > 5


def test_threads_and_clocks_may_share_the_rows():
    gram, bias = coding_problem(np.random.default_rng(8), 300)
    network, whole = (
        SpikingNetwork(weights, bias)
        for weights in (DenseRows.on_demand(300, CountedRows(gram), -1.0), DenseRows(gram, -1.0))
    )
    drives = bias * np.linspace(0.3, 1.0, 12)[:, np.newaxis]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda bias: simulate(network.with_soma_bias(bias), 30.0), drives))
    for run, drive in zip(runs, drives, strict=True):
        np.testing.assert_array_equal(
            run.spike_counts, simulate(whole.with_soma_bias(drive), 30.0).spike_counts
        )
    assert network.weights.n_stored < 300
    runs = [simulate(either, 20.0, Clock(0.01)).spike_counts for either in (network, whole)]
    np.testing.assert_array_equal(*runs)  # runs on a clock compute all rows


# -- what is refused --


def segmented(**changes):
    arguments = {
        "n_neurons": 3, "values": np.array([0.1, 0.2, 0.3]),
        "connections": [Connection(0, 1, (1, 2), 0), Connection(1, 2, (1, 1), 2, -2.0)],
    }  # fmt: skip
    return Segments(**(arguments | changes))


def asked(rows):
    return simulate(
        SpikingNetwork(DenseRows.on_demand(3, lambda sources: np.ones((3, 3))[sources] * rows), np.ones(3)),
        5.0,
    )


def stencil(**changes):
    return StencilWeights(**({"values": np.zeros((1, 1, 1, 1)), "grid_shape": (1, 1)} | changes))


def wrong(make, error, **arguments):
    """Return a case for each wrong value of one argument."""
    for name, values in arguments.items():
        yield from ((partial(make, **{name: value}), error, name) for value in values)


HUGE = 2**62
REFUSED = [
    (lambda: segmented(connections=[Connection(-1, 0, (1, 1), 0)]), ValueError, "first_source"),
    (lambda: segmented(connections=[Connection(0, -5, (1, 1), 0)]), ValueError, "first_target"),
    (lambda: segmented(connections=[Connection(HUGE, 1, (1, 1), 0)]), ValueError, "connections"),
    (lambda: DenseRows(np.eye(3)).sign_pairs(np.ones(4)), ValueError, "cross"),
    (lambda: DenseRows.on_demand(3, np.eye(3).__getitem__).sign_pairs(np.ones(4)), ValueError, "cross"),
    (lambda: DenseRows(np.zeros((1, 1))).sign_pairs([1.0]).sign_pairs(np.ones(2)), TypeError, "sign_pairs"),
    *((lambda c=c: segmented(connections=[Connection(*c)]), ValueError, "connections")
      for c in ((2, 0, (2, 1), 0), (0, 2, (1, 2), 0), (0, 0, (2, 2), 0), (0, 1, (1, 1), -1))),
    (lambda: segmented(connections=[Connection(0, HUGE, (1, 1), 0)]), ValueError, "connections"),
    (lambda: segmented(connections=[Connection(0, 1, (1, 1), 0, np.nan)]), ValueError, "factor"),
    *wrong(segmented, ValueError, values=(np.ones((3, 1)), np.ones(6)[::2])),
    *wrong(segmented, TypeError, values=(np.ones(3, dtype=np.float32),)),
    *wrong(stencil, ValueError, values=(np.zeros((2, 1, 2)), np.full((1, 1, 3, 1), np.inf))),
    *wrong(stencil, ValueError, grid_shape=((1, 0), (1, 1, 1))),
    *wrong(stencil, TypeError, grid_shape=(3,), values=("weights",)),
    (lambda: stencil(values=np.zeros((2, 1, 1, 3))), ValueError, "channels"),
    (lambda: stencil(values=np.zeros((2, 1, 2, 2))), ValueError, "offsets"),
    (lambda: stencil(values=np.ones((1, 1, 3, 1))), ValueError, "itself"),
    (lambda: DenseRows.on_demand(3, 1), TypeError, "compute_rows"),
    (lambda: DenseRows.on_demand(0, CountedRows(np.eye(3))), ValueError, "n_neurons"),
    (lambda: asked(np.ones((1, 3, 3))), ValueError, "compute_rows"),
    (lambda: asked(np.inf), ValueError, "compute_rows"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "name"), REFUSED)
def test_what_is_no_form_of_weights_is_refused(make, error, name):
    with pytest.raises(error, match=name):
        make()


def raw(data, indices, starts, *, kind=sparse.csr_array, shape=(2, 2)):
    """Return a matrix with arrays replaced after construction, because SciPy checks only constructors."""
    matrix = kind(shape)
    matrix.data = np.asarray(data, dtype=float)
    matrix.indices, matrix.indptr = np.asarray(indices, dtype=np.int32), np.asarray(starts, dtype=np.int32)
    return matrix


CORRUPTED = [
    ([-0.5], [2], [0, 1, 1]), ([-0.5], [5_000_000], [0, 1, 1]), ([-0.5], [-1], [0, 1, 1]),
    ([-0.5], [1], [0, 2, 2]), ([-0.5], [1], [0, 5_000_000, 5_000_000]), ([-0.5, -0.5], [1, 0], [0, 2, 1]),
    ([-0.5], [1], [1, 1, 1]), ([-0.5], [1], [0, 1]), ([-0.5], [1], [-1, 0, 1]),
    ([-0.5, -0.5], [1], [0, 1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
@pytest.mark.parametrize("parts", CORRUPTED)
def test_corrupted_compressed_matrices_are_refused(parts, kind):
    """Kernels would read and write out of bounds if they used such matrices."""
    with pytest.raises(ValueError, match="weights"):
        SpikingNetwork(raw(*parts, kind=kind), np.ones(2))
    with pytest.raises(ValueError, match="matrix"):
        SparseWeights(raw(*parts, kind=kind))


def test_sparse_weights_of_every_type_are_the_matrix_they_add_up_to():
    matrix = raw([-0.1, -0.2, -0.3, -0.4], [2, 1, 2, 0], [0, 3, 4, 4], shape=(3, 3))  # unsorted, repeated
    expected = np.array([[0.0, -0.2, -0.1 + -0.3], [-0.4, 0.0, 0.0], [0.0, 0.0, 0.0]])
    run = simulate(SpikingNetwork(expected, [1.0, 0.5, 0.8]), 20.0)
    twice = sparse.coo_array((matrix.data.copy(), ([0, 0, 0, 1], [2, 1, 2, 0])), shape=(3, 3))
    for same in (matrix, twice, twice.tocsc(), sparse.csr_matrix(expected), sparse.lil_array(expected)):
        network = SpikingNetwork(same, [1.0, 0.5, 0.8])
        np.testing.assert_allclose(network.weights.toarray(), expected, rtol=1e-15)
        np.testing.assert_array_equal(simulate(network, 20.0).spike_counts, run.spike_counts)
    np.testing.assert_array_equal(matrix.indices, [2, 1, 2, 0])  # the argument is unchanged
    network = SpikingNetwork(matrix, [1.0, 0.5, 0.8])
    matrix.data[:], matrix.indices[:] = 7.0, 5_000_000  # the network must not change
    np.testing.assert_allclose(np.asarray(network.weights), expected, rtol=1e-15)
    coordinates = sparse.coo_array(expected)
    coordinates.col[0] = 5_000_000
    with pytest.raises(ValueError, match="weights"):
        SpikingNetwork(coordinates, np.ones(3))


# -- weights too large for the threshold --

STRONG = {
    "dense": DenseRows,
    "lateral inhibition": lambda array: DenseRows(np.diag([1e300, 1e300, 1.0]) - array, -1.0),
    "sparse": lambda array: SparseWeights(sparse.csr_array(array)),
    "segments": lambda array: segments_of(3, [(0, 0, array, 1.0)]),
    "sign pairs": lambda array: DenseRows(array).sign_pairs(np.ones(3)),
    "cross-inhibition": lambda array: DenseRows(np.zeros((3, 3))).sign_pairs([0.0, array[0, 1], 0.0]),
    "stencil": lambda array: StencilWeights(array[:, np.newaxis, np.newaxis], (1, 1)),
}


def one_weight(value):
    """Return weights with which neuron 0 acts on neuron 1 by the given value."""
    return np.array([[0.0, value, 0.0], [0.0, 0.0, -0.1], [0.0, -0.1, 0.0]])


@pytest.mark.parametrize("form", STRONG)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_weights_far_beyond_the_threshold_of_their_target_are_refused(form, sign):
    threshold = np.array([1e-9, 2.0, 1e9])
    most = sign * LARGEST_RATIO * threshold[1]
    n_copies = STRONG[form](one_weight(most)).shape[0] // 3
    bias, threshold = np.ones(3 * n_copies), np.tile(threshold, n_copies)
    run = simulate(SpikingNetwork(STRONG[form](one_weight(-abs(most))), bias, threshold), 1e-12)
    assert np.isfinite(run.state.synaptic_current).all()
    with pytest.raises(ValueError, match=r"weights .* neuron 1 "):
        SpikingNetwork(STRONG[form](one_weight(most * 1.001)), bias, threshold)


@clocked
def test_rows_biases_and_currents_far_beyond_the_threshold_are_refused(run):
    rows = DenseRows.on_demand(3, lambda sources: -one_weight(-1e100)[sources])
    with pytest.raises(ValueError, match="weights"):
        run(SpikingNetwork(rows, np.ones(3)), 5.0)
    network = SpikingNetwork(np.zeros((2, 2)), [0.0, -LARGEST_RATIO], 1.0)
    for bias in ([0.0, -1.1e13], [1e300, 0.0]):
        with pytest.raises(ValueError, match="soma_bias"):
            network.with_soma_bias(bias)
        with pytest.raises(ValueError, match="soma_bias"):
            SpikingNetwork(np.zeros((2, 2)), bias)
    state = NetworkState(membrane_potential=[-1e100, 0.0], synaptic_current=[2e12, 0.0])
    with pytest.raises(ValueError, match="currents of state"):
        run(network, 1.0, state=state)
