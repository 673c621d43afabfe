"""
Spikes that a digit of accuracy costs
=====================================

The same network can be read out in several ways.  Each code comes with a duality gap, a
bound on how far it is from the optimum, so accuracy can be compared fairly.  Here 20
patches of a photograph are coded in 256 cosine waves, to one tolerance after the other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from dictlearn import normalise, overcomplete_dct, random_patches, remove_mean
from solvers import METHODS, LassoProblem, solve

image = load_sample_image("china.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 20, rng=0, least_contrast=0.5)
signals = normalise(remove_mean(patches)[0])[0]
problem = LassoProblem(overcomplete_dct(8, 256), signals, penalty=0.1)

# Each curve has a method, by its name in METHODS, and a smallest tolerance.
read_outs = {
    "spike rates": ("spiking_rate", 1e-3),
    "average currents": ("spiking_current", 3e-4),
    "smooth window": ("spiking_one_window", 3e-5),
    "smooth window, refined": ("spiking", 1e-8),
}
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
for (name, (method, smallest)), marker in zip(read_outs.items(), "osD^", strict=True):
    tolerances = np.geomspace(0.1, smallest, 1 + round(2 * np.log10(0.1 / smallest)))
    points = []
    for tol in tolerances:
        result = solve(problem, METHODS[method], tol=tol)
        points.append((np.median(result.n_steps), np.median(result.relative_gap)))
    ax.loglog(*zip(*points, strict=True), marker=marker, markersize=5, label=name)
ax.set(
    title="Accuracy against spikes, by read-out",
    xlabel="spikes of the network (median of 20 patches)",
    ylabel="certified gap / (1/2 ||signal||²)",
)
ax.grid(alpha=0.3)
ax.legend()
plt.show()

# %%
# Spike rates need ten times as many spikes for each further digit: their error falls as
# 1 / time.  A smooth window, in which early and late spikes count less, saves spikes.
# With refinement, the default of :func:`solvers.solve_spiking`, the network runs again
# on the residual of its first code, with spikes of smaller weight.  Each further digit
# then takes about the same number of spikes.  :doc:`/theory` has the derivation.
