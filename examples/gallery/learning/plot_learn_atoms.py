"""
Atoms that spikes learn from a photograph
=========================================

Which atoms suit photographs?  A network of two phases learns such atoms: it codes a
patch, then codes the patch again while a little of its own reconstruction is fed back,
and each synapse changes by what its two neurons observed.  Patches have mean zero and
norm one.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_image

from dictlearn import SpikingDictionaryLearning, normalise, random_patches, remove_mean
from dictlearn.pictures import plot_atoms

image = load_sample_image("flower.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 15_000, rng=0, least_contrast=0.5)
signals = normalise(remove_mean(patches)[0])[0]
learning = SpikingDictionaryLearning(64, alpha=0.1, max_iter=1, random_state=0)
learning.fit(signals)

# %%
# The learner of a fitted estimator draws its history.

figure, (atoms, curve) = plt.subplots(
    1, 2, figsize=(6.4, 3.6), width_ratios=(1.15, 1), layout="constrained"
)
plot_atoms(learning.components_, 8, ax=atoms)
atoms.set_title("64 atoms, learned by spikes")
learning.learner_.plot(ax=curve)
curve.set_title("While they were learned")
plt.show()

# %%
# The atoms become short edges and stripes, of several directions and positions, though
# the network never saw more than single patches.  The right panel shows the objective
# of the codes during learning.  :doc:`/dictionary_learning` compares larger runs with
# SPAMS and scikit-learn.
