"""The example of a search: the score finds about the best penalty, the objective the smallest."""

import re

import pytest

from examples import choose_penalty

pytestmark = pytest.mark.thorough


def test_example_draws_and_finds_the_penalty(tmp_path, capsys):
    assert choose_penalty.main(["--output", str(tmp_path), "--atoms", "32", "--passes", "3"]) == 0
    assert (tmp_path / "choose_penalty.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    found = {
        name: [
            float(number)
            for number in re.search(rf"^the {name}.*?  +([\d.]+)  +([\d.]+) %", report, re.M).groups()
        ]
        for name in ("score of the coder", "digits without noise", "objective")
    }
    assert found["objective"][0] == pytest.approx(choose_penalty.ALPHAS[0], abs=1e-3)
    # Neighbours of the grid are 1.42 times each other.
    assert 0.5 < found["score of the coder"][0] / found["digits without noise"][0] < 2.1
    assert found["score of the coder"][1] < found["objective"][1]


@pytest.mark.parametrize("arguments", [["--atoms", "0"], ["--passes", "1"], ["--noise", "nan"]])
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        choose_penalty.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
