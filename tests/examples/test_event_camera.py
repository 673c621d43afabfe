"""The example of an event camera: its model, what its events describe, and that it draws."""

import re

import numpy as np
import pytest

from dictlearn import overcomplete_dct
from examples import event_camera
from examples.event_camera import N_ATOMS, PATCH_SIDE, PENALTY, SIDE, WINDOW
from solvers import LassoProblem
from solvers.certificate.optimality import measure

pytestmark = pytest.mark.thorough


def moving(n_looks=9, seed=0):
    rng = np.random.default_rng(seed)
    return 0.5 + np.cumsum(0.02 * rng.standard_normal((n_looks, SIDE * SIDE)), axis=0)


def levels(events, threshold, until):
    """The levels just after a time, counted from the events."""
    seen = events.times <= until
    counts = np.zeros(SIDE * SIDE, dtype=int)
    np.add.at(counts, events.pixels[seen], events.signs[seen])
    return events.first + threshold * counts


@pytest.mark.parametrize("threshold", [0.005, 0.03])
def test_levels_are_within_the_threshold_at_every_moment(threshold):
    brightness = moving()
    events = event_camera.record(brightness, 2.0, threshold)
    assert len(events.times) > 1000
    assert (np.diff(events.times) >= 0.0).all()
    for time in (0.3, 1.7, 2.0, 7.123, 16.0):
        look = min(int(time // 2.0), len(brightness) - 2)
        part = time / 2.0 - look
        now = (1.0 - part) * brightness[look] + part * brightness[look + 1]
        assert np.abs(levels(events, threshold, time) - now).max() <= threshold * (1.0 + 1e-9)


def test_a_stream_sees_the_levels():
    threshold = 0.02
    events = event_camera.record(moving(3), WINDOW / 2, threshold)
    (window,) = event_camera.run_stream(events, 1, threshold)
    signals = event_camera.patches_of(levels(events, threshold, WINDOW))
    problem = LassoProblem(overcomplete_dct(PATCH_SIDE, N_ATOMS), signals, PENALTY)
    assert (measure(problem, window.codes).duality_gap <= 1.01e-3 * 0.5 * (signals**2).sum(axis=1)).all()


def test_a_network_codes_the_mean_of_the_levels():
    """The signal that codes are certified against is the mean with the weights of the smooth window."""
    threshold = 0.02
    events = event_camera.record(moving(3), WINDOW / 2, threshold)
    (window,) = event_camera.run_live(events, 1, threshold)
    times = (np.arange(2000) + 0.5) / 2000
    bump = 30.0 * times**2 * (1.0 - times) ** 2 / 2000
    mean = sum(w * levels(events, threshold, WINDOW * t) for t, w in zip(times, bump, strict=True))
    signals = event_camera.patches_of(mean)
    problem = LassoProblem(overcomplete_dct(PATCH_SIDE, N_ATOMS), signals, PENALTY)
    gap = measure(problem, window.codes).duality_gap / (0.5 * (signals**2).sum(axis=1))
    np.testing.assert_allclose(window.gap, gap, rtol=0.02, atol=1e-4)


def test_example_draws_and_certifies(tmp_path, capsys):
    assert event_camera.main(["--output", str(tmp_path), "--windows", "3"]) == 0
    assert (tmp_path / "event_camera.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    figures = {
        name: [float(number) for number in re.search(rf"^{name}.*?  +(.*) %$", report, re.M)[1].split()]
        for name in (
            "events, a network", "the same, potentials", "the same, each", "events, a stream",
            "frames, a stream", "frames, each",
        )
    }  # fmt: skip
    live, as_it_was = figures["events, a network"], figures["the same, potentials"]
    assert live[2] < 0.1 < as_it_was[2]
    assert live[1] < 0.5 * as_it_was[1]
    for name in ("events, a stream", "frames, a stream", "frames, each"):
        assert figures[name][2] <= 1e-3
    assert figures["frames, a stream"][0] < figures["frames, each"][0]
    assert abs(live[3] - figures["frames, each"][3]) < 3.0


@pytest.mark.parametrize("arguments", [["--windows", "0"], ["--shift", "-1"], ["--threshold", "0"]])
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        event_camera.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
