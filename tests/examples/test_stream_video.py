"""The example of a stream: every frame certified, and that it draws."""

import re

import numpy as np
import pytest

from examples import stream_video
from examples._data import panned_window

pytestmark = pytest.mark.thorough


def test_example_draws_and_certifies(tmp_path, capsys):
    assert stream_video.main(["--output", str(tmp_path), "--frames", "6"]) == 0
    assert (tmp_path / "stream_video.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "12 of 12 frames without a deadline are certified to 0.001" in report
    spikes = {
        name: float(re.search(rf"^{name}.*?  +([\d.]+)  ", report, flags=re.MULTILINE)[1])
        for name in ("cold", "warm: a stream", "warm, at most")
    }
    assert spikes["warm: a stream"] < spikes["cold"]
    assert spikes["warm, at most"] <= stream_video.SPIKES_PER_PATCH


@pytest.mark.parametrize("arguments", [["--frames", "2"], ["--shift", "-1"], ["--shift", "100"]])
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        stream_video.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0


def test_a_window_panned_by_whole_pixels_is_a_part_of_the_image():
    image = np.random.default_rng(0).random((12, 20))
    frames = panned_window(image, 4, 2.0, side=6, corner=(3, 5))
    for k, frame in enumerate(frames):
        np.testing.assert_allclose(frame, image[3:9, 5 + 2 * k : 11 + 2 * k], rtol=0, atol=1e-12)


def test_a_window_must_stay_in_the_image():
    with pytest.raises(ValueError, match=r"the window must stay in the image, of \(12, 20\) pixels"):
        panned_window(np.zeros((12, 20)), 10, 2.0, side=6)
