"""A core in Amaranth's simulator, and what it has to do, in Python's integers."""

from amaranth.hdl import Shape
from amaranth.sim import Simulator

from snn.digital.command import Action
from snn.hardware.core import Core
from tests.reference.digital import in_register, quotient


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
        self.cycles = self.ignored = self.step = 0
        self.stop_after = None  # cycles of the next run, after which a STOP is sent
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
        stop = [] if self.stop_after is None else [(Action.STOP, 0, 0)]
        self.do((Action.RUN, 0, n_steps), *stop)
        return self.updates, self.spikes, self.cycles - before

    async def _send(self, ctx):
        command = self.core.command
        while True:
            if not self.commands:
                await ctx.tick()
                continue
            action, neuron, value = self.commands[0]
            if action == Action.STOP and self.stop_after is not None:
                await ctx.tick().repeat(self.stop_after)
                self.stop_after = None
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
        about = core.done, core.done_group, core.narrow.as_value(), core.ignored, core.step
        async for _, _, done, group, narrow, ignored, step, *numbers in ctx.tick().sample(*about, *shown):
            self.cycles += 1
            self.narrow, self.ignored, self.step = narrow, ignored, step
            if done:
                self.updates.extend(
                    (group * n_lanes + k, *numbers[4 * k : 4 * k + 4]) for k in range(n_lanes)
                )


class EmulatedCore:
    """What a core has to do with any commands, in Python's integers; spikes are (step, neuron, message)."""

    def __init__(self, layout):
        self.layout, self.network, self.n_slots = layout, layout.network, layout.n_slots
        self.drive = layout.drive.tolist()
        self.row, self.exponent = 0, layout.network.rules.exponent
        self.threshold = layout.firing_threshold.tolist()
        starts, targets, mantissas, _ = layout.network.synapses
        n = self.network.n_neurons
        self.weights = [[0] * n for _ in range(n)]
        for source in range(n):
            for entry in range(starts[source], starts[source + 1]):
                # Sources and targets have the numbers that they have in the core.
                row = self.weights[(source - layout.first) % n]
                row[(targets[entry] - layout.first) % n] = int(mantissas[entry])
        self.rest()

    def rest(self):
        n = self.layout.n_neurons
        self.potential, self.current, self.step, self.ignored = [0] * n, [0] * n, 0, 0
        self.pending = [[0] * n for _ in range(self.n_slots)]

    def do(self, action, neuron, value):
        """Do a command; return the spikes of a RUN, and None of others."""
        form = self.network.format
        if action == Action.REST:
            self.rest()
        elif action == Action.RUN:
            return [spike for _ in range(max(value, 0)) for spike in self.do_step()]
        elif action == Action.SPIKE and neuron < self.network.n_neurons and 0 < value <= form.largest_message:
            self.deliver(neuron, value)
        elif action in (Action.DRIVE, Action.POTENTIAL, Action.CURRENT) and neuron < self.layout.n_neurons:
            name = {Action.DRIVE: "drive", Action.POTENTIAL: "potential", Action.CURRENT: "current"}[action]
            bits = form.current_bits if action == Action.CURRENT else form.potential_bits
            getattr(self, name)[neuron] = in_register(value, bits, "wrap")[0]
        elif action != Action.STOP and not self.write(action, neuron, value):
            self.ignored += 1
        return None

    def write(self, action, neuron, value):
        """Write a part of a network; return whether the command is a legal one."""
        layout, form, is_there = self.layout, self.network.format.weights, neuron < self.network.n_neurons
        if layout.capacity is None:
            return False
        if action == Action.EXPONENT and layout.exponents[0] <= value <= layout.exponents[1]:
            self.exponent = value
        elif (
            action == Action.THRESHOLD and is_there and layout.thresholds[0] <= value <= layout.thresholds[1]
        ):
            self.threshold[neuron] = value
        elif action == Action.ROW and is_there:
            self.row = neuron
        elif action == Action.WEIGHT and is_there and form.smallest <= value <= form.largest:
            self.weights[self.row][neuron] = value
        else:
            return False
        return True

    def do_step(self):
        network, form, spikes = self.network, self.network.format, []
        self.step += 1
        arrived = self.pending.pop(0)
        self.pending.append([0] * self.layout.n_neurons)
        threshold, shift = self.threshold, network.rules.message_shift
        for i, amount in enumerate(arrived):
            brought = quotient(amount, -self.exponent, form.input_rounding)
            current, _ = in_register(self.current[i] + brought, form.current_bits, form.current_overflow)
            v = self.potential[i] + self.drive[i] + current
            v, _ = in_register(v, form.potential_bits, form.potential_overflow)
            self.current[i] = quotient(current * network.rules.kept, form.decay_bits, form.decay_rounding)
            self.potential[i] = v
            if v >= threshold[i]:
                unit = 2**shift if form.graded else threshold[i]
                message = min(v // unit, 2**form.message_bits - 1)
                self.potential[i] = v - message * unit if form.reset == "subtract" else 0
                spikes.append((self.step, i, message))
        for _, source, message in spikes:
            self.deliver(source, message)
        return spikes

    def deliver(self, neuron, message):
        """Add the row of a neuron, or input, of the core to what arrives in a later step."""
        layout, arriving = self.layout, Shape.cast(self.layout.pending_range)
        pending = self.pending[layout.of_part(self.network.synapses.delays)[neuron]]
        for target, weight in enumerate(self.weights[neuron][: layout.n_neurons]):
            amount = pending[target] + weight * message
            pending[target] = in_register(amount, arriving.width, "wrap")[0] if arriving.signed else amount
