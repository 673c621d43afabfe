"""
A photograph in sparse code
===========================

How few atoms does a photograph take?  Each patch of 8 x 8 pixels, without its mean, is
coded by spikes in 256 cosine waves.  Every code is certified: none is further from its
optimum than a thousandth of the energy of its patch.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from dictlearn import (
    extract_patches,
    overcomplete_dct,
    reconstruct_from_patches,
    remove_mean,
)
from dictlearn.pictures import plot_atoms
from solvers import LassoProblem, solve_spiking

image = load_sample_image("china.jpg")[110:310, 180:500].mean(axis=2) / 255.0
patches, means = remove_mean(extract_patches(image, 8, stride=8))
problem = LassoProblem(overcomplete_dct(8, 256), patches, penalty=0.1)
result = solve_spiking(problem, tol=1e-3)
coded = problem.reconstruct(result.codes) + means
coded = reconstruct_from_patches(coded, image.shape, 8, stride=8)

# %%
# How close is it, and which patches take many atoms?

decibels = -10.0 * np.log10(np.mean((image - coded) ** 2))
n_atoms = result.support_size.mean()
titles = {
    "original": f"Photograph, {image.shape[0]} x {image.shape[1]} pixels",
    "coded": f"Coded, {n_atoms:.1f} atoms a patch: {decibels:.1f} dB",
    "atoms": "Some of the 256 atoms",
    "size": "Atoms in the code of each patch",
}
figure = plt.figure(figsize=(6.4, 4.6), layout="constrained")
axes = figure.subplot_mosaic([["original", "coded"], ["size", "atoms"]])
axes["original"].imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
axes["coded"].imshow(coded, cmap="gray", vmin=0.0, vmax=1.0)
waves = problem.dictionary.reshape(16, 16, 64)[1:10:2, 1:16:2]
plot_atoms(waves.reshape(-1, 64), 8, ax=axes["atoms"], columns=8)
sizes = result.support_size.reshape(image.shape[0] // 8, image.shape[1] // 8)
shown = axes["size"].imshow(sizes, cmap="viridis")
bar = figure.colorbar(shown, ax=axes["size"], orientation="horizontal", shrink=0.8)
bar.set_label("atoms")
for name, title in titles.items():
    axes[name].set_title(title, fontsize="medium")
    axes[name].set_axis_off()
plt.show()

# %%
# The code of a patch took some 200 spikes on average.  A patch of the sky takes one
# atom or none, a patch of the roof many.  The full program codes the whole picture,
# draws the spikes of one patch, and puts other solvers beside them:
# ``python -m examples.photograph``.
