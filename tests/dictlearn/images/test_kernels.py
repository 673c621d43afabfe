"""Kernels learned from images and signals: statistics and updates agree with dense matrices; the learner."""

import copy
import pickle

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse

from dictlearn.images.kernels import Crops, KernelLearner, KernelSettings, learn_kernels, random_kernels
from dictlearn.images.statistics import KernelStatistics, improve_kernels, minimised
from dictlearn.resumable import Course
from snn.base.archive import save_archive
from solvers import ConvolutionalDictionary
from tests.dictlearn.refused import each_refused
from tests.reference.convolutions import GEOMETRIES, random_dictionary
from tests.reference.kernel_learning import best_kernels, design_matrix


def coded(geometry, n_signals=3, n_kernels=3):
    """Return an independent dictionary, images and codes, and their statistics."""
    rng = np.random.default_rng(0)
    dictionary = random_dictionary(geometry, n_kernels)
    signals = rng.standard_normal((n_signals, dictionary.shape[1]))
    codes = rng.standard_normal((n_signals, dictionary.shape[0]))
    codes[rng.random(codes.shape) < 0.7] = 0.0
    codes[-1] = 0.0  # no kernel is used in the last image
    statistics = statistics_of(dictionary)
    statistics.add(dictionary, signals, sparse.csr_array(codes))
    return dictionary, signals, codes, statistics


def statistics_of(dictionary):
    sides = dictionary.kernels.shape[1:3]
    return KernelStatistics(dictionary.n_kernels, sides, dictionary.n_channels, dictionary.stride)


def as_pixels_of(kernels, dictionary):
    return kernels.reshape(dictionary.n_kernels, -1, dictionary.n_channels)


def product_of(statistics, pixels):
    return np.stack([statistics.product(kernel, pixels) for kernel in range(len(pixels))])


def data_term(statistics, signals, pixels):
    quadratic = 0.5 * np.vdot(pixels, product_of(statistics, pixels))
    return 0.5 * np.vdot(signals, signals) + quadratic - np.vdot(pixels, statistics.correlations)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_statistics_are_the_normal_equations(geometry):
    dictionary, signals, codes, statistics = coded(geometry)
    matrix = design_matrix(dictionary, codes)
    kernels = np.random.default_rng(1).standard_normal(dictionary.kernels.shape)
    pixels = as_pixels_of(kernels, dictionary)
    residual = signals.ravel() - matrix @ kernels.ravel()
    assert data_term(statistics, signals, pixels) == pytest.approx(0.5 * residual @ residual, rel=1e-12)
    gradient = product_of(statistics, pixels) - statistics.correlations
    # Sums of some hundred products of normal numbers.
    np.testing.assert_allclose(gradient.ravel(), -matrix.T @ residual, rtol=0, atol=1e-10)
    if dictionary.kernels.ndim == 3:
        n_pixels = dictionary.features_of_atom
        square = (matrix.T @ matrix).reshape(dictionary.n_kernels, n_pixels, dictionary.n_kernels, n_pixels)
        for k in range(dictionary.n_kernels):
            np.testing.assert_allclose(statistics.own_block(k), square[k, :, k], rtol=0, atol=1e-10)
    usage = np.square(codes).reshape(-1, dictionary.n_kernels).sum(axis=0)
    np.testing.assert_allclose(statistics.usage, usage, rtol=1e-12)
    # Statistics added image by image are the same; then test forgetting and clearing.
    apart = statistics_of(dictionary)
    for n in range(len(signals)):
        apart.add(dictionary, signals[n : n + 1], sparse.csr_array(codes[n : n + 1]))
    np.testing.assert_allclose(apart.lags, statistics.lags, rtol=0, atol=1e-12)
    np.testing.assert_allclose(apart.correlations, statistics.correlations, rtol=0, atol=1e-12)
    before = copy.deepcopy(statistics)
    statistics.forget(0.25)
    np.testing.assert_array_equal(product_of(statistics, pixels), 0.25 * product_of(before, pixels))
    np.testing.assert_array_equal(statistics.correlations, 0.25 * before.correlations)
    statistics.clear(1)
    assert statistics.usage[1] == 0.0 <= before.usage[1]


