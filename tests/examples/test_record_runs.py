"""The interactive page: its recorded runs are what the solver does now, and its program shows them."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from examples import record_runs
from examples.record_runs import array_of
from solvers import duality_gap, solve_active_set, solve_spiking
from tests.processes import LIMIT

pytestmark = pytest.mark.thorough

DOCS = Path(__file__).parents[2] / "docs"
STATIC = DOCS / "_static"
RUNS = record_runs.read(STATIC / record_runs.FILE)
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

    assert written["duration"] == pytest.approx(result.duration[0], rel=1e-9)
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


def test_controls_do_what_they_say(tmp_path):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("chromium is not installed")
    # Everything a reader can do, and what the page then says; errors are collected from the beginning.
    watch = "<script>const errors = []; window.onerror = (m) => errors.push(m); const said = {};</script>"
    clicks = """<script>
const find = (id) => document.getElementById(id);
const say = (name) => { said[name] = `${find("state").textContent} ${find("penalty-says").textContent}`; };
const move = (id, value) => { find(id).value = value; find(id).dispatchEvent(new Event("input")); };
const dark = () => [...find("neurons").getContext("2d").getImageData(0, 0, 900, 400).data].join();
say("hash");
document.querySelectorAll("input[name=piece]")[3].click(); say("piece");
move("penalty", 24); say("penalty");
move("time", 0); say("start");
const light = dark();
document.documentElement.dataset.theme = "dark";
find("play").click();
said.playing = find("play").textContent;
setTimeout(() => {
  find("play").click(); say("played");
  said.paused = find("play").textContent;
  said.repainted = dark() !== light;
  document.title = JSON.stringify({ said, errors, time: find("time").value });
}, 1000);
</script>"""
    page = fragment().replace("_static/", STATIC.as_uri() + "/")
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{watch}{page}{clicks}")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=3000", "--dump-dom",
        (tmp_path / "page.html").as_uri() + "#piece=eye&penalty=9&time=63",
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    title = re.search(r"<title>(.*?)</title>", ran.stdout, flags=re.DOTALL)
    assert title is not None, ran.stderr[-2000:]
    answer = json.loads(html.unescape(title[1]))
    assert answer["errors"] == []
    said = answer["said"]

    def n_spikes(piece, penalty):
        return len(array_of(RUNS["pieces"][piece]["runs"][penalty]["neurons"], "u1"))

    assert f": {n_spikes('eye', 9)} spikes" in said["hash"]
    assert f"{100 * RUNS['shares'][9]:.1f}".rstrip("0").rstrip(".") + " % of the largest" in said["hash"]
    assert f": {n_spikes('spoon', 9)} spikes" in said["piece"]
    assert f": {n_spikes('spoon', 24)} spikes" in said["penalty"]
    assert said["start"].startswith("Time 0.0: 0 spikes, stage 1 of")
    assert (said["playing"], said["paused"]) == ("Pause", "Play")
    assert 2 <= int(answer["time"]) <= 20
    assert said["repainted"]
