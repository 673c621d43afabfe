"""The gallery: every script is listed, and draws one picture that shows what its text says."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest

from tests.examples import gallery_claims

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("**/*.py"))


def test_every_script_is_listed_in_its_section():
    sections = runpy.run_path(str(ROOT / "docs" / "gallery_settings.py"))["SECTIONS"]
    listed = {GALLERY / section / f"plot_{name}.py" for section, names in sections.items() for name in names}
    assert set(SCRIPTS) == listed


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_draws_one_picture_that_shows_what_its_text_says(script, monkeypatch, tmp_path):
    """The script runs from any folder and without a warning, since warnings are errors here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    # Scripts call `show` for readers; the backend Agg has no window.
    monkeypatch.setattr(plt, "show", lambda: None)
    with plt.rc_context():
        plt.rcdefaults()
        variables = runpy.run_path(str(script))
    assert len(plt.get_fignums()) == 1
    figure = plt.gcf()
    figure.draw_without_rendering()
    assert figure.get_size_inches()[0] == 6.4, "the width of a page"
    assert all(ax.has_data() for ax in figure.axes)
    getattr(gallery_claims, script.stem.removeprefix("plot_"))(SimpleNamespace(**variables))
    assert not list(tmp_path.iterdir()), "a script leaves no files behind"
