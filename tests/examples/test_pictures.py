"""The sheet of all pictures, and how pictures are saved."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from examples import pictures
from examples._pictures import save_picture, write

pytestmark = pytest.mark.thorough


def test_every_panel_is_drawn(tmp_path, capsys):
    panels = pictures.runs()
    picture = pictures.draw(panels)
    drawn = [ax for ax in picture.axes if ax.get_title()]
    assert [ax.get_title().splitlines()[0] for ax in drawn] == list(panels)
    assert pictures.main(["--output", str(tmp_path)]) == 0
    assert (tmp_path / "pictures.png").stat().st_size > 50_000
    assert "pictures.png" in capsys.readouterr().out


def test_saved_pictures_are_light_and_look_the_same(tmp_path):
    shades = np.arange(256, dtype=np.uint8).reshape(16, 16)
    write(Image.fromarray(shades), tmp_path / "grey.png")
    with Image.open(tmp_path / "grey.png") as grey:
        assert grey.mode == "L"
        np.testing.assert_array_equal(np.asarray(grey), shades)
    drawn = Figure(figsize=(2.0, 1.0))
    drawn.subplots().plot([0.0, 1.0], color="tab:red")
    drawn.savefig(tmp_path / "heavy.png", dpi=100)
    save_picture(drawn, tmp_path / "light.png", dpi=100)
    save_picture(drawn, tmp_path / "light.webp", dpi=100)
    with Image.open(tmp_path / "heavy.png") as heavy, Image.open(tmp_path / "light.png") as light:
        assert light.mode == "P"
        difference = np.asarray(light.convert("RGB"), float) - np.asarray(heavy.convert("RGB"), float)
    assert np.sqrt(np.mean(difference**2)) < 1.0
    with Image.open(tmp_path / "light.webp") as light:
        assert light.size == (200, 100)
