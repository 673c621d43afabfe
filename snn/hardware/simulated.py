"""A core in Amaranth's simulator, cycle by cycle."""

from collections.abc import Iterable
from typing import Any

from amaranth.sim import Simulator

from snn.base.describe import Closed
from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork
from snn.hardware.core import Core
from snn.hardware.layout import CoreLayout


class SimulatedCore(Closed):
    """A core in Amaranth's simulator: commands go in, spikes come out.

    Parameters
    ----------
    network : DigitalNetwork
        The network.
    lanes, compressed
        See `to_verilog`.
    """

    def __init__(self, network: DigitalNetwork, *, lanes: int = 1, compressed: bool | None = None) -> None:
        self._core = Core(CoreLayout(network, lanes, compressed))  # type: ignore[arg-type]
        self._cycles = self._n_runs = 0
        self._commands: list[tuple[int, int, int]] = []
        self._spikes: list[tuple[int, int, int]] = []
        self._simulator = Simulator(self._core)
        self._simulator.add_clock(1e-8)
        self._simulator.add_testbench(self._send)
        self._simulator.add_testbench(self._receive, background=True)

    @property
    def cycles(self) -> int:
        """Clock cycles so far."""
        return self._cycles

    def __call__(self, commands: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Do commands (action, neuron, value); return the spikes of each RUN: (step, neuron, message)."""
        self._finish()  # what a call that was interrupted has left
        self._commands, self._spikes = list(commands), []
        self._n_runs = sum(action == Action.RUN for action, _, _ in self._commands)
        self._finish()
        return self._spikes

    def _finish(self) -> None:
        while self._commands or self._n_runs:
            self._simulator.advance()

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
        async for _, _, valid, spike in ctx.tick().sample(spikes.valid, spikes.payload):
            self._cycles += 1
            if valid and spike.message == 0:
                self._n_runs -= 1
            elif valid:
                self._spikes.append((spike.step, spike.neuron, spike.message))
