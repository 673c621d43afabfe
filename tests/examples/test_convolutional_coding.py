"""The example of a convolutional code: all solvers arrive, the picture is drawn, nonsense is refused."""

import re

import numpy as np
import pytest

from examples import convolutional_coding

pytestmark = pytest.mark.thorough

pytest.importorskip("skimage", reason="the photograph that is coded is in scikit-image")


def test_example_arrives_and_draws(tmp_path, capsys):
    assert convolutional_coding.main(["--small", "--side", "28", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "convolutional_coding.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "28 x 28 pixels; 24 kernels at 36 positions; 864 unknowns" in report
    rows = re.findall(r"^([\d.e-]+) +([\d.]+) +([\d,]+) +([\d.]+) +([\d,]+)$", report, flags=re.MULTILINE)
    assert [float(row[0]) for row in rows] == list(convolutional_coding.TOLS)
    spikes = [int(row[2].replace(",", "")) for row in rows]
    assert spikes == sorted(spikes)
    assert spikes[0] > 0
    # Three methods, one optimum: objectives differ by less than the last gap, 1e-6 of half the energy.
    line = re.search(r"objectives at the last gap: (.*)$", report, flags=re.MULTILINE)[1]
    objectives = [float(part.split()[-1]) for part in line.split(", ")]
    assert len(objectives) == 3
    assert max(objectives) <= min(objectives) * (1.0 + 2e-5)


def test_images_are_normalised():
    rng = np.random.default_rng(0)
    detail = rng.standard_normal((128, 128))
    ramp = np.linspace(0.0, 50.0, 128)[:, np.newaxis]
    faint, strong = (convolutional_coding.normalised(scale * detail + ramp) for scale in (1.0, 10.0))
    inner = (slice(32, -32), slice(32, -32))
    # Neither the brightness nor the contrast of the original is left, but for what the ramp bends.
    assert abs(faint[inner].mean()) < 0.05
    np.testing.assert_allclose(faint[inner], strong[inner], atol=0.05)


@pytest.mark.parametrize("arguments", [["--side", "30"], ["--side", "8"], ["--side", "1024"]])
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        convolutional_coding.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
    assert not list(tmp_path.iterdir())
