"""Convolutional dictionaries of every geometry."""

import numpy as np

from solvers import ConvolutionalDictionary

# Image, kernel, stride: strides that divide a kernel's side or not, reach it or leave pixels out, one
# position, one pixel; two and three channels.
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
    return ConvolutionalDictionary(kernels, image_shape, stride)
