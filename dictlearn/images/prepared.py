"""Images and signals of any size as signals of convolutional dictionaries, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.images.patches import as_size
from dictlearn.images.pixels import as_pixels, is_signal
from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import size, value_range
from solvers import ConvolutionalDictionary
from solvers.problem.grid_sizes import require_room, valid_shape

BOUNDARIES = ("symmetric", "crop")
BACKGROUNDS = ("smooth", "mean", "none")
# What an image has beside its background is rounding below this share of its largest value.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PreparedImage(Drawn):
    """An image as the signal of a convolutional dictionary, and the way back.

    A signal of one dimension is an image of one row in all attributes; `restore` drops the row.

    Attributes
    ----------
    signal : ndarray, shape (1, n_features)
        What `LassoProblem` takes: the image without its background, padded or cropped.
    background : ndarray, shape of the image
        What was subtracted from the image.
    kernel_size : (int, int)
        (height, width) of the kernels that it was prepared for.
    stride : int
        Their stride.
    prepared_shape : (int, int)
        (rows, columns) of the signal as an image, padded or cropped: those of the dictionary.
    corner : (int, int)
        Where the upper left pixel of the image is in that; negative where the image was cropped.
    is_signal : bool, default False
        Whether it came as a signal of one dimension.
    """

    signal: np.ndarray
    background: np.ndarray
    kernel_size: tuple[int, int]
    stride: int
    prepared_shape: tuple[int, int]
    corner: tuple[int, int]
    is_signal: bool = False

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

    @property
    def detail(self) -> np.ndarray:
        """The signal as an image, padded or cropped: shape (rows, columns[, channels])."""
        return self.signal.reshape(*self.prepared_shape, *self.background.shape[2:])

    def _facts(self) -> dict[str, str]:
        # A signal is one row.
        first = 1 if self.is_signal else 0
        return {
            "signal as it came" if self.is_signal else "image": size(self.background.shape[first:]),
            "signal": size(self.detail.shape[first:]),
            "kernels": f"{size(self.kernel_size[first:])}, stride {self.stride}",
            "background": value_range(self.background),
        }

    def dictionary(self, kernels: ArrayLike) -> ConvolutionalDictionary:
        """Return the dictionary of some kernels at the places of this image.

        Parameters
        ----------
        kernels : array_like, shape (n_kernels, height, width[, channels])
            For a signal, (n_kernels, length[, channels]).

        Raises
        ------
        TypeError, ValueError
            If they are of the wrong kind, or the image was prepared for others.
        """
        channels = self.background.shape[2:]
        size, meaning = self.kernel_size[self.is_signal :], "length" if self.is_signal else "height, width"
        kernels = checks.real_array(
            "kernels",
            kernels,
            shape=(None, *size, *channels),
            meaning=f"(n_kernels, {meaning}" + (", n_channels)" if channels else ")"),
        )
        shape = self.prepared_shape[1] if self.is_signal else self.prepared_shape
        return ConvolutionalDictionary(kernels, shape, self.stride)

    def restore(self, signal: ArrayLike) -> np.ndarray:
        """Return the image of a signal: padding is cut off, and the background added.

        Pixels that were cropped have the background alone.

        Parameters
        ----------
        signal : array_like, shape (1, n_features), (n_features,) or that of `detail`
            As from `LassoProblem.reconstruct`.

        Raises
        ------
        TypeError, ValueError
            If it is of the wrong kind or shape.
        """
        detail = self.detail.shape
        shapes = (self.signal.shape, self.signal.shape[1:], detail)
        if np.shape(signal) not in shapes:
            raise ValueError(
                f"signal must have one of the shapes {', '.join(map(str, shapes))}; got shape "
                f"{np.shape(signal)}"
            )
        signal = checks.real_array("signal", signal, shape=np.shape(signal))
        image = np.array(self.background)
        in_image, in_signal = self._shared
        image[in_image] += signal.reshape(detail)[in_signal]
        return image[0] if self.is_signal else image

    @property
    def _shared(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Where the pixels are that are in the image and in the signal, in the one and in the other."""
        in_image, in_signal = [], []
        for whole, part, corner in zip(self.background.shape, self.prepared_shape, self.corner, strict=False):
            first, last = max(0, -corner), min(whole, part - corner)
            in_image.append(slice(first, last))
            in_signal.append(slice(first + corner, last + corner))
        return tuple(in_image), tuple(in_signal)


