"""Statistics of codes, and the kernels that are best for them, against dense matrices."""

import numpy as np
import pytest
from scipy import sparse

from dictlearn.images.kernel_statistics import KernelStatistics
from dictlearn.images.kernel_updates import improve_kernels, minimised
from tests.reference.convolutions import GEOMETRIES, random_dictionary
from tests.reference.kernel_learning import best_kernels, design_matrix


def coded(geometry, seed=0, n_signals=3, n_kernels=3):
    """A dictionary, images and codes that have nothing to do with each other, and their statistics."""
    rng = np.random.default_rng(seed)
    dictionary = random_dictionary(geometry, n_kernels)
    signals = rng.standard_normal((n_signals, dictionary.shape[1]))
    codes = rng.standard_normal((n_signals, dictionary.shape[0]))
    codes[rng.random(codes.shape) < 0.7] = 0.0
    codes[-1] = 0.0  # an image without a coefficient
    statistics = statistics_of(dictionary)
    statistics.add(dictionary, signals, sparse.csr_array(codes), 7.0)
    return dictionary, signals, codes, statistics


def statistics_of(dictionary):
    return KernelStatistics(
        dictionary.n_kernels, dictionary.kernels.shape[1:3], dictionary.n_channels, dictionary.stride
    )


def as_pixels_of(kernels, dictionary):
    return kernels.reshape(dictionary.n_kernels, -1, dictionary.n_channels)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_statistics_are_the_normal_equations(geometry):
    dictionary, signals, codes, statistics = coded(geometry)
    matrix = design_matrix(dictionary, codes)
    rng = np.random.default_rng(1)
    kernels = rng.standard_normal(dictionary.kernels.shape)
    pixels = as_pixels_of(kernels, dictionary)
    residual = signals.ravel() - matrix @ kernels.ravel()
    objective = (0.5 * residual @ residual + 7.0) / len(signals)
    assert statistics.objective(pixels) == pytest.approx(objective, rel=1e-12)
    gradient = statistics.product(pixels) - statistics.correlations
    # Sums of some hundred products of normal numbers.
    np.testing.assert_allclose(gradient.ravel(), -matrix.T @ residual, rtol=0, atol=1e-10)
    square = (matrix.T @ matrix).reshape(*dictionary.kernels.shape, *dictionary.kernels.shape)
    for kernel in range(dictionary.n_kernels):
        own = square[kernel, :, :, ..., kernel, :, :] if dictionary.kernels.ndim == 3 else None
        if own is not None:
            n_pixels = dictionary.features_of_atom
            np.testing.assert_allclose(
                statistics.own_block(kernel), own.reshape(n_pixels, n_pixels), rtol=0, atol=1e-10
            )
    usage = np.square(codes).reshape(-1, dictionary.n_kernels).sum(axis=0)
    np.testing.assert_allclose(statistics.usage, usage, rtol=1e-12)


def test_images_may_come_one_by_one_and_be_forgotten():
    dictionary, signals, codes, together = coded(GEOMETRIES[0])
    apart = statistics_of(dictionary)
    for n in range(len(signals)):
        apart.add(dictionary, signals[n : n + 1], sparse.csr_array(codes[n : n + 1]), 7.0 / 3)
    np.testing.assert_allclose(apart.lags, together.lags, rtol=0, atol=1e-12)
    np.testing.assert_allclose(apart.correlations, together.correlations, rtol=0, atol=1e-12)
    pixels = as_pixels_of(dictionary.kernels, dictionary)
    mean = together.objective(pixels)
    copy = together.copy()
    together.forget(0.25)
    # A weighted mean of the same images.
    assert together.objective(pixels) == pytest.approx(mean, rel=1e-12)
    assert copy.weight == 3.0
    assert together.weight == 0.75
    together.clear(1)
    assert together.usage[1] == 0.0
    assert copy.usage[1] > 0.0


