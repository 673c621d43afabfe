"""Graphs of one to three neurons whose spike times are known in closed form."""

import json
from pathlib import Path

import numpy as np
import pytest

from snn import simulate, simulate_clocked
from snn.exchange import from_nir

nir = pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")

FOLDER = Path(__file__).with_name("conformance")
CASES = json.loads((FOLDER / "conformance.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
@pytest.mark.parametrize("step", [None, 2.0**-10])
def test_spikes_are_where_the_formula_says(case, step):
    """Exactly; or at the ends of steps, as many of each neuron and late by a few steps."""
    came = from_nir(nir.read(FOLDER / case["file"]), signal=case["inputs"] or None)
    duration = case["duration"] / came.time_constant
    if step is None:
        run = simulate(came.network, duration, record_spikes=True)
    else:
        duration = np.floor(duration / step) * step
        run = simulate_clocked(came.network, duration, time_step=step, record_spikes=True)
    nodes = came.spikes_by_node(run.spikes).nodes
    assert set(nodes) == set(case["spikes"])
    for name, expected in case["spikes"].items():
        events, times, indices = nodes[name].observables["spikes"], *map(np.array, expected.values())
        if step is None:
            np.testing.assert_array_equal(events.idx[0], indices)
            np.testing.assert_allclose(events.time[0], times, rtol=1e-14, atol=0)
        for index in np.unique(indices):
            ours = events.time[0][events.idx[0] == index]
            np.testing.assert_allclose(ours, times[indices == index], rtol=0, atol=8 * (step or 1e-9))
