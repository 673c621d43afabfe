"""Denoising: closed forms for orthonormal atoms, and that noise goes while the image stays."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest

from dictlearn import as_pixels, overcomplete_dct
from dictlearn.images import denoising
from dictlearn.images.channels import split_channels
from dictlearn.images.denoising import denoise
from dictlearn.images.patches import extract_patches, reconstruct_from_patches, remove_mean
from examples._common import photograph, signal_to_noise
from solvers import IllPosedWarning, LassoProblem, solve_fista

DCT = overcomplete_dct(4, 16)
NOISE = 25 / 255


@pytest.fixture(scope="module")
def noisy():
    clean = photograph(48, 64)
    return clean, clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)


def by_hand(image, stride, approximate):
    patches, means = remove_mean(extract_patches(image, 4, stride=stride))
    correlations = patches @ DCT.T
    return reconstruct_from_patches(approximate(correlations) @ DCT + means, image.shape, 4, stride=stride)


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_orthonormal_atoms_threshold_their_correlations(noisy, stride):
    image = noisy[1]
    soft = by_hand(image, stride, lambda b: np.sign(b) * np.maximum(np.abs(b) - 0.2, 0.0))
    hard = by_hand(image, stride, lambda b: np.where(np.abs(b) > 0.2, b, 0.0))
    options = {"patch_size": 4, "penalty": 0.2, "stride": stride}
    np.testing.assert_allclose(denoise(image, DCT, project=False, **options).image, soft, atol=1e-13)
    np.testing.assert_allclose(denoise(image, DCT, **options).image, hard, atol=1e-13)


def test_result_counts_and_certifies(noisy):
    image = noisy[1]
    result = denoise(image, DCT, patch_size=4, penalty=0.2)
    patches = remove_mean(extract_patches(image, 4))[0]
    assert result.n_patches == len(patches)
    active = np.abs(patches @ DCT.T) > 0.2
    assert result.nonzeros_per_patch == pytest.approx(active.sum(axis=1).mean(), rel=1e-12)
    assert result.relative_gap < 1e-13
    assert result.penalty.tolist() == [0.2] * 16
    for array in (result.image, result.penalty):
        assert not array.flags.writeable


def test_any_solver_gives_the_same_image(noisy):
    image = noisy[1][:20, :20]
    dictionary = overcomplete_dct(6, 100)
    patches, means = remove_mean(extract_patches(image, 6))
    problem = LassoProblem(dictionary, patches, 0.25)
    codes = solve_fista(problem, tol=1e-12).codes
    expected = reconstruct_from_patches(codes @ dictionary + means, image.shape, 6)
    # A gap of 1e-12 of 1/2 ||s||^2 bounds the square of the error of the reconstruction by twice that.
    error = 2e-6 * np.linalg.norm(patches, axis=1).max()
    result = denoise(image, dictionary, patch_size=6, penalty=0.25, project=False)
    np.testing.assert_allclose(result.image, expected, atol=error)


def test_default_penalty_is_the_universal_threshold():
    atoms = np.diag([1.0, 2.0, 0.5, 1.0])[:3]
    result = denoise(np.eye(5), atoms, patch_size=2, noise_level=0.1)
    expected = np.sqrt(2.0 * np.log(3.0)) * 0.1 * np.array([1.0, 2.0, 0.5])
    np.testing.assert_allclose(result.penalty, expected, rtol=1e-14)
    shrunk = denoise(np.eye(5), atoms, patch_size=2, noise_level=0.1, project=False)
    np.testing.assert_allclose(shrunk.penalty, 0.5 * expected, rtol=1e-14)


def test_noise_in_channels_has_the_moments_of_the_default_penalty():
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(3, 8))
    penalty = denoise(20.0 * np.eye(5), atoms, patch_size=2, noise_level=1.0).penalty
    drive = split_channels(rng.normal(size=(200_000, 4))) @ atoms.T
    expected = drive.mean(axis=0) + np.sqrt(2.0 * np.log(3.0)) * drive.std(axis=0)
    # 200,000 samples: mean and deviation are known to a few times 1/450 of the deviation.
    np.testing.assert_allclose(penalty, expected, rtol=0.01)


def test_channels_of_orthonormal_atoms_code_each_sign_apart():
    # One atom a channel and pixel: the code is the signed patch, thresholded.
    image = np.random.default_rng(0).normal(size=(6, 7))
    patches, means = remove_mean(extract_patches(image, 2))
    soft = np.sign(patches) * np.maximum(np.abs(patches) - 0.3, 0.0)
    hard = np.where(np.abs(patches) > 0.3, patches, 0.0)
    for project, approximations in ((False, soft), (True, hard)):
        result = denoise(image, np.eye(8), patch_size=2, penalty=0.3, project=project)
        expected = reconstruct_from_patches(approximations + means, image.shape, 2)
        np.testing.assert_allclose(result.image, expected, atol=1e-13)


def test_noise_goes_and_the_image_stays(noisy):
    clean, image = noisy
    signed = overcomplete_dct(8, 256)[1:]
    before = signal_to_noise(clean, image)
    # From 20.2 dB to 25.8, 25.1 without projection, 25.2 in channels.
    after = signal_to_noise(clean, denoise(image, signed, patch_size=8, noise_level=NOISE).image)
    assert after > before + 3.5
    shrunk = denoise(image, signed, patch_size=8, noise_level=NOISE, project=False)
    assert before + 2.5 < signal_to_noise(clean, shrunk.image) < after
    in_channels = denoise(
        image, split_channels(np.vstack([signed, -signed])), patch_size=8, noise_level=NOISE
    )
    assert signal_to_noise(clean, in_channels.image) > before + 2.5


def test_neither_tiles_nor_workers_nor_progress_change_the_image(noisy, monkeypatch, capsys):
    image = noisy[1]
    options = {"patch_size": (4, 3), "penalty": 0.15}
    dictionary = overcomplete_dct((4, 3), 25)
    whole = denoise(image, dictionary, **options)
    monkeypatch.setattr(denoising, "CODES_PER_TILE", 25 * 11**2)
    tiled = denoise(image, dictionary, n_jobs=2, progress=True, **options)
    # Codes are the same to the last bit; sums of overlapping patches are in another order.
    np.testing.assert_allclose(tiled.image, whole.image, atol=20 * np.finfo(float).eps)
    assert tiled.nonzeros_per_patch == whole.nonzeros_per_patch
    assert tiled.relative_gap == pytest.approx(whole.relative_gap)
    assert "denoising: 100%" in capsys.readouterr().err


def test_flat_images_come_back():
    image = np.full((9, 8), 0.1)
    result = denoise(image, DCT, patch_size=4, noise_level=0.01)
    np.testing.assert_allclose(result.image, image, rtol=1e-14)
    assert result.nonzeros_per_patch == 0.0
    assert result.relative_gap == 0.0


def test_integers_have_the_noise_of_their_unit(noisy):
    pixels = np.clip(255.0 * noisy[1], 0.0, 255.0).round().astype(np.uint8)
    sentence = (
        r"noise_level must be at least 0.29, the error of rounding, for integers; got 0.1, and image has "
        r"integers from \d+ to \d+: pass as_pixels\(image\), or noise_level in that unit$"
    )
    with pytest.raises(ValueError, match=sentence):
        denoise(pixels, DCT, patch_size=4, noise_level=0.1)
    as_integers = denoise(pixels, DCT, patch_size=4, noise_level=25.0)
    as_floats = denoise(as_pixels(pixels), DCT, patch_size=4, noise_level=NOISE)
    np.testing.assert_allclose(as_integers.image / 255.0, as_floats.image, rtol=1e-9)


def test_a_level_in_another_unit_that_leaves_no_atom_is_said(noisy):
    with pytest.warns(
        IllPosedWarning,
        match=r"no patch has an atom.*: noise_level is 25, and image has values from .*; both must be in one",
    ):
        denoise(noisy[1], DCT, patch_size=4, noise_level=25)
    with pytest.warns(IllPosedWarning, match="no patch has an atom.*: penalty is 50, and image"):
        denoise(noisy[1], DCT, patch_size=4, penalty=50.0)


def test_any_real_type_and_order(tmp_path, noisy):
    image = np.asfortranarray(noisy[1][:12, :13], dtype=np.float32)
    dictionary = np.asfortranarray(DCT)
    expected = denoise(image.astype(float), DCT, patch_size=4, noise_level=NOISE).image
    np.save(tmp_path / "image.npy", image)
    mapped = np.load(tmp_path / "image.npy", mmap_mode="r")
    for array in (image, dictionary):
        array.flags.writeable = False
    for other in (image, mapped):
        ours = denoise(other, dictionary, patch_size=4, noise_level=NOISE).image
        np.testing.assert_array_equal(ours, expected)


IMAGE = np.zeros((10, 12))


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"image": IMAGE[0], "dictionary": np.eye(14), "patch_size": 14}, ValueError, r"must fit into the image, \(1, 12\)"),
        ({"image": np.zeros((10, 12, 3))}, ValueError, r"image must be 2-D, \(height, width\), or 1-D; got shape \(10, 12, 3\): one call for each channel$"),
        ({"image": IMAGE + np.nan}, ValueError, "image must be finite"),
        ({"dictionary": DCT[:, :15]}, ValueError, "16 features, one a pixel, or 32, two channels; got 15"),
        ({"dictionary": np.hstack([DCT, DCT])}, ValueError, "dictionary of two channels must not be negative"),
        ({"dictionary": DCT * 0.0}, ValueError, "dictionary must have an atom of positive norm"),
        ({"patch_size": 11}, ValueError, "patch_size must fit into the image"),
        ({"stride": 4}, ValueError, "every pixel; patches of 4 at stride 4 leave out row 8 of 10"),
        ({"noise_level": 0.0}, ValueError, "noise_level must be positive; got 0.0"),
        ({"noise_level": None}, ValueError, "noise_level or penalty must be given, and not both; got neither"),
        ({"penalty": 1.0}, ValueError, "noise_level or penalty must be given, and not both; got both"),
        ({"noise_level": None, "penalty": -1.0}, ValueError, "penalty must be positive; got -1.0"),
        ({"noise_level": None, "penalty": [1.0]}, ValueError, r"penalty must have shape \(16,\)"),
        ({"project": 1}, TypeError, "project must be True or False"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"progress": "yes"}, TypeError, "progress must be True or False"),
    ],
)  # fmt: skip
def test_nonsense_is_named(changed, error, sentence):
    arguments = {"image": IMAGE, "dictionary": DCT, "patch_size": 4, "noise_level": 0.1, **changed}
    with pytest.raises(error, match=sentence):
        denoise(arguments.pop("image"), arguments.pop("dictionary"), **arguments)


def test_projection_on_dependent_atoms_is_on_their_span():
    """Two channel atoms that join to multiples of one vector, and one that joins to nothing."""
    from dictlearn.images.denoising import _approximations
    from solvers import LassoProblem

    atoms = np.zeros((3, 8))
    atoms[0, 0] = 1.0
    atoms[1, [0, 1, 5]] = 0.6, 0.5, 0.5
    atoms[2, [2, 6]] = 1.0
    patch = np.array([[1.0, 2.0, 3.0, 4.0]])
    problem = LassoProblem(atoms, np.hstack([patch, np.zeros((1, 4))]), 0.1, positive=True)
    projected = _approximations(patch, problem, np.ones((1, 3)), True)
    np.testing.assert_allclose(projected, [[1.0, 0.0, 0.0, 0.0]], atol=1e-12)
