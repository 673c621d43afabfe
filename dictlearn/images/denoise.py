"""Denoising: sparse codes of overlapping patches, averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from dictlearn.images.frame import as_size
from dictlearn.images.patches import (
    add_patches,
    as_plane,
    extract_patches,
    grid_shape,
    patch_counts,
)
from dictlearn.images.preprocessing import join_channels, remove_mean, split_channels
from snn.base import checks
from snn.base.caller_warnings import warn_caller, without_warnings
from snn.base.describe import Drawn, value_range
from snn.base.value import Value
from solvers import METHODS, LassoProblem, solve
from solvers.problem.messages import IllPosedWarning, warn_if_ill_posed

# Values of codes held together: 8 MB, and a few times that for what finds them.
CODES_PER_TILE = 2**20
# Standard deviation of what rounding to integers adds: no noise in an image of integers is smaller.
ROUNDING = 1.0 / math.sqrt(12.0)

# Share of the largest singular value or pivot below which atoms count as dependent.
DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DenoisingResult(Value, Drawn):
    """A denoised image, and how it was made.

    Attributes
    ----------
    image : ndarray, shape (height, width) or (length,)
        Not clipped to any range.
    penalty : ndarray, shape (n_atoms,)
        lambda of each atom.
    n_patches : int
    nonzeros_per_patch : float
        Mean number of atoms in the code of a patch.
    relative_gap : float
        The largest duality gap of all codes, as a share of 1/2 ||patch||^2.
    """

    image: np.ndarray
    penalty: np.ndarray
    n_patches: int
    nonzeros_per_patch: float
    relative_gap: float


def denoise(
    image: ArrayLike,
    dictionary: ArrayLike,
    *,
    patch_size: int | tuple[int, int],
    noise_level: float | None = None,
    penalty: float | ArrayLike | None = None,
    stride: int = 1,
    n_jobs: int | None = None,
    progress: bool = False,
) -> DenoisingResult:
    """Remove noise from an image, or a signal, by sparse coding of its overlapping patches.

    Every patch, without its mean, is coded by the active-set method from spikes.  Its orthogonal projection
    on the atoms in its code and its mean are put back, and averaged where patches overlap.

    By default the penalty of an atom is a value that noise alone seldom reaches in any of n_atoms: with z
    a patch of pure noise as it is coded, a signal or two channels::

        lambda_i = E[d_i.z] + sqrt(2 log n_atoms) sd[d_i.z]

    For signed atoms that is ``sqrt(2 log n_atoms) * noise_level * ||d_i||``.

    Parameters
    ----------
    image : array_like, shape (height, width) or (length,)
        One channel.
    dictionary : array_like, shape (n_atoms, n_pixels) or (n_atoms, 2 * n_pixels)
        Atoms, one a row: signed, for codes of either sign; or of two channels as `split_channels` makes
        them, not negative, for codes that are not negative either.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels; n_pixels is their product.  Of a signal, the
        length of a window.
    noise_level : float, optional
        Standard deviation of the noise, in units of the image: 25 of 255 is 0.1 of an image from 0 to 1.
    penalty : float or array_like, shape (n_atoms,), optional
        lambda, in place of `noise_level`.
    stride : int, default 1
        Distance between neighbouring patches, in pixels.
    n_jobs : int, optional
        As for `solvers.solve`.
    progress : bool, default False
        Whether to show a progress bar, in patches.

    Warns
    -----
    IllPosedWarning
        If no patch has an atom in its code, and the image is not flat; of the dictionary as `LassoProblem`.
    sklearn.exceptions.ConvergenceWarning
        As `solvers.solve`.

    References
    ----------
    Elad and Aharon (2006), IEEE Transactions on Image Processing 15: overlapping patches.  Donoho and
    Johnstone (1994), Biometrika 81: the threshold sqrt(2 log n).
    """
    is_signal, is_of_integers = np.ndim(image) == 1, np.asarray(image).dtype.kind in "iu"
    image, size = as_plane(image), as_size("patch_size", patch_size, is_signal=is_signal)
    stride = checks.positive_integer("stride", stride)
    counts = patch_counts(image.shape, size, stride)
    dictionary, in_channels = _checked_dictionary(dictionary, size[0] * size[1])
    silent = LassoProblem(dictionary, np.zeros((1, dictionary.shape[1])), 1.0)  # with its checks of atoms
    warn_if_ill_posed(silent)
    gram = silent.gram
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    n_atoms = len(dictionary)
    if (noise_level is None) == (penalty is None):
        given = "neither" if penalty is None else "both"
        raise ValueError(f"noise_level or penalty must be given, and not both; got {given}")
    if penalty is None:
        noise_level = checks.positive_number("noise_level", noise_level)
        if is_of_integers and noise_level < ROUNDING:
            raise ValueError(
                f"noise_level must be at least {ROUNDING:.2g}, the error of rounding, for integers; got "
                f"{noise_level}, and image has integers from {image.min():.0f} to {image.max():.0f}: pass "
                "as_pixels(image), or noise_level in that unit"
            )
        penalty = noise_level * _universal_threshold(dictionary, in_channels)
    penalty = checks.positive_array("penalty", penalty, n_atoms, meaning="one penalty an atom")

    rows, columns = grid_shape(image.shape, size, stride)
    total = np.zeros(image.shape)
    n_nonzeros = 0
    gap = 0.0
    side = max(1, math.isqrt(CODES_PER_TILE // n_atoms))
    with tqdm(total=rows * columns, desc="denoising", unit="patch", disable=not progress) as bar:
        for row, column in product(range(0, rows, side), range(0, columns, side)):
            tile = tuple(
                slice(first * stride, (min(first + side, n) - 1) * stride + part)
                for first, n, part in zip((row, column), (rows, columns), size, strict=True)
            )
            patches, means = remove_mean(extract_patches(image[tile], size, stride=stride))
            signals = split_channels(patches) if in_channels else patches
            problem = LassoProblem(dictionary, signals, penalty, positive=in_channels, gram=gram)
            with without_warnings(IllPosedWarning):  # a part of an image may have no detail
                result = solve(problem, METHODS["active_set_from_spikes"], tol=1e-3, n_jobs=n_jobs)
            add_patches(total[tile], _projections(patches, problem, result.codes) + means, size, stride)
            n_nonzeros += int(result.support_size.sum())
            gap = max(gap, float(result.relative_gap.max()))
            bar.update(len(patches))
    if not n_nonzeros and np.ptp(image) > 0.0:
        given = f"noise_level is {noise_level:.3g}" if noise_level else f"penalty is {value_range(penalty)}"
        warn_caller(
            f"no patch has an atom, and of each its mean is left: {given}, and image has values from "
            f"{image.min():.3g} to {image.max():.3g}; both must be in one unit",
            IllPosedWarning,
        )
    denoised = total / counts
    return DenoisingResult(
        image=denoised[0] if is_signal else denoised,
        penalty=penalty,
        n_patches=rows * columns,
        nonzeros_per_patch=n_nonzeros / (rows * columns),
        relative_gap=gap,
    )


def _checked_dictionary(value: ArrayLike, n_pixels: int) -> tuple[np.ndarray, bool]:
    """Return the dictionary, and whether its atoms have two channels."""
    dictionary = checks.real_array("dictionary", value, shape=(None, None), meaning="(n_atoms, n_features)")
    n_features = dictionary.shape[1]
    if n_features not in (n_pixels, 2 * n_pixels):
        raise ValueError(
            f"dictionary must have {n_pixels} features, one a pixel, or {2 * n_pixels}, two channels; "
            f"got {n_features}"
        )
    in_channels = n_features == 2 * n_pixels
    if in_channels and dictionary.min() < 0.0:
        raise ValueError(f"dictionary of two channels must not be negative; got {dictionary.min()}")
    return dictionary, in_channels


def _universal_threshold(dictionary: np.ndarray, in_channels: bool) -> np.ndarray:
    """Return the default penalty of each atom for noise of unit variance."""
    mean = np.zeros(len(dictionary))
    variance = np.einsum("ij,ij->i", dictionary, dictionary)
    if in_channels:
        # Of a pixel x, normal, the channels max(x, 0) and max(-x, 0) have the mean 1 / sqrt(2 pi) and
        # the mean square 1/2 each; their product is zero.
        both = dictionary[:, : dictionary.shape[1] // 2] + dictionary[:, dictionary.shape[1] // 2 :]
        mean = both.sum(axis=1) / math.sqrt(2.0 * math.pi)
        variance = 0.5 * variance - np.einsum("ij,ij->i", both, both) / (2.0 * math.pi)
    return mean + math.sqrt(2.0 * math.log(max(len(dictionary), 2))) * np.sqrt(variance)


def _projections(patches: np.ndarray, problem: LassoProblem, codes: np.ndarray) -> np.ndarray:
    """Return the projection of each patch on the atoms in its code."""
    # The codes times the atoms, which the penalty makes too small, were worse by 0.3 to 1.5 dB.
    # Least squares that keep the signs of the code gained nothing: 0.01 dB at most, DCT atoms.
    rows = problem.atoms.rows
    assert rows is not None
    atoms = join_channels(rows) if problem.is_positive else rows
    projections = np.zeros_like(patches)
    n_nonzeros = np.count_nonzero(codes, axis=1)
    for n in np.unique(n_nonzeros[n_nonzeros > 0]):
        alike = np.flatnonzero(n_nonzeros == n)
        for which in np.array_split(alike, math.ceil(len(alike) * n * patches.shape[1] / CODES_PER_TILE)):
            supports = np.nonzero(codes[which])[1].reshape(len(which), n)
            columns = atoms[supports].transpose(0, 2, 1)
            basis, triangle = np.linalg.qr(columns)
            pivots = np.abs(np.einsum("kii->ki", triangle))
            dependent = np.flatnonzero(pivots.min(axis=1) <= DEPENDENT * pivots.max(axis=1))
            if len(dependent):
                # A basis of their span alone: QR would make up the rest.
                left, values, _ = np.linalg.svd(columns[dependent], full_matrices=False)
                spans = values > DEPENDENT * values.max(axis=1, keepdims=True)
                basis[dependent] = left * spans[:, np.newaxis]
            there = patches[which][:, :, np.newaxis]
            projections[which] = (basis @ (basis.transpose(0, 2, 1) @ there))[:, :, 0]
    return projections
