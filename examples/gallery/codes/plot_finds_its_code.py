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
history.picture(image_shape=(8, 8), title="A digit, coded by spikes in other digits")
plt.show()

# %%
# Each row is a neuron with its atom, its spikes and its entry of the code; the marks
# are the exact optimum.  At each dotted line the network starts again on what is left
# of the digit, with spikes that are worth less, and drawn shorter: so the certified gap
# falls by one factor after the other.  The same as an animation, to be saved or shown
# in a notebook:
#
# .. code-block:: python
#
#     animation = history.animate(image_shape=(8, 8))
#     animation.save("network.gif")
#
# Penalty and time can be moved on an :doc:`interactive page </interactive>`.