@pytest.mark.parametrize("geometry", [GEOMETRIES[0], GEOMETRIES[6]])
def test_sweeps_end_where_projected_gradients_do(geometry):
    """The reference is a dense matrix with another method."""
    dictionary, signals, codes, statistics = coded(geometry, n_signals=4)
    matrix, kernels = design_matrix(dictionary, codes), dictionary.kernels
    kernels = kernels / np.linalg.norm(kernels.reshape(len(kernels), -1), axis=1).reshape(
        -1, *[1] * (kernels.ndim - 1)
    )
    pixels = as_pixels_of(kernels.copy(), dictionary)
    objectives = [data_term(statistics, signals, pixels)]
    twice = pixels.copy()
    improve_kernels(statistics, twice, 2)
    for number in range(30):
        improve_kernels(statistics, pixels, 1)
        if number == 1:
            np.testing.assert_allclose(twice, pixels, rtol=0, atol=1e-10)
        objectives.append(data_term(statistics, signals, pixels))
    assert (np.diff(objectives) <= 1e-12 * objectives[0]).all()
    assert (np.linalg.norm(pixels, axis=(1, 2)) <= 1.0 + 1e-12).all()
    residual = signals.ravel() - matrix @ best_kernels(matrix, signals, kernels, 3000).ravel()
    assert objectives[-1] == pytest.approx(0.5 * residual @ residual, rel=1e-8)


@pytest.mark.parametrize(("rank", "pull"), [(12, 1e-3), (12, 10.0), (7, 1.0), (7, 1e6)])
def test_one_kernel_meets_the_optimality_conditions_in_any_unit(rank, pull):
    """Optimality means block d + m d = wanted, m >= 0, ||d|| <= 1, and m = 0 if the norm is less than one."""
    rng = np.random.default_rng(3)
    root = rng.standard_normal((12, rank))
    block = root @ root.T
    # Keep `wanted` in the range of the block, as in statistics of real codes.
    wanted = pull * block @ rng.standard_normal((12, 3))
    kernel = minimised(block, wanted)
    norm, left, scale = np.linalg.norm(kernel), wanted - block @ kernel, np.abs(wanted).max()
    multiplier = np.vdot(left, kernel) / norm**2
    assert norm <= 1.0 + 1e-12
    np.testing.assert_allclose(left, multiplier * kernel, rtol=0, atol=1e-7 * scale)
    assert multiplier >= -1e-9 * scale
    if norm < 1.0 - 1e-9:
        assert abs(multiplier) <= 1e-9 * scale
    for exponent in (-900, 900):
        np.testing.assert_array_equal(
            minimised(np.ldexp(block, exponent), np.ldexp(wanted, exponent)), kernel
        )


def planted(n_images=40, shape=(18, 17), n_kernels=3, side=5, n_channels=None, seed=0):
    """Return images that are sums of a few kernels, and the kernels."""
    rng = np.random.default_rng(seed)
    kernels = rng.standard_normal((n_kernels, side, side, *([n_channels] if n_channels else [])))
    kernels = (kernels.T / np.linalg.norm(kernels.reshape(n_kernels, -1), axis=1)).T
    dictionary = ConvolutionalDictionary(kernels, shape, 1)
    codes = np.zeros((n_images, dictionary.shape[0]))
    for code in codes:
        code[rng.choice(len(code), 6, replace=False)] = rng.uniform(1.0, 2.0, 6) * rng.choice([-1, 1], 6)
    return (codes @ dictionary.toarray()).reshape(n_images, *dictionary.signal_shape), kernels


def started(images, n_kernels=4, penalty=0.1, unit=1.0, **options):
    start = random_kernels(list(images), n_kernels, (5, 5), np.random.default_rng(0))
    return KernelLearner(start * unit, KernelSettings(penalty=penalty, **options))


