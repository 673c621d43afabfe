"""The code along the penalty: what is drawn is what `path` finds."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from solvers import CodePathDisplay, ElasticNet, LassoProblem, SpikingSparseCoder, path


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((15, 8)), rng.standard_normal((4, 8))


def test_lines_are_the_codes_of_one_signal(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=0.5)
    ax = Figure().subplots()
    display = CodePathDisplay.from_estimator(coder, signals, signal=2, n_multiples=20, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    for line, atom in zip(display.lines_, display.atoms_, strict=True):
        penalties, entries = line.get_data()
        # At each penalty the code is that of the LASSO with it.
        for k in (3, 11, 19):
            exact = path(LassoProblem(dictionary, signals[2:3], 1.0), [penalties[k]]).codes[0, 0, atom]
            assert entries[k] == pytest.approx(exact, abs=1e-6)
    used = np.flatnonzero(display.codes.any(axis=0))
    assert sorted(display.atoms_) == sorted(used)
    largest = np.abs(display.codes[:, display.atoms_]).max(axis=0)
    assert (np.diff(largest) <= 0.0).all()
    assert ax.get_xlabel() == "alpha"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0] == f"atom {display.atoms_[0]}"
    assert "alpha = 0.5" in labels
    assert ("other atoms" in labels) == (len(used) > 6)


def test_other_penalties_are_drawn_as_multiples(data):
    dictionary, signals = data
    for alpha in (ElasticNet(0.5, 0.1), np.linspace(0.1, 1.0, 15)):
        coder = SpikingSparseCoder(dictionary, alpha=alpha, positive=True)
        display = CodePathDisplay.from_estimator(coder, signals, n_multiples=5, ax=Figure().subplots())
        assert display.ax_.get_xlabel() == "multiple of alpha"
        assert display.codes.min() == 0.0


def test_a_path_is_drawn_and_drawn_again(data):
    dictionary, signals = data
    result = path(LassoProblem(dictionary, signals, 1.0), n_multiples=6)
    display = CodePathDisplay.from_path(result, signal=1, ax=Figure().subplots())
    np.testing.assert_array_equal(display.codes, result.codes[:, 1])
    again = display.plot(ax=Figure().subplots(), color="red", linewidth=3.0)
    assert again is display
    assert {line.get_color() for line in display.lines_} == {"red"}
    new = display.plot()
    assert new.figure_.axes == [new.ax_]


def test_bad_arguments_of_displays_are_named(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=0.5)
    with pytest.raises(ValueError, match=r"signal must lie in \[0, 4\); got 4"):
        CodePathDisplay.from_estimator(coder, signals, signal=4)
    with pytest.raises(TypeError, match="result must be a PathResult; got ndarray"):
        CodePathDisplay.from_path(signals)
    with pytest.raises(ValueError, match="smallest must be less than 1; got 2"):
        CodePathDisplay.from_estimator(coder, signals, smallest=2.0)
