"""
Three neurons solve a LASSO
===========================

How does a network of spiking neurons solve an optimisation problem?  Each atom of the
dictionary gets a neuron.  It is driven by how well its atom fits the signal, less the
penalty, and inhibits the others in proportion to how alike their atoms are.  The
numbers are those of the first figure of `Tang, Lin and Davies (2017)
<https://arxiv.org/abs/1705.05475>`_.
"""

import matplotlib.pyplot as plt
import numpy as np

from snn import simulate
from snn.pictures import rates_against_time
from solvers import LassoProblem, lasso_network, solve_active_set

atoms = np.array(
    [[0.3313, 0.8835, 0.3313], [0.8148, 0.3621, 0.4527], [0.4364, 0.2182, 0.8729]]
)
atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
problem = LassoProblem(atoms, [[0.5, 1.0, 1.5]], penalty=0.1, positive=True)
optimum = solve_active_set(problem).codes[0]
run = simulate(lasso_network(problem), 60.0, record_spikes=True)

# %%
# A tick for each spike, and the rates that they add up to.

figure, (spikes, rates) = plt.subplots(
    2, 1, sharex=True, figsize=(6.4, 4.6), height_ratios=(1, 2.5), layout="constrained"
)
colours = ["tab:blue", "tab:orange", "tab:green"]
spikes.eventplot([run.spikes.of(k) for k in range(3)], colors=colours, linelengths=0.8)
spikes.set(
    title="The rates of three spiking neurons go to the solution of a LASSO",
    ylabel="neuron",
    yticks=[0, 1, 2],
)
spikes.invert_yaxis()
rates.set_prop_cycle(color=colours)
rates_against_time(run.spikes, limits=optimum, n_times=3000, ax=rates)
rates.set(ylim=(-0.05, 1.9), ylabel="spike rate since 0")
rates.plot([], [], "--", color="0.3", label="exact solution")
rates.legend(ncols=2, loc="upper right")
plt.show()

# %%
# Neuron 1 fires once, and is then inhibited for good: its entry of the solution is
# zero.  The two others settle at the rates that the exact solution has.  The error
# falls like one over the time; the full program, ``python -m examples.three_neurons``,
# follows it for 10,000 time constants.
