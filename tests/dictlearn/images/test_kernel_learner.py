"""Kernels learned from images: what is recovered, what is saved, what is refused."""

import numpy as np
import pytest
from joblib import parallel_config

from dictlearn import KernelLearner, KernelSettings
from dictlearn.images.crops import batches_of_crops, crop_shape
from dictlearn.images.kernel_learning import learn_kernels, random_kernels
from dictlearn.resumable import Course
from solvers import ConvolutionalDictionary, LassoProblem, solve_active_set

RNG = np.random.default_rng(0)


def planted(n_images=40, shape=(18, 17), n_kernels=3, side=5, n_channels=None, seed=0):
    """Images that are sums of a few kernels, and the kernels."""
    rng = np.random.default_rng(seed)
    kernels = rng.standard_normal((n_kernels, side, side, *([n_channels] if n_channels else [])))
    kernels = (kernels.T / np.linalg.norm(kernels.reshape(n_kernels, -1), axis=1)).T
    dictionary = ConvolutionalDictionary(kernels, shape, 1)
    codes = np.zeros((n_images, dictionary.shape[0]))
    for code in codes:
        code[rng.choice(len(code), 6, replace=False)] = rng.uniform(1.0, 2.0, 6) * rng.choice([-1, 1], 6)
    return dictionary.reconstruct(codes).reshape(n_images, *dictionary.signal_shape), kernels


def cosines(kernels, others):
    """The largest cosine of each of `others` with any kernel, at any shift of two pixels."""
    padded = [np.pad(one, [(0, 0), (2, 2), (2, 2)] + [(0, 0)] * (one.ndim - 3)) for one in (kernels, others)]
    shifted = [
        np.roll(padded[0], (i, j), axis=(1, 2)).reshape(len(kernels), -1)
        for i in range(-2, 3)
        for j in range(-2, 3)
    ]
    products = np.abs(np.concatenate(shifted) @ padded[1].reshape(len(others), -1).T)
    return products.max(axis=0)


def small_learner(penalty):
    return KernelLearner(np.random.default_rng(0).standard_normal((3, 3, 3)), KernelSettings(penalty=penalty))


@pytest.mark.parametrize(("n_channels", "seed"), [(None, 5), (3, 2)])
def test_planted_kernels_are_found(n_channels, seed):
    images, kernels = planted(n_channels=n_channels, seed=seed)
    start = random_kernels(list(images), 6, (5, 5), np.random.default_rng(1))
    learner = KernelLearner(start, KernelSettings(penalty=0.1))
    before = cosines(learner.kernels, kernels)
    for _ in range(2):
        for first in range(0, len(images), 4):
            assert learner.learn(images[first : first + 4]).converged
    assert before.min() < 0.7
    assert (cosines(learner.kernels, kernels) > 0.95).all()
    np.testing.assert_allclose(np.linalg.norm(learner.kernels.reshape(6, -1), axis=1), 1.0, rtol=1e-12)
    history = learner.history
    assert history["objective"][-1] < 0.6 * history["objective"][0]
    assert (history["gap"] <= 0.1).all()
    assert (history["n_spikes"] > 0).all()


def test_the_recorded_objective_is_that_of_the_problem():
    images, _ = planted(n_images=4)
    learner = KernelLearner(
        random_kernels(list(images), 4, (5, 5), np.random.default_rng(0)),
        KernelSettings(penalty=0.1, tol=1e-7),
    )
    dictionary = ConvolutionalDictionary(learner.kernels, images.shape[1:], 1)
    exact = solve_active_set(LassoProblem(dictionary, images.reshape(4, -1), 0.1))
    learner.learn(images)
    # Gaps of 1e-7 of 1/2 ||image||^2.
    energy = learner.history["energy"][0]
    assert abs(learner.history["objective"][0] - exact.objective.mean()) < 2e-7 * energy


