"""Every form of weights keeps the protocol; wrong indices and extreme values are refused in one sentence."""

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


def compressed(kind, *, indices=(1, 0), starts=(0, 1, 2)):
    matrix = kind((np.array([-0.5, -0.5]), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2))
    matrix.indices, matrix.indptr = np.array(indices), np.array(starts)
    return matrix


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
@pytest.mark.parametrize(
    "wrong", [{"indices": (2, 0)}, {"indices": (5_000_000, 0)}, {"indices": (-1, 0)}, {"starts": (0, 9, 2)}]
)
def test_indices_of_compressed_matrices(kind, wrong):
    with pytest.raises(ValueError, match=r"weights must have valid indices, within its shape \(2, 2\)"):
        SpikingNetwork(compressed(kind, **wrong), np.ones(2))
    with pytest.raises(ValueError, match=r"matrix must have valid indices"):
        SparseWeights(compressed(kind, **wrong))


def test_indices_of_coordinates():
    matrix = sparse.coo_array(np.array([[0.0, -0.5], [-0.5, 0.0]]))
    matrix.col[0] = 5_000_000
    with pytest.raises(ValueError, match="weights must have valid indices"):
        SpikingNetwork(matrix, np.ones(2))


def test_the_check_leaves_the_users_matrix_alone():
    matrix = compressed(sparse.csr_array)
    arrays = matrix.data, matrix.indices, matrix.indptr
    weights = SparseWeights(matrix)
    assert all(a is b for a, b in zip(arrays, (matrix.data, matrix.indices, matrix.indptr), strict=True))
    matrix.data[:] = 7.0
    np.testing.assert_array_equal(np.asarray(weights), [[0.0, -0.5], [-0.5, 0.0]])


def segmented(**changes):
    arguments = {
        "n_neurons": 3,
        "starts": np.array([0, 1, 2, 2]),
        "targets": np.array([1, 2]),
        "lengths": np.array([2, 1]),
        "offsets": np.array([0, 2]),
        "factors": np.array([1.0, -2.0]),
        "values": np.array([0.1, 0.2, 0.3]),
    }
    return SegmentedWeights(**(arguments | changes))


def test_segments_are_what_they_say():
    weights = segmented()
    np.testing.assert_allclose(np.asarray(weights), [[0, 0.1, 0.2], [0, 0, -0.6], [0, 0, 0]], rtol=1e-15)
    np.testing.assert_allclose(weights.largest_magnitudes(), [0.0, 0.1, 0.6], rtol=1e-15)
    np.testing.assert_array_equal(weights.out_degrees(np.arange(3)), [2, 1, 0])
    assert weights.work_per_spike == 1.0
    weights.values[:] = 1.0
    np.testing.assert_array_equal(np.asarray(weights), [[0, 1, 1], [0, 0, -2], [0, 0, 0]])
    np.testing.assert_array_equal(weights.kernel_form().values, np.ones(3))


HUGE = 2**62
SEGMENTS = [
    ({"targets": [1, 3]}, "targets and lengths must lie within the 3 neurons; got 1 from 3 for segment 1"),
    ({"targets": [-1, 2]}, "targets and lengths must lie within the 3 neurons; got 2 from -1 for segment 0"),
    ({"lengths": [-1, 1]}, "targets and lengths must lie within the 3 neurons; got -1 from 1 for segment 0"),
    ({"lengths": [HUGE, 1], "targets": [HUGE, 2]}, "targets and lengths must lie within the 3 neurons"),
    ({"offsets": [0, 3]}, "offsets and lengths must lie within the 3 values; got 1 from 3 for segment 1"),
    ({"offsets": [-1, 2]}, "offsets and lengths must lie within the 3 values; got 2 from -1 for segment 0"),
    ({"starts": [0, 2, 1, 2]}, "starts must rise from 0 to the number of segments, 2"),
    ({"starts": [0, 1, 2, 3]}, "starts must rise from 0 to the number of segments, 2; got 0 to 3"),
    ({"starts": [0, 1, 2]}, "starts must have shape (4,); got shape (3,)"),
    ({"lengths": [1]}, "lengths must have shape (2,); got shape (1,)"),
    ({"factors": [1.0]}, "factors must have shape (2,); got shape (1,)"),
    ({"factors": [1.0, np.nan]}, "factors must be finite; got nan"),
    ({"targets": [0, 2]}, "a segment must not contain its own source (no neuron connects to itself)"),
    ({"values": np.ones((3, 1))}, "values must be 1-D and contiguous"),
    ({"values": np.ones(6)[::2]}, "values must be 1-D and contiguous"),
]


@pytest.mark.parametrize(("changes", "message"), SEGMENTS, ids=[message for _, message in SEGMENTS])
def test_ranges_of_segments(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        segmented(**{name: np.asarray(value) for name, value in changes.items()})


def test_kinds_of_segments():
    with pytest.raises(TypeError, match="targets must be an array of integers; got dtype float64"):
        segmented(targets=np.array([1.0, 2.0]))
    with pytest.raises(TypeError, match="values must be an array of float64; got float32"):
        segmented(values=np.ones(3, dtype=np.float32))


def test_sign_pairs_need_dense_rows():
    for lateral in (SparseWeights(sparse.csr_array((2, 2))), SignPairWeights(np.zeros((1, 1)), [1.0])):
        with pytest.raises(TypeError, match="lateral must have one dense row for each pair; got S"):
            SignPairWeights(lateral, np.ones(lateral.shape[0]))


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


@pytest.mark.parametrize("weights", [*examples(), Chain(0.5, 3)], ids=lambda weights: type(weights).__name__)
def test_every_form_says_the_same_as_its_array(weights):
    weights.prepare(np.arange(weights.shape[0]))
    array = np.asarray(weights)
    n = len(array)
    assert weights.shape == array.shape
    assert np.prod(weights.layout) == n
    assert 0.0 < weights.work_per_spike <= n
    everything = np.arange(n)
    np.testing.assert_allclose(weights.transpose_product(np.eye(n)), array, rtol=0, atol=1e-15)
    np.testing.assert_allclose(weights.transpose_product(np.ones(n)), array.sum(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(weights.out_degrees(everything), np.count_nonzero(array, axis=1))
    assert (weights.largest_magnitudes() >= np.abs(array).max(axis=0)).all()
    for target in range(n):
        np.testing.assert_allclose(weights.column(target, everything[::-1]), array[::-1, target], atol=1e-15)
    with pytest.raises((ValueError, AttributeError)):
        weights.kernel_form().values[0] = 1.0


@pytest.mark.parametrize("form", {type(weights) for weights in examples()}, ids=lambda form: form.__name__)
def test_methods_are_described_once(form):
    for name in dir(form):
        if not name.startswith("_"):
            assert inspect.getdoc(getattr(form, name)), name


@pytest.mark.parametrize("weights", examples(), ids=lambda weights: type(weights).__name__)
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
