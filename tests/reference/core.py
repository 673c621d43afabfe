"""A simulated core that reports updates, and the correct answers of a core in Python's integers."""

from amaranth.hdl import Shape

from snn.digital.command import Action
from snn.hardware import SimulatedCore
from tests.reference.digital import in_register, quotient


class WatchedCore(SimulatedCore):
    """A core that reports the updates of its neurons: (neuron, message, potential, current, flags).

    `stall` is the probability that a spike has to wait for a cycle, drawn from `rng`.
    """

    def __init__(self, network, *, stall=0.0, rng=None, **options):
        super().__init__(network, **options)
        self.core, self.stall, self.rng = self._core, stall, rng
        self.updates, self.stop_at = [], None
        self.narrow = self.ignored = self.step = 0
        self._simulator.add_process(self._watch)
        if stall:
            self._simulator.add_testbench(self._stall, background=True)

    def run(self, n_steps, *, stop_after=None):
        """Run some steps, or stop after some cycles; return updates, spikes, and the number of cycles."""
        before, self.updates = self.cycles, []
        self.stop_at = None if stop_after is None else before + stop_after
        spikes = self([(Action.RUN, 0, n_steps)])
        return self.updates, spikes, self.cycles - before

    async def _stall(self, ctx):
        while True:
            ctx.set(self.core.spikes.ready, self.rng.random() >= self.stall)
            await ctx.tick()

    async def _watch(self, ctx):
        core, n_lanes = self.core, self.layout.lanes
        shown = [
            signal
            for lane in core.lanes
            for signal in (lane.message, lane.potential, lane.current, lane.narrow.as_value())
        ]
        about = core.done, core.done_group, core.narrow.as_value(), core.ignored, core.step
        async for _, _, done, group, narrow, ignored, step, *numbers in ctx.tick().sample(*about, *shown):
            self.narrow, self.ignored, self.step = narrow, ignored, step
            if self.cycles == self.stop_at:
                self._commands.append((Action.STOP, 0, 0))
            if done:
                self.updates.extend(
                    (group * n_lanes + k, *numbers[4 * k : 4 * k + 4]) for k in range(n_lanes)
                )


class EmulatedCore:
    """The correct answers of a core to any commands, in integers; spikes are (step, neuron, message)."""

    def __init__(self, layout):
        self.layout, self.network, self.n_slots = layout, layout.network, layout.n_slots
        self.drive = layout.drive.tolist()
        self.row, self.exponent = 0, layout.exponent_of(layout.network)
        self.threshold = layout.firing_threshold.tolist()
        starts, targets, mantissas, _ = layout.network.synapses
        n = self.network.n_neurons
        self.weights = [[0] * n for _ in range(n)]
        for source in range(n):
            for entry in range(starts[source], starts[source + 1]):
                # Sources and targets are numbered as in the core.
                row = self.weights[(source - layout.first) % n]
                row[(targets[entry] - layout.first) % n] = int(mantissas[entry])
        self.rest()

    def rest(self):
        n = self.layout.n_neurons
        self.potential, self.current, self.step, self.ignored = [0] * n, [0] * n, 0, 0
        self.pending = [[0] * n for _ in range(self.n_slots)]

    def do(self, action, neuron, value):
        """Do a command; return the answer: spikes for RUN, and (potential, neuron, 0) for READ."""
        form = self.network.format
        if action == Action.REST:
            self.rest()
        elif action == Action.RUN:
            return [spike for _ in range(max(value, 0)) for spike in self.do_step()]
        elif action == Action.SPIKE and neuron < self.network.n_neurons and 0 < value <= form.largest_message:
            self.deliver(neuron, value)
        elif action == Action.READ and self.layout.readable and neuron < self.layout.n_neurons:
            return [(self.potential[neuron], neuron, 0)]
        elif action in (Action.DRIVE, Action.POTENTIAL, Action.CURRENT) and neuron < self.layout.n_neurons:
            name = {Action.DRIVE: "drive", Action.POTENTIAL: "potential", Action.CURRENT: "current"}[action]
            bits = form.current_bits if action == Action.CURRENT else form.potential_bits
            getattr(self, name)[neuron] = in_register(value, bits, "wrap")[0]
        elif action != Action.STOP and not self.write(action, neuron, value):
            self.ignored += 1
        return []

    def write(self, action, neuron, value):
        """Write a part of a network; return whether the command is legal."""
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
        """Add the row of a neuron or input of the core to the charge that arrives in a later step."""
        layout, arriving = self.layout, Shape.cast(self.layout.pending_range)
        pending = self.pending[layout.of_part(self.network.synapses.delays)[neuron]]
        for target, weight in enumerate(self.weights[neuron][: layout.n_neurons]):
            amount = pending[target] + weight * message
            pending[target] = in_register(amount, arriving.width, "wrap")[0] if arriving.signed else amount
