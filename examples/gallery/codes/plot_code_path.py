"""
The code of a digit along the penalty
=====================================

What does the penalty do?  A large one gives a code with few entries, a small one a
close approximation.  ``path`` solves the same problem for many penalties, each from the
code of the one before, and certifies every code.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from solvers import LassoProblem, path

digits = load_digits().data / 16.0
atoms = digits[:400] / np.linalg.norm(digits[:400], axis=1, keepdims=True)
signal = digits[[404]]
problem = LassoProblem(atoms, signal, penalty=1.0, positive=True)
result = path(problem, n_multiples=100, smallest=1e-3)

# %%
# One line for each atom; below, the digit that four of these codes give.

figure = plt.figure(figsize=(6.4, 5.0), layout="constrained")
axes = figure.subplot_mosaic([["path"] * 5, list("sabcd")], height_ratios=(2.2, 1))
result.plot(axes["path"])
axes["path"].set(title="The code of one digit along the penalty: 400 atoms")
axes["path"].set(xlabel="penalty", ylim=(-0.05, 1.3))
axes["path"].legend(loc="upper left", fontsize="small", ncols=4)

axes["s"].imshow(signal.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=1.0)
axes["s"].set_title("signal", fontsize="small")
for name, k in zip("abcd", (15, 40, 65, 99), strict=True):
    axes["path"].axvline(result.multiples[k], color="0.8", zorder=0)
    picture = (result.codes[k, 0] @ atoms).reshape(8, 8)
    axes[name].imshow(picture, cmap="gray_r", vmin=0.0, vmax=1.0)
    n_atoms = np.count_nonzero(result.codes[k])
    axes[name].set_title(
        f"{result.multiples[k]:.2g}: {n_atoms} atoms", fontsize="small"
    )
for name in "sabcd":
    axes[name].set_axis_off()
plt.show()

# %%
# From left to right the penalty falls, and atoms enter the code one after the other;
# some leave it again.  Below: the signal, and its approximations at the penalties that
# the vertical lines mark.  Which penalty is best is another question:
# :ref:`sphx_glr_gallery_codes_plot_choose_penalty.py`.
