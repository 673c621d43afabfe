"""The sheet of all pictures."""

from examples import pictures


def test_every_panel_is_drawn(tmp_path, capsys):
    panels = pictures.runs()
    picture = pictures.draw(panels)
    drawn = [ax for ax in picture.axes if ax.get_title()]
    assert [ax.get_title().splitlines()[0] for ax in drawn] == list(panels)
    assert pictures.main(["--output", str(tmp_path)]) == 0
    assert (tmp_path / "pictures.png").stat().st_size > 100_000
    assert "pictures.png" in capsys.readouterr().out