def cosines(kernels, others):
    """Return the largest cosine of each of `others` with any kernel, at shifts of up to two pixels."""
    padded = [np.pad(one, [(0, 0), (2, 2), (2, 2)] + [(0, 0)] * (one.ndim - 3)) for one in (kernels, others)]
    shifts = [np.roll(padded[0], (i, j), axis=(1, 2)) for i in range(-2, 3) for j in range(-2, 3)]
    shifted = np.concatenate(shifts).reshape(25 * len(kernels), -1)
    return np.abs(shifted @ padded[1].reshape(len(others), -1).T).max(axis=0)


def test_planted_kernels_are_found():
    images, kernels = planted(n_channels=None, seed=5)
    start = random_kernels(list(images), 6, (5, 5), np.random.default_rng(1))
    learner = KernelLearner(start, KernelSettings(penalty=0.1))
    before = cosines(learner.kernels, kernels)
    for _ in range(2):
        for first in range(0, len(images), 4):
            assert learner.learn(images[first : first + 4]).converged
    assert before.min() < 0.7
    assert (cosines(learner.kernels, kernels) > 0.95).all()
    np.testing.assert_allclose(np.linalg.norm(learner.kernels.reshape(6, -1), axis=1), 1.0, rtol=1e-12)
    history = learner.history
    assert history["objective"][-1] < 0.6 * history["objective"][0]
    np.testing.assert_allclose(history["energy"][0], 0.5 * np.square(images[:4]).sum() / 4.0)
    assert history["n_samples"][:2].tolist() == [4, 8]
    assert (history["gap"] <= 0.1).all()
    assert (history["n_spikes"] > 0).all()


def test_bits_depend_neither_on_workers_nor_on_a_stop(tmp_path):
    images, path = list(planted(n_images=6, shape=(14, 13))[0]), tmp_path / "kernels.npz"

    def learned(learner=None, images=images, seed=5, **options):
        learner = started(images, replace_dead=True) if learner is None else learner
        crops = Crops(images, (12, 12), (5, 5), 1, 3, seed)
        learn_kernels(learner, crops, **{"n_passes": 2, "course": Course(), **options})
        return learner

    def assert_same(one, other):
        np.testing.assert_array_equal(one.kernels, other.kernels)
        for name, values in one.history.items():
            np.testing.assert_array_equal(values, other.history[name])

    whole = learned()
    with parallel_config(backend="threading"):
        assert_same(learned(n_jobs=2), whole)
    saved = {"course": Course(checkpoint=path)}
    stopped = learned(course=Course(callback=lambda learner: learner.n_batches == 3, checkpoint=path))
    assert stopped.n_batches == 3
    for again in (copy.deepcopy(stopped), pickle.loads(pickle.dumps(stopped)), KernelLearner.load(path)):
        assert_same(learned(again), whole)
    # A learner continues from a checkpoint, even if it has already learned from another start.
    for again in (None, whole):
        assert_same(learned(again, **saved), whole)
    for options, what in (
        ({"learner": KernelLearner(started(images).kernels[::-1], whole.settings)}, "other start"),
        ({"learner": KernelLearner(started(images).kernels, KernelSettings(penalty=0.2))}, "other settings"),
        ({"seed": 6}, "other seed"),
        ({"images": [2.0 * image for image in images]}, "other images"),
        ({"n_passes": 1}, "batches already"),
    ):
        with pytest.raises(ValueError, match=what):
            learned(**{**saved, **options})


def test_dead_kernels_are_said_and_replaced():
    images, kernels = planted(n_images=36)
    # Only the first kernel resembles a part of the images; the other two are checkerboards.
    board = np.indices((5, 5)).sum(axis=0) % 2 - 0.5
    start = np.stack([kernels[0], board, np.roll(board, 1, axis=0) * np.arange(1, 6)])
    for replace_dead in (False, True):
        learner = KernelLearner(start, KernelSettings(penalty=1.4, tol=1e-3, replace_dead=replace_dead))
        for first in range(0, len(images), 12):
            learner.learn(images[first : first + 12])
        assert (learner.n_replaced > 0) is replace_dead
        assert learner.dead_kernels.tolist() == ([] if replace_dead else [1, 2])
    learner = KernelLearner(start, KernelSettings(penalty=1.4, tol=1e-3))
    learner.learn(images)
    np.testing.assert_allclose(learner.kernels[1], board / np.linalg.norm(board), rtol=1e-12)


