"""
An image in convolutional code
==============================

Patches have borders, images do not.  With a ``ConvolutionalDictionary`` the same few
kernels can stand at every place of an image, and overlap; the code says which kernel
stands where.  The matrix of all atoms is never built.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning

from dictlearn import normalise, random_patches
from dictlearn.pictures import plot_atoms
from solvers import ConvolutionalDictionary, LassoProblem, solve_spiking

# Two photographs without their local means: kernels are learned from one.
flower, china = (
    load_sample_image(f"{name}.jpg").mean(axis=2) / 255.0
    for name in ("flower", "china")
)
flower, china = (image - gaussian_filter(image, 4.0) for image in (flower, china))
patches = normalise(random_patches([flower], 8, 3000, rng=0, least_contrast=0.1))[0]
learner = MiniBatchDictionaryLearning(48, alpha=0.2, max_iter=4, random_state=0)
kernels = learner.fit(patches).components_.reshape(-1, 8, 8)
kernels /= np.linalg.norm(kernels, axis=(1, 2), keepdims=True)

image = china[120:216, 240:368]
dictionary = ConvolutionalDictionary(kernels, image.shape, 4)
problem = LassoProblem(dictionary, image.reshape(1, -1), penalty=0.1)
result = solve_spiking(problem, tol=1e-2)
coded = problem.reconstruct(result.codes).reshape(image.shape)

# %%
# On one side the image, on the other what its code says of it.

figure, axes = plt.subplots(2, 2, figsize=(6.4, 4.8), layout="constrained")
pictures = {
    f"Image, {image.shape[0]} x {image.shape[1]} pixels": image,
    f"Coded: {result.support_size[0]:,} of {problem.n_atoms:,} entries": coded,
    "What the code leaves": image - coded,
}
for ax, (title, picture) in zip(axes.flat, pictures.items(), strict=False):
    ax.imshow(picture, cmap="gray", vmin=-0.3, vmax=0.3)
    ax.set_title(title, fontsize="medium")
    ax.set_axis_off()
plot_atoms(kernels, ax=axes[1, 1])
axes[1, 1].set_title("The kernels, at every fourth pixel", fontsize="medium")
plt.show()
gap = result.relative_gap[0]
print(f"{result.n_steps[0]:,} spikes; certified gap {gap:.1e} of 1/2 ||image||²")

# %%
# Edges, columns and windows are in the code; of the finest texture a part is left, as
# the penalty wants it.  The code is certified like any other.  Times beside FISTA, and
# what to do with large photographs and with colour: :doc:`/convolution` and
# :doc:`/images`.
