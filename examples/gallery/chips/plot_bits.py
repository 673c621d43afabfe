"""
How many bits does a chip need?
===============================

On a chip, weights are integers of a few bits, and potentials are registers of finite
width.  ``DigitalOneWindow`` runs the network in such integers, bit for bit, and
certifies the answer against the true problem.  Here patches of a photograph are coded
in 144 cosine waves.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning

from dictlearn import normalise, overcomplete_dct, random_patches, remove_mean
from snn import Clock
from snn.digital import DigitalFormat, FixedPoint
from solvers import LassoProblem, solve
from solvers.methods import DigitalOneWindow

image = load_sample_image("china.jpg").mean(axis=2) / 255.0
patches = random_patches([image], 8, 15, rng=0, least_contrast=0.5)
signals = normalise(remove_mean(patches)[0])[0]
problem = LassoProblem(overcomplete_dct(8, 144), signals, penalty=0.1)

bits = (3, 4, 5, 6, 7, 8, 10)
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
for registers in (14, 18, 24):
    gaps = []
    for width in bits:
        chip = DigitalFormat(
            weights=FixedPoint(bits=width),
            potential_bits=registers,
            current_bits=registers,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = solve(
                problem, DigitalOneWindow(500.0, Clock(1 / 8, chip)), tol=1e-9
            )
        gaps.append(np.median(result.relative_gap))
    ax.semilogy(bits, gaps, "o-", label=f"registers of {registers} bits")
    good = [width for width, gap in zip(bits, gaps, strict=True) if gap <= 0.01]
    enough = f"{good[0]} bits of weight for 1 %" if good else "never within 1 %"
    print(f"registers of {registers} bits: {enough}")
ax.axhline(0.01, color="grey", linewidth=1)
ax.set(
    title="A LASSO in integers: accuracy against bits",
    xlabel="bits of a weight",
    ylabel="certified gap / (1/2 ||signal||²)",
)
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# The grey line is 1 %.  With five bits or fewer the rounded dictionary is another one,
# and registers of 14 bits are too narrow at any width of the weights.  Every answer is
# certified against the problem in floats, so nothing is hidden.  Other widths, delays,
# time steps and rounding rules: :doc:`/digital`.
