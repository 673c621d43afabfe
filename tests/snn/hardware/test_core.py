"""The core, simulated in gates by Amaranth, agrees with the emulator bit for bit."""

import re
import shutil
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")

from amaranth.hdl import Fragment, Shape
from amaranth.hdl._mem import MemoryInstance

from snn import NetworkState, SpikingNetwork
from snn.digital import DigitalFormat, DigitalNetwork, FixedPoint
from snn.digital.command import Action
from snn.digital.digital_network import integer_drive
from snn.hardware import Capacity, SimulatedCore, to_verilog
from snn.hardware.core import Core
from snn.hardware.layout import CoreLayout
from tests.reference.core import EmulatedCore, WatchedCore
from tests.reference.digital import in_integers, random_digital
from tests.tiers import examples

REST = Action.REST, 0, 0
of_any_format = pytest.mark.filterwarnings(
    "ignore:time_step is:UserWarning",
    "ignore:.* beyond the:UserWarning",
    "ignore:.* beyond their:UserWarning",
)


@contextmanager
def no_core_rejected():
    """Reject an example whose network fits no core: wide drives, no weights, or large sums of weights."""
    try:
        yield
    except ValueError:
        reject()


def ring(n=6, *, weight=-0.5, drive=0.4, thresholds=1.0, **options):
    """Return a ring of neurons, each of which inhibits the next two neurons."""
    weights = weight * (np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), 2, axis=1))
    network = SpikingNetwork(weights, np.linspace(drive, 2 * drive, n), thresholds)
    return DigitalNetwork.of(network, DigitalFormat(**options), time_step=0.25)


def after(core, network, n_steps):
    """Run a core; return its spikes and its final potentials."""
    updates, spikes, _ = core.run(n_steps)
    potentials = np.array([update[2] for update in updates]).reshape(n_steps, -1)[-1]
    return spikes, potentials[: network.n_neurons]


def expected(network, n_steps, state=None):
    result = in_integers(network, n_steps, state=state, record_spikes=True)
    steps = np.rint(result.spikes.times / network.time_step).astype(int).tolist()
    spikes = list(
        zip(steps, result.spikes.neurons.tolist(), result.registers.spike_messages.tolist(), strict=True)
    )
    return spikes, result.registers.membrane_potential


@of_any_format
@pytest.mark.property
@examples(8)
@given(seed=st.integers(0, 2**32))
def test_every_bit_of_every_step_is_the_emulators(seed):
    """This includes any number of lanes, dense and compressed rows, and spikes that wait."""
    rng, n_steps = np.random.default_rng(seed), 12
    network = random_digital(rng, int(rng.integers(1, 16)))
    compressed = [None, True, False][rng.integers(3)]
    with no_core_rejected():
        lanes, n = int(rng.choice([1, 2, 4, 8])), network.n_neurons
        core = WatchedCore(network, lanes=lanes, compressed=compressed, stall=0.3, rng=rng)
    updates, spikes, _ = core.run(n_steps)
    seen = np.array(updates, dtype=object).reshape(n_steps, -1, 5)[:, :n]
    state, current, is_narrow = None, np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    for step in range(n_steps):
        result = in_integers(network, 1, state=state)
        state, now = result.state, result.registers
        narrow = now.saturations.copy()
        is_narrow, narrow[:, 2] = now.saturations[:, 2], is_narrow
        flags = narrow @ (1 << np.arange(4))
        # A step adds the currents of the previous step to potentials.
        columns = np.arange(n), now.messages, now.membrane_potential, current, flags
        np.testing.assert_array_equal(seen[step], np.column_stack(columns))
        current = now.synaptic_current
    assert spikes == expected(network, n_steps)[0]
    # The flags of all neurons and steps stay until the next rest.
    assert core.narrow == np.bitwise_or.reduce(seen[:, :, 4].astype(int), axis=None)
    core([REST, REST])
    assert core.narrow == 0


