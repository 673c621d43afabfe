"""Give cores in Verilog random commands: no core hangs, and the spikes equal the spikes of the emulator.

Run it with ``python -m tests.stress.random_commands [sequences]``.  Verilator and a C++ compiler are needed.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from amaranth.hdl import Fragment

from snn import SpikingNetwork
from snn.digital import Action, DigitalFormat, DigitalNetwork, FixedPoint
from snn.hardware import Capacity, to_verilog
from snn.hardware.core import Core
from tests.reference.core import EmulatedCore

# Most cycles that a receiver lets a spike wait, as in `core_bench.cpp`.
LONGEST_STALL = 5
# Number of neurons, the format, the core.  A capacity allows exponents up to two away from the network's.
CORES = {
    "one neuron": (2, {}, {"part": (0, 1)}),
    "neurons that do not fill the lanes": (7, {"message_bits": 4}, {"lanes": 4}),
    "delays": (9, {"delay": 3, "reset": "zero"}, {"lanes": 2, "readable": True}),
    "compressed rows": (
        11,
        {"weights": FixedPoint(bits=5), "current_overflow": "wrap"},
        {"lanes": 2, "compressed": True},
    ),
    "inputs, graded messages": (
        12,
        {"graded": True, "message_bits": 12},
        {"lanes": 4, "compressed": True, "part": (3, 9), "readable": True},
    ),
    "a capacity": (7, {"delay": 1}, {"lanes": 2, "capacity": 2**9, "readable": True}),
}
WRITES = Action.THRESHOLD, Action.ROW, *[Action.WEIGHT] * 5, Action.EXPONENT


def network_of(n_neurons, form, rng):
    weights = rng.normal(0.0, 0.5, (n_neurons, n_neurons)) * (rng.random((n_neurons, n_neurons)) < 0.4)
    weights[0, -1] = weights[1, 0] = -0.5
    np.fill_diagonal(weights, 0.0)
    network = SpikingNetwork(weights, rng.uniform(-0.5, 1.5, n_neurons), rng.uniform(0.5, 1.5, n_neurons))
    return DigitalNetwork.of(network, DigitalFormat(**form), time_step=0.25)


def random_sequence(layout, core, rng):
    """Yield random commands, from a REST to a few RUNs; some of the commands are illegal."""
    yield Action.REST, 0, 0
    most, wide = layout.network.format.largest_message, 2 ** (layout.network.format.potential_bits - 1)
    for _ in range(rng.integers(1, 4)):
        for _ in range(rng.integers(8)):
            actions = [Action.DRIVE, Action.POTENTIAL, Action.CURRENT, Action.STOP, Action.READ, 12, *WRITES]
            action = int(rng.choice(actions if layout.capacity else actions[: -len(WRITES)]))
            bound = int(rng.choice([wide // 8, 2**31] if action < Action.THRESHOLD else [4, 100, wide]))
            value = int(rng.integers(-bound, bound))
            if action == Action.EXPONENT:
                value = int(rng.integers(layout.exponents[0] - 1, layout.exponents[1] + 2))
            yield action, int(rng.integers(2**core.neuron_bits)), value
        # The registers of arriving spikes have room for one spike of each source in a step.
        for source in range(layout.n_neurons, 2**core.neuron_bits):
            if rng.random() < 0.3:
                yield Action.SPIKE, source, int(rng.integers(-1, most + 2))
        yield Action.RUN, 0, int(rng.integers(1, 6))
        yield Action.RUN, 0, int(rng.choice([0, -1, -(2**31)]))


def longest(layout, core, action, value):
    """Return the most cycles until a core is ready again, as if every neuron fired in every step."""
    words = int(np.diff(layout.rows).max()) + 3 + LONGEST_STALL
    if action == Action.RUN:
        step = 3 * layout.n_groups + core.lanes[0].latency + 2 + layout.n_neurons * words
        return 2 + LONGEST_STALL + max(value, 0) * step
    if action == Action.READ:
        return 1 + LONGEST_STALL
    return max(words, layout.n_groups * layout.n_slots + 1) if action in (Action.REST, Action.SPIKE) else 0


def try_core(name, n_sequences, folder):
    """Give a core in Verilog random commands, and compare what it sends with the emulator."""
    n_neurons, form, options = CORES[name]
    rng = np.random.default_rng(n_neurons)
    network = network_of(n_neurons, form, rng)
    if "capacity" in options:
        least, largest = network.rules.exponent - 2, network.rules.exponent + 2
        limits = {"least_exponent": least, "largest_exponent": largest, "largest_sum": options["capacity"]}
        options = {**options, "capacity": Capacity(**limits)}
    layout = to_verilog(network, folder, **options)
    core, emulator = Core(layout), EmulatedCore(layout)
    Fragment.get(core, None)  # Amaranth warns of a core that is never elaborated
    payload = core.command.payload
    widths = {
        "ACTION_BITS": len(payload.action),
        "NEURON_BITS": core.neuron_bits,
        "VALUE_BITS": len(payload.value),
        "MESSAGE_BITS": network.format.message_bits,
    }
    defined = " ".join(f"-D{key}={bits}" for key, bits in widths.items())
    bench = Path(__file__).with_name("core_bench.cpp")
    build = [
        "verilator", "--cc", "--exe", "--build", "-O3", "-CFLAGS", defined, "--top-module", "snn_core",
        "snn_core.vlt", "snn_core.v", str(bench),
    ]  # fmt: skip
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    lines, expected = [], []
    for _ in range(n_sequences):
        for action, neuron, value in random_sequence(layout, core, rng):
            lines.append(f"{int(action)} {neuron} {value} {longest(layout, core, action, value)}")
            for number, source, message in emulator.do(action, neuron, value):
                expected.append(f"{number % 2**32} {source} {message}")
            if action == Action.RUN:
                expected.append(f"end {emulator.ignored}")
    program = folder / "obj_dir" / "Vsnn_core"
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=False)
    seen = done.stdout.split("\n")[:-1]
    wrong = next((k for k, (a, b) in enumerate(zip(seen, expected, strict=False)) if a != b), None)
    if wrong is not None or len(seen) != len(expected):
        at = min(len(seen), len(expected)) if wrong is None else wrong
        raise SystemExit(f"{name}: line {at} is {seen[at : at + 1]}, expected {expected[at : at + 1]}")
    n_sent = sum(line[0] != "e" for line in expected)
    print(f"{name}: {n_sequences:,} sequences, {len(lines):,} commands, {n_sent:,} payloads, all equal")


def main():
    warnings.simplefilter("ignore", UserWarning)
    n_sequences = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for name in CORES:
        with tempfile.TemporaryDirectory() as folder:
            try_core(name, n_sequences, Path(folder))


if __name__ == "__main__":
    main()
