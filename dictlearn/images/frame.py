"""Images and signals of one dimension as planes of floats, as signals of dictionaries, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Drawn, size, value_range
from snn.base.value import Value
from solvers import ConvolutionalDictionary, LassoProblem, SparseCodingResult
from solvers.problem.convolution import require_room, valid_shape

# Integers of these types are brightness from 0 to the largest of the type.
BRIGHTNESS = (np.uint8, np.uint16)
# The last axis of an array may be channels if it is no longer than this.
MOST_CHANNELS = 4
BOUNDARIES = ("symmetric", "crop")
BACKGROUNDS = ("smooth", "mean", "none")
# Detail below this share of the largest value of an image is rounding.
ROUNDING = 1e-13


class Frame(NamedTuple):
    """The form of images or signals, of which planes (height, width[, channels]) are made."""

    is_signal: bool
    n_channels: int | None
    channels: tuple[int, ...]

    def __str__(self) -> str:
        what = "signals of one dimension" if self.is_signal else "images"
        return what + (f" with {self.channels[0]} channels" if self.channels else ", one channel")

    def size(self, name: str, value: Any) -> tuple[int, int]:
        """Return a side or a length as (height, width)."""
        return as_size(name, value, is_signal=self.is_signal)

    def kernels(
        self, name: str, value: ArrayLike, n_kernels: int | None, size: tuple[int, int]
    ) -> np.ndarray:
        """Return kernels of this form, checked, as kernels of planes."""
        sides = "length" if self.is_signal else "height, width"
        kernels = checks.real_array(
            name,
            value,
            shape=(n_kernels, *size[self.is_signal :], *self.channels),
            meaning=f"(n_kernels, {sides}" + (", n_channels)" if self.channels else ")"),
        )
        return kernels.reshape(-1, *size, *self.channels)

    def without_row(self, plane: np.ndarray, axis: int = 0) -> np.ndarray:
        """Return planes in this form: the row of a signal is dropped."""
        return plane.take(0, axis) if self.is_signal else plane


def frame_of(images: Any, n_channels: int | None = None) -> tuple[Frame, list[np.ndarray]]:
    """Return the form of images or signals, and their planes; see `as_pixels`."""
    if n_channels is not None:
        n_channels = checks.positive_integer("n_channels", n_channels)
    if not isinstance(images, (np.ndarray, list, tuple)):
        raise TypeError(f"images must be a list of images, or an array of them; got {type(images).__name__}")
    if isinstance(images, np.ndarray):
        if images.ndim == 0:
            raise ValueError("images must be a list of images or signals, or an array of them; got a number")
        if is_signal(images, n_channels):
            images = [images]
        elif images.ndim == 3 and images.shape[2] <= MOST_CHANNELS:
            others = "grey images" if n_channels is None else "signals"
            raise ValueError(
                f"images must be a list where an array may be one colour image or several {others}; got "
                f"shape {images.shape}: for one colour image pass [image], for {others} list(images)"
            )
    if not len(images):
        raise ValueError("images must not be empty; got none")
    kinds = {is_signal(image, n_channels) for image in images}
    if len(kinds) > 1:
        raise ValueError("images must all be images, or all signals of one dimension; got both")
    planes = [as_pixels(image, n_channels=n_channels, name=f"images[{k}]") for k, image in enumerate(images)]
    for k, plane in enumerate(planes):
        if plane.shape[2:] != planes[0].shape[2:]:
            raise ValueError(
                f"images must have the same number of channels; got shape {planes[0].shape} for images[0] "
                f"and {plane.shape} for images[{k}]"
            )
    return Frame(kinds.pop(), n_channels, planes[0].shape[2:]), planes


def is_signal(image: ArrayLike, n_channels: int | None) -> bool:
    """Return whether an array has the dimensions of a signal."""
    return np.ndim(image) == (1 if n_channels is None else 2)


def as_pixels(image: ArrayLike, *, n_channels: int | None = None, name: str = "image") -> np.ndarray:
    """Return an image as floats, and a signal of one dimension as an image of one row.

    Integers of 8 and 16 bits in an image are divided by the largest of their type, 255 and 65,535, so that
    they lie between 0 and 1; True is 1 and False 0.  Floats, and the numbers of a signal, stay what they
    are, in any unit.

    Parameters
    ----------
    image : array_like, shape (height, width), (height, width, 1), (height, width, 3) or (length,)
        Grey or colour, or a signal.
    n_channels : int, optional
        Length of the last axis, whatever its channels are: the image is (height, width, n_channels), or a
        signal (length, n_channels).  Without it an image has 1 or 3.
    name : str, default "image"
        Its name in messages.

    Returns
    -------
    ndarray, shape (height, width[, channels])
        For a signal, (1, length[, n_channels]).
    """
    if np.ma.is_masked(image):
        raise TypeError(
            f"{name} must not have masked entries; got {int(np.ma.count_masked(image))} of them: fill in "
            "missing pixels first (image.filled(...))"
        )
    pixels = np.asarray(image)
    if is_signal(pixels, n_channels):
        channels = () if n_channels is None else (n_channels,)
        meaning = "(length, n_channels)" if channels else "(length,)"
        return checks.real_array(name, pixels, shape=(None, *channels), meaning=meaning)[np.newaxis]
    if pixels.dtype.kind in "iu" and pixels.dtype.type not in BRIGHTNESS:
        raise TypeError(
            f"{name} must have dtype uint8, uint16, bool or float; got {pixels.dtype}: divide it by "
            "the value of white"
        )
    _require_channels(pixels, n_channels, name)
    if pixels.dtype.kind == "f" and np.isnan(pixels).any():
        first = tuple(map(int, np.argwhere(np.isnan(pixels))[0]))
        raise ValueError(f"{name} must be finite; got nan at {first}: fill in missing pixels first")
    white = float(np.iinfo(pixels.dtype).max) if pixels.dtype.type in BRIGHTNESS else 1.0
    shape = (None,) * pixels.ndim
    return checks.real_array(name, pixels, shape=shape, meaning="(height, width[, channels])") / white


def as_size(name: str, value: Any, *, is_signal: bool = False) -> tuple[int, int]:
    """Return the side of a square, (height, width), or the length of a signal, as (height, width)."""
    if is_signal:
        return 1, checks.positive_integer(name, value)
    if isinstance(value, (tuple, list)):
        return checks.integer_pair(name, value)
    side = checks.positive_integer(name, value)
    return side, side


def _require_channels(pixels: np.ndarray, n_channels: int | None, name: str) -> None:
    """Raise ValueError unless an image has the channels that are asked for, or that images have."""
    if n_channels is not None:
        if pixels.ndim != 3 or pixels.shape[2] != n_channels:
            raise ValueError(
                f"{name} must have shape (height, width, {n_channels}) or (length, {n_channels}); got shape "
                f"{pixels.shape}"
            )
    elif pixels.ndim not in (2, 3):
        raise ValueError(
            f"{name} must be 1-D (length,), 2-D (height, width) or 3-D (height, width, channels); got shape "
            f"{pixels.shape}"
        )
    elif pixels.ndim == 3 and pixels.shape[2] not in (1, 3):
        channels = pixels.shape[2]
        remedy = f"for other channels pass n_channels={channels}"
        if channels in (2, 4):
            remedy = f"drop an alpha channel by image[..., :{channels - 1}], or pass n_channels={channels}"
        elif pixels.shape[0] in (1, 3):
            remedy = "move channels to the end by np.moveaxis(image, 0, -1)"
        raise ValueError(f"{name} must have 1 or 3 channels, last; got shape {pixels.shape}: {remedy}")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PreparedImage(Value, Drawn):
    """An image as the signal of a convolutional dictionary, and the way back.

    A signal of one dimension is an image of one row in all attributes; `restore` drops the row.

    Attributes
    ----------
    signal : ndarray, shape (1, n_features)
        The image without its background, padded or cropped, as `LassoProblem` takes it.
    background : ndarray, shape of the image
        The part that was subtracted from the image.
    kernel_size : (int, int)
        (height, width) of the kernels that it was prepared for.
    stride : int
        Their stride.
    prepared_shape : (int, int)
        (rows, columns) of the signal as an image, padded or cropped.
    corner : (int, int)
        Position of the upper left pixel of the image in that; negative where the image was cropped.
    frame : Frame
        Dimensions and channels of the image as it came.
    """

    signal: np.ndarray
    background: np.ndarray
    kernel_size: tuple[int, int]
    stride: int
    prepared_shape: tuple[int, int]
    corner: tuple[int, int]
    frame: Frame

    @property
    def detail(self) -> np.ndarray:
        """The signal as an image, padded or cropped: shape (rows, columns[, channels])."""
        return self.signal.reshape(*self.prepared_shape, *self.frame.channels)

    def _facts(self) -> dict[str, str]:
        first = int(self.frame.is_signal)
        return {
            "signal as it came" if self.frame.is_signal else "image": size(self.background.shape[first:]),
            "signal": size(self.detail.shape[first:]),
            "kernels": f"{size(self.kernel_size[first:])}, stride {self.stride}",
            "background": value_range(self.background),
        }

    def dictionary(self, kernels: ArrayLike) -> ConvolutionalDictionary:
        """Return the dictionary of kernels at the places of this image.

        Parameters
        ----------
        kernels : array_like, shape (n_kernels, height, width[, channels])
            For a signal, (n_kernels, length[, channels]).
        """
        planes = self.frame.kernels("kernels", kernels, None, self.kernel_size)
        shape = self.prepared_shape[1] if self.frame.is_signal else self.prepared_shape
        return ConvolutionalDictionary(self.frame.without_row(planes, axis=1), shape, self.stride)

    def restore(self, signal: ArrayLike) -> np.ndarray:
        """Return the image of a signal: padding is cut off, and the background added.

        Pixels that were cropped have the background alone.

        Parameters
        ----------
        signal : array_like, shape (1, n_features), (n_features,) or that of `detail`
            As from `LassoProblem.reconstruct`.
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
        in_image, in_signal = [], []
        for whole, part, corner in zip(image.shape, self.prepared_shape, self.corner, strict=False):
            first, last = max(0, -corner), min(whole, part - corner)
            in_image.append(slice(first, last))
            in_signal.append(slice(first + corner, last + corner))
        image[tuple(in_image)] += signal.reshape(detail)[tuple(in_signal)]
        return self.frame.without_row(image)


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
        The part that is subtracted: the image blurred, its mean, or nothing; of each channel by itself.
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
    ``background="none"``; otherwise adding the background may round the last bit.
    """
    pixels = as_pixels(image, n_channels=n_channels)
    frame = Frame(is_signal(image, n_channels), n_channels, pixels.shape[2:])
    size = frame.size("kernel_size", kernel_size)
    stride = checks.positive_integer("stride", stride)
    boundary, margin = checked_boundary(boundary, margin)
    background, smoothing = checked_background(background, smoothing, size)
    require_room(pixels.shape[:2], size)

    below = background_of(pixels, background, smoothing)
    rows, columns = pixels.shape[:2]
    padded = (rows if frame.is_signal else rows + 2 * margin, columns + 2 * margin)
    shape = valid_shape(padded, size, stride, pad=boundary != "crop")
    detail, corner = pixels - below, []
    for axis, (new, old) in enumerate(zip(shape, (rows, columns), strict=True)):
        # An odd number of pixels has the one more at the end.
        before = abs(new - old) // 2
        if new < old:
            detail = detail.take(range(before, before + new), axis)
        else:
            pads = [(0, 0)] * pixels.ndim
            pads[axis] = (before, new - old - before)
            detail = np.pad(detail, pads, mode="symmetric")
        corner.append(before if new >= old else -before)
    return PreparedImage(
        signal=np.ascontiguousarray(detail).reshape(1, -1),
        background=below,
        kernel_size=size,
        stride=stride,
        prepared_shape=shape,
        corner=(corner[0], corner[1]),
        frame=frame,
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
    """Return the background of an image, in its shape."""
    if kind == "none":
        return np.zeros(pixels.shape)
    if kind == "mean":
        background = np.broadcast_to(pixels.mean(axis=(0, 1)), pixels.shape)
    else:
        from scipy.ndimage import gaussian_filter  # here, because it takes long to import

        # "reflect" is what NumPy calls "symmetric".
        background = gaussian_filter(pixels, smoothing, mode="reflect", axes=(0, 1))
    is_all = np.abs(pixels - background).max() <= ROUNDING * np.abs(pixels).max()
    return (pixels if is_all else background).copy()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CodedImage(Drawn):
    """An image, its code and its certificate.

    Attributes
    ----------
    prepared : PreparedImage
        The image as a signal, and its background.
    problem : LassoProblem
        The problem that was solved.
    result : SparseCodingResult
        The code, its objective and duality gap, as the solver returned them.
    """

    prepared: PreparedImage
    problem: LassoProblem
    result: SparseCodingResult

    def _facts(self) -> dict[str, str]:
        return {"image": size(self.prepared.background.shape), **self.result._facts()}

    @property
    def image(self) -> np.ndarray:
        """The image that the code and the background make, in the shape of the image."""
        return self.prepared.restore(self.problem.reconstruct(self.result.sparse_codes))

    @property
    def maps(self) -> np.ndarray:
        """The code as maps of coefficients, shape (grid rows, grid columns, n_kernels)."""
        dictionary = cast(ConvolutionalDictionary, self.problem.dictionary)
        return self.result.codes.reshape(*dictionary.grid_shape, -1)
