"""Ill-posed problems are named, with the remedy, and well-posed ones are not."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import uniform_filter

from solvers import (
    ConvolutionalDictionary,
    IllPosedWarning,
    LassoProblem,
    solve_active_set,
    solve_spiking,
)

SIDE = 24


def kernels(*, mean, n_kernels=4, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((n_kernels, 4, 4))
    return drawn if mean else drawn - drawn.mean(axis=(1, 2), keepdims=True)


def slow_image(seed=1):
    """Mostly slow changes."""
    return 3.0 + uniform_filter(np.random.default_rng(seed).standard_normal((SIDE, SIDE)), 3)


def problem(kernels, image, **more):
    dictionary = ConvolutionalDictionary(kernels, (SIDE, SIDE), 2)
    return LassoProblem(dictionary, image.reshape(1, -1), 0.5, **more)


@pytest.mark.parametrize("solve", [solve_active_set, lambda each: solve_spiking(each, polish=True)])
def test_an_image_with_its_mean_and_kernels_without(solve):
    message = r"no kernel has a mean, but local means are \d+% of the energy of signal 0: subtract them"
    with pytest.warns(IllPosedWarning, match=message) as caught:
        solve(problem(kernels(mean=False), slow_image()))
    assert caught[0].filename.endswith("test_conditioning.py")


def test_the_remedies_named_are_remedies():
    image = slow_image()
    constant = np.concatenate([kernels(mean=False), np.ones((1, 4, 4))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_active_set(problem(constant, image))
        solve_active_set(problem(kernels(mean=True), image))
        solve_active_set(problem(kernels(mean=False), image - uniform_filter(image, 4)))


@pytest.mark.parametrize("factor", [1.0, -3.0])
def test_kernels_that_are_equal(factor):
    doubled = np.concatenate([kernels(mean=True), factor * kernels(mean=True)[2:3]])
    with pytest.warns(IllPosedWarning, match="kernels 2 and 4 are equal .* leave one of them out"):
        solve_active_set(problem(doubled, slow_image()))


def test_a_kernel_that_is_another_one_shifted():
    shifted = np.zeros((2, 4, 4))
    shifted[0, :2, :2] = shifted[1, 2:, 2:] = [[1.0, 2.0], [3.0, 4.0]]
    with pytest.warns(IllPosedWarning, match="kernels 0 and 1 are equal but for a factor and a shift"):
        solve_active_set(problem(shifted, slow_image()))


def test_kernels_that_are_nearly_equal_are_not_named():
    near = np.concatenate([kernels(mean=True), kernels(mean=True)[2:3] + 1e-3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_active_set(problem(near, slow_image()))


def test_of_arrays_of_atoms_nothing_is_said():
    array = np.concatenate([np.eye(4), np.eye(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_active_set(LassoProblem(array, np.ones((1, 4)), 0.5))
