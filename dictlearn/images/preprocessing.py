"""Preprocessing of images and patches: means, norms, channels, whitening."""

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import scaled_by_power_of_two, unit_rows
from snn._interrupts import float_errors
from snn.base import checks

# A filtered image is only rounding errors if its standard deviation is at most this share of the original's.
FILTER_ROUNDING = 1e-12


def remove_mean(patches: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the patches without their means, and the means, shape (n_patches, 1).

    Parameters
    ----------
    patches : array_like, shape (n_patches, n_pixels)
    """
    patches = checks.real_array("patches", patches, shape=(None, None), meaning="(n_patches, n_pixels)")
    means = patches.mean(axis=1, keepdims=True)
    return patches - means, means


def normalise(patches: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the patches scaled to unit Euclidean norm, and their norms, shape (n_patches, 1).

    A patch of zeros stays as it is.

    Parameters
    ----------
    patches : array_like, shape (n_patches, n_pixels)
    """
    patches = checks.real_array("patches", patches, shape=(None, None), meaning="(n_patches, n_pixels)")
    normalised, norms, exponents = unit_rows(patches)
    with float_errors(over="ignore"):
        norms = np.ldexp(norms, exponents)
    if not np.isfinite(norms).all():
        first = int(np.argmin(np.isfinite(norms)))
        raise ValueError(
            f"patches must have norms of at most {np.finfo(float).max:.2g}; got more for patch {first}"
        )
    return normalised, norms


def split_channels(signals: ArrayLike) -> np.ndarray:
    """Return the positive and the negative part of each signal, ``[max(x, 0), max(-x, 0)]``.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_features)
    """
    signals = checks.real_array("signals", signals, shape=(None, None), meaning="(n_signals, n_features)")
    # np.maximum may keep the sign of a zero; np.where does not.
    return np.hstack([np.where(signals > 0.0, signals, 0.0), np.where(signals < 0.0, -signals, 0.0)])


def join_channels(split: ArrayLike) -> np.ndarray:
    """Return the positive channel minus the negative channel, the inverse of `split_channels`.

    Parameters
    ----------
    split : array_like, shape (n_signals, 2 * n_features)
        Signals or atoms, one in each row; both channels of a feature may be nonzero.
    """
    split = checks.real_array("split", split, shape=(None, None), meaning="(n_signals, 2 * n_features)")
    if split.shape[1] % 2:
        raise ValueError(
            f"split must have an even number of columns, two for each feature; got {split.shape[1]}"
        )
    n_features = split.shape[1] // 2
    return split[:, :n_features] - split[:, n_features:]


def whiten(image: ArrayLike, *, cutoff: float = 0.4) -> np.ndarray:
    """Flatten the spectrum of a natural scene, and remove its highest frequencies.

    The image without its mean is filtered with the amplitude R(f), in which f is the distance from the origin
    of the frequency plane, and scaled to unit variance::

        R(f) = f exp(-(f / cutoff)^4)

    Parameters
    ----------
    image : array_like, shape (height, width)
        One channel of an image.
    cutoff : float, default 0.4
        Cutoff frequency in cycles per pixel; along each side of an image, frequencies are at most 1/2.

    Notes
    -----
    The Fourier transform treats the image as periodic.  If opposite edges differ, the result has a seam.

    References
    ----------
    Olshausen and Field (1997), Vision Research 37, 3311-3325.  The authors filter pictures of 512 x 512
    pixels with a cutoff at 200 cycles per picture.
    """
    image = checks.real_array("image", image, shape=(None, None), meaning="(height, width)")
    cutoff = checks.positive_number("cutoff", cutoff)
    scaled, _ = scaled_by_power_of_two(image, axis=None)
    # The difference of two similar numbers is exact, so subtract the minimum first, and then the mean.
    centred = scaled - scaled.min()
    if not centred.any():
        raise ValueError(f"image must not be constant; got {image.flat[0]} everywhere")
    centred /= centred.max()
    centred -= centred.mean()
    height, width = image.shape
    frequency = np.hypot(np.fft.fftfreq(height)[:, np.newaxis], np.fft.rfftfreq(width))
    with float_errors(over="ignore", under="ignore"):
        amplitude = frequency * np.exp(-((frequency / cutoff) ** 4))
    filtered = np.fft.irfft2(np.fft.rfft2(centred) * amplitude, image.shape)
    deviation = filtered.std()
    if not deviation > FILTER_ROUNDING * centred.std():
        raise ValueError(
            f"image must vary at frequencies up to cutoff={cutoff:g}; got none: choose a larger cutoff"
        )
    return (filtered - filtered.mean()) / deviation
