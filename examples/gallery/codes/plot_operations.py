"""
Operations that an answer costs
===============================

Seconds measure how fast a program is; operations measure the work of an algorithm on
any machine.  A spike that reaches a neuron is one synaptic operation: an addition.
FISTA multiplies by the Gram matrix: each entry that is used takes one multiply-add.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from dictlearn import normalise, overcomplete_dct, random_patches, remove_mean
from solvers import LassoProblem, solve_active_set, solve_fista, solve_spiking

image = load_sample_image("china.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 20, rng=0, least_contrast=0.5)
signals = normalise(remove_mean(patches)[0])[0]
problem = LassoProblem(overcomplete_dct(8, 256), signals, penalty=0.1)

gaps, network, read_out, fista = np.geomspace(0.1, 1e-6, 11), [], [], []
for gap in gaps:
    ledger = solve_spiking(problem, tol=gap).operations
    network.append(np.median(ledger["network"].synaptic_operations))
    read_out.append(np.median(ledger["read-out"].multiply_adds))
    ledger = solve_fista(problem, tol=gap, max_iter=100_000).operations
    fista.append(np.median(ledger["method"].multiply_adds))
exact = np.median(solve_active_set(problem).operations["method"].multiply_adds)

# %%
# The figure leaves out the cost of certificates, which every method can ask for.

figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
ax.loglog(gaps, fista, "s-", color="tab:orange", label="FISTA: multiply-adds")
ax.loglog(gaps, network, "o-", color="tab:blue", label="spikes: synaptic operations")
label = "reading the spikes out: multiply-adds"
ax.loglog(gaps, read_out, "^:", color="tab:blue", label=label)
label = "active-set method: multiply-adds"
ax.axhline(exact, color="tab:purple", linestyle="--", label=label)
ax.set(
    title="Operations to a certified accuracy, one patch of a photograph",
    xlabel="certified gap / (1/2 ||signal||²)",
    ylabel="operations (median of 20 patches)",
)
ax.invert_xaxis()
ax.set_ylim(bottom=5e3)
ax.grid(alpha=0.3)
ax.legend(fontsize="small")
plt.show()

# %%
# In these coherent waves the network takes a third to an eighth of the operations of
# FISTA, and additions instead of multiply-adds.  A processor next to the chip
# reads the code from the spikes and measures how good the code is, which costs at least
# half as many operations again.  The active-set method, which is optimal at any
# accuracy, takes the fewest operations for gaps below 2 %.  :doc:`/operations` explains
# the counts, and estimates energies.
