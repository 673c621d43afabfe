"""
A network finds its code
========================

What happens between the first spike and the certified code?  A handwritten digit drives
a network of 400 neurons, one for each of 400 other digits.  Every spike of the solver's
run is recorded, and the code with its certificate at many times.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from solvers import LassoProblem, code_history

digits = load_digits().data / 16.0
atoms = digits[:400] / np.linalg.norm(digits[:400], axis=1, keepdims=True)
problem = LassoProblem(atoms, digits[400:500], penalty=0.5, positive=True)

history = code_history(problem, signal=12, tol=1e-5)
chosen = np.argsort(-history.optimum, kind="stable")[:10]

# %%
# The ten neurons with the largest entries: their spikes, and how their rates become
# the code.

figure, axes = plt.subplot_mosaic(
    [["spikes", "signal", "coded"], ["code", "gap", "gap"]],
    figsize=(6.4, 4.8), width_ratios=(2.2, 1, 1), layout="constrained",
)  # fmt: skip
figure.suptitle("A digit, coded by spikes in other digits")
history.spikes.plot(neurons=chosen, ax=axes["spikes"])
axes["code"].sharex(axes["spikes"])
axes["spikes"].set(xlabel="", title="Spikes of ten neurons")
axes["code"].plot(history.times, history.codes[:, chosen], linewidth=1.0)
end = np.full(len(chosen), history.times[-1])
axes["code"].plot(end, history.optimum[chosen], "k_", label="optimum")
axes["code"].set(xlabel="time", ylabel="entry of the code")
axes["code"].legend(fontsize="small")
for ax in (axes["spikes"], axes["code"]):
    for stage in history.stages[1:]:
        ax.axvline(stage.start, color="0.7", linewidth=0.8, linestyle=":", zorder=0)
coded = history.problem.reconstruct(history.codes[-1:])[0]
for name, image in (("signal", history.problem.signals[0]), ("coded", coded)):
    axes[name].imshow(image.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=1.0)
    axes[name].set_title(name)
    axes[name].set_axis_off()
history.plot(ax=axes["gap"])
axes["gap"].set(xlabel="time", title="certified gap")
plt.show()

# %%
# Each row is a neuron with its spikes; the marks on the right are the exact optimum.
# At each dotted line the network starts again on what is left of the digit, with spikes
# that are worth less: so the certified gap falls by one factor after the other.
# ``python -m examples.animate_network`` animates such a run; penalty and time can be
# moved on an :doc:`interactive page </interactive>`.
