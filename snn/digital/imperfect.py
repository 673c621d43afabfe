"""Imperfect neurons in integers: what `snn.run.imperfect` is to a clock, for digital networks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from snn._kernels import digital, imperfect_digital
from snn.base import checks
from snn.digital.network import DigitalNetwork
from snn.digital.run import DigitalRun
from snn.digital.state import DigitalState
from snn.network import RunnableNetwork
from snn.run.imperfect import Imperfections, delay_steps, require_no_state, whole_steps

if TYPE_CHECKING:
    from snn.digital.time import Integers


class ImperfectDigitalRun(DigitalRun):
    """Copies of one network of integers with imperfect neurons; parameters as of `DigitalRun`."""

    def __init__(
        self,
        how: Integers,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: DigitalState | None = None,
        **options: Any,
    ) -> None:
        imperfections, integers = how.imperfections, how.network
        assert imperfections is not None
        require_no_state(imperfections, state)
        super().__init__(how, network, soma_bias, state, **options)
        shape = soma_bias.shape
        sources = np.repeat(np.arange(integers.n_neurons), np.diff(integers.starts))
        delays = delay_steps(imperfections, sources, integers.targets, integers.time_step)
        delays += integers.delays[sources]
        n_slots = int(delays.max(initial=0)) + 1
        if state is None:
            self._copies = self._copies._replace(
                pending=np.zeros((shape[0], n_slots, shape[1]), dtype=np.int64)
            )
            self._is_due = np.zeros((shape[0], n_slots), dtype=np.bool_)
        self.n_lost, waiting = np.zeros((2, *shape), dtype=np.int64)
        self._imperfect = imperfect_digital.Imperfect(
            leak=leak_of(imperfections, integers),
            noise=imperfections.potential_noise * math.sqrt(integers.time_step),
            refractory_steps=int(whole_steps(imperfections.refractory_time, integers.time_step)),
            lost=imperfections.lost_spikes,
            key=imperfections.seed,
            delays=checks.read_only(delays),
            waiting=waiting,
            steps_before=np.zeros(shape[0], dtype=np.int64),
            n_lost=self.n_lost,
            normals=np.empty(shape[1]),
        )

    def _call(
        self, active: np.ndarray, position: int, stops: np.ndarray, most: int, buffer: digital.Spikes
    ) -> tuple[int, int, int]:
        position, n_spikes = imperfect_digital.advance(
            self._network, self._rules, self._imperfect, self._copies, active, position, stops,
            self._steps_per_call, min(self._spikes_per_call, most + 1), self._fired, self._is_due, buffer,
        )  # fmt: skip
        return position, n_spikes, n_spikes

    def _restart(self, copies: np.ndarray) -> None:
        self._imperfect.steps_before[copies] += self._steps[copies]
        super()._restart(copies)
        self.n_lost[copies] = self._imperfect.waiting[copies] = 0


def leak_of(imperfections: Imperfections, network: DigitalNetwork) -> int:
    """Return what of 2^decay_bits units of a potential leaks in a step."""
    bits = network.format.decay_bits
    leak = round(2**bits * -math.expm1(-imperfections.leak * network.time_step))
    if imperfections.leak > 0.0 and leak == 0:
        raise ValueError(
            f"leak must be so fast that a potential falls by at least half of 2^-{bits} in a step; got "
            f"{imperfections.leak:g}: give the format more decay_bits"
        )
    return leak
