"""Runs in the integers of a chip, done by a core: commands go to it, and its spikes come back."""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn._kernels import stepped
from snn.network import RunnableNetwork
from snn.run.integers import IntegersOnClock
from snn.run.start import fitted
from snn.run.time import Time

# A core does commands, rows (action, neuron, value), and returns spikes, rows (step, neuron, message).
CoreCall = Callable[[np.ndarray], ArrayLike]


class Action(IntEnum):
    """Commands of a core."""

    REST = 0  # set potentials, currents, what has not arrived, and the number of the step to zero
    DRIVE = 1  # set what is added to the potential of a neuron in each step
    POTENTIAL = 2  # set the potential of a neuron
    CURRENT = 3  # set the synaptic current of a neuron; between REST and RUN
    RUN = 4  # do as many steps as the value says
    STOP = 5  # end a RUN after the step that is being done


class IntegersOnCore(IntegersOnClock):
    """Copies of one `DigitalNetwork` that run on one core in turn, each from start to end."""

    # Registers of a core are not read: `neurons` has what each start has loaded, and the messages.
    def __init__(self, core: CoreCall, *args: Any, **options: Any) -> None:
        self._core = core
        self._copy = -1  # that runs on the core
        self._drive: np.ndarray | None = None  # of the core; unknown before the first start
        super().__init__(*args, **options)

    def _call(
        self, active: np.ndarray, position: int, stops: Any, most: int, buffer: stepped.MessageLog
    ) -> tuple[int, int, int]:
        copy, n_spikes = int(active[position]), 0
        step, stop = int(self.n_steps[copy]), stepped.stop_step(self._copies, stops, copy)
        if step < stop:
            commands = list(self._loads(copy)) if step == 0 else []
            # The core has forgotten the copies that ran before this one.
            assert step == 0 or copy == self._copy
            self._copy = copy
            commands.append((Action.RUN, 0, stop - step))
            given = self._core(np.array(commands, dtype=np.int64))
            steps, neurons, messages = self._checked(given, step, stop).T
            stepped.take_spikes(self.neurons, self._copies, copy, stop, steps, neurons, messages)
            n_spikes = len(steps)
        # Without a step: what is due at the stop.
        done, _, _ = stepped.advance(
            self.neurons,
            self._synapses,
            self._copies,
            active[position : position + 1],
            0,
            stops,
            0,
            1,
            buffer,
        )
        return position + done, n_spikes, 0

    def _loads(self, copy: int) -> Iterator[tuple[int, int, int]]:
        """Yield the commands that start a copy: REST, and numbers that the core does not have."""
        yield Action.REST, 0, 0
        neurons, drive = self.neurons, self.neurons.drive[copy]
        is_new = np.ones_like(drive) if self._drive is None else drive != self._drive
        for action, values, is_sent in (
            (Action.DRIVE, drive, is_new),
            (Action.POTENTIAL, neurons.potential[copy], neurons.potential[copy]),
            (Action.CURRENT, neurons.current[copy], neurons.current[copy]),
        ):
            for neuron in np.flatnonzero(is_sent).tolist():
                yield action, neuron, int(values[neuron])
        self._drive = drive.copy()

    def _checked(self, given: ArrayLike, before: int, stop: int) -> np.ndarray:
        """Return the spikes of a core, which must be such as its network can have."""
        spikes = np.asarray(given)
        if not spikes.size:
            return np.empty((0, 3), dtype=np.int64)
        if spikes.ndim != 2 or spikes.shape[1] != 3 or spikes.dtype.kind not in "iu":
            raise ValueError(
                "core must return spikes, rows of three integers (step, neuron, message); got an array of "
                f"shape {spikes.shape} and type {spikes.dtype}"
            )
        spikes = np.ascontiguousarray(spikes, dtype=np.int64)
        for name, column, least, largest in zip(
            ("steps", "neurons", "messages"),
            spikes.T,
            (before + 1, 0, 1),
            (stop, self.network.n_neurons - 1, self.integers.format.largest_message),
            strict=True,
        ):
            if column.min() < least or column.max() > largest:
                raise ValueError(
                    f"core must return {name} from {least} to {largest} in this run; got {column.min()} to "
                    f"{column.max()}"
                )
        return spikes


def on_core(core: CoreCall) -> Callable[..., IntegersOnCore]:
    """Return what starts runs on a core, in place of `start_run`."""

    def start(time: Time, network: RunnableNetwork, soma_bias: np.ndarray, **options: Any) -> IntegersOnCore:
        return IntegersOnCore(core, fitted(time, network), network, soma_bias, **options)

    return start
