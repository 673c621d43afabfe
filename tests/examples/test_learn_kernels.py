"""The example that learns kernels: it runs, and what it prints is what it drew."""

import json

import numpy as np
import pytest

from examples import learn_kernels

pytestmark = pytest.mark.thorough

pytest.importorskip("skimage")


def test_the_small_version_runs(tmp_path, capsys):
    assert learn_kernels.main(["--small", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "sporco is not installed: pass --peer PYTHON" in printed
    for name in ("kernels.png", "colour_kernels.webp"):
        assert (tmp_path / name).stat().st_size > 10_000
    results = json.loads((tmp_path / "kernels.json").read_text())
    shares = results["spikes"]["objective / energy"]
    assert shares[-1] < results["start"]["objective / energy"]
    assert f"{shares[-1]:.4f}" in printed
    colour = json.loads((tmp_path / "colour_kernels.json").read_text())
    assert colour["gap"] < 1e-6
    assert colour["decibels"] > colour["decibels of the background"]


def test_all_learners_get_the_same_and_are_judged_by_others():
    given = learn_kernels.task(4, 3, 2)
    assert given.crops.shape == (3, 64, 64)
    assert given.held_out.shape == (2, 64, 64)
    np.testing.assert_allclose(np.linalg.norm(given.start.reshape(4, -1), axis=1), 1.0, rtol=1e-12)
    # Kernels of any norm are judged as those of norm one.
    share = learn_kernels.held_out_objective(given.start, given.held_out)
    assert learn_kernels.held_out_objective(8.0 * given.start, given.held_out) == share
    assert 0.0 < share[0] < 1.0