@of_any_format
@pytest.mark.property
@examples(8)
@given(seed=st.integers(0, 2**32))
def test_cycles_are_those_of_the_gates(seed):
    """Counts are exact if steps of spikes are known; otherwise they exceed by at most two cycles a spike."""
    rng, n_steps = np.random.default_rng(seed), 12
    network = random_digital(rng, int(rng.integers(2, 16)))
    exponent = network.rules.exponent
    capacity = Capacity(least_exponent=exponent, largest_exponent=exponent + 1)
    options = [{"compressed": True}, {"compressed": False}, {"capacity": capacity}][rng.integers(3)]
    with no_core_rejected():
        core = WatchedCore(network, lanes=int(rng.choice([1, 2, 4])), **options)
    layout, (_, spikes, cycles) = core.layout, core.run(n_steps)
    steps, neurons, _ = np.array(spikes, dtype=np.int64).reshape(-1, 3).T
    assert layout.cycles(n_steps, neurons, steps) == cycles
    alone = layout.cycles(n_steps, neurons) - layout.cycles(n_steps, neurons, steps)
    assert 0 <= alone <= 2 * len(neurons)


@pytest.mark.parametrize(("lanes", "message_bits", "delay"), [(1, 1, 0), (2, 1, 3), (4, 4, 0)])
def test_the_bits_of_the_memories_are_those_of_the_gates(lanes, message_bits, delay):
    network = ring(message_bits=message_bits, delay=delay)
    exponent = network.rules.exponent
    for capacity in None, Capacity(least_exponent=exponent - 1, largest_exponent=exponent):
        layout = CoreLayout(network, lanes=lanes, capacity=capacity)
        assert layout.memory_bits == bits_of_memories(Fragment.get(Core(layout), None))


def bits_of_memories(fragment):
    """Return the number of bits of all memories of a circuit."""
    if isinstance(fragment, MemoryInstance):
        return Shape.cast(fragment._data.shape).width * fragment._data.depth
    return sum(bits_of_memories(part) for part, *_ in fragment.subfragments)


@pytest.mark.parametrize(("bits", "message_bits", "a_lane"), [(18, 1, 1), (24, 1, 2), (18, 4, 2), (24, 4, 3)])
def test_multipliers(bits, message_bits, a_lane):
    network = ring(current_bits=bits, message_bits=message_bits)
    assert CoreLayout(network, lanes=4).multipliers == 4 * a_lane


@of_any_format
@pytest.mark.property
@examples(8)
@given(seed=st.integers(0, 2**32))
def test_no_sequence_of_commands_hangs_a_core_and_illegal_ones_are_counted(seed):
    """Commands have neurons beyond the last, unknown actions, and numbers of steps below one; spikes wait."""
    rng = np.random.default_rng(seed)
    network = random_digital(rng, int(rng.integers(1, 12)))
    exponent = network.rules.exponent
    capacity = Capacity(
        least_exponent=exponent - int(rng.integers(4)),
        largest_exponent=exponent + int(rng.integers(4)),
        largest_sum=int(rng.choice([2**5, 2**20])),
    )
    first, last = 0, network.n_neurons
    if rng.integers(2):
        first, last, capacity = *sorted(rng.choice(last + 1, 2, replace=False).tolist()), None
    options = {"capacity": capacity} if capacity else {"part": (first, last)}
    options["readable"] = bool(rng.integers(2))
    with no_core_rejected():
        lanes = int(rng.choice([1, 2, 4, 8]))
        core = WatchedCore(network, lanes=lanes, stall=0.2, rng=rng, **options)
    expected = EmulatedCore(core.layout)
    # With a capacity, registers of arriving charge wrap around, so all neurons may fire by command.
    inputs, sent = range(0 if capacity else last - first, 2**core.core.neuron_bits), set()
    for _ in range(12):
        loads = [
            (
                int(rng.choice([1, 2, 3, 3, 5, 7, 8, 9, 9, 9, 9, 10, 11, 11, 12])),
                int(rng.integers(2**core.core.neuron_bits)),
                value >> int(rng.choice([0, 12, 24, 28, 30])),
            )
            for value in rng.integers(-(2**31), 2**31, rng.integers(12)).tolist()
        ]
        largest = network.format.largest_message
        # Registers of arriving charge have room for one spike of each source in a step.
        sources = [source for source in inputs if source not in sent and rng.random() < 0.3]
        loads += [(Action.SPIKE, source, int(rng.integers(-1, largest + 2))) for source in sources]
        sent.update(sources)
        if rng.random() < 0.4:
            loads.insert(0, (Action.REST, 0, 0))
        assert core(loads) == [answer for load in loads for answer in expected.do(*load)]
        n_steps = int(rng.choice([-(2**31), -1, 0, 1, 3, 7]))
        _, spikes, _ = core.run(n_steps)
        if n_steps > 0:
            sent.clear()
        assert spikes == expected.do(Action.RUN, 0, n_steps)
        assert core.ignored == expected.ignored


