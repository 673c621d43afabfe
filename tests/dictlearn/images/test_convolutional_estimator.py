"""The convolutional estimator: what it learns, codes and gives back, and what it refuses."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, SkipTestWarning
from sklearn.utils import estimator_checks

from dictlearn import ConvolutionalDictionaryLearning, KernelLearner, as_pixels, prepare_image
from solvers import LassoProblem, solve_active_set, solve_spiking

# Those of scikit-learn's common checks that pass no data: all others pass tables of numbers.
CHECKS = [
    check
    for name, check in vars(estimator_checks).items()
    if name
    in {
        "check_do_not_raise_errors_in_init_or_set_param",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_valid_tag_types",
    }
]


def images(shapes=((30, 27), (24, 33)), dtype=np.uint8, seed=0):
    """Pictures of bars of several sizes and grounds."""
    rng = np.random.default_rng(seed)
    pictures = []
    for shape in shapes:
        picture = np.zeros(shape)
        for _ in range(30):
            row, column = rng.integers(0, shape[0] - 3), rng.integers(0, shape[1] - 3)
            height, width = rng.choice([(1, 6), (6, 1), (3, 3)])
            picture[row : row + height, column : column + width] += rng.uniform(0.3, 1.0, shape[2:])
        pictures.append((255 * picture / picture.max()).astype(dtype))
    return pictures


COLOUR = images(((20, 21, 3), (17, 26, 3)))


def estimator(**changes):
    small = {"n_components": 4, "kernel_size": 5, "crop_size": 16, "random_state": 0, "transform_tol": 1e-9}
    return ConvolutionalDictionaryLearning(**{**small, **changes})


@pytest.fixture(scope="module")
def fitted():
    return estimator().fit(images())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_common_checks_without_data(check):
    check("ConvolutionalDictionaryLearning", estimator())


def test_common_checks_with_data_do_not_apply():
    """scikit-learn says so itself: its data are tables."""
    with pytest.raises(SkipTestWarning, match="requires input"):
        list(estimator_checks.estimator_checks_generator(estimator()))
    assert len(CHECKS) >= 8


def test_it_is_cloned_and_pickled(fitted):
    parameters = fitted.get_params()
    copy = clone(fitted)
    assert copy.get_params() == parameters
    with pytest.raises(NotFittedError):
        copy.transform(images())
    np.testing.assert_array_equal(copy.fit(images()).components_, fitted.components_)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.components_, fitted.components_)
    assert again.score(images()) == fitted.score(images())
    again.partial_fit(images())
    assert again.n_batches_seen_ > fitted.n_batches_seen_


def test_fit_learns(fitted):
    assert fitted.components_.shape == (4, 5, 5)
    np.testing.assert_allclose(np.linalg.norm(fitted.components_.reshape(4, -1), axis=1), 1.0, rtol=1e-12)
    start = estimator(callback=lambda learner: True).fit(images())
    longer = estimator(max_iter=4).fit(images())
    assert longer.score(images()) > start.score(images())


@pytest.mark.parametrize(
    "changes", [{}, {"stride": 2}, {"stride": 3, "boundary": "crop"}, {"margin": 4, "positive": True}]
)
@pytest.mark.parametrize("pictures", [images(), COLOUR], ids=["grey", "colour"])
def test_codes_are_those_of_the_problem_and_images_come_back(changes, pictures):
    """Against the problem put together by hand."""
    learning = estimator(**changes).fit(pictures)
    codes = learning.transform(pictures)
    restored = learning.inverse_transform(codes, pictures)
    positive = changes.get("positive", False)
    for picture, code, image, coded in zip(pictures, codes, restored, learning.encode(pictures), strict=True):
        prepared = prepare_image(
            picture,
            5,
            stride=changes.get("stride", 1),
            boundary=changes.get("boundary", "symmetric"),
            margin=changes.get("margin", 0),
        )
        problem = LassoProblem(
            prepared.dictionary(learning.components_), prepared.signal, 0.1, positive=positive
        )
        exact = solve_active_set(problem)
        np.testing.assert_array_equal(code.toarray(), exact.codes)
        assert coded.maps.shape == (*problem.dictionary.grid_shape, 4)
        assert image.shape == picture.shape
        np.testing.assert_array_equal(image, prepared.restore(problem.reconstruct(exact.sparse_codes)))
        np.testing.assert_array_equal(image, coded.image)
        # It is nearer to the picture than the background alone.
        pixels = as_pixels(picture)
        assert np.linalg.norm(image - pixels) < np.linalg.norm(prepared.background - pixels)


def test_an_array_gives_an_array():
    array = np.stack(images(((22, 26), (22, 26))))
    learning = estimator(stride=3).fit(array)
    codes = learning.transform(array)
    assert isinstance(codes, sparse.csr_array)
    assert codes.shape == (2, len(learning.get_feature_names_out()))
    full = learning.inverse_transform(codes, array)
    assert full.shape == array.shape
    # Without the images, all but their backgrounds.
    details = learning.inverse_transform(codes.toarray())
    backgrounds = np.stack([prepare_image(image, 5, stride=3).background for image in array])
    np.testing.assert_allclose(details + backgrounds, full, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(learning.fit_transform(array).toarray(), codes.toarray())


def test_another_solver_codes(fitted):
    spiking = clone(fitted).set_params(solver=solve_spiking).fit(images())
    coded = spiking.encode(images())
    assert all(one.result.method == "spiking" for one in coded)
    # Gaps of 1e-9 of 1/2 ||image||^2.
    assert spiking.score(images()) == pytest.approx(fitted.score(images()), rel=1e-8)


def test_partial_fit_goes_on(fitted):
    learning = estimator()
    for _ in range(2):
        learning.partial_fit(images())
    np.testing.assert_array_equal(estimator().partial_fit(images()).components_, fitted.components_)
    assert not np.array_equal(learning.components_, fitted.components_)
    with pytest.raises(ValueError, match="call fit to start anew"):
        learning.set_params(n_components=5).partial_fit(images())
    with pytest.raises(ValueError, match="stride must not change"):
        learning.set_params(n_components=4, stride=2).partial_fit(images())
    with pytest.raises(ValueError, match="call fit to start anew"):
        learning.set_params(stride=1).partial_fit(COLOUR)


def test_a_checkpoint_continues(tmp_path):
    path = tmp_path / "kernels.npz"
    whole = estimator(max_iter=2).fit(images())
    estimator(max_iter=2, checkpoint=path, callback=lambda learner: learner.n_batches == 2).fit(images())
    assert KernelLearner.load(path).n_batches == 2
    continued = estimator(max_iter=2, checkpoint=path).fit(images())
    np.testing.assert_array_equal(continued.components_, whole.components_)
    with pytest.raises(ValueError, match="random_state must be a number with a checkpoint"):
        estimator(random_state=None, checkpoint=path).fit(images())


def test_a_checkpoint_of_another_start_or_of_more_passes_is_refused(tmp_path):
    path = tmp_path / "kernels.npz"
    learned = estimator(max_iter=2, checkpoint=path).fit(images())
    start = np.random.default_rng(0).standard_normal((4, 5, 5))
    with pytest.raises(ValueError, match="was made with other start"):
        estimator(max_iter=2, checkpoint=path, dict_init=start).fit(images())
    shorter = estimator(max_iter=1, checkpoint=path)
    with pytest.raises(ValueError, match=r"batches already; this call asks for .*: ask for more"):
        shorter.fit(images())
    assert not hasattr(shorter, "learner_")
    np.testing.assert_array_equal(
        estimator(max_iter=2, checkpoint=path).fit(images()).components_, learned.components_
    )


def test_parameters_of_coding_may_change_after_fit(fitted):
    learning = pickle.loads(pickle.dumps(fitted)).set_params(alpha=0.3, positive=True)
    for coded in learning.encode(images()):
        assert coded.problem.positive
        assert coded.result.sparse_codes.data.min() > 0.0
    prepared = prepare_image(images()[0], 5)
    problem = LassoProblem(prepared.dictionary(fitted.components_), prepared.signal, 0.3, positive=True)
    np.testing.assert_array_equal(
        learning.transform(images())[0].toarray(), solve_active_set(problem, tol=1e-9).codes
    )
    for changes, error in (
        ({"alpha": 0.0}, ValueError),
        ({"positive": 1}, TypeError),
        ({"solver": 3}, TypeError),
    ):
        with pytest.raises(error, match=next(iter(changes))):
            pickle.loads(pickle.dumps(fitted)).set_params(**changes).transform(images())


@pytest.mark.parametrize("is_first", [True, False])
def test_an_error_of_partial_fit_changes_nothing(is_first, monkeypatch):
    learning = estimator()
    if not is_first:
        learning.partial_fit(images())
        learner, settings, kernels = learning.learner_, learning.learner_.settings, learning.components_
    with pytest.raises(ValueError, match="n_jobs must"):
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
        with pytest.raises(KeyboardInterrupt):
            learning.partial_fit(images())
    learning.set_params(alpha=0.1)
    if is_first:
        assert not hasattr(learning, "learner_")
    else:
        assert learning.learner_ is learner
        assert learning.learner_.settings == settings
        np.testing.assert_array_equal(learning.components_, kernels)
    # And goes on as if there had been none.
    again = estimator().partial_fit(images())
    if not is_first:
        again.partial_fit(images())
    np.testing.assert_array_equal(learning.partial_fit(images()).components_, again.components_)


def test_ctrl_c_keeps_what_was_learned():
    def interrupt(learner):
        if learner.n_batches == 2:
            raise KeyboardInterrupt

    learning = estimator(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        learning.fit(images())
    assert learning.n_batches_seen_ == 2
    assert len(learning.transform(images())) == 2


def test_a_bar_is_shown(capsys):
    estimator(progress=True).fit(images())
    assert "objective" in capsys.readouterr().err


def test_silence_is_said():
    with pytest.warns(ConvergenceWarning, match="no kernel codes any image: alpha is 100"):
        estimator(alpha=100.0).fit(images())
    board = np.indices((5, 5)).sum(axis=0) % 2 - 0.5
    start = np.stack([np.outer([0, 0, 1, 0, 0], np.ones(5)), board])
    many = images(((16, 16),) * 40)
    with pytest.warns(ConvergenceWarning, match="1 of 2 kernels are dead.*replace_dead=True"):
        learning = estimator(n_components=2, dict_init=start, alpha=0.7, tol=1e-3).fit(many)
    np.testing.assert_array_equal(learning.dead_kernels_, [1])


def test_the_score_falls_with_alpha_whatever_the_images_are(fitted):
    """So that it is no score to choose alpha by, which its documentation says."""
    scores = [
        clone(fitted).set_params(alpha=alpha).fit(images()).score(images()) for alpha in (0.05, 0.1, 0.2)
    ]
    assert scores == sorted(scores, reverse=True)


def test_images_are_not_changed_and_any_layout_does(fitted):
    pictures = [np.asfortranarray(as_pixels(picture)) for picture in images()]
    for picture in pictures:
        picture.flags.writeable = False
    np.testing.assert_array_equal(estimator().fit(pictures).components_, fitted.components_)


@pytest.mark.parametrize(
    ("changes", "pictures", "error", "match"),
    [
        ({}, np.ones((9, 4)), ValueError, r"larger than images\[0\]; got 5 columns in an image of 4"),
        (
            {},
            np.array(1.0),
            ValueError,
            "images must be a list of images or signals, or an array of them; got a number",
        ),
        (
            {},
            [np.ones((9, 9)), np.ones(9)],
            ValueError,
            "all be images, or all signals of one dimension; got both",
        ),
        ({"kernel_size": (5, 5)}, [np.ones(9)], TypeError, "kernel_size must be an integer; got tuple"),
        ({"n_channels": 0}, images(), ValueError, "n_channels must be positive; got 0"),
        (
            {"n_channels": 2},
            [np.ones((9, 9, 3))],
            ValueError,
            r"shape \(height, width, 2\) or \(length, 2\); got shape",
        ),
        ({"n_channels": 2}, [np.ones((9, 3))], ValueError, r"must have shape \(9, 2\)|n_channels"),
        ({}, [], ValueError, "must not be empty"),
        ({}, [np.ones((9, 4))], ValueError, r"larger than images\[0\]; got 5 columns in an image of 4"),
        ({}, [np.ones((9, 9))], ValueError, "images must not be constant"),
        ({}, [np.ones((9, 9, 4))], ValueError, "drop an alpha channel"),
        ({}, [np.full((9, 9), np.nan)], ValueError, r"images\[0\] must be finite"),
        ({}, np.ones((9, 4, 9)), ValueError, r"got 5 rows in an image of 4: for one image pass \[image\]"),
        ({}, np.ones((40, 30, 3)), ValueError, r"for one colour image pass \[image\]"),
        ({}, [np.ma.masked_less(np.eye(9), 0.5)], TypeError, r"images\[0\] must not have masked entries"),
        ({"n_components": 0}, images(), ValueError, "n_components must be positive"),
        ({"alpha": 0.0}, images(), ValueError, "alpha must be positive"),
        ({"stride": 0}, images(), ValueError, "stride must be positive"),
        ({"crop_size": 4}, images(), ValueError, "larger than crop_size; got 5 rows in an image of 4"),
        ({"batch_size": 1.5}, images(), TypeError, "batch_size must be an integer"),
        ({"max_iter": 0}, images(), ValueError, "max_iter must be positive"),
        ({"background": "dark"}, images(), ValueError, "background must be one of"),
        ({"dict_init": np.ones((3, 5, 5))}, images(), ValueError, "dict_init must have shape"),
        ({"dict_init": np.zeros((4, 5, 5))}, images(), ValueError, "dict_init must have positive norms"),
        ({"callback": 3}, images(), TypeError, "callback must be callable"),
        ({"progress": 1}, images(), TypeError, "progress must be"),
        ({"n_jobs": 0}, images(), ValueError, "n_jobs must"),
        (
            {"solver": "fista"},
            images(),
            TypeError,
            "solver must be a function of a LassoProblem.*; got 'fista'",
        ),
        ({"boundary": "foo"}, images(), ValueError, "boundary must be one of"),
        ({"margin": -2}, images(), ValueError, "margin must not be negative"),
        ({"transform_tol": -1}, images(), ValueError, "transform_tol must be positive"),
        ({"checkpoint": 3, "random_state": 0}, images(), TypeError, "checkpoint must be a path; got int"),
    ],
)
def test_bad_input_is_named_before_learning(changes, pictures, error, match, monkeypatch):
    monkeypatch.setattr(KernelLearner, "learn", lambda *arguments, **options: pytest.fail("it learned"))
    for method in ("fit", "partial_fit"):
        if method == "partial_fit" and not {"max_iter", "callback", "progress", "checkpoint"}.isdisjoint(
            changes
        ):
            continue
        with pytest.raises(error, match=match):
            getattr(estimator(**changes), method)(pictures)


def test_bad_codes_are_named(fitted):
    codes = fitted.transform(images())
    with pytest.raises(ValueError, match="images must be given: fit saw images of different sizes"):
        fitted.inverse_transform(codes)
    with pytest.raises(ValueError, match="images must be as many as codes, 2; got 1"):
        fitted.inverse_transform(codes, images()[:1])
    with pytest.raises(ValueError, match=r"X\[0\] must have 2392 coefficients, those of an image of 30 x 27"):
        fitted.inverse_transform(codes[::-1], images())
    stacked = sparse.vstack([codes[0], codes[0]], format="csr")
    with pytest.raises(
        ValueError, match=r"one shape where their codes are one array; got \(30, 27\) and \(27, 30\)"
    ):
        fitted.inverse_transform(stacked, [images()[0], images()[0].T])
    assert [
        image.shape for image in fitted.inverse_transform([codes[0]] * 2, [images()[0], images()[0].T])
    ] == [
        (30, 27),
        (27, 30),
    ]
    masked = np.ma.masked_equal(codes[0].toarray(), 0.0)
    for wrong in (masked, [masked]):
        with pytest.raises(TypeError, match="must not have masked entries"):
            fitted.inverse_transform(wrong, images()[:1])
    with pytest.raises(ValueError, match=r"X\[0\] must be finite"):
        fitted.inverse_transform([codes[0] * np.nan], images()[:1])
    padded = estimator(kernel_size=5, stride=3, boundary="symmetric").fit([np.eye(30)])
    with pytest.raises(ValueError, match="those of an image of 30 x 30; got 7"):
        padded.inverse_transform(np.ones((1, 7)), [np.eye(30)])
    with pytest.raises(ValueError, match=r"learned from \(images, one channel\); got images with 3 channels"):
        fitted.transform(COLOUR)
    with pytest.raises(ValueError, match=r"larger than images\[0\]"):
        fitted.transform([np.ones((3, 9))])
    with pytest.raises(ValueError, match="features have no names"):
        fitted.get_feature_names_out()
