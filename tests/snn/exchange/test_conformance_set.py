"""The graphs with closed-form spike times: our runs, the formulas in 30 digits, and the files."""

import json

import mpmath
import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from conformance.cases import FOLDER, cases, main
from snn import simulate, simulate_clocked
from snn.exchange import from_nir

CASES = {case.name: case for case in cases()}
mpf = mpmath.mpf


def run(case, *, time_step=None):
    """Return (time, index) of all spikes of each IF node, in the graph's unit of time."""
    signal = {name: np.array(values) for name, values in case.inputs.items()}
    came = from_nir(case.graph, signal=signal or None)
    duration = case.duration / came.time_constant
    if time_step is None:
        result = simulate(came.network, duration, record_spikes=True)
    else:
        duration = np.floor(duration / time_step) * time_step
        result = simulate_clocked(came.network, duration, time_step=time_step, record_spikes=True)
    nodes = came.spikes_by_node(result.spikes).nodes
    return {name: node.observables["spikes"] for name, node in nodes.items()}


@pytest.mark.parametrize("name", CASES)
def test_exact_runs(name):
    case = CASES[name]
    events = run(case)
    assert set(events) == set(case.spikes)
    for node, spikes in case.spikes.items():
        np.testing.assert_array_equal(events[node].idx[0], [index for _, index in spikes])
        np.testing.assert_allclose(events[node].time[0], [time for time, _ in spikes], rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_runs_on_a_clock(name):
    """At the ends of steps: as many spikes of each neuron, late by a few steps."""
    case, step = CASES[name], 2.0**-10
    events = run(case, time_step=step)
    for node, spikes in case.spikes.items():
        times, indices = (np.array(column) for column in zip(*spikes, strict=True))
        for index in np.unique(indices):
            ours = events[node].time[0][events[node].idx[0] == index]
            assert len(ours) == np.count_nonzero(indices == index)
            assert np.abs(ours - times[indices == index]).max() < 8 * step


def crossing(drive, current, charge, start):
    """Return the x near `start` with drive x + current (1 - e^-x) = charge, by the secant method."""
    return mpmath.findroot(lambda x: drive * x + current * (1 - mpmath.exp(-x)) - charge, start)


def test_formulas_in_thirty_digits():
    """Each case that is not a quotient, written out once more, without Lambert's W."""
    with mpmath.workdps(30):
        x = crossing(1, mpf(-1) / 4, mpf(1) / 2, 0.6)
        y = crossing(1, mpf(-1) / 4, 1 - x, 0.5)
        times, current = [mpf(10) / 8], mpf("0.8")
        for _ in range(3):
            interval = crossing(mpf("0.8"), -current, 1, 2.0)
            times.append(times[-1] + interval)
            current = current * mpmath.exp(-interval) + mpf("0.8")
        half, left = mpmath.log(2), mpf(3) / 4 * mpmath.exp(mpf(-1) / 4)
        expected = {
            "excitatory_spike": {"neurons": [1, 1 + half]},
            "edges_add_up": {"neurons": [1, 1 + half]},
            "time_constant": {"neurons": [1, 1 - mpmath.log(1 - 1 / mpf("1.5")) / 2]},
            "excitation_that_fails": {"neurons": [10, 10 + crossing(mpf("-0.1"), mpf("2.5"), 2, 2.0)]},
            "inhibition": {"neurons": [1, 1 + x, 1 + x + y]},
            "tie": {"neurons": [time for time in times for _ in range(3)]},
            "below_zero": {"neurons": [1.5, 3, 4.5, 6, 7.5, 9, 10, 10 + crossing(1, -6, mpf(1) / 2, 6.5)]},
            "two_populations": {
                "first": [1, 1.25],
                "second": [mpf("1.25") - mpmath.log(1 - (mpf(1) / 4 + left) / (left + 2))],
            },
        }
    for name, nodes in expected.items():
        assert set(nodes) == set(CASES[name].spikes)
        for node, times in nodes.items():
            ours = [time for time, _ in CASES[name].spikes[node]]
            np.testing.assert_allclose(ours, [float(time) for time in times], rtol=2e-15, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_no_spike_is_due_at_the_end(name):
    """A run that is a little longer or shorter has the same spikes."""
    case = CASES[name]
    times = [time for spikes in case.spikes.values() for time, _ in spikes]
    assert times
    assert max(times) < case.duration - 0.05
    came = from_nir(case.graph, signal={k: np.array(v) for k, v in case.inputs.items()} or None)
    longer = simulate(came.network, (case.duration + 0.05) / came.time_constant)
    assert longer.n_spikes == len(times)


def test_the_files_are_those_of_the_program(tmp_path):
    made = tmp_path / "made" / "here"
    assert main(["--output", str(made)]) == 0
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".nir", ".json")}
    assert files == {path.name for path in made.iterdir()}
    entries = json.loads((FOLDER / "conformance.json").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in entries] == [f"{name}.nir" for name in CASES]
    for ours, theirs in zip(json.loads((made / "conformance.json").read_text()), entries, strict=True):
        for node in ours["spikes"]:
            np.testing.assert_allclose(
                ours["spikes"][node].pop("times"), theirs["spikes"][node].pop("times"), rtol=1e-15, atol=0
            )
        assert ours == theirs
    for name, case in CASES.items():
        graph = nir.read(FOLDER / f"{name}.nir")
        assert sorted(graph.edges) == sorted(case.graph.edges)
        for node, ours in case.graph.nodes.items():
            for what, value in vars(ours).items():
                if isinstance(value, np.ndarray):
                    np.testing.assert_array_equal(getattr(graph.nodes[node], what), value)


def test_page_names_every_case():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in CASES)
