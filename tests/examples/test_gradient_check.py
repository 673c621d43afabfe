"""The gradient check on a photograph: what it reports, and that it draws."""

import pytest

from examples import gradient_check

pytestmark = pytest.mark.thorough


def test_example_draws_and_reports(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--samples", "2000", "--checked", "12"]
    assert gradient_check.main(arguments) == 0
    assert (tmp_path / "gradient_check.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert str(tmp_path / "gradient_check.png") in report
    before, after = (
        [[float(cell) for cell in line.split()] for line in part.splitlines() if line[:1].isdigit()]
        for part in report.split("‖H‖")[1:]
    )
    assert len(before) == len(after) == 8
    # T, F and B by counts and by currents, H by counts and by currents.
    assert all(row[2] > 0.9 and row[4] > 0.9 for row in after if row[0] >= 5.0)
    at_ten = next(row for row in after if row[0] == 10.0)
    assert at_ten[3] < 0.5
    assert before[-1][1] > 0.9


@pytest.mark.parametrize("arguments", [["--samples", "0"], ["--checked", "501"]])
def test_nonsense_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        gradient_check.main(arguments)
    assert "must be positive" in capsys.readouterr().err
