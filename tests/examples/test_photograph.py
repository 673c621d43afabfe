"""The example of a photograph: every code certified, and that it draws."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from examples import _common, photograph
from solvers import solve_active_set

pytestmark = pytest.mark.thorough


def test_example_draws_and_certifies(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--height", "64", "--width", "96", "--compared", "10"]
    assert photograph.main(arguments) == 0
    assert (tmp_path / "photograph.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "96 of 96 codes by spikes alone are certified to 0.001" in report
    decibels = float(re.search(r"reconstruction: ([\d.]+) dB", report)[1])
    assert 25.0 < decibels < 40.0
    objectives = {
        method: float(re.search(rf"^{method} .* ([\d.]+) +[\d.e-]+$", report, flags=re.MULTILINE)[1])
        for method in photograph.METHODS
    }
    best = min(objectives.values())
    # The gap of a patch is at most tol times the objective of its zero code, which is above the mean
    # objective by a factor well below ten.
    assert max(objectives.values()) < best * (1.0 + 10.0 * photograph.COMPARED_TOL)


def test_raster_has_one_title():
    problem, _ = photograph.coding_problem(np.random.default_rng(0).uniform(size=(16, 24)))
    ax = Figure().subplots()
    photograph._draw_raster(ax, problem, solve_active_set(problem))
    assert ax.get_title(loc="left").startswith("Spikes for one patch: ")
    assert not ax.get_title(loc="center")


@pytest.mark.parametrize(
    "arguments", [["--height", "60"], ["--width", "0"], ["--compared", "0"], ["--height", "4000"]]
)
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        photograph.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
    assert not list(tmp_path.iterdir())


def test_signal_to_noise_of_a_tenth_is_twenty_decibels():
    image = np.zeros((2, 2))
    assert _common.signal_to_noise(image, image + 0.1) == pytest.approx(20.0)
