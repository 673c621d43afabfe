"""Denoising by sparse codes of overlapping patches, which are averaged."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from dictlearn.images.frame import as_size
from dictlearn.images.patches import add_patches, as_plane, patch_counts, windows_of
from dictlearn.images.preprocessing import remove_mean
from snn.base import checks
from snn.base.describe import Drawn, value_range
from snn.base.value import Value
from solvers import METHODS, LassoProblem, plan, solve
from solvers.problem.messages import IllPosedWarning, warn_if_ill_posed

# Standard deviation of the error of rounding to integers, which is the least noise of an image of integers.
INTEGER_NOISE = 1.0 / math.sqrt(12.0)
# Noise below this share of the range of an image is not visible (0.25 in an image from 0 to 255).
LEAST_NOISE = 1e-3
# Least singular value or pivot of independent atoms, as a share of the largest one.
DEPENDENT_SHARE = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DenoisingResult(Value, Drawn):
    """A denoised image, and statistics of the codes of its patches.

    Attributes
    ----------
    image : ndarray, shape (height, width) or (length,)
        The denoised image, which is not clipped to any range.
    penalty : ndarray, shape (n_atoms,)
        The penalty lambda of each atom.
    n_patches : int
        Number of patches.
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

    The method "active_set_from_spikes" codes every patch without its mean.  The patch is replaced by its
    orthogonal projection on the atoms in its code, plus its mean; overlapping patches are averaged.

    By default the penalty of atom d_i is ``sqrt(2 log n_atoms) * noise_level * ||d_i||``, because the
    correlation of pure noise with any of the n_atoms atoms is seldom larger.

    Parameters
    ----------
    image : array_like, shape (height, width) or (length,)
        One channel of an image, or a signal.
    dictionary : array_like, shape (n_atoms, n_pixels)
        Atoms, one per row, for codes of either sign; apply `join_channels` to atoms of two channels.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels; n_pixels is height times width.  For a signal,
        the length of a window.
    noise_level : float, optional
        Standard deviation of the noise, in units of the image.  For example, a standard deviation of 25 in an
        image from 0 to 255 is about 0.1 in an image from 0 to 1.  If all values are integers, of any dtype,
        the noise level is at least 0.29.
    penalty : float or array_like, shape (n_atoms,), optional
        The penalty lambda, in place of `noise_level`.
    stride : int, default 1
        Distance between neighbouring patches, in pixels.
    n_jobs : int, optional
        See `solvers.solve`.
    progress : bool, default False
        Whether to show a progress bar that counts patches.

    Warns
    -----
    IllPosedWarning
        If all codes are zero although the image is not flat; if `noise_level` is below 0.1 % of the range of
        the image; or if `LassoProblem` would warn of the dictionary.
    sklearn.exceptions.ConvergenceWarning
        See `solvers.solve`.

    References
    ----------
    Overlapping patches: Elad and Aharon (2006), IEEE Transactions on Image Processing 15.  The threshold
    sqrt(2 log n): Donoho and Johnstone (1994), Biometrika 81.
    """
    is_signal, image = np.ndim(image) == 1, as_plane(image)
    size = as_size("patch_size", patch_size, is_signal=is_signal)
    stride = checks.positive_integer("stride", stride)
    counts = patch_counts(image.shape, size, stride)
    n_pixels = size[0] * size[1]
    dictionary = checks.real_array(
        "dictionary", dictionary, shape=(None, n_pixels), meaning="one column a pixel"
    )
    silent = LassoProblem(dictionary, np.zeros((1, n_pixels)), 1.0)  # `LassoProblem` checks atoms
    warn_if_ill_posed(silent)
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    penalty = _penalty_of(image, dictionary, noise_level, penalty)

    total = np.zeros(image.shape)
    noisy, windows = windows_of(image, size, stride), windows_of(total, size, stride)
    rows, columns = windows.shape[:2]
    n_nonzeros = 0
    gap = 0.0
    n_rows = max(1, plan.COSTS.codes_held // (len(dictionary) * columns))
    with tqdm(total=rows * columns, desc="denoising", unit="patch", disable=not progress) as bar:
        for row in range(0, rows, n_rows):
            block = slice(row, row + n_rows)
            patches, means = remove_mean(noisy[block].reshape(-1, n_pixels))
            problem = LassoProblem(dictionary, patches, penalty, gram=silent.gram)
            with checks.without_warnings(IllPosedWarning):  # a single block may have no detail
                result = solve(problem, METHODS["active_set_from_spikes"], tol=1e-3, n_jobs=n_jobs)
            add_patches(windows[block], _projections(patches, dictionary, result.codes) + means)
            n_nonzeros += int(result.support_size.sum())
            gap = max(gap, float(result.relative_gap.max()))
            bar.update(len(patches))
    _warn_of_units(image, noise_level, penalty, n_nonzeros)
    denoised = total / counts
    return DenoisingResult(
        image=denoised[0] if is_signal else denoised,
        penalty=penalty,
        n_patches=rows * columns,
        nonzeros_per_patch=n_nonzeros / (rows * columns),
        relative_gap=gap,
    )


def _penalty_of(image: np.ndarray, dictionary: np.ndarray, noise_level: Any, penalty: Any) -> np.ndarray:
    """Check arguments; return the penalty of each atom, from the noise level or from the caller."""
    if (noise_level is None) == (penalty is None):
        got = "neither" if penalty is None else "both"
        raise ValueError(f"noise_level or penalty must be given, and not both; got {got}")
    if penalty is None:
        noise_level = checks.positive_number("noise_level", noise_level)
        # An image of integers may have any dtype.  If an image has only zeros and ones, its unit is unknown.
        is_of_integers = np.ptp(image) > 1.0 and bool((image == np.rint(image)).all())
        if is_of_integers and noise_level < INTEGER_NOISE:
            raise ValueError(
                f"noise_level must be at least {INTEGER_NOISE:.2g}, the error of rounding, for integers; "
                f"got {noise_level}, and image has integers from {image.min():.0f} to {image.max():.0f}: "
                "pass as_pixels(image), or noise_level in that unit"
            )
        threshold = math.sqrt(2.0 * math.log(max(len(dictionary), 2)))
        penalty = noise_level * threshold * np.linalg.norm(dictionary, axis=1)
    return checks.positive_array("penalty", penalty, len(dictionary))


def _warn_of_units(
    image: np.ndarray, noise_level: float | None, penalty: np.ndarray, n_nonzeros: int
) -> None:
    """Warn if image and noise level, or penalty, seem to be in different units."""
    is_tiny = noise_level is not None and noise_level < LEAST_NOISE * np.ptp(image)
    if (not n_nonzeros and np.ptp(image) > 0.0) or is_tiny:
        outcome = (
            "the image keeps its noise" if is_tiny else "all codes are zero, so that only means are left"
        )
        level = f"noise_level is {noise_level:.3g}" if noise_level else f"penalty is {value_range(penalty)}"
        checks.warn_caller(
            f"{outcome}: {level}, and image has values from {image.min():.3g} to {image.max():.3g}: give "
            "both in one unit",
            IllPosedWarning,
        )


def _projections(patches: np.ndarray, atoms: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the orthogonal projection of each patch on the atoms in its code."""
    # Codes times atoms are worse by 0.3 to 1.5 dB, because the penalty makes them too small.  Least squares
    # with the signs of the code fixed gained at most 0.01 dB (DCT atoms).
    projections = np.zeros_like(patches)
    n_nonzeros = np.count_nonzero(codes, axis=1)
    for n in np.unique(n_nonzeros[n_nonzeros > 0]):
        alike = np.flatnonzero(n_nonzeros == n)
        n_parts = math.ceil(len(alike) * n * patches.shape[1] / plan.COSTS.codes_held)
        for rows in np.array_split(alike, n_parts):
            supports = np.nonzero(codes[rows])[1].reshape(len(rows), n)
            columns = atoms[supports].transpose(0, 2, 1)
            basis, triangle = np.linalg.qr(columns)
            pivots = np.abs(np.einsum("kii->ki", triangle))
            dependent = np.flatnonzero(pivots.min(axis=1) <= DEPENDENT_SHARE * pivots.max(axis=1))
            if len(dependent):
                # Use a basis of the span of dependent atoms, because QR would add arbitrary directions.
                left, values, _ = np.linalg.svd(columns[dependent], full_matrices=False)
                spans = values > DEPENDENT_SHARE * values.max(axis=1, keepdims=True)
                basis[dependent] = left * spans[:, np.newaxis]
            signals = patches[rows][:, :, np.newaxis]
            projections[rows] = (basis @ (basis.transpose(0, 2, 1) @ signals))[:, :, 0]
    return projections
