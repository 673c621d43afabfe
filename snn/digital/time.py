"""Time in steps, of neurons in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snn.base import checks
from snn.base.value import Value, checked
from snn.digital.format import DigitalFormat
from snn.digital.imperfect import ImperfectDigitalRun, leak_of
from snn.digital.network import DigitalNetwork
from snn.digital.run import DigitalRun
from snn.network import RunnableNetwork, SpikingNetwork
from snn.run.clocked import checked_step
from snn.run.imperfect import Imperfections, require_fit
from snn.run.run import Time

# Of a potential times a leak.
MOST_PRODUCT_BITS = 62
# No normal number that is drawn is larger.
LARGEST_NORMAL = 9.0
LARGEST_NOISE = 2.0**60


@dataclass(frozen=True, kw_only=True)
class Digital(Value, Time[DigitalRun]):
    """Time in steps, of neurons in integers, by the rules of `simulate_digital`.

    Parameters
    ----------
    time_step : float
        Length of a step, in synaptic time constants.
    format : DigitalFormat, optional
        Widths and rounding; by default those of `DigitalFormat`, Loihi's widths.
    threshold, rng
        As of `DigitalNetwork.of`.
    lowest_drive : float, optional
        Drives below minus so many times the largest are raised to that.  They would take the bits of the
        others: mantissas have one exponent.  By default they are not.
    imperfections : Imperfections, optional
        Those of the neurons; by default none.  Mismatched thresholds and weights are rounded to integers; the
        leak is rounded as the decay of currents is, and noise to whole units of the potential.
    """

    time_step: float = field(kw_only=False)
    format: DigitalFormat = field(default_factory=DigitalFormat, kw_only=False)
    threshold: int | None = None
    rng: int | np.random.Generator | None = None
    lowest_drive: float | None = checked(checks.positive_number, default=None)
    imperfections: Imperfections | None = checked(checks.instance_of, Imperfections, default=None)

    def _check(self) -> None:
        # `DigitalNetwork.of` warns of a long one.
        vars(self)["time_step"] = checked_step(self.time_step, warn=False)
        checks.instance_of("format", self.format, DigitalFormat)

    def prepare(self, network: RunnableNetwork) -> Integers:
        """Return the time of one network, whose weights are rounded here.

        Parameters
        ----------
        network : SpikingNetwork, or another with its weights and thresholds
            The network of all runs to come.
        """
        given = self.imperfections
        if given is not None:
            require_fit(given, network.n_neurons, self.time_step)
            self._require_moderate_leak(given)
            network = given.mismatched(network)
        real = SpikingNetwork(network.weights, np.zeros(network.n_neurons), network.firing_threshold)
        rounded = DigitalNetwork.of(
            real, self.format, time_step=self.time_step, threshold=self.threshold, rng=self.rng
        )
        if given is not None:
            leak_of(given, rounded)
            _require_moderate_noise(given, rounded)
        return Integers(network=rounded, lowest_drive=self.lowest_drive, imperfections=given)

    def _require_moderate_leak(self, imperfections: Imperfections) -> None:
        """Raise ValueError unless a potential times a leak fits into 64 bits."""
        form = self.format
        if imperfections.leak > 0.0 and form.potential_bits + form.decay_bits > MOST_PRODUCT_BITS:
            raise ValueError(
                f"potential_bits and decay_bits must be at most {MOST_PRODUCT_BITS} together with a leak, or "
                f"a product could overflow; got {form.potential_bits} and {form.decay_bits}"
            )

    def start(
        self, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
    ) -> DigitalRun:
        """As `Time.start`; the weights are rounded here.

        Parameters
        ----------
        network, soma_bias, state, **options
            As of `Run`; not checked.
        """
        return self.prepare(network).start(network, soma_bias, state, **options)


@dataclass(frozen=True, kw_only=True)
class Integers(Time[DigitalRun]):
    """Digital time of one network: what `Digital.prepare` returns."""

    network: DigitalNetwork
    lowest_drive: float | None = None
    imperfections: Imperfections | None = None

    def start(
        self, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
    ) -> DigitalRun:
        """As `Time.start`."""
        kind = DigitalRun if self.imperfections is None else ImperfectDigitalRun
        return kind(self, network, soma_bias, state, **options)


def _require_moderate_noise(imperfections: Imperfections, network: DigitalNetwork) -> None:
    """Raise ValueError unless noise fits into 64 bits."""
    noise, largest = imperfections.potential_noise, float(network.firing_threshold.max())
    most = LARGEST_NORMAL * noise * math.sqrt(network.time_step) * largest
    if most > LARGEST_NOISE:
        raise ValueError(
            f"potential_noise must add at most 2^60 units to a potential in a step; got {noise:g}, which "
            f"may add {most:.3g}"
        )
