"""Learning with weights of few bits: what is compared, and what is reported."""

import json

import numpy as np
import pytest

from dictlearn import TwoPhaseNetwork
from examples import learn_quantised
from solvers import LassoProblem, solve_spiking

pytestmark = pytest.mark.thorough


def test_the_objective_of_codes_is_that_of_unit_norms():
    """A consistent network has the codes of the optimum, whatever the norms of its atoms."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(10, 6)) * (rng.uniform(size=(10, 6)) < 0.5) + 0.01
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    signals = rng.uniform(size=(5, 6))
    problem = LassoProblem(atoms, signals, learn_quantised.PENALTY, positive=True)
    optimum = solve_spiking(problem, polish=True).objective.mean()
    network = TwoPhaseNetwork.consistent(atoms * rng.uniform(0.6, 1.5, (10, 1)))
    assert learn_quantised.objective_of_codes(network, signals, 5.0) == pytest.approx(optimum, rel=0.02)


def test_example_draws_and_reports(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--samples", "300", "--atoms", "12", "--bits", "4", "12"]
    arguments += ["--held-out", "100"]
    assert learn_quantised.main(arguments) == 0
    assert (tmp_path / "quantised_learning.png").stat().st_size > 10_000
    numbers = json.loads((tmp_path / "quantised_learning.json").read_text())
    for rows in numbers["runs"].values():
        assert [row["bits"] for row in rows] == [4, 12]
        # With twelve bits all ways are as good as float64, and with four none is better.
        assert rows[1]["dictionary"] == pytest.approx(numbers["float64"]["dictionary"], rel=0.02)
        assert rows[0]["dictionary"] > 0.999 * numbers["float64"]["dictionary"]
    report = capsys.readouterr().out
    assert len([line for line in report.splitlines() if line[:2] in ("4 ", "12")]) >= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--bits", "1"], "bits must lie between 2 and 24"), (["--samples", "0"], "must be positive")],
)
def test_nonsense_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        learn_quantised.main(arguments)
    assert message in capsys.readouterr().err
