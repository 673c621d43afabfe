"""Every form of weights keeps the protocol; wrong indices and extreme values are refused in one sentence."""

# ruff: noqa: E501 - a case a line reads better

import copy
import inspect
import pickle
import re
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from snn import (
    Block,
    BlockWeights,
    DenseWeights,
    InhibitionOnDemand,
    LateralInhibition,
    NetworkState,
    SignPairWeights,
    SparseWeights,
    SpikingNetwork,
    StencilWeights,
    simulate,
    simulate_clocked,
)
from snn._kernels import clocked
from snn._kernels.forms import FORMS
from snn.base.checks import LARGEST_RATIO
from snn.weights import SegmentedWeights, Weights, examples
from tests.reference.weight_forms import require_sums

# -- the protocol --


@dataclass(frozen=True, eq=False, repr=False)
class Chain(Weights):
    """A form that says no more than it must: each neuron excites the next one."""

    weight: float
    n_neurons: int

    @property
    def layout(self):
        return (self.n_neurons,)

    def toarray(self):
        return np.diag(np.full(self.n_neurons - 1, self.weight), 1)

    def kernel_form(self):
        return DenseWeights(self.toarray()).kernel_form()


def name_of(weights):
    return type(weights).__name__


@pytest.mark.parametrize("weights", [*examples(), Chain(0.5, 3)], ids=name_of)
def test_every_form_says_the_same_as_its_array(weights):
    weights.prepare(np.arange(weights.shape[0]))
    array = np.asarray(weights)
    n = len(array)
    assert np.prod(weights.layout) == n
    assert 0.0 < weights.work_per_spike <= n
    require_sums(weights, array)
    np.testing.assert_array_equal(weights.tocsr().toarray(), array)
    assert (weights.largest_magnitudes() >= np.abs(array).max(axis=0)).all()
    backwards = np.arange(n)[::-1]
    for target in range(n):
        np.testing.assert_allclose(weights.column(target, backwards), array[::-1, target], atol=1e-15)
    with pytest.raises((ValueError, AttributeError)):
        weights.kernel_form().values[0] = 1.0


@pytest.mark.parametrize("form", dict.fromkeys(map(type, examples())), ids=lambda form: form.__name__)
def test_methods_are_described_once(form):
    for name in dir(form):
        if not name.startswith("_"):
            assert inspect.getdoc(getattr(form, name)), name


@pytest.mark.parametrize("weights", examples(), ids=name_of)
def test_records_of_one_kind_have_one_type(weights):
    """Also those of copies: a kernel is compiled once for each kind."""
    types = {"int64": np.int64, "float64": np.float64}
    if isinstance(weights, InhibitionOnDemand):  # a function of this test cannot be pickled
        copies = [weights, copy.copy(weights)]
    else:
        copies = [weights, copy.copy(weights), pickle.loads(pickle.dumps(weights))]
    for other in copies:
        form = other.kernel_form()
        assert type(form) in FORMS
        for name, value in form._asdict().items():
            if isinstance(value, np.ndarray):
                assert value.ndim == 1
                assert value.flags.c_contiguous
                assert value.flags.aligned
                assert not value.flags.writeable
                integers = name in ("starts", "targets", "lengths", "offsets", "row_of")
                assert value.dtype == types["int64" if integers else "float64"]
            else:
                assert type(value) is (float if name in ("factor", "largest_value") else int)


def test_one_compiled_clock_serves_each_kind():
    for weights in examples():
        for other in (weights, copy.copy(weights)):
            n_neurons = other.shape[0]
            for record_spikes in (False, True):
                network = SpikingNetwork(other, np.full(n_neurons, 0.7))
                simulate_clocked(network, 5.0, time_step=0.5, record_spikes=record_spikes)
    assert len(clocked.advance.signatures) == len(FORMS)


# -- what single forms say --


def test_no_blocks_at_all():
    result = simulate(SpikingNetwork(BlockWeights(2, []), [1.0, 0.5]), 2.5)
    np.testing.assert_array_equal(result.spike_counts, [2, 1])


def test_lateral_inhibition_in_full():
    gram = np.random.default_rng(0).standard_normal((5, 5))
    weights = LateralInhibition(gram)
    assert weights.strength.base is gram  # used as it is
    array = weights.toarray()
    assert not np.diagonal(array).any()
    np.testing.assert_array_equal(array - np.diag(np.diagonal(gram)), -gram)


