"""A dense learner of kernels, which uses the matrix from kernels to images for fixed codes."""

import numpy as np

from solvers import ConvolutionalDictionary


def design_matrix(dictionary: ConvolutionalDictionary, codes: np.ndarray) -> np.ndarray:
    """Return the matrix M for which the concatenated images are M @ kernels.ravel().

    Each column is the image of kernels that have one nonzero value.
    """
    columns = []
    for k in range(dictionary.kernels.size):
        unit = np.zeros(dictionary.kernels.size)
        unit[k] = 1.0
        single = ConvolutionalDictionary(
            unit.reshape(dictionary.kernels.shape), dictionary.image_shape, dictionary.stride
        )
        columns.append((codes @ single.toarray()).ravel())
    return np.array(columns).T


def best_kernels(matrix: np.ndarray, signals: np.ndarray, kernels: np.ndarray, n_steps: int) -> np.ndarray:
    """Return kernels of norm at most one that minimise ``||signals - M kernels||^2``: projected gradients."""
    step = 1.0 / np.linalg.norm(matrix, 2) ** 2
    for _ in range(n_steps):
        gradient = matrix.T @ (matrix @ kernels.ravel() - signals.ravel())
        kernels = kernels - step * gradient.reshape(kernels.shape)
        norms = np.linalg.norm(kernels.reshape(len(kernels), -1), axis=1)
        kernels = (kernels.T / np.maximum(norms, 1.0)).T
    return kernels
