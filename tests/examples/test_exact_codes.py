"""The example of exact codes: nothing is better than the optimum, and certificates bound what others miss."""

import re

import pytest

from examples import exact_codes

pytestmark = pytest.mark.thorough


def test_no_code_is_better_than_the_optimum(tmp_path, capsys):
    assert exact_codes.main(["--output", str(tmp_path), "--atoms", "600", "--signals", "5"]) == 0
    assert (tmp_path / "exact_codes.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    found = re.findall(r"^(active set|greedy pursuit|encoder) .* ([\d.]+) % +(\S+)$", report, re.M)
    assert len(found) == 1 + 2 * len(exact_codes.SIZES)
    name, above, gap = found[0]
    assert name == "active set"
    assert float(above) == 0.0
    assert float(gap) < 1e-9
    for _, above, gap in found[1:]:
        assert float(above) > 0.0
        assert float(gap) > 1e-6


@pytest.mark.parametrize("arguments", [["--atoms", "10"], ["--signals", "0"]])
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        exact_codes.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
