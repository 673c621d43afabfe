"""Imperfections of neurons on a clock: leak, refractory time, delays, mismatch, noise and lost spikes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._interrupts import float_errors
from snn.base import checks
from snn.base.value import Value, assign, checked
from snn.network import RunnableNetwork, SpikingNetwork
from snn.record.spikes import TIME_ROUNDING

MOST_DELAY_STEPS = 4096  # the longest delay, in steps: for each step, a copy stores one number per neuron
LARGEST_SEED = 2**63 - 1  # the largest seed, which kernels take as a 64-bit integer
MOST_STEPS = 2**40  # most steps of a run: step numbers must be exact as 64-bit integers and as floats
SINGLE_TIME_ROUNDING = 2.0**-22  # relative rounding error of times start + k dt in float32: four roundings
THRESHOLDS, WEIGHTS = 0, 1  # keys of the random numbers of the two quantities with mismatch


def checked_floor(name: str, value: float) -> float:
    """Return a lower bound of potentials, in firing thresholds; raise ValueError if the bound is positive."""
    if checks.real_number(name, value) > 0.0:
        raise ValueError(f"{name} must be at most 0, where potentials start; got {value}")
    return float(value)


@dataclass(frozen=True, eq=False, kw_only=True)
class Imperfections(Value):
    """Differences of the neurons and synapses of a chip from a `SpikingNetwork`.

    With leak l and noise s, a potential obeys::

        dv_i/dt = mu_i - l v_i + s theta_i white noise       in a refractory neuron: dv_i/dt = 0

    All random numbers are functions of the seed.  Mismatch depends only on the seed, while noise and lost
    spikes depend on the seed, the neuron and the number of the step.  Therefore all copies of a run have the
    same chip and the same noise, for any number of copies and any division of copies among calls or threads.

    Parameters
    ----------
    leak : float, default 0.0
        Rate l at which potentials decay towards zero, in 1 / synaptic time constant.
    refractory_time : float, default 0.0
        Time after a spike in which a neuron ignores its soma current, in synaptic time constants.  With a
        positive refractory time, a neuron fires at most once in a step.
    delays : float or array_like, default 0.0
        Travel time of spikes, in synaptic time constants: one number for all spikes, an array with one number
        for each source, shape (n_neurons,), or an array with one number for each synapse, shape
        (n_neurons, n_neurons), [source, target].
    threshold_mismatch, weight_mismatch : float, default 0.0
        Relative standard deviation of thresholds, and of weights.  Each threshold or weight is multiplied by
        an independent lognormal number with mean 1.  See `mismatched`.
    potential_noise : float, default 0.0
        Standard deviation s of the noise of a potential after one synaptic time constant, in thresholds.
    potential_floor : float, optional
        The lowest potential, in firing thresholds, which must be at most 0.  By default, there is no floor.
    lost_spikes : float, default 0.0
        Probability that a spike is lost, so that none of its targets receives the spike.  Lost spikes reset
        their neurons and are counted.
    seed : int, default 0
        Seed of all random numbers, from 0 to 2^63 - 1.

    Notes
    -----
    A clock rounds the refractory time and the delays up to whole steps.

    Examples
    --------
    >>> from snn import Clock, SpikingNetwork, simulate
    >>> network = SpikingNetwork([[0.0]], [0.5])
    >>> leaky = simulate(network, 100.0, Clock(0.25, imperfections=Imperfections(leak=0.1)))
    >>> perfect = simulate(network, 100.0, Clock(0.25))
    >>> leaky.n_spikes, perfect.n_spikes
    (44, 50)
    """

    leak: float = checked(checks.non_negative_number, default=0.0)
    refractory_time: float = checked(checks.non_negative_number, default=0.0)
    delays: Any = checked(checks.positive_array, zero=True, dimensions=2, default=0.0)  # made an array
    threshold_mismatch: float = checked(checks.non_negative_number, default=0.0)
    weight_mismatch: float = checked(checks.non_negative_number, default=0.0)
    potential_noise: float = checked(checks.non_negative_number, default=0.0)
    potential_floor: float | None = checked(checked_floor, default=None)
    lost_spikes: float = checked(checks.non_negative_number, default=0.0)
    seed: int = checked(checks.non_negative_integer, default=0)

    def _check(self) -> None:
        assign(self, delays=np.asarray(self.delays))
        if self.lost_spikes >= 1.0:
            raise ValueError(f"lost_spikes must be a probability below 1; got {self.lost_spikes}")
        if self.seed > LARGEST_SEED:
            raise ValueError(f"seed must be at most 2^63 - 1; got {self.seed}")

    @property
    def departures(self) -> list[str]:
        """Names of the deviations from the equations of `SpikingNetwork`, such as "leak"."""
        names = ("leak", "refractory_time", "delays", "potential_noise", "lost_spikes")
        departures = [name.replace("_", " ") for name in names if np.any(getattr(self, name))]
        return departures + ["a potential floor"] * (self.potential_floor is not None)

    def mismatched(self, network: RunnableNetwork) -> SpikingNetwork:
        """Return the network with the mismatched thresholds and weights of a chip with this seed.

        A run with the same `Imperfections` has the returned thresholds and weights.

        Parameters
        ----------
        network : SpikingNetwork, or another object with weights and thresholds
            The network without mismatch.  The returned network has the drive of `network`, or zero drive if
            `network` has none.

        Returns
        -------
        SpikingNetwork
            The network of the chip.  With weight mismatch, each synapse has a stored weight of its own.
        """
        n_neurons, weights = network.n_neurons, network.weights
        if self.weight_mismatch > 0.0:
            weights.compute_rows(np.arange(n_neurons))
            rows = weights.tocsr()
            values = rows.data * self._factors(self.weight_mismatch, WEIGHTS, len(rows.data))
            weights = sparse.csr_array((values, rows.indices, rows.indptr), rows.shape)
        return SpikingNetwork(
            weights,
            getattr(network, "soma_bias", np.zeros(n_neurons)),
            network.firing_threshold * self._factors(self.threshold_mismatch, THRESHOLDS, n_neurons),
        )

    def _factors(self, mismatch: float, purpose: int, size: int) -> np.ndarray:
        if mismatch == 0.0:
            return np.ones(size)
        variance = math.log1p(mismatch**2)
        normals = np.random.default_rng((self.seed, purpose)).standard_normal(size)
        return np.exp(math.sqrt(variance) * normals - 0.5 * variance)


def rounding_of(times: ArrayLike, time_step: float) -> np.ndarray:
    """Return the rounding error of times, in steps; times that differ by less count as one time."""
    times = np.asarray(times, dtype=np.float64)
    with float_errors(over="ignore"):
        # Times that do not change in float32 get the rounding error of float32.  Float64 times with at most
        # 22 binary digits do not change in float32, either.  For dyadic steps, such times are ends of steps,
        # or differ from ends of steps by more than the rounding error.
        relative = np.where(times.astype(np.float32) == times, SINGLE_TIME_ROUNDING, TIME_ROUNDING)
    return np.minimum(relative * np.maximum(np.abs(times) / time_step, 1.0), 0.5)


def whole_steps(times: ArrayLike, time_step: float, origin: float = 0.0) -> np.ndarray:
    """Return the number of steps from `origin` to each time, rounded up, at most 2^40."""
    steps = (np.asarray(times) - origin) / time_step - rounding_of(times, time_step)
    return np.ceil(np.minimum(steps, MOST_STEPS)).astype(np.int64)


def require_fit(imperfections: Imperfections, n_neurons: int, time_step: float) -> None:
    """Raise ValueError if the shape of delays does not fit `n_neurons`, or if a delay is too long."""
    shape = imperfections.delays.shape
    if shape not in ((), (n_neurons,), (n_neurons, n_neurons)):
        raise ValueError(
            f"delays must be one number, one for each of {n_neurons} neurons, or one for each synapse, "
            f"({n_neurons}, {n_neurons}); got shape {shape}"
        )
    longest = float(imperfections.delays.max())
    if longest > MOST_DELAY_STEPS * time_step:
        raise ValueError(
            f"delays must be at most {MOST_DELAY_STEPS:,} steps, {MOST_DELAY_STEPS * time_step:g}; got "
            f"{longest:g}"
        )