def test_bits_depend_neither_on_workers_nor_on_a_stop(tmp_path):
    images, _ = planted(n_images=6)
    start = random_kernels(list(images), 4, (5, 5), np.random.default_rng(0))
    settings = KernelSettings(penalty=0.1, replace_dead=True)
    task = {"n_passes": 2, "crop_size": (12, 12), "batch_size": 3, "seed": 5}
    whole = KernelLearner(start, settings)
    learn_kernels(whole, list(images), **task)
    with parallel_config(backend="threading"):
        others = KernelLearner(start, settings)
        learn_kernels(others, list(images), **task, n_jobs=2)
    np.testing.assert_array_equal(whole.kernels, others.kernels)

    path = tmp_path / "kernels.npz"
    saved = {"course": Course(checkpoint=path)}
    stopped = KernelLearner(start, settings)
    learn_kernels(
        stopped,
        list(images),
        **task,
        course=Course(callback=lambda learner: learner.n_batches == 3, checkpoint=path),
    )
    assert stopped.n_batches == 3
    continued = KernelLearner(start, settings)
    learn_kernels(continued, list(images), **task, **saved)
    np.testing.assert_array_equal(whole.kernels, continued.kernels)
    for name, values in whole.history.items():
        np.testing.assert_array_equal(values, continued.history[name])
    with pytest.raises(ValueError, match="was made with other start"):
        learn_kernels(KernelLearner(start[::-1], settings), list(images), **task, **saved)
    for learner, where in (
        (KernelLearner(start, settings), saved),
        (whole, {}),
    ):
        with pytest.raises(
            ValueError, match=r"has learned from \d+ batches already; this call asks for \d+: ask for more"
        ):
            learn_kernels(learner, list(images), **{**task, "n_passes": 1}, **where)
        assert learner.n_batches in (0, whole.n_batches)
    # A learner that has learned goes on from a checkpoint, whatever its own start was.
    learn_kernels(continued, list(images), **task, **saved)
    np.testing.assert_array_equal(whole.kernels, continued.kernels)
    with pytest.raises(ValueError, match="was made with other start"):
        learn_kernels(KernelLearner(start[::-1], settings), list(images), **task, **saved)
    with pytest.raises(ValueError, match="was made with other seed"):
        learn_kernels(
            KernelLearner(start, settings),
            list(images),
            **{**task, "seed": 6},
            **saved,
        )
    with pytest.raises(ValueError, match="was made with other images"):
        learn_kernels(KernelLearner(start, settings), list(2 * images), **task, **saved)


def test_a_stop_within_a_batch_leaves_the_learner_as_it_was(monkeypatch):
    images, _ = planted(n_images=4)
    learner = KernelLearner(
        random_kernels(list(images), 4, (5, 5), np.random.default_rng(0)), KernelSettings(penalty=0.1)
    )
    learner.learn(images)
    kernels, objective = learner.kernels, learner._statistics.objective(learner._kernels)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("dictlearn.images.kernel_learner.improve_kernels", interrupt)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(images)
    np.testing.assert_array_equal(learner.kernels, kernels)
    assert learner._statistics.objective(learner._kernels) == objective
    assert (learner.n_batches, len(learner.history["gap"])) == (1, 1)


def test_dead_kernels_are_said_and_replaced():
    images, kernels = planted(n_images=36)
    # The first kernel is all that is wanted of the image, the others are checkerboards that nothing is like.
    board = np.indices((5, 5)).sum(axis=0) % 2 - 0.5
    start = np.stack([kernels[0], board, np.roll(board, 1, axis=0) * np.arange(1, 6)])
    for replace_dead in (False, True):
        learner = KernelLearner(start, KernelSettings(penalty=1.4, tol=1e-3, replace_dead=replace_dead))
        for first in range(0, len(images), 12):
            learner.learn(images[first : first + 12])
        if replace_dead:
            assert learner.n_replaced > 0
            assert not len(learner.dead_kernels)
        else:
            np.testing.assert_array_equal(learner.dead_kernels, [1, 2])
            np.testing.assert_allclose(learner.kernels[1], board / np.linalg.norm(board), rtol=1e-12)