def test_a_neuron_does_not_inhibit_itself_even_when_tied():
    """Two equal neurons fire together; the diagonal must stay out of that path too."""
    network = SpikingNetwork(LateralInhibition(np.ones((2, 2))), np.ones(2))
    result = simulate(network, 1.5, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.neurons, [0, 1])
    np.testing.assert_array_equal(result.spikes.times, [1.0, 1.0])
    np.testing.assert_allclose(result.state.synaptic_current, -np.exp(-0.5), rtol=1e-14)


def segmented(**changes):
    arguments = {
        "n_neurons": 3,
        "starts": [0, 1, 2, 2],
        "targets": [1, 2],
        "lengths": [2, 1],
        "offsets": [0, 2],
        "factors": [1.0, -2.0],
        "values": np.array([0.1, 0.2, 0.3]),
    }
    return SegmentedWeights(**(arguments | changes))


def test_segments_are_what_they_say():
    weights = segmented()
    np.testing.assert_allclose(np.asarray(weights), [[0, 0.1, 0.2], [0, 0, -0.6], [0, 0, 0]], rtol=1e-15)
    np.testing.assert_allclose(weights.largest_magnitudes(), [0.0, 0.1, 0.6], rtol=1e-15)
    np.testing.assert_array_equal(weights.out_degrees(np.arange(3)), [2, 1, 0])
    assert weights.work_per_spike == 1.0
    weights.values[:] = [0.0, 1.0, 1.0]
    np.testing.assert_array_equal(np.asarray(weights), [[0, 0, 1], [0, 0, -2], [0, 0, 0]])
    np.testing.assert_array_equal(weights.out_degrees(np.arange(3)), [1, 1, 0])
    np.testing.assert_array_equal(weights.kernel_form().values, weights.values)


def block(first_source, first_target, **changes):
    return Block(
        first_source=first_source, first_target=first_target, **{"values": np.ones((2, 2)), **changes}
    )