def test_crops_cover_images_of_any_size():
    rng = np.random.default_rng(0)
    images = [rng.random((30, 47)), rng.random((9, 12)), rng.random((8, 30))]
    crops = Crops(images, (16, 16), (8, 8), 4, 2, 1)
    places = crops.batches
    batches = [crops.cut(batch) for batch in places(0)]
    assert {batch.shape[1:] for batch in batches} == {(16, 16), (8, 12), (8, 16)}
    assert sum(len(batch) for batch in batches) == round(30 * 47 / 256) + 1 + 2
    assert max(len(batch) for batch in batches) == 2
    for batch, (shape, found) in zip(batches, places(0), strict=True):
        for crop, (n, top, left) in zip(batch, found, strict=True):
            np.testing.assert_array_equal(crop, images[n][top : top + shape[0], left : left + shape[1]])
    assert len(places(1)) == len(batches)
    assert places(1) != places(0)
    assert Crops([], (64, 30), (8, 8), 3, 1, 0).shape_of((100, 100, 3)) == (62, 29)


IMAGES = planted(n_images=2)[0]
SETTINGS = KernelSettings(penalty=1.0)


def fresh():
    return KernelLearner(np.random.default_rng(0).standard_normal((3, 3, 3)), KernelSettings(penalty=0.05))


def learn(images):
    fresh().learn(images)


def settings(penalty=1.0, **options):
    return KernelSettings(penalty=penalty, **options)


def learner(kernels=(((1.0, 2.0), (3.0, 4.0)),), settings=SETTINGS):
    return KernelLearner(kernels, settings)


def start(images, n_kernels=2, size=(3, 3)):
    return random_kernels(images, n_kernels, size, np.random.default_rng(0))


@each_refused(
    (learn, ValueError, {"images": [IMAGES * 1e-130, IMAGES * 1e130]}),
    (learner, ValueError, {"kernels": [np.zeros((2, 3, 3))]}),
    (settings, ValueError, {"penalty": [0.0], "tol": [0.0]}),
    (settings, TypeError, {"stride": [1.5], "positive": [1], "replace_dead": [1]}),
    (lambda: start([np.zeros((9, 9))]), ValueError, "nothing to learn"),
    (lambda: start([np.ones((9, 9))], 2, (1, 1)), ValueError, "at most 1 different directions; got 2"),
    (lambda: KernelLearner.load("/nowhere/kernels.npz"), FileNotFoundError, "nowhere"),
)  # fmt: skip
def test_what_is_refused_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()


def test_a_file_that_no_learner_wrote_is_refused(tmp_path):
    path, learner = tmp_path / "kernels.npz", fresh()
    learner.learn(planted(n_images=6)[0])
    learner.save(path)
    with np.load(path) as archive:
        entries = dict(archive)
    history = entries["history"]
    wrong = {
        "version": [np.array(3)],
        "n_samples": [np.array(-5), np.array(6.5), np.array(7)],
        "n_batches": [np.array(2)],
        "last_used": [np.full(3, 99), np.full(3, 1.5), np.full(3, -1)],
        "history": [np.full(history.shape, np.nan), np.repeat(history, 2, axis=0)],
        "lags": [-entries["lags"], np.zeros(())],
        "correlations": [np.full((2, 9, 1), np.nan)],
        "kernels": [50.0 * entries["kernels"], 0.0 * entries["kernels"], np.ones(3)],
        "settings": [np.array("[]"), np.array('{"penalty": -1}')],
    }  # fmt: skip
    for name, values in wrong.items():
        for value in values:
            save_archive(path, {**entries, name: value})
            with pytest.raises(ValueError, match="must name a saved KernelLearner"):
                KernelLearner.load(path)