@pytest.mark.parametrize("geometry", [GEOMETRIES[0], GEOMETRIES[4], GEOMETRIES[6]])
def test_sweeps_end_where_projected_gradients_do(geometry):
    """The oracle is a dense matrix and a method of its own."""
    dictionary, signals, codes, statistics = coded(geometry, n_signals=4)
    matrix = design_matrix(dictionary, codes)
    kernels = dictionary.normalised(1.0).kernels
    pixels = as_pixels_of(kernels.copy(), dictionary)
    objectives = [statistics.objective(pixels)]
    for _ in range(30):
        improve_kernels(statistics, pixels, 1)
        objectives.append(statistics.objective(pixels))
    assert (np.diff(objectives) <= 1e-12 * objectives[0]).all()
    assert (np.linalg.norm(pixels, axis=(1, 2)) <= 1.0 + 1e-12).all()
    best = best_kernels(matrix, signals, kernels, 5000)
    residual = signals.ravel() - matrix @ best.ravel()
    assert objectives[-1] == pytest.approx((0.5 * residual @ residual + 7.0) / len(signals), rel=1e-8)


def test_an_unused_kernel_stays_as_it_is():
    dictionary, _, _, statistics = coded(GEOMETRIES[0])
    pixels = as_pixels_of(dictionary.normalised(1.0).kernels.copy(), dictionary)
    statistics.clear(2)
    before = pixels.copy()
    improve_kernels(statistics, pixels, 2)
    np.testing.assert_array_equal(pixels[2], before[2])
    assert not np.array_equal(pixels[1], before[1])


@pytest.mark.parametrize("exponent", [-900, -600, -200, 200, 600, 900])
def test_the_unit_does_not_matter_to_a_kernel(exponent):
    """The same bits, however large or small the numbers are."""
    rng = np.random.default_rng(4)
    for rank, pull in ((12, 1e-3), (12, 10.0), (7, 1.0)):
        root = rng.standard_normal((12, rank))
        block = root @ root.T
        wanted = pull * rng.standard_normal((12, 3))
        kernel = minimised(np.ldexp(block, exponent), np.ldexp(wanted, exponent))
        np.testing.assert_array_equal(kernel, minimised(block, wanted))


def test_a_kernel_at_which_nothing_pulls_stays_as_it_is():
    dictionary, _, _, statistics = coded(GEOMETRIES[0])
    pixels = as_pixels_of(dictionary.normalised(1.0).kernels.copy(), dictionary)
    for kernel in (0, 1):
        statistics.clear(kernel)
    statistics.correlations[2] = 0.0
    statistics.lags[2, statistics.reach[0], statistics.reach[1], 2] = 1.0
    before = pixels[2].copy()
    statistics.correlations[2] = statistics.product(pixels)[2] - statistics.own_block(2) @ before
    improve_kernels(statistics, pixels, 1)
    np.testing.assert_array_equal(pixels[2], before)


@pytest.mark.parametrize("rank", [12, 7])
@pytest.mark.parametrize("pull", [1e-3, 1.0, 10.0, 1e6])
def test_one_kernel_meets_the_optimality_conditions(rank, pull):
    """block d + m d = wanted, m >= 0, ||d|| <= 1, and m = 0 where the norm is less than one."""
    rng = np.random.default_rng(3)
    root = rng.standard_normal((12, rank))
    block = root @ root.T
    # Within the range of the block, as the statistics of real codes are.
    wanted = pull * block @ rng.standard_normal((12, 3))
    kernel = minimised(block, wanted)
    norm = np.linalg.norm(kernel)
    left = wanted - block @ kernel
    multiplier = np.vdot(left, kernel) / norm**2
    scale = np.abs(wanted).max()
    assert norm <= 1.0 + 1e-12
    np.testing.assert_allclose(left, multiplier * kernel, rtol=0, atol=1e-7 * scale)
    assert multiplier >= -1e-9 * scale
    if norm < 1.0 - 1e-9:
        assert abs(multiplier) <= 1e-9 * scale