def prepare_image(
    image: ArrayLike,
    kernel_size: int | tuple[int, int],
    *,
    stride: int = 1,
    boundary: str = "symmetric",
    margin: int = 0,
    background: str = "smooth",
    smoothing: float | None = None,
    n_channels: int | None = None,
) -> PreparedImage:
    """Return an image, or a signal, of any size as the signal of a convolutional dictionary.

    The smooth part of the image, which kernels code badly, is subtracted, and the rest brought to a size
    that the grid of positions covers.  `PreparedImage.restore` undoes both.

    Parameters
    ----------
    image : array_like, shape (height, width), (height, width, 1), (height, width, 3) or (length,)
        Grey or colour, integers of 8 and 16 bits are scaled; or a signal; see `as_pixels`.
    kernel_size : int or (int, int)
        Side of square kernels, or (height, width), in pixels; of a signal, their length.
    stride : int, default 1
        Distance between neighbouring positions, in pixels.
    boundary : {"symmetric", "crop"}, default "symmetric"
        How the image is brought to the size: padded by its mirror image, which has no edges that are not in
        the image, as zeros would make; or cropped, evenly at opposite sides.
    margin : int, default 0
        Pixels by which each side is padded, at least.  In the image as it is, fewer kernels cover a pixel the
        nearer it is to the edge; with a margin of a kernel's side less the stride, all are covered alike.
    background : {"smooth", "mean", "none"}, default "smooth"
        What is subtracted: the image blurred, its mean, or nothing; of each channel by itself.
    smoothing : float, optional
        Standard deviation of the Gaussian that blurs, in pixels; by default half the longer side of a kernel.
    n_channels : int, optional
        Channels, the last axis, if they are no colours: of an image, or of a signal, (length, n_channels).

    Returns
    -------
    PreparedImage

    Notes
    -----
    The size of the way back is exact to the pixel.  Its values are, to the last bit, with
    ``background="none"``; otherwise adding what was subtracted may round the last bit.
    """
    pixels = as_pixels(image, n_channels=n_channels)
    a_signal = is_signal(image, n_channels)
    size = as_size("kernel_size", kernel_size, 1 if a_signal else 2)
    stride = checks.positive_integer("stride", stride)
    boundary, margin = checked_boundary(boundary, margin)
    background, smoothing = checked_background(background, smoothing, size)
    require_room(pixels.shape[:2], size)

    below = background_of(pixels, background, smoothing)
    detail = pixels - below
    rows, columns = pixels.shape[:2]
    padded = (rows if a_signal else rows + 2 * margin, columns + 2 * margin)
    shape = valid_shape(padded, size, stride, pad=boundary != "crop")
    # Of an odd number of pixels the one more is at the end.
    before = [
        (new - old) // 2 if new >= old else -((old - new) // 2)
        for new, old in zip(shape, (rows, columns), strict=True)
    ]
    if boundary == "crop":
        top, left = -before[0], -before[1]
        detail = detail[top : top + shape[0], left : left + shape[1]]
    else:
        pads = [(b, new - old - b) for b, new, old in zip(before, shape, (rows, columns), strict=True)]
        detail = np.pad(detail, pads + [(0, 0)] * (pixels.ndim - 2), mode="symmetric")
    return PreparedImage(
        signal=np.ascontiguousarray(detail).reshape(1, -1),
        background=below,
        kernel_size=size,
        stride=stride,
        prepared_shape=shape,
        corner=(before[0], before[1]),
        is_signal=a_signal,
    )


def checked_boundary(boundary: str, margin: int) -> tuple[str, int]:
    """Return how images are brought to a size, and their margin, checked."""
    boundary = checks.one_of("boundary", boundary, BOUNDARIES)
    margin = checks.integer("margin", margin)
    if margin < 0 or (margin > 0 and boundary == "crop"):
        raise ValueError(f"margin must not be negative, and zero for boundary='crop'; got {margin}")
    return boundary, margin


def checked_background(
    background: str, smoothing: float | None, kernel_size: tuple[int, int]
) -> tuple[str, float]:
    """Return the kind of the background and the width of its Gaussian, checked."""
    background = checks.one_of("background", background, BACKGROUNDS)
    if smoothing is None:
        return background, max(kernel_size) / 2
    if background != "smooth":
        raise ValueError(f"smoothing must come with background='smooth'; got {background!r}")
    return background, checks.positive_number("smoothing", smoothing)


def background_of(pixels: np.ndarray, kind: str, smoothing: float) -> np.ndarray:
    """Return what is subtracted from an image, of its shape."""
    if kind == "none":
        return np.zeros(pixels.shape)
    if kind == "mean":
        background = np.broadcast_to(pixels.mean(axis=(0, 1)), pixels.shape)
    else:
        # "reflect" is what NumPy calls "symmetric".
        widths = (smoothing, smoothing) + (0.0,) * (pixels.ndim - 2)
        from scipy.ndimage import gaussian_filter  # here, because it takes long to import

        background = gaussian_filter(pixels, widths, mode="reflect")
    is_all = np.abs(pixels - background).max() <= ROUNDING * np.abs(pixels).max()
    return (pixels if is_all else background).copy()
