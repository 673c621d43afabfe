"""The page on reliability says what was measured."""

import matplotlib.pyplot as plt
import pytest

from tests.stress import pictures, report


def test_tables_are_those_of_the_measurements():
    data = report.measured()
    text = report.PAGE.read_text()
    assert report.filled(text, data) == text
    for name in report.SECTIONS:
        assert f"<!-- measured: reliability-{name} -->" in text
        assert f"<!-- end of reliability-{name} -->" in text


def test_nothing_failed():
    for name, data in report.measured().items():
        assert not data.get("failures"), name


def test_the_figure_is_drawn():
    figure = report.draw_networks(report.measured()["networks"])
    assert len(figure.axes) == 2
    plt.close(figure)


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_pictures_are_drawn(name):
    data = report.measured()
    figure = pictures.PICTURES[name](data[name])
    figure.canvas.draw()
    assert len(figure.axes) >= 1
