"""What is sent or copied is as read-only as before, and so are the caches that are made from it."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

from snn import SpikingNetwork
from snn.weights import SegmentedWeights, examples
from solvers import ConvolutionalDictionary, ElasticNet, LassoProblem

RNG = np.random.default_rng(3)
DENSE = RNG.standard_normal((6, 4)), RNG.standard_normal((3, 4))


def problems():
    """Problems of all kinds, with caches filled."""
    made = [
        LassoProblem(*DENSE, 0.5),
        LassoProblem(*DENSE, ElasticNet(0.5, 0.1), positive=True, mask=np.ones((3, 4), dtype=bool)),
        LassoProblem(DENSE[0], sparse.csr_array(DENSE[1]), 0.5),
        LassoProblem(
            ConvolutionalDictionary(RNG.standard_normal((2, 3, 3)), (5, 5), 2),
            RNG.standard_normal((1, 25)),
            0.5,
        ),
    ]
    for problem in made:
        assert problem.correlations.size
    assert made[0].gram.size
    return made


def flags_of(value, name="", seen=None):
    """Whether each array may be written that can be reached from a value, by the way to it."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return {}
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        return {name: value.flags.writeable}
    if sparse.issparse(value):
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
    elif isinstance(value, tuple):
        parts = dict(enumerate(value))
    elif type(value).__module__.startswith(("snn.", "solvers.")):
        parts = vars(value)
    else:
        return {}
    flags = {}
    for key, part in parts.items():
        flags |= flags_of(part, f"{name}.{key}", seen)
    return flags


@pytest.mark.parametrize("send", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
def test_arrays_stay_read_only(send):
    networks = [
        SpikingNetwork(weights, np.ones(weights.shape[0]), np.ones(weights.shape[0]))
        for weights in examples()
        if type(weights).__name__ != "InhibitionOnDemand"  # it stores rows, and its function may be any
    ]
    for value in [*problems(), *networks]:
        before, after = flags_of(value), flags_of(send(value))
        assert before
        assert not any(is_writable for name, is_writable in after.items() if not before.get(name, False))


def test_values_of_segments_may_still_be_changed():
    (segments,) = [weights for weights in examples() if isinstance(weights, SegmentedWeights)]
    assert copy.deepcopy(segments).values.flags.writeable == segments.values.flags.writeable is True
