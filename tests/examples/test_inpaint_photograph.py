"""The inpainting example: what is known stays, what is missing comes close, the picture is drawn."""

import re

import numpy as np
import pytest

from examples import inpaint_photograph
from examples._common import signal_to_noise

pytestmark = pytest.mark.thorough

pytest.importorskip("skimage", reason="the photograph and the other method are in scikit-image")


def test_example_fills_in_better_than_the_mean(tmp_path, capsys):
    assert inpaint_photograph.main(["--size", "48", "--stride", "4", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "inpainted.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    quality = re.findall(r"(mean of known|sparse codes).* ([\d.]+) dB +[\d.]+ dB$", report, re.MULTILINE)
    assert len(quality) == 4
    for mean, codes in (quality[:2], quality[2:]):
        assert float(codes[1]) > float(mean[1]) + 5.0
    assert "121 patches in one call" in report


def test_waves_are_found_again():
    """An image of a few slow waves, of which half the pixels are seen, comes back."""
    row, column = np.mgrid[:24, :24]
    image = 0.5 + 0.2 * np.cos(np.pi * row / 12.0) + 0.2 * np.cos(np.pi * column / 8.0)
    known = inpaint_photograph.half_missing(image.shape)
    filled, result = inpaint_photograph.inpaint(image, known, stride=2)
    assert result.converged
    np.testing.assert_array_equal(filled[known], image[known])
    assert signal_to_noise(image, filled) > 35.0


@pytest.mark.parametrize(
    "arguments", [["--size", "9"], ["--size", "4096"], ["--size", "33", "--stride", "2"]]
)
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        inpaint_photograph.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
