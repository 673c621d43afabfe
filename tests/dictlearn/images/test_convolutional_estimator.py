"""The convolutional estimator learns from images and signals, codes them and restores them."""

# ruff: noqa: E501 - a case a line reads better

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import estimator_checks

from dictlearn import ConvolutionalDictionaryLearning, as_pixels, prepare_image
from dictlearn.images.kernels import KernelLearner
from solvers import ConvolutionalDictionary, LassoProblem, solve_active_set
from tests.dictlearn.refused import each_refused

RNG = np.random.default_rng(0)


def images(shapes=((30, 27), (24, 33)), dtype=np.uint8, seed=0):
    """Return images of bars with several sizes and backgrounds."""
    rng, pictures = np.random.default_rng(seed), []
    for shape in shapes:
        picture = np.zeros(shape)
        for _ in range(30):
            row, column = rng.integers(0, shape[0] - 3), rng.integers(0, shape[1] - 3)
            height, width = rng.choice([(1, 6), (6, 1), (3, 3)])
            picture[row : row + height, column : column + width] += rng.uniform(0.3, 1.0, shape[2:])
        pictures.append((255 * picture / picture.max()).astype(dtype))
    return pictures


def signal(seed=0):
    rng, times = np.random.default_rng(seed), np.arange(900)
    beats = [
        np.exp(-(((times - t) / 4.0) ** 2)) * np.cos((times - t) / 3.0) for t in rng.integers(900, size=18)
    ]
    return (rng.random(18) + 0.5) @ beats + 0.01 * rng.standard_normal(900)


PICTURES, COLOUR = images(), images(((20, 21, 3), (17, 26, 3)))


def estimator(**changes):
    small = {"n_components": 4, "kernel_size": 5, "crop_size": 16, "random_state": 0, "transform_tol": 1e-9}
    return ConvolutionalDictionaryLearning(**{**small, **changes})


def along(**changes):
    options = {"kernel_size": 32, "alpha": 0.1, "random_state": 0, "max_iter": 2, **changes}
    return ConvolutionalDictionaryLearning(3, **options)


@pytest.fixture(scope="module")
def fitted():
    return estimator().fit(images())


@pytest.mark.parametrize(
    "name",
    ["estimator_cloneable", "parameters_default_constructible", "set_params", "no_attributes_set_in_init"],
)
def test_common_checks_without_data(name):
    getattr(estimator_checks, f"check_{name}")("ConvolutionalDictionaryLearning", estimator())


def test_it_learns_and_is_cloned_and_pickled(fitted):
    copy = clone(fitted)
    with pytest.raises(NotFittedError):
        copy.transform(images())
    pictures = [np.asfortranarray(as_pixels(picture)) for picture in images()]
    for picture in pictures:
        picture.flags.writeable = False
    np.testing.assert_array_equal(copy.fit(pictures).components_, fitted.components_)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.score(images()) == fitted.score(images())
    assert again.partial_fit(images()).learner_.n_batches > fitted.learner_.n_batches
    assert fitted.components_.shape == (4, 5, 5)
    start = estimator(callback=lambda learner: True).fit(images())
    assert estimator(max_iter=4).fit(images()).score(images()) > start.score(images())


@pytest.mark.parametrize(
    "changes", [{}, {"stride": 3, "background": "mean"}, {"margin": 4, "positive": True}], ids=str
)
@pytest.mark.parametrize("pictures", [images(), COLOUR], ids=["grey", "colour"])
def test_codes_are_those_of_the_problem_and_images_come_back(changes, pictures):
    """The reference is a problem built by hand, with a dense array of shifted kernels for the last image."""
    learning = estimator(**changes).fit(pictures)
    codes, positive = learning.transform(pictures), changes.get("positive", False)
    restored = learning.inverse_transform(codes, pictures)
    form = {name: value for name, value in changes.items() if name != "positive"}
    errors, energies = 0.0, 0.0
    for picture, code, image, coded in zip(pictures, codes, restored, learning.encode(pictures), strict=True):
        prepared = prepare_image(picture, 5, **form)
        problem = LassoProblem(
            prepared.dictionary(learning.components_), prepared.signal, 0.1, positive=positive
        )
        exact = solve_active_set(problem)
        np.testing.assert_array_equal(code.toarray(), exact.codes)
        assert coded.maps.shape == (*problem.dictionary.grid_shape, 4)
        np.testing.assert_array_equal(image, prepared.restore(problem.reconstruct(exact.sparse_codes)))
        np.testing.assert_array_equal(image, coded.image)
        left = prepared.signal - problem.reconstruct(exact.sparse_codes)
        errors, energies = errors + np.square(left).sum(), energies + np.square(prepared.signal).sum()
    dense = LassoProblem(problem.dictionary.toarray(), prepared.signal, 0.1, positive=positive)
    np.testing.assert_allclose(code.toarray(), solve_active_set(dense).codes, rtol=0, atol=1e-8)
    assert learning.score(pictures) <= 1.0 - errors / energies + 1e-9


