"""
A learning rule of one's own
============================

A learning rule is an object that changes the weights by what the neurons observed.
Here homeostasis is added to the rule of the library: a neuron that has just fired pays
a larger penalty, and a neuron that was silent for some signals pays a smaller penalty.
Do the neurons share the work more evenly?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from dictlearn import (
    LearningSettings,
    UsageSteps,
    learn_dictionary,
    normalise,
    random_patches,
    remove_mean,
)
from solvers import LassoProblem, solve_active_set


class Homeostasis(UsageSteps):
    """Weight the penalty of each neuron by how long it has been silent."""

    def penalty_weights(self, thresholds, silence, memory):
        """Return 1.2 for a neuron that just fired, and less with each silent signal."""
        return 0.8 + 0.4 * np.exp(-silence / 8.0)


image = load_sample_image("flower.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 6_000, rng=0, least_contrast=0.5)
signals = normalise(remove_mean(patches)[0])[0]

# %%
# Both rules learn from the same patches in the same order.  Exact codes then
# show how often each atom is used.

figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for name, rule in (("UsageSteps", UsageSteps()), ("Homeostasis", Homeostasis())):
    settings = LearningSettings(penalty=0.1, positive_atoms=False, rule=rule)
    learner = learn_dictionary(signals, 64, settings=settings, rng=0)
    result = solve_active_set(LassoProblem(learner.dictionary, signals, 0.1))
    used = np.sort((result.codes != 0.0).mean(axis=0))[::-1]
    label = f"{name}: mean objective {result.objective.mean():.4f}"
    ax.plot(100.0 * used, marker=".", label=label)
ax.set(
    title="How often each atom is used",
    xlabel="atoms, the most used first",
    ylabel="% of the patches",
    ylim=(0.0, None),
)
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# The spread of the curve falls by a fifth, at nearly the same objective.  The class
# needs no other code: a saved learner contains its rule, and resumes with this rule.
# :doc:`/vary` has other rules, read-outs and neurons.
