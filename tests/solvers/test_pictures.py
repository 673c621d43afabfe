"""The picture of a path: its curves are the codes that `path` returns."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from solvers import ElasticNet, LassoProblem, SpikingSparseCoder, path


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((15, 8)), rng.standard_normal((4, 8))


@pytest.fixture
def ax():
    return Figure().subplots()


def atom_lines(ax):
    """Return the lines of atoms; the lines of zero and of the penalty have two points."""
    return [line for line in ax.lines if len(line.get_xdata()) > 2]


def test_lines_are_the_codes_of_one_signal(data, ax):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=0.5)
    result = path(coder.problem(signals[[2]]), n_multiples=20)
    assert result.plot(penalty=0.5, ax=ax) is ax
    used = np.flatnonzero(result.codes[:, 0].any(axis=0))
    atoms = used[np.argsort(-np.abs(result.codes[:, 0, used]).max(axis=0), kind="stable")]
    for line, atom in zip(atom_lines(ax), atoms, strict=True):
        penalties, entries = line.get_data()
        # At each penalty, the curve equals the code of a LASSO with this penalty.
        for k in (3, 11, 19):
            exact = path(LassoProblem(dictionary, signals[2:3], 1.0), [penalties[k]]).codes[0, 0, atom]
            assert entries[k] == pytest.approx(exact, abs=1e-6)
    assert ax.get_xlabel() == "penalty"


def test_the_intercept_of_a_path_is_not_drawn(data, ax):
    """An intercept has no penalty, and may be so large that other curves look flat."""
    dictionary, signals = data
    atoms = np.vstack([dictionary, np.ones(8)])
    result = path(LassoProblem(atoms, 100.0 + signals[:1], np.append(np.ones(15), 0.0)), n_multiples=5)
    assert result.codes[:, 0, 15].all()
    result.plot(ax=ax)
    assert max(np.abs(line.get_ydata()).max() for line in atom_lines(ax)) < 50.0


def test_other_penalties_are_drawn_as_multiples_in_the_style_that_is_asked_for(data, ax):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=ElasticNet(0.5, 0.1), positive=True)
    result = path(coder.problem(signals), n_multiples=5)
    result.plot(signal=1, ax=ax, color="red")
    assert ax.get_xlabel() == "multiple of the penalty"
    lines = atom_lines(ax)
    assert {line.get_color() for line in lines} == {"red"}
    drawn = np.stack([line.get_ydata() for line in lines])
    codes = result.codes[:, 1]
    used = codes[:, codes.any(axis=0)].T
    np.testing.assert_array_equal(np.sort(drawn, axis=0), np.sort(used, axis=0))
    with pytest.raises(ValueError, match="signal"):
        result.plot(signal=4)
    with pytest.raises(ValueError, match="penalty"):
        result.plot(penalty=0.0)


def test_the_least_bic_is_drawn_where_the_number_of_observations_is_known(data, ax):
    dictionary, signals = data
    d, s = dictionary[:4], signals[:1]
    for problem, is_drawn in [
        (LassoProblem.from_statistics(d @ d.T, s @ d.T, (s**2).sum(), 1.0), False),
        (LassoProblem(d, s, 1.0), True),
    ]:
        path(problem, n_multiples=5).plot(ax=ax)
        assert any("BIC" in str(line.get_label()) for line in ax.lines) == is_drawn
