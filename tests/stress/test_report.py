"""The page on reliability says what was measured."""

import matplotlib.pyplot as plt

from tests.stress import report


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
