"""
A sensor drives a network
=========================

The input of a network may change while it runs.  Here a sensor sends an event whenever
its brightness has changed by a tenth, and each event permanently changes the drive of
a neuron.  A second source sends spikes that inhibit the neuron for a moment.  Events
and spikes act at their exact times.
"""

import matplotlib.pyplot as plt
import numpy as np

from snn import SpikeTrain, SpikingNetwork, Stimulus, simulate

# The sensor follows a wave: brighter, darker, brighter.
step, duration = 0.1, 20.0
clock = np.linspace(0.0, duration, 20_001)
levels = np.round(0.5 * (1.0 - np.cos(0.4 * np.pi * clock)) / step)
changed = np.flatnonzero(np.diff(levels)) + 1
rises = np.diff(levels)[changed - 1] > 0
times, sources = clock[changed], np.where(rises, 0, 1)
sensor = SpikeTrain(times=times, neurons=sources, n_neurons=2, start=0.0, stop=duration)
stimulus = Stimulus(spikes=sensor, weights=[[step], [-step]], onto="drive")
network = SpikingNetwork(weights=[[0.0]], soma_bias=[0.1])
alone = simulate(network, duration, stimulus=stimulus, record_spikes=True)

# Three spikes each take half a threshold of charge from the current.
calls = SpikeTrain(
    times=[12.0, 12.5, 13.0], neurons=[0, 0, 0], n_neurons=1, start=0.0, stop=duration
)
drives = {"drive_times": times, "drive": stimulus.drive_at(times, [0.1])}
inhibited = Stimulus(**drives, spikes=calls, weights=[[-0.5]])
run = simulate(network, duration, stimulus=inhibited, record_spikes=True)

# %%
# Current and potential, in closed form from the spikes and the stimulus.

figure, (current, potential) = plt.subplots(
    2, 1, sharex=True, figsize=(6.4, 4.6), layout="constrained"
)
grid = np.linspace(0.0, duration, 2001)
mu = run.record.current(grid)[:, 0]
drive = inhibited.drive_at(grid, network.soma_bias)[:, 0]
current.plot(grid, mu, color="black", label="soma current")
current.plot(grid, drive, color="tab:blue", linestyle="--", label="drive, by events")
current.plot(calls.times, np.full(3, -0.65), "^", color="tab:red", label="inhibiting")
current.set(
    title="Events change the drive, input spikes the current",
    ylabel="current",
    ylim=(-0.8, 1.7),
)
current.legend(ncols=3, loc="upper left", fontsize="small")

run.record.plot(neurons=[0], ax=potential)
potential.lines[0].set(color="black", label="membrane potential")
fired = run.spikes.times
potential.plot(
    fired, np.full(len(fired), 1.1), "v", color="tab:green", label="its spikes"
)
potential.set(ylabel="potential", ylim=(-0.2, 1.6))
potential.legend(ncols=2, loc="upper left", fontsize="small")
plt.show()

# %%
# The brighter the input, the faster the neuron fires.  Up to rounding, the charge
# that the drive has brought equals the number of spikes plus the charge left in the
# potential.  The three inhibiting spikes take one and a half thresholds of charge, so
# the neuron falls behind by one or two spikes.  :doc:`/live_input` explains inputs
# that change, and ``python -m examples.event_camera`` sends a photograph as events.
