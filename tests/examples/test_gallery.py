"""The gallery: every script is listed, says what it shows, and draws one picture that can be read."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.examples import gallery_claims

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("**/*.py"))
ORDER = runpy.run_path(str(ROOT / "docs" / "gallery_settings.py"))
# What a reader has who installed the project; a downloaded script runs without the folder `examples`.
AT_HAND = {"warnings", "snn", "solvers", "dictlearn", "numpy", "scipy", "sklearn", "matplotlib"}


def test_every_script_is_listed_in_its_section():
    listed = {
        GALLERY / section / f"plot_{name}.py"
        for section, names in ORDER["SECTIONS"].items()
        for name in names
    }
    assert set(SCRIPTS) == listed
    for section in ORDER["SECTIONS"]:
        assert (GALLERY / section / "GALLERY_HEADER.rst").is_file()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_says_what_it_shows(script):
    text = script.read_text(encoding="utf-8")
    title, rule, *rest = ast.get_docstring(ast.parse(text)).splitlines()
    assert rule == "=" * len(title)
    assert len(" ".join(rest).split()) >= 20, "what the example is about"
    remarks = re.findall(r"^# %%\n((?:#.*\n)+)", text, flags=re.MULTILINE)
    assert text.endswith(remarks[-1]), "the last block says what to see"
    assert len(remarks[-1].split()) >= 30
    for page in re.findall(r":doc:`/([^`]+)`", text):
        assert (ROOT / "docs" / f"{page}.md").is_file()
    for module in re.findall(r"python -m (examples\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_needs_only_what_is_installed(script):
    imports = list(ast.walk(ast.parse(script.read_text(encoding="utf-8"))))
    modules = {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in imports if isinstance(node, ast.Import) for name in node.names}
    assert {module.split(".")[0] for module in modules} <= AT_HAND


BROKEN = {"plot_read_outs": "solve_spiking takes no readout: its methods have names"}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            script,
            id=script.stem,
            marks=[pytest.mark.xfail(strict=True, reason=BROKEN[script.stem])]
            if script.stem in BROKEN
            else [],
        )
        for script in SCRIPTS
    ],
)
def test_script_draws_one_picture_that_can_be_read_and_shows_what_its_text_says(
    script, monkeypatch, tmp_path
):
    """Without a warning, since warnings are errors here, and from any folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    # Agg has nothing to show; scripts call it for readers.
    monkeypatch.setattr(plt, "show", lambda: None)
    with plt.rc_context():
        plt.rcdefaults()
        variables = runpy.run_path(str(script))
    assert len(plt.get_fignums()) == 1
    figure = plt.gcf()
    figure.draw_without_rendering()
    require_readable(figure)
    claims = getattr(gallery_claims, script.stem.removeprefix("plot_"))
    claims(SimpleNamespace(**variables))
    assert not list(tmp_path.iterdir()), "a script leaves no files behind"


def require_readable(figure: Figure) -> None:
    """Fail if a panel is empty, has axes without labels or curves without a legend, or text is cut off."""
    width, height = figure.get_size_inches()
    assert width == 6.4, "the width of a page"
    assert 2.5 <= height <= 5.5
    assert figure.get_suptitle() or any(ax.get_title() for ax in figure.axes)
    for ax in figure.axes:
        assert ax.has_data()
        for text in (*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_visible() and text.get_text():
                box = text.get_window_extent()
                assert figure.bbox.padded(1.0).contains(box.x0, box.y0), text
                assert figure.bbox.padded(1.0).contains(box.x1, box.y1), text
        if ax.axison and not ax.images:
            above_each_other = ax.get_shared_x_axes().get_siblings(ax)
            side_by_side = ax.get_shared_y_axes().get_siblings(ax)
            assert any(other.get_xlabel() for other in above_each_other)
            assert any(other.get_ylabel() or has_words(other) for other in side_by_side)
            named = [line for line in ax.lines if not line.get_label().startswith("_")]
            assert len(named) < 2 or any(other.get_legend() for other in above_each_other)


def has_words(ax: Axes) -> bool:
    """Return whether the ticks of the vertical axis are words, or it has none."""
    ticks = [label.get_text() for label in ax.get_yticklabels()]
    return not ticks or any(re.search("[a-z]{3}", tick) for tick in ticks)
