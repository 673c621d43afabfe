"""Patches of the two photographs that come with scikit-learn."""

import numpy as np
from benchopt import BaseDataset
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.datasets import load_sample_images

LUMA = np.array([0.299, 0.587, 0.114])
LEAST_NORM = 0.1  # of a patch without its mean; flatter patches, as of sky, teach nothing


class Dataset(BaseDataset):
    """Patches without mean and of norm one, as two channels for their positive and negative parts.

    The held-out patches are from the right-hand fifth of each photograph, the other patches from the rest.
    """

    name = "Photographs"
    requirements = ["scikit-learn", "pillow"]  # noqa: RUF012
    parameters = {"side": [8], "n_signals": [20_000], "n_held_out": [1_000]}  # noqa: RUF012

    def get_data(self):
        images = [image @ LUMA / 255.0 for image in load_sample_images().images]
        cuts = [4 * image.shape[1] // 5 for image in images]
        left = [image[:, :cut] for image, cut in zip(images, cuts, strict=True)]
        right = [image[:, cut:] for image, cut in zip(images, cuts, strict=True)]
        return {
            "signals": self._patches(left, self.n_signals, seed=0),
            "held_out": self._patches(right, self.n_held_out, seed=1),
        }

    def _patches(self, images, n_patches, *, seed):
        """Return as many patches of each image, drawn at random among those with contrast."""
        rng = np.random.default_rng(seed)
        n_wanted = -(-n_patches // len(images))
        kept = [self._of_image(image, n_wanted, rng) for image in images]
        signals = rng.permutation(np.concatenate(kept))[:n_patches]
        return np.concatenate([np.maximum(signals, 0.0), np.maximum(-signals, 0.0)], axis=1)

    def _of_image(self, image, n_wanted, rng):
        windows = sliding_window_view(image, (self.side, self.side))
        kept = []
        while sum(map(len, kept)) < n_wanted:
            rows, columns = (rng.integers(0, size, n_wanted) for size in windows.shape[:2])
            patches = windows[rows, columns].reshape(n_wanted, -1)
            patches = patches - patches.mean(axis=1, keepdims=True)
            norms = np.linalg.norm(patches, axis=1, keepdims=True)
            enough = norms[:, 0] >= LEAST_NORM
            kept.append(patches[enough] / norms[enough])
        return np.concatenate(kept)[:n_wanted]
