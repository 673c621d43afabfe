"""The animations: pictures as many as are claimed, of what the kernel and the learner did."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from dictlearn import mean_objective, random_dictionary
from examples import animate_learning, animate_network
from examples._animation import save_animation

pytestmark = pytest.mark.thorough


def durations(path):
    with Image.open(path) as written:
        shown = []
        for k in range(written.n_frames):
            written.seek(k)
            written.load()
            shown.append(written.info["duration"])
    return shown


def test_an_animation_shows_each_picture_and_holds_the_last(tmp_path, capsys):
    picture = Figure(figsize=(1.0, 0.5))
    box = picture.add_axes((0.0, 0.0, 0.5, 1.0))

    def draw(k):
        box.set_facecolor(["white", "black", "#0072B2"][k])

    path = save_animation(picture, draw, 3, tmp_path, "colours.webp", milliseconds=50, hold=900)
    assert "3 pictures" in capsys.readouterr().out
    assert durations(path) == [50, 50, 900]
    with Image.open(path) as written:
        for k, colour in enumerate([(255, 255, 255), (0, 0, 0), (0, 114, 178)]):
            written.seek(k)
            assert written.convert("RGB").getpixel((20, 25)) == colour
            assert written.convert("RGB").getpixel((80, 25)) == (255, 255, 255)


def test_the_network(tmp_path, capsys):
    pytest.importorskip("skimage")
    arguments = ["--output", str(tmp_path), "--samples", "1000", "--frames", "5", "--tol", "1e-2"]
    assert animate_network.main(arguments) == 0
    assert sum(durations(tmp_path / "network.webp")) == 4 * 80 + 2500
    gap = float(re.search(r"certified gap ([\d.e-]+)", capsys.readouterr().out)[1])
    assert 0.0 < gap <= 1e-2


def test_learning(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--samples", "1000", "--atoms", "20", "--frames", "5"]
    assert animate_learning.main(arguments) == 0
    assert sum(durations(tmp_path / "learning.webp")) == 4 * 80 + 2500
    first, last = map(
        float, re.search(r"objective from ([\d.]+) to ([\d.]+)", capsys.readouterr().out).groups()
    )
    assert last < 0.95 * first


def test_learning_is_watched_from_the_start():
    signals, tested = animate_learning.signals_of_scenes(1000, 40)
    start = random_dictionary(12, signals.shape[1], rng=0)
    history = animate_learning.watched_learning(signals, tested, start, 1000, 6)
    np.testing.assert_array_equal(history.n_samples, animate_learning.marks_of(1000, 6))
    assert history.n_samples[0] == 0
    assert history.n_spikes[0] == 0
    assert (np.diff(history.n_spikes) > 0).all()
    np.testing.assert_allclose(history.dictionaries[0], start, rtol=0, atol=1e-12)
    for dictionary, objective in zip(history.dictionaries, history.objectives, strict=True):
        assert mean_objective(dictionary, tested, penalty=0.1).objective == objective


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (animate_network.main, ["--penalty", "1"]),
        (animate_network.main, ["--piece", "nose"]),
        (animate_network.main, ["--frames", "1"]),
        (animate_learning.main, ["--samples", "10"]),
        (animate_learning.main, ["--frames", "2"]),
    ],
)
def test_nonsense_is_refused(main, arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code == 2
    assert not list(tmp_path.iterdir())