def test_an_array_gives_an_array():
    array = np.stack(images(((22, 26), (22, 26))))
    learning = estimator(stride=3).fit(array)
    codes = learning.transform(array)
    assert isinstance(codes, sparse.csr_array)
    full = learning.inverse_transform(codes, array)
    np.testing.assert_array_equal(learning.inverse_transform(codes.toarray(), array), full)
    np.testing.assert_array_equal(full, np.stack(learning.inverse_transform(list(codes), list(array))))
    np.testing.assert_array_equal(learning.fit_transform(array).toarray(), codes.toarray())


def test_parameters_of_coding_may_change_after_fit(fitted):
    learning = pickle.loads(pickle.dumps(fitted)).set_params(alpha=0.3, positive=True)
    prepared = prepare_image(images()[0], 5)
    problem = LassoProblem(prepared.dictionary(fitted.components_), prepared.signal, 0.3, positive=True)
    exact = solve_active_set(problem, tol=1e-9).codes
    np.testing.assert_array_equal(learning.transform(images())[0].toarray(), exact)
    coded = learning.set_params(method="spiking").encode(images()[:1])
    assert coded[0].result.method == "spiking"
    np.testing.assert_allclose(coded[0].result.codes, exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize("channels", [None, 2])
def test_a_signal_learns_and_codes_as_an_image_of_one_row(channels):
    x = signal() if channels is None else np.stack([signal(), -2 * signal()], axis=1)
    of_signal = along(n_channels=channels).fit([x])
    of_image = along(kernel_size=(1, 32), crop_size=(1, 512), n_channels=channels).fit([x[np.newaxis]])
    np.testing.assert_array_equal(of_signal.components_, of_image.components_[:, 0])
    codes = of_signal.transform([x])
    np.testing.assert_array_equal(codes[0].toarray(), of_image.transform([x[np.newaxis]])[0].toarray())
    restored = of_signal.inverse_transform(codes, [x])[0]
    assert restored.shape == x.shape
    np.testing.assert_array_equal(restored, of_image.inverse_transform(codes, [x[np.newaxis]])[0][0])
    kernels = RNG.standard_normal((2, 8, 3))
    rows = ConvolutionalDictionary(kernels[:, None], (1, 50), 2)
    np.testing.assert_array_equal(ConvolutionalDictionary(kernels, 50, 2).toarray(), rows.toarray())


def test_one_signal_several_and_a_table_of_them():
    x = signal()
    one, listed, table = (along(max_iter=1).fit(X) for X in (x, [x], x[np.newaxis]))
    np.testing.assert_array_equal(one.components_, listed.components_)
    np.testing.assert_array_equal(one.components_, table.components_)
    assert table.transform(np.stack([x, x])).shape == (2, table.transform(x).shape[1])
    assert table.inverse_transform(table.transform(x), x).shape == (1, 900)
    lengths = along(max_iter=1).fit([x, x[:400]])
    back = lengths.inverse_transform(lengths.transform([x, x[:400]]), [x, x[:400]])
    assert [part.shape for part in back] == [(900,), (400,)]
    counts = np.round(1000 * signal()).astype(np.int16)  # integers of a signal are not taken for brightness
    np.testing.assert_array_equal(prepare_image(counts, 32, background="none").signal[0, :900], counts)


@pytest.mark.parametrize(
    ("kernel_size", "images", "crop_size"),
    [(8, np.eye(90)[np.newaxis], 64), ((1, 64), np.ones((1, 900)) * signal(), (1, 256)), (64, signal(), 512), (100, signal(), 800)],
)  # fmt: skip
def test_crops_hold_some_kernels(kernel_size, images, crop_size):
    """In smaller crops a kernel would have only one position and be learned without neighbours."""
    images = [images] if isinstance(kernel_size, tuple) else images
    default, same = (
        along(kernel_size=kernel_size, max_iter=1, **options).fit(images)
        for options in ({}, {"crop_size": crop_size})
    )
    np.testing.assert_array_equal(default.components_, same.components_)
    if crop_size == 512:
        with pytest.warns(UserWarning, match="crop_size 64 has one position"):
            along(kernel_size=64, crop_size=64, max_iter=1).fit(images)


def test_partial_fit_goes_on(fitted):
    learning = estimator().partial_fit(images())
    np.testing.assert_array_equal(learning.components_, fitted.components_)
    assert not np.array_equal(learning.partial_fit(images()).components_, fitted.components_)
    for changes, pictures, name in (
        ({"n_components": 5}, images(), "call fit to start anew"),
        ({"n_components": 4, "stride": 2}, images(), "stride must not change"),
        ({"stride": 1}, COLOUR, "call fit to start anew"),
    ):
        with pytest.raises(ValueError, match=name):
            learning.set_params(**changes).partial_fit(pictures)


def test_a_checkpoint_continues(tmp_path):
    path = tmp_path / "kernels.npz"
    whole = estimator(max_iter=2).fit(images())
    estimator(max_iter=2, checkpoint=path, callback=lambda learner: learner.n_batches == 2).fit(images())
    assert KernelLearner.load(path).n_batches == 2
    continued = estimator(max_iter=2, checkpoint=path).fit(images())
    np.testing.assert_array_equal(continued.components_, whole.components_)
    for changes, name in (({"random_state": None}, "random_state"), ({"max_iter": 1}, "batches already")):
        other = estimator(**{"max_iter": 2, "checkpoint": path, **changes})
        with pytest.raises(ValueError, match=name):
            other.fit(images())
        assert not hasattr(other, "learner_")


@pytest.mark.parametrize("is_first", [True, False])
def test_an_error_of_partial_fit_changes_nothing_and_ctrl_c_keeps_a_fit(is_first, monkeypatch):
    learning, expected = estimator(), estimator()
    if not is_first:
        learning.partial_fit(images())
        expected.partial_fit(images())
    with pytest.raises(ValueError, match="n_jobs"):
        learning.set_params(n_jobs=0, alpha=0.3).partial_fit(images())
    learning.set_params(n_jobs=None)
    learn = KernelLearner.learn

    def interrupted(self, *arguments, **options):
        result = learn(self, *arguments, **options)
        if self.n_batches % 2 == 0:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(KernelLearner, "learn", interrupted)
        whole = estimator()
        for call in (learning.partial_fit, whole.fit):
            with pytest.raises(KeyboardInterrupt):
                call(images())
        assert whole.learner_.n_batches == 2
    assert hasattr(learning, "learner_") is not is_first
    for each in (learning.set_params(alpha=0.1), expected):
        each.partial_fit(images())
    np.testing.assert_array_equal(learning.components_, expected.components_)


def test_silence_is_said():
    with pytest.warns(ConvergenceWarning, match="all codes are zero: alpha is 100"):
        estimator(alpha=100.0, max_iter=1).fit(images())
    board = np.indices((5, 5)).sum(axis=0) % 2 - 0.5
    start = np.stack([np.outer([0, 0, 1, 0, 0], np.ones(5)), board])
    learning = estimator(n_components=2, dict_init=start, alpha=0.7, tol=1e-3, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="1 of 2 kernels are dead"):
        learning.fit(images(((16, 16),) * 40))
    assert learning.learner_.dead_kernels.tolist() == [1]


def fit(images=PICTURES, call="fit", **changes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelLearner, "learn", lambda *arguments, **options: pytest.fail("it learned"))
        getattr(estimator(**changes), call)(images)


def of_both(images=PICTURES, **changes):
    """Call `partial_fit`, which must refuse, and then `fit`, whose error the test checks."""
    with pytest.raises((TypeError, ValueError)):
        fit(images, "partial_fit", **changes)
    fit(images, **changes)


@each_refused(
    (of_both, ValueError, {"images": [np.array(1.0), [np.ones((9, 9)), np.ones(9)], [], [np.ones((9, 9))], [np.full((9, 9), np.nan)]], "n_channels": [0], "n_components": [0], "alpha": [0.0], "stride": [0], "crop_size": [4]}),
    (of_both, ValueError, {"background": ["dark"], "dict_init": [np.ones((3, 5, 5)), np.zeros((4, 5, 5))], "n_jobs": [0], "margin": [-2], "transform_tol": [-1]}),
    (of_both, TypeError, {"batch_size": [1.5], "method": [3], "images": [[np.ma.masked_less(np.eye(9), 0.5)]]}),
    (fit, ValueError, {"max_iter": [0]}),
    (fit, TypeError, {"callback": [3], "progress": [1], "checkpoint": [3]}),
    (lambda: of_both(np.ones((9, 4))), ValueError, r"images\[0\]; got 5 columns in an image of 4"),
    (lambda: of_both([np.ones(9)], kernel_size=(5, 5)), TypeError, "kernel_size must be"),
    (lambda: of_both([np.ones((9, 9, 3))], n_channels=2), ValueError, r"\(height, width, 2\)"),
    (lambda: of_both([np.ones((9, 9)), np.ones((9, 9, 3))]), ValueError, "channels|shape"),
    (lambda: of_both([np.ones((9, 3))], n_channels=2), ValueError, r"\(any, 2\)"),
    (lambda: of_both(np.ones((40, 30, 3)), n_channels=3), ValueError, "colour image or several signals"),
    (lambda: of_both([np.ones((900, 12))], kernel_size=32), ValueError, "n_chan"),
    (lambda: of_both(np.ones((40, 30, 3))), ValueError, r"colour image pass \[image\]"),
)  # fmt: skip
def test_bad_input_is_named_before_learning(call, error, name):
    with pytest.raises(error, match=name):
        call()


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda one, codes: one.inverse_transform(codes, images()[:1]), ValueError, "as many as codes, 2; got 1"),
        (lambda one, codes: one.inverse_transform(codes[::-1], images()), ValueError, r"X\[0\] must be 2-D, with rows of 2392"),
        (lambda one, codes: one.inverse_transform(sparse.vstack([codes[0]] * 2, format="csr"), [images()[0], images()[0].T]), ValueError, "one shape"),
        (lambda one, codes: one.inverse_transform(np.ma.masked_equal(codes[0].toarray(), 0.0), images()[:1]), TypeError, "masked entries"),
        (lambda one, codes: one.inverse_transform([codes[0] * np.nan], images()[:1]), ValueError, r"X\[0\] must be finite"),
        (lambda one, codes: one.transform(COLOUR), ValueError, "images with 3 channels"),
        (lambda one, codes: one.transform(signal()), ValueError, "learned from"),
        (lambda one, codes: clone(one).transform(images()), NotFittedError, "fit"),
        *((lambda one, codes, changes=changes: pickle.loads(pickle.dumps(one)).set_params(**changes).transform(images()), error, next(iter(changes))) for changes, error in (({"alpha": 0.0}, ValueError), ({"positive": 1}, TypeError), ({"method": 3}, TypeError))),
    ],
)  # fmt: skip
def test_bad_codes_and_pictures_are_named(fitted, call, error, name):
    with pytest.raises(error, match=name):
        call(fitted, fitted.transform(images()))


def test_a_learner_of_kernels_cannot_be_set(fitted):
    with pytest.raises(AttributeError, match=r"cannot be set.*dict_init=estimator\.components_"):
        ConvolutionalDictionaryLearning(3).learner_ = fitted.learner_
    pickle.loads(pickle.dumps(fitted)).learner_ = fitted.learner_  # a fitted estimator may be given a learner
