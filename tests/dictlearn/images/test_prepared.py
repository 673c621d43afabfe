"""Images of any size and back."""

from itertools import product

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from dictlearn import as_pixels, prepare_image
from solvers import ConvolutionalDictionary, LassoProblem, solve_active_set
from solvers.problem.conditioning import IllPosedWarning

RNG = np.random.default_rng(0)


def picture(shape, dtype=np.uint8):
    return RNG.integers(0, 256, shape).astype(dtype)


@pytest.mark.parametrize("shape", [(17, 23), (16, 9, 3), (8, 6), (31, 8, 1)])
def test_padding_is_undone_to_the_last_bit(shape):
    image = picture(shape)
    for stride, margin in product((1, 2, 3, 5), (0, 1, 7)):
        prepared = prepare_image(image, (8, 6), stride=stride, margin=margin, background="none")
        np.testing.assert_array_equal(prepared.restore(prepared.signal), as_pixels(image))
        # A grid of positions covers it, and no smaller one does.
        prepared.dictionary(np.ones((2, 8, 6, *shape[2:])))
        larger = np.subtract(prepared.prepared_shape, shape[:2])
        assert (larger >= 2 * margin).all()
        assert (larger < 2 * margin + stride).all()


def test_padding_mirrors_the_image():
    image = RNG.random((9, 10))
    prepared = prepare_image(image, 4, stride=4, background="none")
    assert prepared.prepared_shape == (12, 12)
    np.testing.assert_array_equal(prepared.detail, np.pad(image, ((1, 2), (1, 1)), mode="symmetric"))


def test_cropping_keeps_what_fits_and_gives_the_rest_its_background():
    image = RNG.random((11, 10, 3))
    prepared = prepare_image(image, 4, stride=4, boundary="crop", background="mean")
    assert prepared.prepared_shape == (8, 8)
    means = image.mean(axis=(0, 1))
    np.testing.assert_array_equal(prepared.detail, (image - means)[1:9, 1:9])
    restored = prepared.restore(prepared.signal)
    expected = np.broadcast_to(means, image.shape).copy()
    expected[1:9, 1:9] = image[1:9, 1:9]
    # Subtracted and added again: rounding of numbers below one.
    np.testing.assert_allclose(restored, expected, rtol=0, atol=1e-15)


def test_the_background_is_the_blurred_image_of_each_channel():
    image = RNG.random((20, 21, 3))
    prepared = prepare_image(image, 6, smoothing=2.5)
    blurred = np.stack([gaussian_filter(image[..., c], 2.5) for c in range(3)], axis=-1)
    np.testing.assert_allclose(prepared.background, blurred, rtol=0, atol=1e-15)
    np.testing.assert_allclose(prepared.restore(prepared.signal), image, rtol=0, atol=1e-15)
    # By default half the longer side of a kernel.
    np.testing.assert_array_equal(
        prepare_image(image, (4, 6)).background, prepare_image(image, 4, smoothing=3.0).background
    )


def test_an_image_that_is_its_background_has_no_detail():
    for kind in ("smooth", "mean"):
        prepared = prepare_image(np.full((20, 21, 3), 0.1), 6, background=kind)
        np.testing.assert_array_equal(prepared.signal, 0.0)
        np.testing.assert_array_equal(prepared.restore(prepared.signal), 0.1)


def test_it_is_the_remedy_of_the_warning():
    ramp = np.linspace(0.0, 1.0, 40) + 0.1 * RNG.random((36, 40))
    kernels = RNG.standard_normal((3, 5, 5))
    kernels -= kernels.mean(axis=(1, 2), keepdims=True)
    with pytest.warns(IllPosedWarning, match="subtract them .dictlearn.prepare_image"):
        solve_active_set(
            LassoProblem(ConvolutionalDictionary(kernels, ramp.shape, 1), ramp.reshape(1, -1), 0.5)
        )
    prepared = prepare_image(ramp, 5)
    problem = LassoProblem(prepared.dictionary(kernels), prepared.signal, 0.05)
    result = solve_active_set(problem)  # warnings are errors
    image = prepared.restore(problem.reconstruct(result.sparse_codes))
    # What the code leaves of the signal is what the image made of it lacks.
    left = prepared.signal - problem.reconstruct(result.sparse_codes)
    np.testing.assert_allclose(ramp - image, left.reshape(ramp.shape), rtol=0, atol=1e-14)
    assert np.linalg.norm(ramp - image) < np.linalg.norm(ramp - prepared.background)


def test_restore_takes_a_signal_in_any_of_its_shapes():
    prepared = prepare_image(picture((9, 10, 3)), 4, stride=3)
    expected = prepared.restore(prepared.signal)
    for signal in (prepared.signal[0], prepared.detail, prepared.detail.tolist()):
        np.testing.assert_array_equal(prepared.restore(signal), expected)
    for other in (np.ones(7), prepared.detail.transpose(1, 0, 2)[..., :2], prepared.signal.reshape(2, 150)):
        with pytest.raises(ValueError, match=r"shapes \(1, 300\), \(300,\), \(10, 10, 3\); got shape"):
            prepared.restore(other)
    oblong = prepare_image(picture((9, 12)), 4)
    with pytest.raises(ValueError, match=r"got shape \(12, 9\)"):
        oblong.restore(oblong.detail.T)
    with pytest.raises(TypeError, match="signal must not have masked entries"):
        prepared.restore(np.ma.masked_less(prepared.signal, 0.0))
    with pytest.raises(ValueError, match="finite"):
        prepared.restore(np.full(300, np.nan))


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"kernel_size": 11}, ValueError, "kernels must not be larger than the image; got 11 rows"),
        ({"kernel_size": (4, 0)}, ValueError, "kernel_size must be positive"),
        ({"kernel_size": "4"}, TypeError, "kernel_size must be an integer"),
        ({"stride": 0}, ValueError, "stride must be positive"),
        ({"boundary": "zeros"}, ValueError, "boundary must be one of"),
        ({"margin": -1}, ValueError, "margin must not be negative"),
        ({"margin": 2, "boundary": "crop"}, ValueError, "zero for boundary='crop'; got 2"),
        ({"background": "blur"}, ValueError, "background must be one of"),
        ({"smoothing": 0.0}, ValueError, "smoothing must be positive"),
        (
            {"smoothing": 2.0, "background": "mean"},
            ValueError,
            "smoothing must come with background='smooth'",
        ),
    ],
)
def test_bad_arguments_are_named(changes, error, match):
    with pytest.raises(error, match=match):
        prepare_image(np.ones((10, 12)), **{"kernel_size": 4, **changes})


def test_kernels_of_another_size_are_refused():
    prepared = prepare_image(np.ones((10, 12, 3)), 4)
    with pytest.raises(ValueError, match="kernels"):
        prepared.dictionary(np.ones((2, 5, 4, 3)))
    with pytest.raises(ValueError, match="kernels"):
        prepared.dictionary(np.ones((2, 4, 4)))
