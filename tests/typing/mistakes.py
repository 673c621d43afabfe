"""Mistakes that a type checker must find: if it finds none, a comment is unused, which is an error."""

import numpy as np

from dictlearn import learn_dictionary
from snn import SpikingNetwork, simulate
from solvers import LassoProblem, solve_fista, solve_spiking

network = SpikingNetwork(np.zeros((2, 2)), np.ones(2))
problem = LassoProblem(np.eye(2), np.ones((1, 2)), 0.1)
result = solve_spiking(problem)

simulate(network)  # type: ignore[call-arg]
simulate(network, "5.0")  # type: ignore[arg-type]
simulate(network, 5.0, record=True)  # type: ignore[call-arg]
times = simulate(network, 5.0).spikes.times  # type: ignore[union-attr]
SpikingNetwork(np.zeros((2, 2)), object())  # type: ignore[arg-type]
network.soma_bias = np.ones(2)  # type: ignore[misc]
solve_spiking(np.eye(2))  # type: ignore[arg-type]
solve_spiking(problem, tol="1e-3")  # type: ignore[arg-type]
counts = solve_fista(problem).spike_counts  # type: ignore[attr-defined]
code = result.code  # type: ignore[attr-defined]
shape = result.codes.shapes  # type: ignore[attr-defined]
LassoProblem(np.eye(2), np.ones((1, 2)), penalty=None)  # type: ignore[arg-type]
learn_dictionary(np.eye(2), n_components=2)  # type: ignore[call-arg]
