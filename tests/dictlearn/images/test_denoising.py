"""Denoising: closed forms for orthonormal atoms; noise is removed and the image is kept."""

# ruff: noqa: E501 - a case a line reads better

from functools import partial

import numpy as np
import pytest

from dictlearn import (
    as_pixels,
    denoise,
    extract_patches,
    overcomplete_dct,
    reconstruct_from_patches,
    remove_mean,
)
from examples._common import photograph
from solvers import IllPosedWarning, LassoProblem, solve_fista
from tests.dictlearn.refused import each_refused
from tests.reference.costs import costs

DCT = overcomplete_dct(4, 16)
NOISE = 25 / 255


@pytest.fixture(scope="module")
def noisy():
    clean = photograph(48, 64)
    return clean, clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)


@pytest.mark.parametrize("stride", [1, 4])
def test_orthonormal_atoms_threshold_their_correlations(noisy, stride):
    """Correlations above the penalty are kept unchanged."""
    image, options = noisy[1], {"patch_size": 4, "penalty": 0.2, "stride": stride}
    patches, means = remove_mean(extract_patches(image, 4, stride=stride))
    products = patches @ DCT.T
    codes = products * (np.abs(products) > 0.2)
    expected = reconstruct_from_patches(codes @ DCT + means, image.shape, 4, stride=stride)
    result = denoise(image, DCT, **options)
    np.testing.assert_allclose(result.image, expected, atol=1e-13)
    assert result.n_patches == len(patches)
    assert result.nonzeros_per_patch == pytest.approx((codes != 0.0).sum(axis=1).mean(), rel=1e-12)
    assert result.relative_gap < 1e-13
    assert result.penalty.tolist() == [0.2] * 16


def test_projection_is_the_least_squares_fit_of_active_atoms():
    """The projection is the least squares fit even if a code uses two equal atoms."""
    rng = np.random.default_rng(3)
    dictionary = rng.standard_normal((6, 4))
    dictionary[5] = dictionary[4]
    image = rng.standard_normal((5, 5))
    patches, means = remove_mean(extract_patches(image, 2))
    codes = solve_fista(LassoProblem(dictionary, patches, 0.1), tol=1e-13).codes
    fits = []
    for patch, code in zip(patches, codes, strict=True):
        active = dictionary[np.abs(code) > 1e-5]
        fits.append(patch @ np.linalg.pinv(active) @ active if len(active) else 0.0 * patch)
    expected = reconstruct_from_patches(np.array(fits) + means, image.shape, 2)
    result = denoise(image, dictionary, patch_size=2, penalty=0.1)
    np.testing.assert_allclose(result.image, expected, atol=1e-9)


def test_the_default_penalty_is_the_universal_threshold():
    """The default penalty is sqrt(2 log N) standard deviations of the noise."""
    atoms = np.diag([1.0, 2.0, 0.5, 1.0])[:3]
    expected = np.sqrt(2.0 * np.log(3.0)) * 0.1 * np.array([1.0, 2.0, 0.5])
    result = denoise(np.eye(5), atoms, patch_size=2, noise_level=0.1)
    np.testing.assert_allclose(result.penalty, expected, rtol=1e-14)


def test_flat_images_come_back_and_integers_have_the_noise_of_their_unit(noisy):
    image = np.full((9, 8), 0.1)
    result = denoise(image, DCT, patch_size=4, noise_level=0.01)
    np.testing.assert_allclose(result.image, image, rtol=1e-14)
    assert (result.nonzeros_per_patch, result.relative_gap) == (0.0, 0.0)
    pixels = np.clip(255.0 * noisy[1], 0.0, 255.0).round().astype(np.uint8)
    with pytest.raises(ValueError, match=r"noise_level must be at least 0\.29"):
        denoise(pixels, DCT, patch_size=4, noise_level=0.28)
    as_integers = denoise(pixels, DCT, patch_size=4, noise_level=25.0)
    as_floats = denoise(as_pixels(pixels), DCT, patch_size=4, noise_level=NOISE)
    np.testing.assert_allclose(as_integers.image / 255.0, as_floats.image, rtol=1e-9)
    for options in ({"noise_level": 25}, {"penalty": 50.0}):
        with pytest.warns(IllPosedWarning, match=next(iter(options))):
            denoise(noisy[1], DCT, patch_size=4, **options)


IMAGE = np.zeros((10, 12))


def denoised(image=IMAGE, dictionary=DCT, **options):
    return denoise(image, dictionary, **{"patch_size": 4, "noise_level": 0.1, **options})


@each_refused(
    (denoised, ValueError, {"image": [np.zeros((10, 12, 3)), IMAGE + np.nan], "dictionary": [DCT[:, :15], np.hstack([DCT, DCT]), DCT * 0.0], "patch_size": [11], "noise_level": [0.0, None], "penalty": [1.0], "n_jobs": [0]}),
    (denoised, TypeError, {"progress": ["yes"]}),
    (partial(denoised, noise_level=None), ValueError, {"penalty": [-1.0, [1.0]]}),
    (lambda: denoised(IMAGE[0], np.eye(14), patch_size=14), ValueError, "must fit into the image"),
    (lambda: denoised(stride=4), ValueError, "row 8 and column 0"),
)  # fmt: skip
def test_what_is_refused_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()


def test_neither_tiles_nor_workers_nor_types_change_the_image(noisy, tmp_path):
    image, options = noisy[1].astype(np.float32), {"patch_size": (4, 3), "penalty": 0.15}
    dictionary = overcomplete_dct((4, 3), 25)
    whole = denoise(image.astype(float), dictionary, **options)
    np.save(tmp_path / "image.npy", np.asfortranarray(image))
    mapped = np.load(tmp_path / "image.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        denoise(mapped, np.asfortranarray(dictionary), **options).image, whole.image
    )
    with costs(codes_held=25 * 62 * 4):
        tiled = denoise(image, dictionary, n_jobs=2, **options)
    # Codes are equal to the last bit, but overlapping patches are summed in another order.
    np.testing.assert_allclose(tiled.image, whole.image, atol=20 * np.finfo(float).eps)
    assert tiled.nonzeros_per_patch == whole.nonzeros_per_patch
    assert tiled.relative_gap == pytest.approx(whole.relative_gap)
    curve = image[0].astype(float)  # a signal is treated as an image of one row
    along = denoise(curve, dictionary, patch_size=12, penalty=0.15).image
    of_row = denoise(curve[np.newaxis], dictionary, patch_size=(1, 12), penalty=0.15).image
    np.testing.assert_array_equal(along, of_row[0])


def test_an_image_of_floats_whose_noise_level_is_in_another_unit_is_not_taken_in_silence(noisy):
    """Integers of any type are refused; other values cause a warning."""
    pixels = np.round(255.0 * noisy[1])
    with pytest.raises(ValueError, match=r"noise_level must be at least 0\.29.*as_pixels"):
        denoise(pixels, DCT, patch_size=4, noise_level=0.1)
    with pytest.warns(IllPosedWarning, match=r"image keeps its noise: noise_level is 0\.1, .* in one unit"):
        denoise(255.0 * noisy[1], DCT, patch_size=4, noise_level=0.1)
    denoise(255.0 * noisy[1], DCT, patch_size=4, noise_level=0.5)
    # Zeros and ones do not tell the unit of an image.
    denoise(np.round(noisy[1]), DCT, patch_size=4, noise_level=0.1)