@of_any_format
@pytest.mark.property
@examples(8)
@given(seed=st.integers(0, 2**32))
def test_two_cores_in_turn_are_the_whole_network(seed):
    """Each core does a step, and receives the spikes of the other core before the next step."""
    rng, n_steps = np.random.default_rng(seed), 12
    network = random_digital(rng, int(rng.integers(2, 16)))
    n = network.n_neurons
    middle, lanes = int(rng.integers(1, n)), int(rng.choice([1, 2, 4]))
    with no_core_rejected():
        whole, firsts = EmulatedCore(CoreLayout(network)), (0, middle)
        cores = [SimulatedCore(network, lanes=lanes, part=part) for part in ((0, middle), (middle, n))]
    seen = []
    for _ in range(n_steps):
        spikes = [core([(Action.RUN, 0, 1)]) for core in cores]
        for core, to, since, others in zip(cores, firsts, firsts[::-1], spikes[::-1], strict=True):
            core([(Action.SPIKE, (i + since - to) % n, message) for _, i, message in others])
        for first, sent in zip(firsts, spikes, strict=True):
            seen += [(step, i + first, message) for step, i, message in sent]
    assert seen == whole.do(Action.RUN, 0, n_steps)


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_stop_ends_a_run_after_a_step(lanes):
    network = ring()
    core = WatchedCore(network, lanes=lanes)
    _, spikes, cycles = core.run(2**31 - 1, stop_after=100)
    assert 100 <= cycles < 200
    n_steps = max(step for step, _, _ in spikes)
    whole = expected(network, n_steps + 5)[0]
    assert spikes == [spike for spike in whole if spike[0] <= n_steps]
    # The core continues as if it had not been stopped.
    before = core.step
    _, more, _ = core.run(n_steps + 5 - before)
    assert spikes + more == whole


@of_any_format
@pytest.mark.property
@examples(8)
@given(seed=st.integers(0, 2**32))
def test_another_network_is_written_to_a_core_and_its_bits_are_the_emulators(seed):
    """The network has any format, and at most as many neurons as the core; weights of the core are zero."""
    rng, n_steps = np.random.default_rng(seed), 12
    n_core = int(rng.integers(1, 12))
    n = int(rng.integers(1, n_core + 1))
    network = random_digital(rng, n)
    real, delays = network.network, np.pad(network.synapses.delays, (0, n_core - n))
    bias = np.zeros(n_core) if rng.integers(2) else np.full(n_core, real.soma_bias[0])
    blank = SpikingNetwork(np.zeros((n_core, n_core)), bias)
    held = DigitalNetwork.of(blank, network.format, time_step=network.time_step, delays=delays)
    capacity = Capacity(
        least_exponent=network.rules.exponent - int(rng.integers(3)),
        largest_exponent=network.rules.exponent + int(rng.integers(3)),
    )
    with no_core_rejected():
        lanes = int(rng.choice([1, 2, 4]))
        commands = CoreLayout(held, lanes=lanes, capacity=capacity).commands(network)
    core = WatchedCore(held, lanes=lanes, capacity=capacity, stall=0.1, rng=rng)
    assert len(commands) == n_core * (n_core + 1) + 2 * n_core + 1
    core.run(3)
    core([REST, *commands])
    spikes, potentials = after(core, held, n_steps)
    expected_spikes, expected_potentials = expected(network, n_steps)
    assert (core.ignored, spikes) == (0, expected_spikes)
    np.testing.assert_array_equal(potentials[:n], expected_potentials)


@of_any_format
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("least_potential", {"potential_bits": 25, "threshold": 2**20}),
        ("least_current", {"current_bits": 25}),
        ("potential_wraps", {"potential_overflow": "wrap"}),
        ("current_wraps", {"current_overflow": "wrap"}),
        ("kept", {"decay_bits": 13}),
        ("decay_rounding", {"decay_rounding": "floor"}),
        ("input_rounding", {"input_rounding": "nearest"}),
        ("largest_message", {"message_bits": 2}),
        ("subtract", {"reset": "zero"}),
    ],
)
def test_a_network_for_other_gates_is_refused_and_the_field_is_named(name, options):
    layout = CoreLayout(ring(), capacity=Capacity(least_exponent=6, largest_exponent=16))
    with pytest.raises(ValueError, match=rf"^rules\.{name} of network must be that of the core, "):
        layout.commands(ring(**options))


