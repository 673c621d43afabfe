"""
Does a synapse see the gradient?
================================

A synapse knows only what its two neurons did.  Still, the difference of two phases, one
without and one with feedback, gives it the gradient of the learning problem.  Here each
point is one synapse and 20 patches: the true gradient across, what it observed upwards.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from dictlearn import (
    TwoPhaseNetwork,
    normalise,
    random_dictionary,
    random_patches,
    remove_mean,
    split_channels,
)
from solvers import LassoProblem, solve_active_set

image = load_sample_image("flower.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 20, rng=0, least_contrast=0.5)
# Rates are not negative, so bright and dark are two channels; their norm is 5.
signals = 5.0 * split_channels(normalise(remove_mean(patches)[0])[0])
penalty, kappa = 0.5, 0.7

atoms = random_dictionary(64, signals.shape[1], rng=0)
network = TwoPhaseNetwork.consistent(atoms)
problem = LassoProblem(atoms, signals, penalty, positive=True)
codes = solve_active_set(problem).codes
gradient = codes.T @ (codes @ atoms - signals)

# %%
# Now run both phases, shorter and longer.  Input neurons observe the error as the
# change of their average current, and coding neurons pass on their filtered spikes.

figure, axes = plt.subplots(
    1, 3, sharex=True, sharey=True, figsize=(6.4, 3.0), layout="constrained"
)
for ax, duration in zip(axes, (5.0, 20.0, 200.0), strict=True):
    first, second = network.run(
        signals, penalty=penalty, kappa=kappa, duration=duration, initial_potential=0.5
    )
    error = (second.input_current - first.input_current) / kappa
    update = second.coding_trace.T @ error
    cosine = (
        (update * gradient).sum() / np.linalg.norm(update) / np.linalg.norm(gradient)
    )
    ax.plot(gradient.ravel(), update.ravel(), ".", markersize=1.5, rasterized=True)
    ax.axline((0.0, 0.0), slope=1.0, color="tab:orange", linewidth=1.0)
    ax.set(title=f"T = {duration:g}: cosine {cosine:.3f}", xlabel="true gradient")
    ax.title.set_fontsize("medium")
axes[0].set(ylabel="what the synapse observed")
figure.suptitle("Each point is a synapse, observed for two phases of duration T")
plt.show()

# %%
# Durations are in synaptic time constants.  In short phases a neuron fires a few times
# only, and what is observed is rough; in long ones it is the gradient.  Learning uses
# phases of five time constants and many patches.  Larger checks:
# :doc:`/dictionary_learning` and ``python -m examples.gradient_check``.
