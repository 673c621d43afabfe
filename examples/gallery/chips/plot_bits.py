"""
How many bits does a chip need?
===============================

On a chip, weights are integers of a few bits, and potentials are registers of finite
width.  ``sweep_digital`` runs the network in such integers, bit for bit, and certifies
the answer against the true problem.  Here patches of a photograph are coded in 144
cosine waves.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_image

from dictlearn import normalise, overcomplete_dct, random_patches, remove_mean
from solvers import LassoProblem, sweep_digital

image = load_sample_image("china.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 15, rng=0, least_contrast=0.5)
signals = normalise(remove_mean(patches)[0])[0]
problem = LassoProblem(overcomplete_dct(8, 144), signals, penalty=0.1)

sweep = sweep_digital(
    problem,
    {"weight_bits": (3, 4, 5, 6, 7, 8, 10), "register_bits": (14, 18, 24)},
    time_step=1 / 8,
)
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
sweep.plot(within=0.01, ax=ax)
ax.set(title="A LASSO in integers: accuracy against bits")
ax.grid(alpha=0.3)
plt.show()
for registers, bits in sweep.needed(within=0.01):
    enough = "never within 1 %" if bits is None else f"{bits} bits of weight for 1 %"
    print(f"registers of {registers['register_bits']} bits: {enough}")

# %%
# A ring marks the first number of bits from which on the median gap stays below 1 %,
# the grey line.  With five bits or fewer the rounded dictionary is another one, and
# registers of 14 bits are too narrow at any width of the weights.  Every answer is
# certified against the problem in floats, so nothing is hidden.  Other widths, delays,
# time steps and rounding rules: :doc:`/digital`.
