"""
Why did this neuron fire?
=========================

All causes of a spike are known: which spikes arrived since the neuron last fired, and
how much charge each arriving spike has brought.  ``explain`` adds up the charges.
Here a network codes a handwritten digit by 300 other digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from snn import simulate
from solvers import LassoProblem, lasso_network

digits = load_digits().data / 16.0
atoms = digits[:300] / np.linalg.norm(digits[:300], axis=1, keepdims=True)
problem = LassoProblem(atoms, digits[305:306], penalty=0.1, positive=True)
network = lasso_network(problem)
run = simulate(network, 30.0, record_spikes=True)

# Explain the last spike of the neuron that fired most.
busiest = np.argmax(run.spike_counts)
why = run.record.explain(int(np.flatnonzero(run.spikes.neurons == busiest)[-1]))
print(why)

# %%
# The same explanation as a picture, with the atoms of the neurons that took part.

sources = np.argsort(-np.abs(why.source_charge))[:4]
figure = plt.figure(figsize=(6.4, 4.6), layout="constrained")
axes = figure.subplot_mosaic(
    [["charge"] * 6, ["signal", "fired", *(f"source {k}" for k in range(4))]],
    height_ratios=(2.4, 1),
)
why.plot(axes["charge"], n_sources=4)
figure.suptitle(
    f"What brought neuron {why.neuron} to its threshold at t = {why.time:.2f}"
)
axes["charge"].set(title="", xlabel="charge since its last reset")
pictures = {
    "signal": (digits[305], "the signal"),
    "fired": (atoms[why.neuron], f"atom {why.neuron}"),
}
pictures |= {f"source {k}": (atoms[j], f"atom {j}") for k, j in enumerate(sources)}
for name, (pixels, title) in pictures.items():
    axes[name].imshow(pixels.reshape(8, 8), cmap="gray_r")
    axes[name].set_title(title, fontsize="small")
    axes[name].set_axis_off()
plt.show()

# %%
# With only its drive, the neuron would have fired much earlier, since its atom
# resembles the signal.  Neurons with similar atoms take part of its charge away.  The
# bars add up exactly to the threshold.
