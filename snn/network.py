"""A spiking network: what it is, not how it moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from snn import checks
from snn.weights import Weights, as_weights, out_degrees


@dataclass(frozen=True, eq=False)
class SpikingNetwork:
    """A network of integrate-and-fire neurons with exponential synaptic currents.

    Neuron i has the soma current mu_i and the membrane potential v_i::

        mu_i(t) = beta_i + sum_j W_ji sum_k e^-(t - t_jk)    t_jk < t: the spike times of neuron j
        dv_i/dt = mu_i
        v_i reaches theta_i:  a spike, and v_i <- 0

    There is no leak, no refractory period and no delay.  The synaptic time constant is the unit of
    time, and the area under a unit-weight synaptic current is 1.

    Parameters
    ----------
    weights : array_like, scipy.sparse matrix, or one of the structures of `snn.weights`
        W: `weights[source, target]`, shape (n_neurons, n_neurons), of any sign, with a zero diagonal.
    soma_bias : array_like, shape (n_neurons,)
        beta, the constant drive.
    firing_threshold : float or array_like, shape (n_neurons,), default 1.0
        theta, positive.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If shapes differ, a number is not finite, a threshold is not positive, or a neuron is
        connected to itself.

    Notes
    -----
    Arrays are read-only once they are in; those that are float64 and in C order already are not
    copied.  A network that differs in its drive only comes from `with_soma_bias`.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952, equations 1-5.
    """

    weights: Weights
    soma_bias: np.ndarray
    firing_threshold: np.ndarray | float = 1.0

    def __post_init__(self) -> None:
        weights = as_weights(self.weights)
        n_neurons = weights.shape[0]
        threshold = checks.positive_array(
            "firing_threshold", self.firing_threshold, n_neurons, meaning="one threshold a neuron"
        )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "soma_bias", _soma_bias(self.soma_bias, n_neurons))
        object.__setattr__(self, "firing_threshold", checks.read_only(threshold))

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return self.weights.shape[0]

    @cached_property
    def out_degree(self) -> np.ndarray:
        """Number of targets of each neuron, shape (n_neurons,): its non-zero weights."""
        return out_degrees(self.weights, np.arange(self.n_neurons))

    def with_soma_bias(self, soma_bias: np.ndarray) -> SpikingNetwork:
        """Return the network with another drive; its weights are shared, not checked again."""
        network = object.__new__(SpikingNetwork)
        network.__dict__.update(self.__dict__)
        network.__dict__["soma_bias"] = _soma_bias(soma_bias, self.n_neurons)
        return network


def _soma_bias(value: np.ndarray, n_neurons: int) -> np.ndarray:
    array = checks.real_array("soma_bias", value, shape=(n_neurons,), meaning="one drive a neuron")
    return checks.read_only(array)
