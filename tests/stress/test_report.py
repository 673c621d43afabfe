"""The page on reliability says what was measured."""

import re

import matplotlib.pyplot as plt
import pytest

from tests.stress import pictures, report

pytestmark = pytest.mark.thorough


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


def test_a_line_counts_what_went_wrong_with_files_of_ours_and_of_nir():
    ours, nir = {"cut": {"refused": 7, "hung": 1, "bare error": 2}}, {"cut": {"hung": 3, "crashed": 4}}
    data = {"files": 10, "kinds": {"learner": ours, "network state": {}, report.NIR: nir}, "failures": []}
    assert report.archives_line(data) == (
        "10 files of each of 2 kinds: 3 with other numbers, a crash, a hang or another error; "
        "10 files of NIR: 0 with other numbers, 3 hung in h5py, 4 crashed there"
    )


def test_every_network_is_accounted_for():
    words = report.networks_section(report.measured()["networks"]).splitlines()
    n_networks = int(words[0].split()[0].replace(",", ""))
    same, flat, undecided, refused = (
        int(re.search(pattern, words[1])[1].replace(",", ""))
        for pattern in (
            r"([\d,]+) runs have",
            r"([\d,]+) after a crossing",
            r"([\d,]+) part from it",
            r"([\d,]+) were refused",
        )
    )
    assert same + flat + undecided + refused == n_networks
