"""The two-phase network as a NIR graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.settings import share
from snn.base import checks
from snn.exchange import to_nir

if TYPE_CHECKING:
    import nir

POPULATIONS = ("input_neurons", "coding_neurons")


def two_phase_to_nir(
    network: TwoPhaseNetwork,
    *,
    penalty: float,
    gamma: float,
    reweighting: ArrayLike | None = None,
    time_constant: float = 1.0,
) -> nir.NIRGraph:
    """Return a two-phase network in one of its phases as a NIR graph whose input is the signal.

    Two populations, "input_neurons" and "coding_neurons", each with synapses of its own::

        Input(x) -> Affine((1 - gamma) I, 0) -> input_neurons -> LI -> Affine(F, 0) -> coding_neurons
        coding_neurons -> LI -> Affine(-(H - diag H), 0) -> coding_neurons
        coding_neurons -> LI -> Affine(gamma B, 0) -> input_neurons

    and the bias -(1 - gamma) lambda1 s of the coding neurons.  At gamma = 0 the last line is left out.  In a
    population of pairs the neurons with the sign of the signal come first, and then those with the opposite.

    Parameters
    ----------
    network : TwoPhaseNetwork
        The network.
    penalty : float
        lambda1, positive.
    gamma : float
        Strength of the feedback, in [0, 1).  NIR cannot say that it changes in a run: each phase is a graph.
    reweighting : array_like, shape (n_atoms,), optional
        s, the weights of the penalty, not negative; by default 1.
    time_constant : float, default 1.0
        The synaptic time constant in the graph's unit of time.

    Returns
    -------
    nir.NIRGraph
        ``snn.exchange.from_nir(graph, signal=x, order=["input_neurons", "coding_neurons"])`` reads it back.
        Potentials start at zero.
    """
    checks.instance_of("network", network, TwoPhaseNetwork)
    n_inputs, layers = network.n_inputs, network.layers
    spiking = network.spiking_network(
        np.zeros(n_inputs), penalty=penalty, gamma=gamma, reweighting=reweighting
    )
    nothing = np.zeros((n_inputs, network.n_atoms))
    sizes = layers.n_input_neurons, layers.n_neurons - layers.n_input_neurons
    return to_nir(
        spiking,
        input_weights=(1.0 - share("gamma", gamma)) * layers.drives(np.eye(n_inputs), nothing).T,
        populations=dict(zip(POPULATIONS, sizes, strict=True)),
        time_constant=time_constant,
    )
