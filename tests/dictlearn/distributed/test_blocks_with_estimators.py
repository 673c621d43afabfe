"""Estimators on the blocks of a Dask array, as dask-ml's `Incremental` and `ParallelPostFit` call them."""

import pickle

import numpy as np
import pytest

from dictlearn import SpikingDictionaryLearning
from solvers import SpikingSparseCoder

pytestmark = pytest.mark.thorough

da = pytest.importorskip("dask.array", reason="needs the extra: pip install 'sparsespike[dask]'")

N_ATOMS = 8


@pytest.fixture(scope="module")
def array():
    signals = np.random.default_rng(0).standard_normal((60, 6))
    return da.from_array(signals, chunks=(25, -1))


def estimator():
    return SpikingDictionaryLearning(N_ATOMS, alpha=0.3, batch_size=10, random_state=0)


def test_partial_fit_learns_block_after_block(array):
    """What was learned survives the way to another task, and the blocks' lengths are those of the batches."""
    learning = estimator()
    for block in array.blocks:
        learning = pickle.loads(pickle.dumps(learning)).partial_fit(block.compute())
    expected = estimator()
    signals = array.compute()
    for first in (0, 25, 50):
        expected.partial_fit(signals[first : first + 25])
    np.testing.assert_array_equal(learning.components_, expected.components_)
    assert learning.n_samples_seen_ == 60
    assert np.isfinite(learning.score(signals))


@pytest.mark.parametrize("kind", ["learned", "given"])
def test_transform_maps_over_blocks(cluster_client, array, kind):
    """Blocks are coded on workers; `meta` says what Dask would else try with an array without samples."""
    signals = array.compute()
    if kind == "learned":
        coder = estimator().partial_fit(signals)
    else:
        atoms = np.random.default_rng(1).standard_normal((N_ATOMS, 6))
        coder = SpikingSparseCoder(atoms, alpha=0.3)
    codes = array.map_blocks(
        coder.transform, chunks=(array.chunks[0], (N_ATOMS,)), dtype=float, meta=np.empty((0, N_ATOMS))
    )
    assert codes.shape == (60, N_ATOMS)
    computed = cluster_client.compute(codes).result()
    np.testing.assert_array_equal(computed, coder.transform(signals))
