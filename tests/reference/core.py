"""A core in Amaranth's simulator."""

from amaranth.sim import Simulator

from snn.hardware.core import Action, Core


class SimulatedCore:
    """A core, command by command.

    Each RUN keeps the updates of neurons, (neuron, message, potential, current, flags), the spikes, and
    how many cycles it took.
    `stall`, of a random generator, is the probability that a spike has to wait for a cycle.
    """

    def __init__(self, layout, *, stall=0.0, rng=None):
        self.core = core = Core(layout)
        self.layout, self.stall, self.rng = layout, stall, rng
        self.commands, self.updates, self.spikes = [], [], []
        self.cycles = 0
        self.is_done = True
        self.simulator = Simulator(core)
        self.simulator.add_clock(1e-8)
        self.simulator.add_testbench(self._send)
        self.simulator.add_testbench(self._receive, background=True)
        self.simulator.add_process(self._watch)

    def do(self, *commands):
        """Do some commands: pairs (action, value) or triples (action, neuron, value)."""
        self.commands.extend(commands)
        while self.commands or not self.is_done:
            self.simulator.advance()

    def run(self, n_steps):
        """Do some steps; return the updates and the spikes, and what is written when it is done."""
        self.updates, self.spikes, before = [], [], self.cycles
        self.is_done = False
        self.do((Action.RUN, 0, n_steps))
        return self.updates, self.spikes, self.cycles - before

    async def _send(self, ctx):
        command = self.core.command
        while True:
            if not self.commands:
                await ctx.tick()
                continue
            action, neuron, value = self.commands[0]
            ctx.set(command.payload, {"action": action, "neuron": int(neuron), "value": int(value)})
            ctx.set(command.valid, 1)
            await ctx.tick().until(command.ready)
            ctx.set(command.valid, 0)
            self.commands.pop(0)

    async def _receive(self, ctx):
        spikes = self.core.spikes
        while True:
            ready = self.rng is None or self.rng.random() >= self.stall
            ctx.set(spikes.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(spikes.valid, spikes.payload)
            if valid and ready:
                if payload.message == 0:
                    self.is_done = True
                else:
                    self.spikes.append((payload.step, payload.neuron, payload.message))

    async def _watch(self, ctx):
        core, n_lanes = self.core, self.layout.lanes
        shown = [
            signal
            for lane in core.lanes
            for signal in (lane.message, lane.potential, lane.current, lane.narrow.as_value())
        ]
        async for _, _, done, group, narrow, *numbers in ctx.tick().sample(
            core.done, core.done_group, core.narrow.as_value(), *shown
        ):
            self.cycles += 1
            self.narrow = narrow
            if done:
                self.updates.extend(
                    (group * n_lanes + k, *numbers[4 * k : 4 * k + 4]) for k in range(n_lanes)
                )