def test_a_network_of_another_time_step_or_shift_is_refused_and_the_field_is_named():
    options = {"graded": True, "message_bits": 9}
    network, capacity = ring(**options), Capacity(least_exponent=0, largest_exponent=16)
    slow = DigitalNetwork.of(network.network, network.format, time_step=0.5)
    for name, other in ("kept", slow), ("message_shift", ring(**options, threshold=2**18)):
        with pytest.raises(ValueError, match=rf"^rules\.{name} of network"):
            CoreLayout(network, capacity=capacity).commands(other)


def test_formats_of_drives_may_differ():
    layout = CoreLayout(ring(), capacity=Capacity(least_exponent=6, largest_exponent=16))
    commands = layout.commands(ring())
    for options in {"lowest_drive": 4.0}, {"bias": FixedPoint(bits=13, rounding="floor")}, {"seed": 3}:
        assert len(layout.commands(ring(**options))) == len(commands)


@pytest.mark.parametrize("part", [None, (2, 5)])
def test_a_core_without_capacity_takes_the_drives_of_its_network(part):
    thresholds = [1.0, 0.8, 1.0, 1.0, 1.0, 0.6]
    network, changed = (ring(drive=drive, thresholds=thresholds) for drive in (0.4, 0.9))
    layout = CoreLayout(network, lanes=2, part=part)
    commands = layout.commands(changed)
    assert [neuron for action, neuron, _ in commands if action == Action.DRIVE] == list(
        range(layout.n_neurons)
    )
    assert [value for _, _, value in commands] == CoreLayout(changed, part=part).drive.tolist()
    if part is None:
        core = WatchedCore(network, lanes=2)
        core([REST, *commands])
        spikes, potentials = after(core, network, 40)
        expected_spikes, expected_potentials = expected(changed, 40)
        assert spikes == expected_spikes
        np.testing.assert_array_equal(potentials, expected_potentials)


def test_values_can_be_loaded():
    network = ring()
    rng = np.random.default_rng(0)
    potential, current = rng.integers(-(2**19), 2**19, (2, 6))
    drive = network.network.soma_bias[::-1]
    changed = DigitalNetwork.of(
        network.network.with_soma_bias(drive), network.format, time_step=network.time_step
    )
    core = WatchedCore(network, lanes=4)
    core.run(20)
    amounts = integer_drive(changed, drive)
    core([REST])
    for action, values in (
        (Action.DRIVE, amounts.values << amounts.exponent),
        (Action.POTENTIAL, potential),
        (Action.CURRENT, current),
    ):
        core((action, i, value) for i, value in enumerate(values))
    state = NetworkState(
        membrane_potential=potential * network.unit, synaptic_current=current * network.current_unit
    )
    spikes, potentials = after(core, network, 50)
    expected_spikes, expected_potentials = expected(changed, 50, state)
    assert spikes == expected_spikes
    assert len(spikes) > 10
    np.testing.assert_array_equal(potentials, expected_potentials)


