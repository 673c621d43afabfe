"""A core in gates that runs a digital network with the same bits as `simulate`.

In a step, first the neurons are updated, one group a cycle: pending input is added to the currents, currents
and drives are added to the potentials, and messages of neurons that fire enter a queue.  Then the core adds
the row of each spike in the queue, one word a cycle, to the pending input of a later step.

`simulate` adds input to the currents at the end of a step, and a core at the beginning of the next step: the
sequence of operations is the same.  Currents in memory have decayed, and do not contain this input yet.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import repeat
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from snn.digital.command import Action
from snn.hardware.gates import delayed, fitted, in_bytes, memory_of, quotient
from snn.hardware.layout import CoreLayout

STEP_BITS = 32  # width of the number of a step
IGNORED_BITS = 16  # width of the count of ignored commands
# Registers that were too narrow: the potential below or above its range, the current, the message.
NARROW = data.StructLayout({"below": 1, "above": 1, "current": 1, "message": 1})
# The memories to which the value of an order is written.
LOADS = data.StructLayout(
    dict.fromkeys(["drive", "potential", "current", "pending", "threshold", "weight"], 1)
)
RESTING = LOADS.const({"potential": 1, "current": 1, "pending": 1})
LOADED = {Action.DRIVE: "drive", Action.POTENTIAL: "potential", Action.CURRENT: "current"}


def orders(layout: CoreLayout) -> data.StructLayout:
    """Return the layout of the orders that all lanes get in a cycle."""
    # `update`: do a step of the neuron of `group` with the input of `slot`.  `deliver`: add the weight of
    # `word` times `factor` to the input of `target`, which comes a cycle later.  `value`: loaded to `group`.
    form = layout.network.format
    group, slot = range(max(layout.n_groups, 2)), range(layout.n_slots)
    return data.StructLayout(
        {
            "update": 1,
            "group": group,
            "slot": slot,
            "deliver": 1,
            "word": range(max(len(layout.words), 2)),
            "factor": form.message_bits,
            "target": group,
            "target_slot": slot,
            "value": signed(max(form.potential_bits, form.current_bits, form.weights.bits + 1)),
            "shift": range(layout.exponents[1] - layout.exponents[0] + 1),
        }
    )


class Lane(wiring.Component):
    """One neuron of each group: the registers, the weights that lead to these neurons, and their step."""

    def __init__(self, layout: CoreLayout, index: int) -> None:
        self.layout, self.index = layout, index
        form = layout.network.format
        # `load` has the memories of this lane to which the value of the order is written.  `latency` cycles
        # after the order, `message` has the message, or 0 if the neuron does not fire.
        super().__init__(
            {
                "order": In(orders(layout)),
                "load": In(LOADS),
                "message": Out(form.message_bits),
                "narrow": Out(NARROW),
                "read": Out(signed(form.potential_bits)),
            }
        )
        self.latency = 4 + layout.message_cycles
        # For simulations, in the cycle of the message: the potential after a step, and its current.
        self.potential, self.current = Signal(signed(form.potential_bits)), Signal(signed(form.current_bits))

    def elaborate(self, platform: Any) -> Module:
        """Return the gates."""
        self.m = m = Module()
        layout, form, order = self.layout, self.layout.network.format, self.order
        n_groups, n_places = layout.n_groups, layout.n_slots << len(order.group)
        drive, words = layout.of_lane(layout.drive, self.index), layout.words[:, self.index].tolist()
        weight_range = range(form.weights.smallest, form.weights.largest + 1)
        potentials = memory_of(m, "potentials", signed(form.potential_bits), n_groups)
        currents = memory_of(m, "currents", signed(form.current_bits), n_groups)
        drives = memory_of(m, "drives", signed(form.potential_bits), n_groups, drive)
        pending = memory_of(m, "pending", layout.pending_range, n_places)
        weights = memory_of(m, "weights", weight_range, len(words), words)
        v, u, b, x, w = (memory.read_port() for memory in (potentials, currents, drives, pending, weights))
        place, target_place = Cat(order.group, order.slot), Cat(order.target, order.target_slot)
        m.d.comb += [port.addr.eq(order.group) for port in (v, u, b)]
        m.d.comb += [x.addr.eq(Mux(order.update, place, target_place)), w.addr.eq(order.word)]

        # The step of a neuron.  Memories get addresses in cycle 0, and return data in cycle 1.  Then pending
        # input is shifted by the exponent of weights minus the smallest exponent, divided, and rounded.
        exponent, arriving = layout.exponents[0], x.data
        if layout.capacity is not None:
            arriving = arriving << order.shift
        if exponent < 0:
            arriving = quotient(arriving, -exponent, form.input_rounding)
        arriving = self._delayed(arriving.shift_left(max(exponent, 0)))
        # Cycle 2: the current.
        current, below, above = fitted(
            self._delayed(u.data) + arriving, form.current_bits, form.current_overflow
        )
        current, current_is_narrow = self._delayed(current), self._delayed(below | above)
        # Cycle 3: the potential; the current decays.
        potential, below, above = fitted(
            self._delayed(v.data + b.data, 2) + current, form.potential_bits, form.potential_overflow
        )
        kept = self._delayed(current * layout.network.rules.kept)
        # From cycle 4: one bit of the message in a cycle.
        potential, message, message_is_narrow = self._fire(self._delayed(potential))
        since = self.latency - 3
        m.d.comb += [
            self.message.eq(message),
            self.narrow.below.eq(self._delayed(below, since)),
            self.narrow.above.eq(self._delayed(above, since)),
            self.narrow.current.eq(self._delayed(current_is_narrow, since)),
            self.narrow.message.eq(message_is_narrow),
            self.potential.eq(potential),
            self.current.eq(self._delayed(current, since)),
            self.read.eq(v.data),
        ]

        # Results of the step, or loaded values, are written to memories.
        decayed = quotient(kept, form.decay_bits, form.decay_rounding)
        for memory, is_loaded, number, cycle in (
            (drives, self.load.drive, None, 0),
            (currents, self.load.current, decayed, 4),
            (potentials, self.load.potential, potential, self.latency),
        ):
            port = memory.write_port()
            m.d.comb += [port.addr.eq(order.group), port.data.eq(order.value), port.en.eq(is_loaded)]
            if cycle:
                is_updated, group = self._delayed(order.update, cycle), self._delayed(order.group, cycle)
                with m.If(is_updated):
                    m.d.comb += [port.addr.eq(group), port.data.eq(number), port.en.eq(1)]

        if layout.capacity is not None:
            port = weights.write_port()
            m.d.comb += [port.addr.eq(order.word), port.data.eq(order.value), port.en.eq(self.load.weight)]
        self._bring(w.data, x.data, pending.write_port(), place, target_place)
        return m

    def _bring(self, weight: Any, arrived: Any, port: Any, place: Any, target_place: Any) -> None:
        """Add a weight to the pending input, and set pending input that was read to zero."""
        # The weight comes in cycle 1, and its target in cycle 2.
        m, order, is_wide = self.m, self.order, self.layout.network.format.message_bits > 1
        brought = self._delayed(weight * order.factor if is_wide else weight)
        is_read, last_place = self._delayed(order.update), self._delayed(place)
        is_brought, last_target = self._delayed(order.deliver, 2), self._delayed(target_place)
        m.d.comb += [port.addr.eq(place), port.en.eq(self.load.pending)]
        with m.If(is_read):
            m.d.comb += [port.addr.eq(last_place), port.en.eq(1)]
        with m.Elif(is_brought):
            m.d.comb += [port.addr.eq(last_target), port.data.eq(arrived + brought), port.en.eq(1)]

    def _delayed(self, value: Any, cycles: int = 1) -> Any:
        return delayed(self.m, value, cycles)

    def _thresholds(self, cycle: int) -> Iterator[Any]:
        """Yield the threshold of a neuron for a cycle of the pipeline, and then for each later cycle."""
        layout, largest = self.layout, self.layout.thresholds[1]
        if layout.capacity is None and (layout.firing_threshold == largest).all():
            yield from repeat(Const(largest))
        values = layout.of_lane(layout.firing_threshold, self.index, filler=largest)
        memory = memory_of(self.m, "thresholds", range(largest + 1), len(values), values)
        port = memory.read_port()
        self.m.d.comb += port.addr.eq(self.order.group)
        if layout.capacity is not None:
            written = memory.write_port()
            self.m.d.comb += [written.addr.eq(self.order.group), written.en.eq(self.load.threshold)]
            self.m.d.comb += written.data.eq(self.order.value)
        yield (threshold := self._delayed(port.data, cycle - 1))
        while True:
            yield (threshold := self._delayed(threshold))

    def _fire(self, potential: Any) -> tuple[Any, Any, Any]:
        """Return the potential after a step, the message, and whether the message was too narrow."""
        form, thresholds, bits = self.layout.network.format, self._thresholds(4), len(potential)
        if form.graded:
            fires = potential >= next(thresholds)
            said = potential.shift_right(self.layout.network.rules.message_shift).as_unsigned()
            narrow = fires & (said > form.largest_message)
            message = Mux(fires, Mux(narrow, form.largest_message, said), 0)[: form.message_bits]
            left = potential - message.shift_left(self.layout.network.rules.message_shift)
            left = Mux(fires, 0, potential) if form.reset == "zero" else left[:bits].as_signed()
            return self._delayed(left), self._delayed(message), self._delayed(narrow)
        message = Const(0, 0)
        for power in reversed(range(self.layout.message_cycles)):
            multiple = next(thresholds).shift_left(power)
            fires = potential >= multiple
            left = 0 if form.reset == "zero" else (potential - multiple)[:bits].as_signed()
            potential = self._delayed(Mux(fires, left, potential))
            message = self._delayed(Cat(fires, message))
        narrow = (potential >= next(thresholds)) if form.message_bits > 1 else Const(0)
        return potential, message, narrow


class Core(wiring.Component):
    """A core that runs one network."""

    # `command` is a stream of `action`, `neuron` and `value`; a command waits for the end of the one before,
    # except STOP in a RUN.  `spikes` is a stream of `neuron`, `message` and `step`, sorted by step and then
    # by neuron.  A message of 0 with `last` ends a RUN; without `last` it answers READ, with a potential
    # instead of the step.  Since REST, `narrow` has the registers that were too narrow, and `ignored` counts
    # commands with a wrong neuron, action or value.
    def __init__(self, layout: CoreLayout) -> None:
        self.layout, form = layout, layout.network.format
        self.lanes = [Lane(layout, index) for index in range(layout.lanes)]
        self.order = Signal(orders(layout))
        self.loads = [Signal(LOADS, name=f"load_{index}") for index in range(layout.lanes)]
        self.lane_bits = (layout.lanes - 1).bit_length()
        # Inputs are numbered after the neurons.
        n_sources = layout.network.n_neurons
        self.neuron_bits = max(len(self.order.group) + self.lane_bits, (n_sources - 1).bit_length())
        value_bits = max(form.potential_bits, form.current_bits, STEP_BITS)
        step_bits = max(form.potential_bits, STEP_BITS) if layout.readable else STEP_BITS
        command = {"action": Action, "neuron": self.neuron_bits, "value": signed(value_bits)}
        spike = {"neuron": self.neuron_bits, "message": form.message_bits, "step": step_bits}
        super().__init__(
            {
                "command": In(stream.Signature(in_bytes(command))),
                "spikes": Out(stream.Signature(in_bytes(spike))),
                "last": Out(1),
                "narrow": Out(NARROW),
                "ignored": Out(IGNORED_BITS),
            }
        )
        # Whether the lanes show messages, and of which group; simulations read this too.
        self.done, self.done_group = Signal(), Signal.like(self.order.group)
        # The messages of the group that was taken from the queue, and the lane that is sent next.
        messages = data.ArrayLayout(len(self.order.factor), layout.lanes)
        self.taken = Signal(data.StructLayout({"group": len(self.order.group), "messages": messages}))
        self.chosen = Signal(self.lane_bits)
        self.step, self.steps_left = Signal(STEP_BITS), Signal(value_bits)
        self.is_stopping, self.is_idle, self.is_ignored = Signal(), Signal(), Signal()
        # The message that multiplies the weights of a row, and whether a SPIKE brought this message.
        self.factor, self.is_command = Signal.like(self.order.factor), Signal()
        # The first word of the row that is written; the exponent of weights minus the smallest exponent.
        self.written_row = Signal(range(max(len(layout.words), 2)), reset_less=True)
        shift = layout.exponent_of(layout.network) - layout.exponents[0]
        self.shift = Signal.like(self.order.shift, init=shift, reset_less=True)
        # The next group of a sweep, and the slot of this step.
        self.sweep, self.slot = Signal.like(self.order.group), Signal.like(self.order.slot)
        # The next word of a row, the end of the row, and the group of the word.
        self.position, self.end = (Signal(range(len(layout.words) + 1)) for _ in range(2))
        self.target = Signal.like(self.order.target)

    def elaborate(self, platform: Any) -> Module:
        """Return the gates."""
        self.m = m = Module()
        for index, lane in enumerate(self.lanes):
            m.submodules[f"lane_{index}"] = lane
            m.d.comb += [lane.order.eq(self.order), lane.load.eq(self.loads[index])]
        queue, row = self._queue(), self._row()
        self._choose_spike()
        order = self.order
        m.d.comb += [order.group.eq(self.sweep), order.slot.eq(self.slot), order.shift.eq(self.shift)]
        with m.FSM() as states:
            self._take_commands()
            self._update_neurons()
            self._send_spikes(queue)
            self._deliver_row(row)
        stops = self.command.payload.action == Action.STOP
        with m.If(~states.ongoing("IDLE") & self.command.valid & stops):
            m.d.comb += self.command.ready.eq(1)
            m.d.sync += self.is_stopping.eq(1)
        return m

    def _queue(self) -> Any:
        """Return the queue of the groups in which a neuron fired."""
        m, lanes, done = self.m, self.lanes, self.done
        m.d.comb += [
            done.eq(delayed(m, self.order.update, lanes[0].latency)),
            self.done_group.eq(delayed(m, self.order.group, lanes[0].latency)),
        ]
        messages = Cat(lane.message for lane in lanes)
        # One entry is at the output; the other entries must have room for all groups of a step.
        depth = max(self.layout.n_groups, 2) + 1
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=len(self.taken.as_value()), depth=depth)
        m.d.comb += [queue.w_data.eq(Cat(self.done_group, messages)), queue.w_en.eq(done & messages.any())]
        with m.If(done):
            narrow = reduce(or_, (lane.narrow.as_value() for lane in lanes))
            m.d.sync += self.narrow.eq(self.narrow.as_value() | narrow)
        return queue

    def _choose_spike(self) -> None:
        """Choose the spike that is sent next: the lowest lane of the group that was taken."""
        m, taken, spike = self.m, self.taken, self.spikes.payload
        for index in reversed(range(self.layout.lanes)):
            with m.If(taken.messages[index].any()):
                m.d.comb += self.chosen.eq(index)
        m.d.comb += [
            spike.neuron.eq(Cat(self.chosen, taken.group)),
            spike.message.eq(taken.messages[self.chosen]),
            spike.step.eq(self.step),
        ]

    def _row(self) -> Any:
        """Return the row of a source: the begin and the end of its words, and its delay in steps."""
        m, layout, order = self.m, self.layout, self.order
        shape = {"begin": len(self.end), "end": len(self.end), "delay": len(order.target_slot)}
        delays = layout.of_part(layout.network.synapses.delays)
        bounds = zip(layout.rows[:-1], layout.rows[1:], delays, strict=True)
        rows = [{"begin": int(a), "end": int(b), "delay": int(d)} for a, b, d in bounds]
        row = memory_of(m, "rows", data.StructLayout(shape), len(rows), rows).read_port()
        m.d.comb += [row.addr.eq(self.spikes.payload.neuron), order.word.eq(self.position)]
        with m.If(self.is_idle):
            m.d.comb += row.addr.eq(self.command.payload.neuron)
        if layout.compressed:
            groups = layout.word_groups.tolist()
            group = memory_of(m, "word_groups", len(self.target), len(groups), groups).read_port()
            m.d.comb += [group.addr.eq(self.position), order.target.eq(group.data)]
        else:
            m.d.comb += order.target.eq(delayed(m, self.target))
        return row

    def _next_slot(self) -> Any:
        return Mux(self.slot == self.layout.n_slots - 1, 0, self.slot + 1)

    def _sweep_on(self) -> Any:
        """Go to the next group, after the last one to the first; return whether this group is the last."""
        is_last = self.sweep == self.layout.n_groups - 1
        self.m.d.sync += self.sweep.eq(Mux(is_last, 0, self.sweep + 1))
        return is_last

    def _take_commands(self) -> None:
        m, slot, command, is_ignored = self.m, self.slot, self.command.payload, self.is_ignored
        with m.State("IDLE"):
            m.d.comb += [
                self.command.ready.eq(1),
                self.is_idle.eq(1),
                self.order.group.eq(command.neuron[self.lane_bits :]),
                self.order.value.eq(command.value),
            ]
            with m.If(self.command.valid), m.Switch(command.action):
                with m.Case(Action.REST):
                    m.d.sync += [slot.eq(0), self.step.eq(0), self.narrow.eq(0), self.ignored.eq(0)]
                    m.next = "REST"
                with m.Case(Action.RUN):
                    m.d.sync += [self.steps_left.eq(command.value), self.is_stopping.eq(0)]
                    m.next = "DONE"
                    with m.If(command.value > 0):
                        m.next = "UPDATE"
                with m.Case(Action.STOP):
                    pass
                with m.Case(Action.SPIKE):
                    network = self.layout.network
                    is_message = (command.value > 0) & (command.value <= network.format.largest_message)
                    m.d.comb += is_ignored.eq(~is_message | (command.neuron >= network.n_neurons))
                    with m.If(~is_ignored):
                        m.d.sync += [self.factor.eq(command.value), self.is_command.eq(1)]
                        m.next = "ROW"
                if self.layout.readable:
                    self._send_potential(command.neuron)
                for action, name in LOADED.items():
                    with m.Case(action):
                        self._load(name, command.neuron >= self.layout.n_neurons)
                if self.layout.capacity is not None:
                    self._take_network()
                with m.Default():
                    m.d.comb += is_ignored.eq(1)
            with m.If(is_ignored & ~self.ignored.all()):
                m.d.sync += self.ignored.eq(self.ignored + 1)
        with m.State("REST"):
            m.d.comb += [load.eq(RESTING) for load in self.loads]
            with m.If(self._sweep_on()):
                m.d.sync += slot.eq(self._next_slot())
                with m.If(slot == self.layout.n_slots - 1):
                    m.next = "IDLE"

    def _send_potential(self, neuron: Any) -> None:
        """Answer READ a cycle later; the command stays in the stream until the answer is taken."""
        m, spikes, is_here = self.m, self.spikes, Signal(name="potential_is_here")
        is_beyond, is_taken = neuron >= self.layout.n_neurons, is_here & spikes.ready
        with m.Case(Action.READ):
            m.d.sync += is_here.eq(~is_beyond & ~is_taken)
            m.d.comb += [
                self.is_ignored.eq(is_beyond),
                self.command.ready.eq(is_beyond | is_taken),
                spikes.valid.eq(is_here),
                spikes.payload.neuron.eq(neuron),
                spikes.payload.step.eq(Array(lane.read for lane in self.lanes)[neuron[: self.lane_bits]]),
            ]

    def _load(self, name: str, is_ignored: Any) -> None:
        """Write the value of a command to a memory of the lane that has the neuron."""
        self.m.d.comb += self.is_ignored.eq(is_ignored)
        for index, load in enumerate(self.loads):
            is_addressed = self.command.payload.neuron[: self.lane_bits] == index
            self.m.d.comb += load[name].eq(is_addressed & ~is_ignored)

    def _take_network(self) -> None:
        """Execute the commands that write thresholds and weights."""
        m, layout, command = self.m, self.layout, self.command.payload
        is_beyond = command.neuron >= layout.network.n_neurons
        form, (least, most) = layout.network.format.weights, layout.exponents
        for action, smallest, largest in (
            (Action.THRESHOLD, *layout.thresholds),
            (Action.WEIGHT, form.smallest, form.largest),
        ):
            with m.Case(action):
                fits = (command.value >= smallest) & (command.value <= largest)
                self._load(action.name.lower(), is_beyond | ~fits)
                m.d.comb += self.order.word.eq(self.written_row + command.neuron[self.lane_bits :])
        with m.Case(Action.EXPONENT):
            fits = (command.value >= least) & (command.value <= most)
            m.d.comb += self.is_ignored.eq(~fits)
            with m.If(fits):
                m.d.sync += self.shift.eq(command.value - least)
        with m.Case(Action.ROW):
            m.d.comb += self.is_ignored.eq(is_beyond)
            with m.If(~is_beyond):
                m.d.sync += self.written_row.eq(command.neuron * layout.n_groups)

    def _update_neurons(self) -> None:
        m, step, steps_left = self.m, self.step, self.steps_left
        with m.State("UPDATE"):
            m.d.comb += self.order.update.eq(1)
            with m.If(self._sweep_on()):
                m.d.sync += [
                    self.slot.eq(self._next_slot()),
                    step.eq(step + 1),
                    steps_left.eq(steps_left - 1),
                ]
                m.next = "WAIT"
        with m.State("WAIT"), m.If(self.done & (self.done_group == self.layout.n_groups - 1)):
            m.next = "SPIKE"

    def _send_spikes(self, queue: Any) -> None:
        m, taken = self.m, self.taken
        m.d.comb += self.order.factor.eq(self.factor)
        with m.State("SPIKE"):
            with m.If(taken.messages.as_value().any()):
                m.d.comb += self.spikes.valid.eq(1)
                with m.If(self.spikes.ready):
                    message = self.spikes.payload.message
                    m.d.sync += [self.factor.eq(message), taken.messages[self.chosen].eq(0)]
                    m.next = "ROW"
            with m.Elif(queue.r_rdy):
                m.d.comb += queue.r_en.eq(1)
                m.d.sync += taken.eq(queue.r_data)
            with m.Elif(queue.level == 0):
                m.next = "UPDATE"
                with m.If((self.steps_left == 0) | self.is_stopping):
                    m.next = "DONE"
        with m.State("DONE"):
            m.d.comb += [self.spikes.valid.eq(1), self.last.eq(1)]
            with m.If(self.spikes.ready):
                m.next = "IDLE"

    def _deliver_row(self, row: Any) -> None:
        m, position, target, n_slots = self.m, self.position, self.target, self.layout.n_slots
        target_slot = Signal.like(self.order.target_slot, name="target_slot")
        m.d.comb += self.order.target_slot.eq(target_slot)
        with m.State("ROW"):
            due = self.slot + row.data.delay
            m.d.sync += [
                position.eq(row.data.begin),
                self.end.eq(row.data.end),
                target_slot.eq(Mux(due >= n_slots, due - n_slots, due)),
                target.eq(0),
            ]
            m.next = "WORDS"
        with m.State("WORDS"):
            # The last word is written before the next row or step reads the memory.
            with m.If(position == self.end):
                m.d.sync += self.is_command.eq(0)
                m.next = "SPIKE"
                with m.If(self.is_command):
                    m.next = "IDLE"
            with m.Else():
                m.d.comb += self.order.deliver.eq(1)
                m.d.sync += [position.eq(position + 1), target.eq(target + 1)]