def test_another_stride_is_refused():
    """The sums are of lags of one stride."""
    images, _ = planted(n_images=2)
    learner = small_learner(0.05)
    kernels = learner.kernels
    learner.settings = KernelSettings(penalty=0.05, stride=2)
    with pytest.raises(ValueError, match=r"settings must keep their stride, 1, .* got 2: make a new"):
        learner.learn(images)
    np.testing.assert_array_equal(learner.kernels, kernels)
    learner.settings = KernelSettings(penalty=0.1)
    learner.learn(images)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda images: images.astype(str), TypeError, "images must be an array of real numbers"),
        (lambda images: images.astype(complex), TypeError, "images must be an array of real numbers"),
        (lambda images: np.ma.masked_less(images, 0.0), TypeError, "images must not have masked entries"),
        (lambda images: np.ones(images.shape, np.uint8), TypeError, "images must be floats; got uint8"),
        (lambda images: images[:0], ValueError, "images must not be empty"),
        (lambda images: images[0], ValueError, r"images must be 3-D, \(n_images, rows, columns\); got shape"),
        (lambda images: images[..., np.newaxis], ValueError, "images must be 3-D"),
        (lambda images: images * np.nan, ValueError, "images must be finite"),
        (lambda images: images * 1e-130, ValueError, "images must have a largest value between 1e-120 and"),
        (lambda images: images * 1e130, ValueError, "got .*: change their unit"),
    ],
)  # fmt: skip
def test_what_are_no_images_is_refused(change, error, match):
    images, _ = planted(n_images=2)
    learner = small_learner(0.1)
    with pytest.raises(error, match=match):
        learner.learn(change(images))
    assert learner.n_batches == 0


def test_lists_are_images_too():
    images, _ = planted(n_images=2)
    learners = [small_learner(0.1) for _ in range(2)]
    learners[0].learn(images)
    learners[1].learn(images.tolist())
    np.testing.assert_array_equal(learners[0].kernels, learners[1].kernels)


@pytest.mark.parametrize("exponent", [-390, -200, 390])
def test_the_unit_of_images_does_not_matter(exponent):
    """The same bits at any power of two, the penalty in the same unit."""
    images, _ = planted(n_images=8)
    start = random_kernels(list(images), 4, (5, 5), np.random.default_rng(0))
    kernels = []
    for unit in (1.0, 2.0**exponent):
        scaled = images * unit
        np.testing.assert_array_equal(
            random_kernels(list(scaled), 4, (5, 5), np.random.default_rng(0)), start
        )
        learner = KernelLearner(start * unit, KernelSettings(penalty=0.1 * unit))
        for first in (0, 4):
            learner.learn(scaled[first : first + 4])
        kernels.append(learner.kernels)
    np.testing.assert_array_equal(*kernels)


def test_a_random_start_has_no_kernel_twice():
    tile = np.random.default_rng(0).standard_normal((4, 4))
    images = [np.tile(tile, (5, 5)), np.zeros((9, 9))]
    kernels = random_kernels(images, 30, (4, 4), np.random.default_rng(1)).reshape(30, -1)
    cosines = np.abs(kernels @ kernels.T) - np.eye(30)
    assert cosines.max() < 0.999
    np.testing.assert_allclose(np.linalg.norm(kernels, axis=1), 1.0, rtol=1e-12)


