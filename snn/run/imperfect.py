"""Imperfect neurons on a clock: leak, refractory time, delays, mismatch, noise, spikes that are lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._kernels import clocked, imperfect
from snn._kernels.clocked import MOST_AT_ONCE
from snn.base import checks
from snn.base.value import Value, checked
from snn.network import NetworkState, RunnableNetwork, SpikingNetwork
from snn.run.clocked import MOST_STEPS, ROUNDING, RealRun
from snn.run.run import Run
from snn.weights import SparseWeights

if TYPE_CHECKING:
    from snn.run.clock import Clock

# Copies keep a current for each neuron and step of the longest delay.
MOST_DELAY_STEPS = 4096
LARGEST_SEED = 2**63 - 1
THRESHOLDS, WEIGHTS = 0, 1
"""What mismatch is drawn for; each has random numbers of its own."""


def _checked_delays(name: str, delays: Any) -> np.ndarray:
    """Return one delay, or one for each neuron or synapse, as an array."""
    if checks.is_one_number(delays):
        return np.array(checks.non_negative_number(name, delays))
    array = checks.real_array(name, delays, shape=(None,) * np.ndim(delays))
    if array.ndim > 2:
        raise ValueError(
            f"{name} must have at most two dimensions, [source, target]; got shape {array.shape}"
        )
    if array.min() < 0.0:
        raise ValueError(f"{name} must not be negative; got {array.min()}")
    return array


@dataclass(frozen=True, eq=False, kw_only=True)
class Imperfections(Value):
    """How the neurons and synapses of a chip differ from those of `SpikingNetwork`.

    With leak l, refractory time and noise s a potential obeys::

        dv_i/dt = mu_i - l v_i + s theta_i white noise       but for a refractory neuron: dv_i/dt = 0

    All is deterministic for one seed: mismatch depends on it alone, and noise and lost spikes on the seed,
    the neuron and the number of the step.  So all copies of a run have the same chip and the same noise,
    whatever their number, and however they are divided among calls or threads.

    Parameters
    ----------
    leak : float, default 0.0
        l: the rate at which potentials fall towards zero, in 1 / synaptic time constant.
    refractory_time : float, default 0.0
        How long a neuron ignores its soma current after a spike, in synaptic time constants.  It fires at
        most once in a step then.
    delays : float or array_like, default 0.0
        How long spikes take, in synaptic time constants: one number for all, one for the spikes of each
        neuron, shape (n_neurons,), or one for each synapse, shape (n_neurons, n_neurons), [source, target].
    threshold_mismatch, weight_mismatch : float, default 0.0
        Relative standard deviation of thresholds, and of weights: each is multiplied by a number of its own,
        which is lognormal with mean 1.  See `mismatched`.
    potential_noise : float, default 0.0
        s: standard deviation of what noise adds to a potential in one synaptic time constant, in thresholds.
    lost_spikes : float, default 0.0
        Probability that a spike reaches none of its targets; the neuron is reset, and counts the spike.
    seed : int, default 0
        What all random numbers depend on, from 0 to 2^63 - 1.

    Notes
    -----
    A clock rounds times up to the ends of its steps: the refractory time, and the delays.

    Examples
    --------
    >>> from snn import SpikingNetwork, simulate_clocked
    >>> network = SpikingNetwork([[0.0]], [0.5])
    >>> leaky = simulate_clocked(network, 100.0, time_step=0.25, imperfections=Imperfections(leak=0.1))
    >>> perfect = simulate_clocked(network, 100.0, time_step=0.25)
    >>> leaky.n_spikes, perfect.n_spikes
    (44, 50)
    """

    leak: float = checked(checks.non_negative_number, default=0.0)
    refractory_time: float = checked(checks.non_negative_number, default=0.0)
    delays: np.ndarray = checked(_checked_delays, default=0.0)
    threshold_mismatch: float = checked(checks.non_negative_number, default=0.0)
    weight_mismatch: float = checked(checks.non_negative_number, default=0.0)
    potential_noise: float = checked(checks.non_negative_number, default=0.0)
    lost_spikes: float = checked(checks.non_negative_number, default=0.0)
    seed: int = checked(checks.non_negative_integer, default=0)

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self,
            *,
            leak: float = 0.0,
            refractory_time: float = 0.0,
            delays: ArrayLike = 0.0,
            threshold_mismatch: float = 0.0,
            weight_mismatch: float = 0.0,
            potential_noise: float = 0.0,
            lost_spikes: float = 0.0,
            seed: int = 0,
        ) -> None: ...

    def _check(self) -> None:
        if self.lost_spikes >= 1.0:
            raise ValueError(f"lost_spikes must be a probability below 1; got {self.lost_spikes}")
        if self.seed > LARGEST_SEED:
            raise ValueError(f"seed must be at most 2^63 - 1; got {self.seed}")

    @property
    def longest_delay(self) -> float:
        """The longest delay of a synapse."""
        return float(self.delays.max())

    def mismatched(self, network: RunnableNetwork) -> SpikingNetwork:
        """Return the network as a chip with this seed has it, with its thresholds and weights mismatched.

        A run draws it anew, with the same numbers.

        Parameters
        ----------
        network : SpikingNetwork, or another with its weights and thresholds
            The network that was meant.  Its drive, if it has one, is kept.

        Returns
        -------
        SpikingNetwork
            Its weights are written out, one number a synapse.
        """
        n_neurons = network.n_neurons
        network.weights.prepare(np.arange(n_neurons))
        weights = network.weights.tocsr()
        values = weights.data * self._factors(self.weight_mismatch, WEIGHTS, len(weights.data))
        soma_bias = getattr(network, "soma_bias", np.zeros(n_neurons))
        return SpikingNetwork(
            SparseWeights(sparse.csr_array((values, weights.indices, weights.indptr), weights.shape)),
            soma_bias,
            network.firing_threshold * self._factors(self.threshold_mismatch, THRESHOLDS, n_neurons),
        )

    def _factors(self, mismatch: float, purpose: int, size: int) -> np.ndarray:
        if mismatch == 0.0:
            return np.ones(size)
        variance = math.log1p(mismatch**2)
        normals = np.random.default_rng((self.seed, purpose)).standard_normal(size)
        return np.exp(math.sqrt(variance) * normals - 0.5 * variance)


def whole_steps(time: float | np.ndarray, time_step: float) -> np.ndarray:
    """Return the number of steps of a time, rounded up."""
    steps = np.asarray(time) / time_step
    return np.minimum(np.ceil(steps - ROUNDING * np.maximum(steps, 1.0)), MOST_STEPS).astype(np.int64)


def delay_steps(
    imperfections: Imperfections, sources: np.ndarray, targets: np.ndarray, time_step: float
) -> np.ndarray:
    """Return the delays of synapses, by their sources and targets, in whole steps."""
    steps = whole_steps(imperfections.delays, time_step)
    if imperfections.delays.ndim == 0:
        return np.full(len(sources), steps)
    return steps[sources] if imperfections.delays.ndim == 1 else steps[sources, targets]


def require_fit(imperfections: Imperfections, n_neurons: int, time_step: float) -> None:
    """Raise ValueError unless delays are those of so many neurons, and few enough steps."""
    shape = imperfections.delays.shape
    if shape not in ((), (n_neurons,), (n_neurons, n_neurons)):
        raise ValueError(
            f"delays must be one number, one for each of {n_neurons} neurons, or one for each synapse, "
            f"({n_neurons}, {n_neurons}); got shape {shape}"
        )
    if imperfections.longest_delay > MOST_DELAY_STEPS * time_step:
        raise ValueError(
            f"delays must be at most {MOST_DELAY_STEPS:,} steps, {MOST_DELAY_STEPS * time_step:g}; got "
            f"{imperfections.longest_delay:g}"
        )


def require_no_state(imperfections: Imperfections, state: Any) -> None:
    """Raise ValueError if a run is to start in a state that does not say all that it has to."""
    if state is not None and (imperfections.refractory_time > 0.0 or imperfections.longest_delay > 0.0):
        raise ValueError(
            "state must be None with a refractory_time or delays: it does not say which neurons are "
            "refractory and which spikes are on their way"
        )


class ImperfectRun(RealRun):
    """Copies of one network of imperfect neurons, on a clock; parameters as of `Run`."""

    def __init__(
        self,
        how: Clock,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        **options: Any,
    ) -> None:
        imperfections = how.imperfections
        assert imperfections is not None
        require_no_state(imperfections, state)
        require_fit(imperfections, network.n_neurons, how.time_step)
        chip = imperfections.mismatched(network)
        rows = chip.weights.tocsr()
        work_per_spike = chip.weights.work_per_spike
        steps = {"time_step": how.time_step, "work_per_spike": work_per_spike}
        super().__init__(how, chip, soma_bias, state, **steps, **options)
        self._rules = _rules_of(how)
        self.gain = self._rules.charge / -math.expm1(-how.time_step)
        sources = np.repeat(np.arange(network.n_neurons), np.diff(rows.indptr))
        delays = delay_steps(imperfections, sources, rows.indices, how.time_step)
        self._synapses = imperfect.Synapses(
            threshold=chip.firing_threshold,
            starts=checks.read_only(rows.indptr.astype(np.int64)),
            targets=checks.read_only(rows.indices.astype(np.int64)),
            weights=checks.read_only(rows.data),
            delays=checks.read_only(delays),
        )
        shape = soma_bias.shape
        n_slots = int(delays.max(initial=0)) + 1
        # charge = rise of the potential + thresholds of the spikes + leaked + refused - noise
        # (docs/theory.md, section 7.5)
        self.leaked, self.refused, self.noise, self._taken = np.zeros((4, *shape))
        self.n_lost, waiting = np.zeros((2, *shape), dtype=np.int64)
        # A run that goes on from another time has the noise of that time.
        first_step = round(state.time / how.time_step) if isinstance(state, NetworkState) else 0
        self._copies = imperfect.Copies(
            bias=checks.read_only(soma_bias),
            potential=self.membrane_potential,
            current=self.synaptic_current,
            pending=np.zeros((shape[0], n_slots, shape[1])),
            waiting=waiting,
            steps=self._steps,
            steps_before=np.full(shape[0], first_step, dtype=np.int64),
            spike_counts=self.spike_counts,
            removed=self._taken,
            leaked=self.leaked,
            refused=self.refused,
            noise=self.noise,
            n_lost=self.n_lost,
            moments=self.window_moments,
        )
        self._memory = imperfect.Memory(np.empty(shape[1]), np.empty(shape[1], dtype=np.int64))

    @property
    def pending(self) -> np.ndarray:
        """Currents that spikes on their way will bring, shape (n_copies, n_neurons)."""
        return self._copies.pending.sum(axis=1)

    @property
    def is_lost(self) -> np.ndarray:
        """Copies that run away, bool, shape (n_copies,): a neuron has to fire too often in a step."""
        # Refractory neurons cannot keep up sooner; their copies are not lost.
        if self._rules.refractory_steps > 0:
            return super().is_lost
        return (self.membrane_potential > self.network.firing_threshold).any(axis=1)

    def require_valid(self) -> None:
        """As `Run`, unless this gives up."""
        if not self._gives_up:
            super().require_valid()
            if self.is_lost.any():
                raise ValueError(
                    "time_step must be so short that no neuron has to fire more than "
                    f"{MOST_AT_ONCE:,.0f} times in a step; got {self.time_step}"
                )

    def _call(
        self, active: np.ndarray, position: int, stops: np.ndarray, most: int, buffer: clocked.Spikes
    ) -> tuple[int, int, int]:
        return imperfect.advance(
            self._synapses, self._copies, self._memory, self._rules, active, position, stops,
            self._steps_per_call, min(self._spikes_per_call, most + 1), buffer,
        )  # fmt: skip

    def _link(self) -> None:
        self._copies = self._copies._replace(bias=checks.read_only(self.soma_bias))
        self._synapses = self._synapses._replace(
            **{name: checks.read_only(array) for name, array in self._synapses._asdict().items()}
        )

    def _restart(self, copies: np.ndarray) -> None:
        self._copies.steps_before[copies] += self._steps[copies]
        super()._restart(copies)
        for array in (self.leaked, self.refused, self.noise, self.n_lost, self._taken):
            array[copies] = 0
        for array in (self._copies.pending, self._copies.waiting):
            array[copies] = 0

    def _removed(self) -> np.ndarray:
        return self._taken + self.leaked + self.refused - self.noise


def _rules_of(how: Clock) -> imperfect.Rules:
    """Return how a step is done, as the kernel takes it."""
    assert how.imperfections is not None
    step, leak = how.time_step, how.imperfections.leak
    decay = math.exp(-step)
    if how.integration == "euler":
        keep, rise, arrival, charge = 1.0 - leak * step, step, step, step
    else:
        keep, charge = math.exp(-leak * step), 1.0 - decay
        rise = step if leak == 0.0 else -math.expm1(-leak * step) / leak
        arrival = charge if leak == 0.0 else _arrival(leak, step)
    # Of white noise that leaks meanwhile.
    variance = step if leak == 0.0 else -math.expm1(-2.0 * leak * step) / (2.0 * leak)
    return imperfect.Rules(
        time_step=step,
        keep=keep,
        rise=rise,
        arrival=arrival,
        decay=decay,
        charge=charge,
        noise=how.imperfections.potential_noise * math.sqrt(variance),
        refractory_steps=int(whole_steps(how.imperfections.refractory_time, step)),
        lost=how.imperfections.lost_spikes,
        subtract=how.reset == "subtract",
        key=how.imperfections.seed,
    )


def _arrival(leak: float, step: float) -> float:
    """Return the integral of e^(-l (step - t)) e^-t over a step: (e^(-l step) - e^-step) / (1 - l)."""
    difference = (1.0 - leak) * step
    if difference == 0.0:
        return step * math.exp(-step)
    return step * math.exp(-step) * math.expm1(difference) / difference
