"""A core in Amaranth's simulator, cycle by cycle."""

from collections.abc import Iterable
from typing import Any

from amaranth.sim import Simulator

from snn.base import checks
from snn.base.describe import Closed
from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork
from snn.hardware.capacity import Capacity
from snn.hardware.core import Core
from snn.hardware.layout import CoreLayout


class SimulatedCore(Closed):
    """A core in Amaranth's simulator: it takes commands, and returns spikes.

    Parameters
    ----------
    network : DigitalNetwork
        The network.
    lanes, compressed, part, capacity, readable
        See `to_verilog`.
    """

    def __init__(
        self,
        network: DigitalNetwork,
        *,
        lanes: int = 1,
        compressed: bool | None = None,
        part: tuple[int, int] | None = None,
        capacity: Capacity | None = None,
        readable: bool = False,
    ) -> None:
        layout = CoreLayout(network, lanes, compressed, part, capacity, readable)  # type: ignore[arg-type]
        self._core = Core(layout)
        self._cycles = self._n_runs = 0
        self._is_started = self._is_stopped = False
        self._commands: list[tuple[int, int, int]] = []
        self._spikes: list[tuple[int, int, int]] = []
        self._simulator = Simulator(self._core)
        self._simulator.add_clock(1e-8)

    @property
    def layout(self) -> CoreLayout:
        """The memories of the core; ``layout.commands(network)`` writes a network to them."""
        return self._core.layout

    @property
    def cycles(self) -> int:
        """Number of clock cycles since the core was made."""
        return self._cycles

    def __call__(self, commands: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Execute commands (action, neuron, value), and return what the core sends.

        The core sends the spikes of each RUN, (step, neuron, message), and the answer to each READ,
        (potential, neuron, 0).
        """
        if self._is_stopped:
            raise RuntimeError(
                "the core was stopped within a list of commands, and cannot go on: make a new SimulatedCore"
            )
        self._commands, self._spikes = [self._checked(command) for command in commands], []
        self._is_stopped = True  # until all commands are done
        if not self._is_started:  # Python warns of coroutines that never run
            self._is_started = True
            self._simulator.add_testbench(self._send)
            self._simulator.add_testbench(self._receive, background=True)
        self._n_runs = sum(action == Action.RUN for action, _, _ in self._commands)
        while self._commands or self._n_runs:
            self._simulator.advance()
        self._is_stopped = False
        return self._spikes

    def _checked(self, command: Any) -> tuple[int, int, int]:
        """Return a command, or raise an error if it does not fit into the payload."""
        try:
            action, neuron, value = command
        except (TypeError, ValueError):
            rule = "commands must be tuples (action, neuron, value)"
            raise TypeError(f"{rule}; got {command!r:.60}") from None
        fields = self._core.command.payload
        half = 2 ** (len(fields.value) - 1)
        action = checks.integer("action", action, 0, 2 ** len(fields.action) - 1)
        neuron = checks.integer("neuron", neuron, 0, 2**self._core.neuron_bits - 1)
        return action, neuron, checks.integer("value", value, -half, half - 1)

    async def _send(self, ctx: Any) -> None:
        command = self._core.command
        while True:
            if not self._commands:
                await ctx.tick()
                continue
            action, neuron, value = self._commands[0]
            ctx.set(command.payload, {"action": action, "neuron": neuron, "value": value})
            ctx.set(command.valid, 1)
            await ctx.tick().until(command.ready)
            ctx.set(command.valid, 0)
            self._commands.pop(0)

    async def _receive(self, ctx: Any) -> None:
        spikes = self._core.spikes
        ctx.set(spikes.ready, 1)
        is_sent = spikes.valid & spikes.ready
        potential = spikes.payload.step.as_signed()
        sampled = ctx.tick().sample(is_sent, self._core.last, spikes.payload, potential)
        async for _, _, sent, is_last, spike, potential in sampled:
            self._cycles += 1
            if sent and is_last:
                self._n_runs -= 1
            elif sent:
                number = spike.step if spike.message else potential
                self._spikes.append((number, spike.neuron, spike.message))