def test_crops_cover_images_of_any_size():
    rng = np.random.default_rng(0)
    images = [rng.random((30, 47)), rng.random((9, 12)), rng.random((8, 30))]
    arguments = (images, (16, 16), (8, 8), 4)
    batches = [batch.of(images) for batch in batches_of_crops(*arguments, batch_size=2, seed=1, number=0)]
    assert {batch.shape[1:] for batch in batches} == {(16, 16), (8, 12), (8, 16)}
    assert sum(len(batch) for batch in batches) == round(30 * 47 / 256) + 1 + 2
    assert max(len(batch) for batch in batches) == 2
    for batch, (shape, places) in zip(
        batches, batches_of_crops(*arguments, batch_size=2, seed=1, number=0), strict=True
    ):
        for crop, (n, top, left) in zip(batch, places, strict=True):
            np.testing.assert_array_equal(crop, images[n][top : top + shape[0], left : left + shape[1]])
    other = batches_of_crops(*arguments, batch_size=2, seed=1, number=1)
    assert len(other) == len(batches)
    assert other != batches_of_crops(*arguments, batch_size=2, seed=1, number=0)
    assert crop_shape((100, 100, 3), (64, 30), (8, 8), 3) == (62, 29)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: KernelLearner(np.ones((2, 3)), KernelSettings(penalty=1.0)), ValueError, "kernels must"),
        (lambda: KernelLearner(np.zeros((2, 3, 3)), KernelSettings(penalty=1.0)), ValueError, "zeros for"),
        (lambda: KernelLearner(np.ones((2, 3, 3)), {"penalty": 1.0}), TypeError, "must be a KernelSettings"),
        (lambda: KernelSettings(penalty=0.0), ValueError, "penalty must be positive"),
        (lambda: KernelSettings(penalty=1.0, stride=1.5), TypeError, "stride must be an integer"),
        (lambda: KernelSettings(penalty=1.0, forgetting=-1.0), ValueError, "forgetting must not be negative"),
        (lambda: KernelSettings(penalty=1.0, positive=1), TypeError, "positive must be"),
        (lambda: random_kernels([np.zeros((9, 9))], 2, (3, 3), RNG), ValueError, "nothing to learn"),
        (lambda: random_kernels([np.ones((9, 9))], 2, (1, 1), RNG), ValueError, "no more than 1 ways; got 2"),
        (lambda: KernelLearner.load("/nowhere/kernels.npz"), FileNotFoundError, "nowhere"),
    ],
)  # fmt: skip
def test_bad_input_is_named(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, kernels=np.ones(3))
    with pytest.raises(ValueError, match="must name a saved KernelLearner"):
        KernelLearner.load(path)
    KernelLearner(np.ones((2, 3, 3)), KernelSettings(penalty=1.0)).save(path)
    with np.load(path) as archive:
        entries = dict(archive)
    images, _ = planted(n_images=6)
    learner = small_learner(0.1)
    learner.learn(images)
    learner.save(path)
    KernelLearner.load(path)
    with np.load(path) as archive:
        learned = dict(archive)
    history = learned["history"]
    for name, value in (
        ("sums", np.array([np.nan, 1.0, 1.0])),
        ("sums", np.array([1.0, -1.0, 1.0])),
        ("sums", np.array([1.0, 1.0, 7.0])),
        ("sums", np.ones(2)),
        ("counters", np.array([-5, 1, 0])),
        ("counters", np.array([6.5, 1.0, 0.0])),
        ("counters", np.array([6, 2, 0])),
        ("counters", np.array([7, 1, 0])),
        ("last_used", np.full(3, 99)),
        ("last_used", np.full(3, 1.5)),
        ("last_used", np.full(3, -1)),
        ("history", np.full(history.shape, np.nan)),
        ("history", np.repeat(history, 2, axis=0)),
        ("lags", -learned["lags"]),
        ("kernels", 50.0 * learned["kernels"]),
    ):
        np.savez(path, **{**learned, name: value})
        with pytest.raises(
            ValueError, match=rf"must name a saved KernelLearner; .* \((weight|history|{name})"
        ):
            KernelLearner.load(path)
    for name, value in (
        ("lags", np.zeros(())),
        ("correlations", np.full((2, 9, 1), np.nan)),
        ("settings", np.array("[]")),
        ("settings", np.array('{"penalty": -1}')),
        ("settings", np.array('{"penalty": 1.0, "stride": 1' + 400 * "0" + "}")),
        ("counters", np.array([4, 4, 0])),
        ("kernels", np.zeros((2, 3, 3))),
    ):
        np.savez(path, **{**entries, name: value})
        with pytest.raises(ValueError, match="must name a saved KernelLearner"):
            KernelLearner.load(path)


def test_a_checkpoint_that_cannot_be_written_is_said_at_once(tmp_path):
    images, _ = planted(n_images=2)
    learner = KernelLearner(np.eye(5)[np.newaxis], KernelSettings(penalty=0.1))
    with pytest.raises(ValueError, match="checkpoint must lie in a folder that exists"):
        learn_kernels(
            learner,
            list(images),
            n_passes=1,
            crop_size=(12, 12),
            batch_size=3,
            seed=5,
            course=Course(checkpoint=tmp_path / "nowhere" / "kernels.npz"),
        )
    assert learner.n_batches == 0