HUGE = 2**62
REFUSED = [
    (lambda: BlockWeights(2, [block(1, 0)]), ValueError, "blocks must lie within the 2 neurons; got one that ends at source 3"),
    (lambda: BlockWeights(2, [np.ones((2, 2))]), TypeError, "blocks must be a Block; got ndarray"),
    (lambda: BlockWeights(2, 5), TypeError, "blocks must be an Iterable; got int: pass a sequence of Block"),
    (lambda: BlockWeights(4, [block(HUGE, 0)]), ValueError, "blocks must lie within the 4 neurons"),
    (lambda: BlockWeights(4, [block(0, HUGE)]), ValueError, "blocks must lie within the 4 neurons"),
    (lambda: BlockWeights(4, [block(3, 0)]), ValueError, "blocks must lie within the 4 neurons"),
    (lambda: BlockWeights(4, [block(0, 3)]), ValueError, "blocks must lie within the 4 neurons"),
    (lambda: block(-1, 0), ValueError, "first_source must not be negative; got -1"),
    (lambda: block(0, -5), ValueError, "first_target must not be negative; got -5"),
    (lambda: block(0, 0, values=[[np.nan]]), ValueError, "values must be finite; got nan"),
    (lambda: SignPairWeights(LateralInhibition(np.eye(3)), np.ones(4)), ValueError, "cross must have shape (3,), one weight for each pair"),
    (lambda: SignPairWeights(InhibitionOnDemand(3, np.eye(3).__getitem__), np.ones(4)), ValueError, "cross must have shape (3,), one weight for each pair"),
    (lambda: SignPairWeights(SparseWeights(sparse.csr_array((2, 2))), np.ones(2)), TypeError, "lateral must have one dense row for each pair; got SparseWeights"),
    (lambda: SignPairWeights(SignPairWeights(np.zeros((1, 1)), [1.0]), np.ones(2)), TypeError, "lateral must have one dense row for each pair; got SignPairWeights"),
    (lambda: segmented(targets=[1, 3]), ValueError, "targets and lengths must lie within the 3 neurons; got 1 from 3 for segment 1"),
    (lambda: segmented(targets=[-1, 2]), ValueError, "targets and lengths must lie within the 3 neurons; got 2 from -1 for segment 0"),
    (lambda: segmented(lengths=[-1, 1]), ValueError, "targets and lengths must lie within the 3 neurons; got -1 from 1 for segment 0"),
    (lambda: segmented(lengths=[HUGE, 1], targets=[HUGE, 2]), ValueError, "targets and lengths must lie within the 3 neurons"),
    (lambda: segmented(offsets=[0, 3]), ValueError, "offsets and lengths must lie within the 3 values; got 1 from 3 for segment 1"),
    (lambda: segmented(offsets=[-1, 2]), ValueError, "offsets and lengths must lie within the 3 values; got 2 from -1 for segment 0"),
    (lambda: segmented(starts=[0, 2, 1, 2]), ValueError, "starts must rise from 0 to the number of segments, 2"),
    (lambda: segmented(starts=[0, 1, 2, 3]), ValueError, "starts must rise from 0 to the number of segments, 2; got 0 to 3"),
    (lambda: segmented(starts=[0, 1, 2]), ValueError, "starts must have shape (4,); got shape (3,)"),
    (lambda: segmented(lengths=[1]), ValueError, "lengths must have shape (2,); got shape (1,)"),
    (lambda: segmented(factors=[1.0]), ValueError, "factors must have shape (2,); got shape (1,)"),
    (lambda: segmented(factors=[1.0, np.nan]), ValueError, "factors must be finite; got nan"),
    (lambda: segmented(targets=[0, 2]), ValueError, "a segment must not contain its own source (no neuron connects to itself)"),
    (lambda: segmented(values=np.ones((3, 1))), ValueError, "values must be 1-D and contiguous"),
    (lambda: segmented(values=np.ones(6)[::2]), ValueError, "values must be 1-D and contiguous"),
    (lambda: segmented(targets=[1.0, 2.0]), TypeError, "targets must be an array of integers; got dtype float64"),
    (lambda: segmented(values=np.ones(3, dtype=np.float32)), TypeError, "values must be an array of float64; got float32"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_is_no_form_of_weights_is_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


# -- compressed matrices, corrupted and repaired --


def raw(data, indices, starts, *, kind=sparse.csr_array, shape=(2, 2)):
    """Return a matrix with whatever is written into it afterwards: SciPy checks constructors only."""
    matrix = kind(shape)
    matrix.data = np.asarray(data, dtype=float)
    matrix.indices = np.asarray(indices, dtype=np.int32)
    matrix.indptr = np.asarray(starts, dtype=np.int32)
    return matrix


CORRUPTED = {
    "column one beyond": ([-0.5], [2], [0, 1, 1]),
    "column far beyond": ([-0.5], [5_000_000], [0, 1, 1]),
    "negative column": ([-0.5], [-1], [0, 1, 1]),
    "row ends beyond the data": ([-0.5], [1], [0, 2, 2]),
    "row ends far beyond the data": ([-0.5], [1], [0, 5_000_000, 5_000_000]),
    "rows that go backwards": ([-0.5, -0.5], [1, 0], [0, 2, 1]),
    "first row does not start at 0": ([-0.5], [1], [1, 1, 1]),
    "a row is missing": ([-0.5], [1], [0, 1]),
    "negative row start": ([-0.5], [1], [-1, 0, 1]),
    "fewer columns than values": ([-0.5, -0.5], [1], [0, 1, 2]),
}


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
@pytest.mark.parametrize("case", CORRUPTED)
def test_corrupted_compressed_matrices_are_refused(case, kind):
    """They would be read, and written, out of bounds."""
    with pytest.raises(ValueError, match=r"^weights must have valid indices, within its shape \(2, 2\)"):
        SpikingNetwork(raw(*CORRUPTED[case], kind=kind), np.ones(2))
    with pytest.raises(ValueError, match=r"^matrix must have valid indices"):
        SparseWeights(raw(*CORRUPTED[case], kind=kind))


def test_indices_of_coordinates():
    matrix = sparse.coo_array(np.array([[0.0, -0.5], [-0.5, 0.0]]))
    matrix.col[0] = 5_000_000
    with pytest.raises(ValueError, match="weights must have valid indices"):
        SpikingNetwork(matrix, np.ones(2))


def test_unsorted_and_repeated_columns_are_the_matrix_they_add_up_to():
    matrix = raw([-0.1, -0.2, -0.3, -0.4], [2, 1, 2, 0], [0, 3, 4, 4], shape=(3, 3))
    network = SpikingNetwork(matrix, [1.0, 0.5, 0.8])
    expected = np.array([[0.0, -0.2, -0.1 + -0.3], [-0.4, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(network.weights.toarray(), expected, rtol=1e-15)
    np.testing.assert_array_equal(matrix.indices, [2, 1, 2, 0])  # and it is left alone
    run, other = (simulate(x, 20.0) for x in (network, SpikingNetwork(expected, [1.0, 0.5, 0.8])))
    np.testing.assert_array_equal(run.spike_counts, other.spike_counts)


def test_a_users_matrix_is_left_alone_and_changes_no_network():
    matrix = raw([-0.5, -0.5], [1, 0], [0, 1, 2])
    arrays = matrix.data, matrix.indices, matrix.indptr
    network = SpikingNetwork(matrix, [1.0, 1.0])
    assert all(a is b for a, b in zip(arrays, (matrix.data, matrix.indices, matrix.indptr), strict=True))
    matrix.data[:], matrix.indices[:] = 7.0, 5_000_000
    np.testing.assert_array_equal(np.asarray(network.weights), [[0.0, -0.5], [-0.5, 0.0]])
    assert simulate(network, 5.0).n_spikes > 0


# -- weights that drown the threshold --


def one_weight(value):
    """Neuron 0 acts on neuron 1, which it reaches with this weight."""
    return np.array([[0.0, value, 0.0], [0.0, 0.0, -0.1], [0.0, -0.1, 0.0]])


STRONG = {
    "dense": DenseWeights,
    "lateral inhibition": lambda array: LateralInhibition(np.diag([1e300, 1e300, 1.0]) - array),
    "sparse": lambda array: SparseWeights(sparse.csr_array(array)),
    "blocks": lambda array: BlockWeights(3, [Block(first_source=0, first_target=0, values=array)]),
    "segments": lambda array: BlockWeights(3, [Block(first_source=0, first_target=0, values=array)]).segments,
    "sign pairs": lambda array: SignPairWeights(array, np.ones(3)),
    "cross-inhibition": lambda array: SignPairWeights(np.zeros((3, 3)), [0.0, array[0, 1], 0.0]),
    "stencil": lambda array: StencilWeights(array[:, np.newaxis, np.newaxis], (1, 1)),
}


@pytest.mark.parametrize("form", STRONG)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_weights_far_beyond_the_threshold_of_their_target(form, sign):
    threshold = np.array([1e-9, 2.0, 1e9])
    most = sign * LARGEST_RATIO * threshold[1]
    weights = STRONG[form](one_weight(most))
    n_copies = weights.shape[0] // 3
    bias, threshold = np.ones(3 * n_copies), np.tile(threshold, n_copies)
    SpikingNetwork(weights, bias, threshold)
    with pytest.raises(
        ValueError, match=r"weights must be at most 1\.1e\+12 times the firing threshold of the neuron"
    ) as e:
        SpikingNetwork(STRONG[form](one_weight(most * 1.001)), bias, threshold)
    assert "for neuron 1 with threshold 2:" in str(e.value)


def test_rows_that_are_computed_later():
    array = one_weight(-1e100)
    for run in (simulate, lambda network, duration: simulate_clocked(network, duration, time_step=0.5)):
        network = SpikingNetwork(InhibitionOnDemand(3, lambda sources: -array[sources]), np.ones(3))
        with pytest.raises(ValueError, match="weights must be at most"):
            run(network, 5.0)


def test_biases_and_currents_far_beyond_the_threshold():
    network = SpikingNetwork(np.zeros((2, 2)), [0.0, -LARGEST_RATIO], 1.0)
    with pytest.raises(ValueError, match=r"soma_bias must be at most .*; got -1\.1e\+13 for neuron 1"):
        network.with_soma_bias([0.0, -1.1e13])
    with pytest.raises(ValueError, match=r"soma_bias must be at most .*; got 1e\+300 for neuron 0"):
        SpikingNetwork(np.zeros((2, 2)), [1e300, 0.0])
    state = NetworkState(membrane_potential=[-1e100, 0.0], synaptic_current=[2e12, 0.0])
    for run in (simulate, lambda *a, **k: simulate_clocked(*a, **k, time_step=0.5)):
        with pytest.raises(
            ValueError, match=r"currents of state must be at most .*; got 2e\+12 for neuron 0"
        ):
            run(network, 1.0, state=state)
