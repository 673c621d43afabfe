"""The cosine dictionary against its closed forms, norms of atoms, and the mosaic of atoms."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.fft import dctn

from dictlearn import overcomplete_dct
from dictlearn.atoms import unit_norm
from dictlearn.pictures import plot_atoms

# An entry is a product of two waves, each a few roundings from exact.
ROUNDING = 1e-14


@pytest.mark.parametrize("patch_size", [1, 2, 8])
def test_complete_dictionary_is_the_orthonormal_dct(patch_size):
    n_pixels = patch_size**2
    dictionary = overcomplete_dct(patch_size, n_pixels)
    signal = np.random.default_rng(0).normal(size=(patch_size, patch_size))
    np.testing.assert_allclose(dictionary @ dictionary.T, np.eye(n_pixels), atol=ROUNDING)
    np.testing.assert_allclose(
        (dictionary @ signal.ravel()).reshape(signal.shape), dctn(signal, norm="ortho"), atol=1e-13
    )


@pytest.mark.parametrize(("patch_size", "n_atoms"), [(8, 256), (8, 81), ((4, 8), 64), ((5, 3), 100)])
def test_overcomplete_dictionary_is_a_frame_of_distinct_unit_atoms(patch_size, n_atoms):
    dictionary = overcomplete_dct(patch_size, n_atoms)
    height, width = patch_size if isinstance(patch_size, tuple) else (patch_size, patch_size)
    assert dictionary.shape == (n_atoms, height * width)
    np.testing.assert_allclose(np.linalg.norm(dictionary, axis=1), 1.0, atol=ROUNDING)
    np.testing.assert_allclose(dictionary[0], 1.0 / np.sqrt(height * width), atol=ROUNDING)
    np.testing.assert_allclose(dictionary[1:].sum(axis=1), 0.0, atol=ROUNDING)
    assert np.linalg.matrix_rank(dictionary) == height * width
    coherence = np.abs(dictionary @ dictionary.T - np.eye(n_atoms)).max()
    assert coherence < 1.0 - 1e-6


def test_one_wave_by_hand():
    # Three pixels, four waves; the phases of the second are 22.5, 67.5 and 112.5 degrees, those of the
    # third twice that: cos 45, cos 135, cos 225 = (1, -1, -1) / sqrt 2, less the mean (4, -2, -2) / sqrt 18.
    dictionary = overcomplete_dct(3, 16)
    third = np.array([2.0, -1.0, -1.0]) / np.sqrt(6.0)
    constant = np.full(3, np.sqrt(1.0 / 3.0))
    np.testing.assert_allclose(dictionary[2].reshape(3, 3), np.outer(constant, third), atol=ROUNDING)
    np.testing.assert_allclose(dictionary[10].reshape(3, 3), np.outer(third, third), atol=ROUNDING)


def test_mosaic_shows_each_atom_at_its_own_scale():
    dictionary = np.array([[1.0, -2.0], [0.0, 0.0], [3.0, 3.0]])
    ax = plot_atoms(dictionary, (1, 2), ax=Figure().subplots(), columns=2)
    shown = ax.images[0].get_array()
    nothing = np.nan
    expected = [
        [0.5, -1.0, nothing, 0.0, 0.0],
        [nothing] * 5,
        [1.0, 1.0, nothing, nothing, nothing],
    ]
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan), expected)


def test_mosaic_of_colour_has_grey_for_zero_and_white_between():
    dictionary = np.array([[1.0, -2.0, 0.0, 0.0, 0.0, 2.0], [0.0] * 6])
    shown = plot_atoms(dictionary, (1, 2), ax=Figure().subplots(), columns=2).images[0].get_array()
    expected = [[[0.75, 0.0, 0.5], [0.5, 0.5, 1.0], [1.0] * 3, [0.5] * 3, [0.5] * 3]]
    np.testing.assert_array_equal(shown, expected)


def test_mosaic_is_about_square_and_uses_the_current_axes():
    import matplotlib.pyplot as plt

    figure = plt.figure()
    try:
        ax = plot_atoms(overcomplete_dct(8, 256), 8)
        assert ax is plt.gca()
        assert ax.images[0].get_array().shape == (16 * 9 - 1, 16 * 9 - 1)
    finally:
        plt.close(figure)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: overcomplete_dct(8, 255), ValueError, "n_atoms must be a perfect square; got 255"),
        (lambda: overcomplete_dct(8, 49), ValueError, "n_atoms must be at least 64"),
        (lambda: overcomplete_dct((4, 8), 36), ValueError, "n_atoms must be at least 64"),
        (lambda: overcomplete_dct(8, 256.0), TypeError, "n_atoms must be an integer; got float"),
        (lambda: overcomplete_dct(0, 4), ValueError, "patch_size must be positive; got 0"),
        (lambda: overcomplete_dct("8", 4), TypeError, "patch_size must be an integer; got str"),
        (lambda: overcomplete_dct((1, 2), 4), ValueError, r"sides of at least 2 for 4 different"),
        (lambda: overcomplete_dct((2, 3), 16), ValueError, r"at least 3 for 16 different .* got \(2, 3\)"),
        (
            lambda: plot_atoms(np.ones((3, 64)), 7),
            ValueError,
            "patch_size 7 needs atoms of 49 numbers, or 147 in colour; these have 64",
        ),
        (lambda: plot_atoms(np.ones(4), 2), ValueError, "dictionary must be 2-D"),
        (lambda: plot_atoms(np.ones((3, 4)), 2, columns=0), ValueError, "columns must be positive; got 0"),
        (lambda: plot_atoms([["a"] * 4], 2), TypeError, "dictionary must be an array of real numbers"),
    ],
)
def test_nonsense_is_named(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


@pytest.mark.parametrize("scale", [1.0, 2.0**-1000, 2.0**1000])
def test_atoms_are_scaled_to_unit_norm_wherever_they_are_in_the_range_of_floats(scale):
    """To the bit what plain division makes of them; zeros stay zeros."""
    atoms = np.random.default_rng(0).normal(size=(5, 7))
    expected = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    atoms[2], expected[2] = 0.0, 0.0
    np.testing.assert_array_equal(unit_norm(scale * atoms), expected)
