"""
One neuron: current, potential, spikes
======================================

When does a neuron fire?  Here one neuron has a constant drive, and two other neurons
send spikes that excite or inhibit the first neuron.  There is no time step: spike times
are exact, and current and potential are closed forms of the spike times.
"""

import matplotlib.pyplot as plt
import numpy as np

from snn import SpikingNetwork, simulate

# Rows of the weights are sources, columns are targets: both senders reach neuron 2.
weights = np.zeros((3, 3))
weights[0, 2], weights[1, 2] = 0.7, -0.6
network = SpikingNetwork(
    weights=weights, soma_bias=[0.17, 0.23, 0.35], firing_threshold=1.0
)
run = simulate(network, 20.0, record_spikes=True)

# %%
# Current and potential at any time follow from the spikes.

times = np.linspace(0.0, run.duration, 2001)
figure, (current, potential) = plt.subplots(
    2, 1, sharex=True, figsize=(6.4, 4.6), layout="constrained"
)
current.plot(
    times, run.record.current(times)[:, 2], color="black", label="soma current"
)
current.axhline(
    network.soma_bias[2], color="0.6", linestyle="--", label="its constant drive"
)
for sender, colour, effect in ((0, "tab:blue", "excites"), (1, "tab:red", "inhibits")):
    arrivals = run.spikes.of(sender)
    label = f"a spike that {effect}"
    current.plot(
        arrivals, np.full(len(arrivals), -0.45), "^", color=colour, label=label
    )
current.set(
    title="A neuron adds up its current, and fires at the threshold",
    ylabel="current",
    ylim=(-0.55, 1.6),
)
current.legend(ncols=2, loc="upper left", fontsize="small")

run.record.plot(neurons=[2], ax=potential)
potential.lines[0].set(color="black", label="membrane potential")
potential.axhline(1.0, color="0.6", linestyle=":", label="firing threshold")
fired = run.spikes.of(2)
potential.plot(
    fired, np.full(len(fired), 1.1), "v", color="tab:green", label="its own spikes"
)
potential.set(ylabel="potential", ylim=(-0.15, 1.6))
potential.legend(ncols=3, loc="upper left", fontsize="small")
plt.show()

# %%
# A spike that arrives makes the current jump by the weight of its synapse.  The jump
# then decays: in one synaptic time constant, the unit of time, to 37 %.  The potential
# is the area under the current since the last spike.  Neurons do not leak and lose no
# charge, so that spike rates solve an optimisation problem: see :doc:`/theory`.