def test_a_run_goes_on_where_the_one_before_ended_and_rest_forgets_it():
    network = ring(delay=3)
    once, twice = (WatchedCore(network, lanes=2) for _ in range(2))
    spikes, potentials = after(once, network, 40)
    first, _ = after(twice, network, 17)
    second, last = after(twice, network, 23)
    assert spikes == first + second
    np.testing.assert_array_equal(potentials, last)
    twice([REST])
    again, last = after(twice, network, 40)
    assert spikes == again
    np.testing.assert_array_equal(potentials, last)


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_cycles_are_those_of_the_documentation(lanes):
    """A step takes its number of groups, the latency of the pipeline, and one cycle.

    Each group that fires adds one cycle, and each spike adds its words and three cycles.  A step whose last
    group fires may wait one more cycle for the queue, and the command takes a few cycles.
    """
    network = ring(16)
    core = WatchedCore(network, lanes=lanes, compressed=True)
    layout, n_steps = core.layout, 30
    _, spikes, cycles = core.run(n_steps)
    words = np.diff(layout.rows)[[neuron for _, neuron, _ in spikes]]
    groups = {(step, neuron // lanes) for step, neuron, _ in spikes}
    per_step = layout.n_groups + core.core.lanes[0].latency + 1
    others = cycles - n_steps * per_step - len(groups) - (words + 3).sum()
    last_groups = sum(group == layout.n_groups - 1 for _, group in groups)
    assert others in range(last_groups + 4)


def test_rows_leave_out_words_of_zeros():
    network = ring(16)
    dense, compressed = (CoreLayout(network, lanes=2, compressed=flag) for flag in (False, True))
    assert len(dense.words) == 16 * 8
    # Targets j + 1 and j + 2 are in one group if j is odd, and in two groups if j is even.
    assert np.diff(compressed.rows).tolist() == [2, 1] * 8
    assert CoreLayout(network, lanes=2).compressed


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verilog") / "made"
    network = ring(10, delay=1, drive=0.9, weights=FixedPoint(bits=6), decay_rounding="nearest")
    layout = to_verilog(network, folder, lanes=2, bench_steps=60)
    return network, layout, folder


def test_verilog_has_the_weights_and_its_bench_the_spikes(files):
    network, layout, folder = files
    _, lane = (folder / "snn_core.v").read_text().split("module \\snn_core.lane_1 ")
    mantissas = re.findall(r"\bweights\[\d+\] = 6'h(\w+);", lane)
    assert [int(number, 16) for number in mantissas] == (layout.words[:, 1] % 64).tolist()
    bench = (folder / "snn_core_bench.v").read_text()
    assert bench.count("expected[") == len(expected(network, 60)[0]) + 1


def run_bench(folder):
    command = "iverilog -o bench snn_core.v snn_core_bench.v && vvp bench"
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
def test_the_bench_passes_and_finds_a_wrong_spike(files):
    network, _, folder = files
    n_spikes = len(expected(network, 60)[0])
    assert n_spikes > 20
    assert f"passed: 60 steps, {n_spikes} spikes" in run_bench(folder)
    bench = (folder / "snn_core_bench.v").read_text()
    last = re.findall(r"32'd(\d+), 1'd1", bench)[-1]
    wrong = f"32'd{int(last) + 1}, 1'd1".join(bench.rsplit(f"32'd{last}, 1'd1", 1))
    (folder / "snn_core_bench.v").write_text(wrong)
    assert "FAILED at spike" in run_bench(folder)


@pytest.mark.parametrize("capacity", [None, Capacity(least_exponent=6, largest_exponent=16)])
def test_the_bench_of_a_network_without_drive_has_drives(tmp_path, capacity):
    network = ring(drive=0.0)
    to_verilog(network, tmp_path, lanes=4, bench_steps=60, capacity=capacity)
    bench = (tmp_path / "snn_core_bench.v").read_text()
    assert len(re.findall(rf"do_command\({Action.DRIVE:d}, \d, [1-9]\d*\);", bench)) == 6
    n_spikes = bench.count("    expected[")
    assert n_spikes > 20
    if shutil.which("iverilog"):
        assert f"passed: 60 steps, {n_spikes} spikes" in run_bench(tmp_path)


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
def test_another_network_is_written_to_the_verilog_of_a_core(tmp_path):
    network = ring(9, drive=0.9, delay=1)
    blank = SpikingNetwork(np.zeros((12, 12)), np.zeros(12))
    held = DigitalNetwork.of(blank, network.format, time_step=network.time_step)
    exponent = network.rules.exponent
    capacity = Capacity(least_exponent=exponent, largest_exponent=exponent)
    to_verilog(network, tmp_path / "fixed", lanes=4, bench_steps=60)
    layout = to_verilog(held, tmp_path, lanes=4, bench_steps=60, capacity=capacity)
    before, after = (tmp_path / "fixed" / "snn_core_bench.v").read_text().rsplit("    n_cycles = 0;", 1)
    commands = layout.commands(network)
    written = "".join(f"    do_command({action:d}, {i}, {value});\n" for action, i, value in commands)
    (tmp_path / "snn_core_bench.v").write_text(f"{before}{written}    n_cycles = 0;{after}")
    n_spikes = len(expected(network, 60)[0])
    assert n_spikes > 20
    assert f"passed: 60 steps, {n_spikes} spikes" in run_bench(tmp_path)


def test_ports_have_the_names_of_axi_streams(files):
    """The bench reads the port `tlast` as the end of a run."""
    _, _, folder = files
    text = (folder / "snn_core.v").read_text()
    top = text[text.rindex("module snn_core") :]
    ports = re.search(r"module snn_core *\((.*?)\);", top, re.DOTALL)[1].split(", ")
    streams = {f"{side}_axis_{name}" for side in "sm" for name in ("tdata", "tvalid", "tready")}
    assert set(ports) == streams | {"m_axis_tlast", "clk", "rst", "narrow", "ignored"}
    widths = re.findall(r"(?:in|out)put \[(\d+):0\] [sm]_axis_tdata", top)
    assert [int(width) % 8 for width in widths] == [7, 7]
    assert ".m_axis_tlast(is_last)" in (folder / "snn_core_bench.v").read_text()


@pytest.mark.skipif(shutil.which("verilator") is None, reason="needs Verilator")
@pytest.mark.parametrize(
    ("lanes", "options"),
    [(1, {}), (2, {"delay": 1}), (4, {"message_bits": 4}), (2, {"graded": True, "message_bits": 9})],
)
def test_verilator_has_no_warning_beyond_the_rules_that_are_waived(tmp_path, lanes, options):
    network = ring(9, **options)
    exponent = network.rules.exponent
    capacity = Capacity(least_exponent=exponent - 2, largest_exponent=exponent + 1)
    to_verilog(network, tmp_path, lanes=lanes, capacity=capacity if lanes == 2 else None)
    command = ["verilator", "--lint-only", "-Wall", "snn_core.vlt", "snn_core.v"]
    lint = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (lint.returncode, lint.stderr) == (0, "")
    assert subprocess.run([*command[:3], "snn_core.v"], cwd=tmp_path, capture_output=True).returncode != 0


def test_bad_arguments_are_refused(tmp_path):
    network = ring()
    exponent = network.rules.exponent
    capacity = Capacity(least_exponent=exponent, largest_exponent=exponent)
    layout = CoreLayout(network, capacity=capacity)
    small = Capacity(least_exponent=exponent, largest_exponent=exponent, largest_sum=1)
    silent = network.with_faults(silent_neurons=np.arange(6) == 1)
    wide = ring(potential_bits=8, drive=400.0, bias=FixedPoint(bits=13))
    slow = DigitalNetwork.of(
        SpikingNetwork(np.zeros((2000, 2000)), np.zeros(2000)), DigitalFormat(delay=4096), time_step=0.25
    )
    cases = [
        (lambda: CoreLayout(slow), ValueError, "network"),
        (lambda: CoreLayout(network.network), TypeError, "network"),
        (lambda: CoreLayout(network, lanes=3), ValueError, "lanes"),
        (lambda: CoreLayout(network, lanes=0), ValueError, "lanes"),
        (lambda: CoreLayout(network, compressed="no"), TypeError, "compressed"),
        (lambda: CoreLayout(network, part=(3, 3)), ValueError, "part"),
        (lambda: CoreLayout(network, part=(0, 7)), ValueError, "part"),
        (lambda: CoreLayout(network, part=3), TypeError, "part"),
        (lambda: CoreLayout(network, part=(0, 3), capacity=capacity), ValueError, "part"),
        (lambda: CoreLayout(wide), ValueError, "drive of network"),
        (lambda: CoreLayout(network, capacity=exponent), TypeError, "capacity"),
        (lambda: CoreLayout(network, capacity=capacity, compressed=True), ValueError, "compressed"),
        (lambda: CoreLayout(network, capacity=small), ValueError, "sums of the weights"),
        (lambda: Capacity(least_exponent=1, largest_exponent=0), ValueError, "largest_exponent"),
        (lambda: Capacity(least_exponent=1.5, largest_exponent=2), TypeError, "least_exponent"),
        (lambda: CoreLayout(network).commands(ring(weight=-0.4)), ValueError, "network must differ"),
        (lambda: layout.commands(silent), ValueError, "thresholds of network"),
        (lambda: layout.commands(ring(7)), ValueError, "network must have at most the 6 neurons"),
        (lambda: layout.commands(ring(delay=1)), ValueError, "delays of network"),
        (lambda: layout.commands(ring(weight=-0.1)), ValueError, "exponent of weights"),
        (lambda: layout.commands(ring(weights=FixedPoint(bits=12))), ValueError, "(mantissas|exponent)"),
        (lambda: to_verilog(network, tmp_path, bench_steps=0), ValueError, "bench_steps"),
    ]  # fmt: skip
    for call, kind, name in cases:
        with pytest.raises(kind, match=f"^{name}"):
            call()


@pytest.mark.parametrize("command", [(4, 0), (4, 0, 1, 0), 4, None])
def test_what_is_no_command_is_named_and_the_core_goes_on(command):
    core = SimulatedCore(ring())
    with pytest.raises(TypeError, match=r"commands must be tuples \(action, neuron, value\); got "):
        core([(Action.RUN, 0, 3), command])
    assert core(np.array([[Action.RUN, 0, 6]])) == expected(ring(), 6)[0]
