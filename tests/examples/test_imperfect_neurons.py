"""The example of imperfect neurons: knees, and that it draws."""

import numpy as np
import pytest

from examples import imperfect_neurons as example
from tests.reference.problems import random_problem

pytestmark = pytest.mark.thorough

GAPS = np.array([1e-7, 2e-7, 5e-7, 1e-5, 1e-8])


def curve(gap):
    return example.Curve(np.arange(len(gap)), gap, np.stack([gap, gap]), np.ones(len(gap)))


def test_a_knee_is_the_largest_size_before_the_first_that_fails():
    assert curve(GAPS).knee(1e-6) == 2
    assert curve(GAPS).knee(1.0) == 4
    assert curve(GAPS).knee(1e-9) == -1
    assert example.limit_of(example.RATES, curve(GAPS)) == 2e-7
    assert (
        example.limit_of(example.STAGES, curve(GAPS)) == example.limit_of(example.PAIRS, curve(GAPS)) == 1e-6
    )


def test_each_size_is_of_its_imperfection():
    for name, kind in example.KINDS.items():
        imperfections = kind.of(0.25, 3, 10)
        assert imperfections.seed == 3, name
        assert np.all(np.diff(kind.sizes) > 0.0)
    delays = example.KINDS["delays"].of(1.5, 0, 200).delays
    assert delays.shape == (200, 200)
    assert 0.0 <= delays.min() < 0.01 < 2.99 < delays.max() <= 3.0


def test_stages_repair_what_rates_do_not():
    problem = random_problem(20, 40, positive=True)
    problems = example.Problems(problem, random_problem(20, 40))
    found = example.measure(problems, example.KINDS["leak"], 1 / 32, 0, 500.0)
    assert np.median(found[example.RATES].gap) > 1e-3
    assert found[example.STAGES].gap.max() <= 1e-6
    assert found[example.INTEGERS].gap.max() <= 1e-4
    assert found[example.PAIRS].gap.max() <= 1e-6


def test_it_runs_and_draws(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--signals", "2", "--duration", "30", "--samples", "300"]
    assert example.main([*arguments, "--seeds", "1", "--only", "leak", "noise"]) == 0
    assert (tmp_path / "imperfect_neurons.png").stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "knee, stages, in integers" in out
    assert "noise:" in out


def test_bad_options(capsys):
    with pytest.raises(SystemExit):
        example.main(["--seeds", "0"])
    assert "seeds" in capsys.readouterr().err
