"""The example of bits: what it says of bits and steps, and that it draws."""

import numpy as np
import pytest

from examples import bits as example

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def random_problem():
    rng = np.random.default_rng(0)
    dictionary = example.normalise(rng.standard_normal((example.N_ATOMS, example.SIDE**2)))[0]
    return example.scaled(dictionary, dictionary[:18].reshape(3, 6, -1).sum(axis=1))


def test_bits_that_suffice(random_problem):
    sweeps = example.measure({"random": random_problem}, (4, 6, 8, 12), 150.0)
    alone, stages = sweeps.bits["random"], sweeps.refined["random"]
    # Four bits lose the network; eight and a dozen do not, and stages do with fewer.
    assert alone.ran_away[0].all()
    assert not alone.ran_away[1:].any()
    [(_, bits)] = alone.needed(within=0.05)
    assert bits in (6, 8)
    assert np.median(stages.relative_gap[1]) < 1e-3 < np.median(alone.relative_gap[1])
    # At 16 bits, short steps lose the current that decays are rounded by.
    gaps = np.median(sweeps.steps.relative_gap, axis=1).reshape(len(example.TIME_STEPS), 3)
    assert gaps[-1, 0] > 10.0 * gaps[2, 0]
    assert gaps[-1, 2] < 0.1 * gaps[-1, 0]


def test_it_runs_and_draws(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--signals", "2", "--duration", "40", "--samples", "64"]
    assert example.main([*arguments, "--bits", "6", "8", "10"]) == 0
    assert (tmp_path / "bits.png").stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "This many bits for 1 %" in out
    assert "learned with so few bits" in out


def test_bad_options(capsys):
    for arguments in (["--signals", "0"], ["--bits", "1"], ["--duration", "0"]):
        with pytest.raises(SystemExit):
            example.main(arguments)
        assert "must be positive, and bits at least 2" in capsys.readouterr().err
