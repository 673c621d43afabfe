"""Convolutional dictionaries of every geometry."""

import numpy as np

from solvers import ConvolutionalDictionary, ElasticNet, LassoProblem, penalty_max
from solvers.problem.convolutional_dictionary import ConvolutionalAtoms

# Shape of image, shape of kernel, stride: strides divide the sides of a kernel or not, or leave pixels out;
# one image has one position, one kernel has one pixel, and two images have channels.
GEOMETRIES = [
    ((13, 15), (5, 3), 2),
    ((12, 12), (4, 4), 4),
    ((11, 11), (3, 3), 4),
    ((9, 7), (9, 7), 1),
    ((10, 18), (8, 8), 2),
    ((3, 3), (1, 1), 1),
    ((9, 13), (5, 3, 3), 2),
    ((11, 7), (3, 3, 2), 4),
]


def random_dictionary(geometry=GEOMETRIES[0], n_kernels=5, seed=0):
    image_shape, side, stride = geometry
    kernels = np.random.default_rng(seed).standard_normal((n_kernels, *side))
    return ConvolutionalAtoms(kernels, image_shape, stride)


def image_problem(geometry=GEOMETRIES[0], *, positive=True, share=0.2, seed=1):
    """Return the problem of coding one image of noise."""
    dictionary = random_dictionary(geometry)
    signals = np.random.default_rng(seed).standard_normal((1, dictionary.shape[1]))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def long_signal(*, stride=1, n_channels=1, positive=False, l2_penalty=0.0, copies=1, seed=0):
    """Return the problem of coding a long one-dimensional signal, which is a sum of smooth kernels."""
    rng = np.random.default_rng(seed)
    kernels = np.cumsum(rng.standard_normal((3, 8, n_channels)), axis=1)
    kernels = np.tile(kernels / np.linalg.norm(kernels, axis=(1, 2), keepdims=True), (copies, 1, 1))
    dictionary = ConvolutionalDictionary(kernels, 8 + 200 * stride, stride)
    signal = np.cumsum(rng.standard_normal((1, dictionary.shape[1])), axis=1)
    signal -= signal.mean()
    penalty = 0.05 * penalty_max(dictionary, signal, positive=positive).min()
    if l2_penalty:
        penalty = ElasticNet(penalty, l2_penalty * penalty)
    return LassoProblem(dictionary, signal, penalty, positive=positive)
