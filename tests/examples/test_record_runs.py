"""The interactive page: its recorded runs equal new runs of the solver, and its program shows them."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from examples import record_runs
from solvers import duality_gap, solve_active_set, solve_spiking
from tests.processes import LIMIT

pytestmark = pytest.mark.thorough

DOCS = Path(__file__).parents[2] / "docs"
STATIC = DOCS / "_static"
TEXT = (STATIC / record_runs.FILE).read_text(encoding="utf-8")
RUNS = json.loads(TEXT.removeprefix(f"const {record_runs.CONSTANT} = ").rstrip().removesuffix(";"))


def array_of(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


ATOMS = array_of(RUNS["atoms"], "i1").reshape(RUNS["n_atoms"], -1)
CHOSEN = [("smile", 3), ("eye", 9), ("tripod", 15), ("spoon", 24)]


def pixels_of(piece):
    return array_of(RUNS["pieces"][piece]["pixels"], "u1")


@pytest.mark.parametrize(("piece", "penalty"), CHOSEN)
def test_a_recorded_run_is_what_the_solver_does_now(piece, penalty):
    share = RUNS["shares"][penalty]
    problem = record_runs.problem_of(ATOMS, pixels_of(piece), share)
    written = RUNS["pieces"][piece]["runs"][penalty]
    history = record_runs.history_of(ATOMS, pixels_of(piece), share)
    result = solve_spiking(problem, tol=record_runs.TOL)

    assert written["duration"] == pytest.approx(result.info["duration"][0], rel=1e-9)
    neurons = array_of(written["neurons"], "u1")
    np.testing.assert_array_equal(neurons, history.spikes.neurons)
    counts = np.bincount(neurons, minlength=len(ATOMS))
    np.testing.assert_array_equal(counts, result.spike_counts[0])
    times = array_of(written["times"], "<u2") / 65535 * written["duration"]
    np.testing.assert_allclose(times, history.spikes.times, rtol=0, atol=written["duration"] / 65535)
    stages = [(stage.start, stage.scale, len(stage.spikes)) for stage in history.stages]
    np.testing.assert_allclose(written["stages"], stages, rtol=1e-9)

    levels = array_of(written["codes"], "u1").reshape(record_runs.N_TIMES + 1, -1)
    codes = np.zeros((len(levels), len(ATOMS)))
    codes[:, written["atoms"]] = levels / 255 * written["largest"]
    step = written["largest"] / 255
    np.testing.assert_allclose(codes[:-1], history.codes, rtol=0, atol=step)
    np.testing.assert_allclose(codes[-2], result.codes[0], rtol=0, atol=step)
    np.testing.assert_allclose(codes[-1], solve_active_set(problem).codes[0], rtol=0, atol=step)

    powers = (1.0 - array_of(written["gaps"], "<u2") / 65535) * RUNS["least_power"]
    certified = duality_gap(problem.subset(np.zeros(len(history.codes), dtype=int)), history.codes)
    relative = np.maximum(certified / problem.energies, 10.0 ** RUNS["least_power"])
    np.testing.assert_allclose(10.0**powers, relative, rtol=1e-3)
    assert 10.0 ** powers[-1] <= record_runs.TOL


def test_every_run_was_recorded_and_a_larger_penalty_leaves_fewer_atoms():
    assert RUNS["shares"] == record_runs.SHARES.tolist()
    assert list(RUNS["pieces"]) == list(record_runs.PIECES)
    for piece in RUNS["pieces"].values():
        assert len(piece["runs"]) == len(RUNS["shares"])
        assert len(piece["rows"]) == record_runs.N_ROWS
        sizes = [
            np.count_nonzero(array_of(run["codes"], "u1")[-len(run["atoms"]) :]) for run in piece["runs"]
        ]
        assert sizes[0] > 2 * sizes[-1] > 0


def fragment():
    """Return the HTML of the page."""
    text = (DOCS / "interactive.md").read_text(encoding="utf-8")
    return re.search(r"```\{raw\} html\n(.*?)```", text, flags=re.DOTALL)[1]


def test_the_page_is_small_and_fetches_nothing():
    files = [STATIC / name for name in re.findall(r'(?:src|href)="_static/([^"]+)"', fragment())]
    assert len(files) == 3
    assert sum(file.stat().st_size for file in files) < 400 * 1024
    for file in files:
        if file.name != record_runs.FILE:
            assert not re.search(r"https?:|fetch\(|import\(|XMLHttpRequest", file.read_text(encoding="utf-8"))


def test_the_browser_reads_what_was_written():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    program = f"""
const Runs = require({json.dumps(str(STATIC / "network_page.js"))});
const text = require("fs").readFileSync({json.dumps(str(STATIC / record_runs.FILE))}, "utf8");
const data = new Function(text + "return RECORDED_RUNS;")();
const run = Runs.run(data, "eye", 9), atoms = Runs.atoms(data);
console.log(JSON.stringify({{ run, signal: Runs.signal(data, "eye"), atom: atoms[5],
  coded: Runs.reconstruct(atoms, run, 40), sentence: Runs.sentence(run, data.n_times - 1) }}));
"""
    ran = subprocess.run([node, "-e", program], capture_output=True, text=True, check=False, timeout=LIMIT)
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(ran.stdout)
    history = record_runs.history_of(ATOMS, pixels_of("eye"), RUNS["shares"][9])
    problem = history.problem
    np.testing.assert_allclose(shown["signal"], problem.signals[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(shown["atom"], problem.dictionary[5], rtol=0, atol=1e-12)
    run = shown["run"]
    np.testing.assert_allclose(run["times"], history.times, rtol=1e-9)
    step = np.max(run["codes"]) / 255
    np.testing.assert_allclose(run["codes"], history.codes[:, run["atoms"]], rtol=0, atol=step)
    np.testing.assert_allclose(run["gaps"], history.relative_gap, rtol=1e-3)
    assert [spike["neuron"] for spike in run["spikes"]] == history.spikes.neurons.tolist()
    bounds = np.cumsum([len(stage.spikes) for stage in history.stages])
    stages = np.searchsorted(bounds, np.arange(len(history.spikes)), side="right")
    assert [spike["stage"] for spike in run["spikes"]] == stages.tolist()
    reconstruction = problem.reconstruct(history.codes)[40]
    assert np.abs(np.array(shown["coded"]) - reconstruction).max() < 0.02
    assert (
        f"{len(history.spikes)} spikes, stage {len(history.stages)} of {len(history.stages)}"
        in shown["sentence"]
    )
