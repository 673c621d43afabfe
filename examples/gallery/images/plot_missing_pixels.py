"""
Filling in missing pixels
=========================

What if half of the pixels are not known?  A mask says which ones are.  Each patch is
coded from its known pixels alone, and the code says what the others are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from dictlearn import extract_patches, overcomplete_dct, reconstruct_from_patches
from solvers import LassoProblem, solve_active_set

side, n_waves = 8, 12
image = load_sample_image("china.jpg")[110:238, 260:388].mean(axis=2) / 255.0
known = np.random.default_rng(0).random(image.shape) < 0.5

# Overlapping patches, each with its own mask, less the mean of what is known of it.
masks = extract_patches(known.astype(float), side, stride=2) > 0.0
patches = extract_patches(np.where(known, image, 0.0), side, stride=2)
means = patches.sum(axis=1, keepdims=True) / masks.sum(axis=1, keepdims=True)
signals = np.where(masks, patches - means, np.nan)

# Waves of a higher frequency cost more: natural images have less of them.
frequency = np.arange(n_waves) * side / n_waves
frequency = np.hypot(frequency[:, np.newaxis], frequency).ravel()
penalty = 0.002 * np.maximum(frequency, 0.3)
dictionary = overcomplete_dct(side, n_waves**2)
problem = LassoProblem(dictionary, signals, penalty, mask=masks)
result = solve_active_set(problem, tol=1e-4)

# %%
# The codes say what all pixels are; those that are known stay as they are.

filled = problem.reconstruct(result.codes) + means
filled = reconstruct_from_patches(filled, image.shape, side, stride=2)
filled = np.where(known, image, np.clip(filled, 0.0, 1.0))
decibels = -10.0 * np.log10(np.mean((image - filled)[~known] ** 2))
constant = -10.0 * np.log10(np.mean((image - image[known].mean())[~known] ** 2))
print(f"missing pixels: {decibels:.1f} dB; one grey in their place: {constant:.1f} dB")

figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.6), layout="constrained")
titles = (f"Known: {known.mean():.0%} of the pixels", f"Filled in: {decibels:.1f} dB")
pictures = (np.where(known, image, np.nan), filled)
for ax, title, picture in zip(axes, titles, pictures, strict=True):
    ax.set_facecolor("tab:red")
    ax.imshow(picture, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    ax.set(title=title, xticks=[], yticks=[])
plt.show()

# %%
# Missing pixels are red on the left.  They are not zeros: the objective, its
# certificate and the codes are those of the known pixels.  All patches are one problem,
# though each has a mask of its own.  Decibels are of the missing pixels alone.  The
# full program removes letters and scratches as well:
# ``python -m examples.inpaint_photograph``; more is in :doc:`/masks`.
