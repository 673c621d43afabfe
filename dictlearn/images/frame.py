"""Conversion of images and one-dimensional signals to planes of floats and to signals, and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Drawn, size
from snn.base.value import Value
from solvers import ConvolutionalDictionary, LassoProblem, SparseCodingResult
from solvers.problem.convolutional_dictionary import require_room, valid_shape

# NumPy integer types whose values mean brightness, from 0 (black) to the largest value of the type (white).
BRIGHTNESS = (np.uint8, np.uint16)
# Largest length of the last axis of an array for which the axis may be channels.
MOST_CHANNELS = 4
BACKGROUNDS = ("smooth", "mean", "none")
# A detail is a rounding error if it is at most this share of the largest value of the image.
DETAIL_ROUNDING = 1e-13


class Frame(NamedTuple):
    """The form of images or signals, which are converted to planes of shape (height, width[, channels])."""

    is_signal: bool
    n_channels: int | None
    channels: tuple[int, ...]

    def __str__(self) -> str:
        kind = "signals of one dimension" if self.is_signal else "images"
        return kind + (f" with {self.channels[0]} channels" if self.channels else ", one channel")

    def size(self, name: str, value: Any) -> tuple[int, int]:
        """Return a size in any of its forms as (height, width); see `as_size`."""
        return as_size(name, value, is_signal=self.is_signal)

    def kernels(
        self, name: str, value: ArrayLike, n_kernels: int | None, size: tuple[int, int]
    ) -> np.ndarray:
        """Check the shape of kernels against this form, and return kernels of planes."""
        shape = (n_kernels, *size[self.is_signal :], *self.channels)
        meaning = "(n_kernels, height, width[, n_channels]), of signals (n_kernels, length[, n_channels])"
        return checks.real_array(name, value, shape=shape, meaning=meaning).reshape(-1, *size, *self.channels)

    def without_row(self, plane: np.ndarray, axis: int = 0) -> np.ndarray:
        """Return planes as images, or as signals, which have no axis of rows."""
        return plane.take(0, axis) if self.is_signal else plane


def frame_of(images: Any, n_channels: int | None = None) -> tuple[Frame, list[np.ndarray]]:
    """Return the form of images or signals, and their planes of pixels; see `as_pixels`."""
    if n_channels is not None:
        n_channels = checks.positive_integer("n_channels", n_channels)
    if not isinstance(images, (np.ndarray, list, tuple)):
        raise TypeError(
            f"images must be a list of images or an array; got {type(images).__name__}: pass a list"
        )
    if isinstance(images, np.ndarray):
        if images.ndim == 0 or is_signal(images, n_channels):
            images = [images]
        elif images.ndim == 3 and images.shape[2] <= MOST_CHANNELS:
            others = "grey images" if n_channels is None else "signals"
            raise ValueError(
                f"images must be a list if an array may be one colour image or several {others}; got "
                f"shape {images.shape}: for one colour image pass [image], for {others} list(images)"
            )
    if not len(images):
        raise ValueError("images must have at least one image; got none")
    planes = []
    for k, image in enumerate(images):
        with checks.called(image=f"images[{k}]"):
            planes.append(as_pixels(image, n_channels=n_channels))
    forms = {
        (is_signal(image, n_channels), plane.shape[2:]) for image, plane in zip(images, planes, strict=True)
    }
    if len(forms) > 1:
        raise ValueError(
            "images must all be images or all signals of one dimension, with the same number of channels; "
            f"got shapes {', '.join(sorted({str(np.shape(image)) for image in images}))}"
        )
    kind, channels = forms.pop()
    return Frame(kind, n_channels, channels), planes


def is_signal(image: ArrayLike, n_channels: int | None) -> bool:
    """Return whether an array has the dimensions of a signal."""
    return np.ndim(image) == (1 if n_channels is None else 2)


def as_pixels(image: ArrayLike, *, n_channels: int | None = None) -> np.ndarray:
    """Return an image as floats, and a signal of one dimension as an image of one row.

    Unsigned integers of 8 and 16 bits in an image are divided by the largest of their type, 255 or 65,535;
    True becomes 1 and False becomes 0.  Floats, and signals of any type, keep their values, in any unit.

    Parameters
    ----------
    image : array_like, shape (height, width[, 1 or 3]) or (length,)
        A grey or colour image, or a signal.
    n_channels : int, optional
        Length of the last axis, for channels of any kind: an image has shape (height, width, n_channels), and
        a signal (length, n_channels).

    Returns
    -------
    ndarray, shape (height, width[, channels])
        The pixels; for a signal, shape (1, length[, n_channels]).
    """
    pixels = np.asarray(image)
    if is_signal(pixels, n_channels):
        shape = (None,) if n_channels is None else (None, n_channels)
        return checks.real_array(
            "image", image, shape=shape, meaning="(length[, n_channels]), channels last"
        )[np.newaxis]
    is_brightness = pixels.dtype.type in BRIGHTNESS
    if pixels.dtype.kind in "iu" and not is_brightness:
        raise TypeError(
            f"image must have dtype uint8, uint16, bool or float; got {pixels.dtype}: divide it by the value "
            "of white"
        )
    if pixels.ndim not in (2, 3) or (n_channels is not None and pixels.shape[2:] != (n_channels,)):
        channels = "[, channels]" if n_channels is None else f", {n_channels}"
        raise ValueError(
            f"image must have shape (height, width{channels}), or be a signal; got shape {pixels.shape}"
        )
    if n_channels is None and pixels.shape[2:] not in ((), (1,), (3,)):
        raise ValueError(
            f"image must have 1 or 3 channels, last; got shape {pixels.shape}: drop an alpha channel by "
            "image[..., :-1], move channels to the end by np.moveaxis(image, 0, -1), or for channels that "
            f"are no colours pass n_channels={pixels.shape[2]}"
        )
    white = float(np.iinfo(pixels.dtype).max) if is_brightness else 1.0
    return checks.real_array("image", image, shape=(None,) * pixels.ndim) / white


def as_size(name: str, value: Any, *, is_signal: bool = False) -> tuple[int, int]:
    """Return the side of a square, a pair, or the length of a signal as (height, width)."""
    if isinstance(value, (tuple, list)) and not is_signal:
        return checks.integer_pair(name, value)
    side = checks.positive_integer(name, value)
    return 1 if is_signal else side, side


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PreparedImage(Value, Drawn):
    """An image as the signal of a convolutional dictionary, from which the image can be restored.

    In all attributes, a signal of one dimension is an image of one row.  `restore` removes this row.

    Attributes
    ----------
    detail : ndarray, shape (rows, columns[, channels])
        The padded image without its background.
    background : ndarray, shape of the image
        The part that was subtracted from the image.
    kernel_size : (int, int)
        Height and width of the kernels for which the image was prepared, in pixels.
    stride : int
        The stride of the kernels, in pixels.
    frame : Frame
        The dimensions and channels of the original image.
    """

    _shown: ClassVar = ("detail", "background", "stride")

    detail: np.ndarray
    background: np.ndarray
    kernel_size: tuple[int, int]
    stride: int
    frame: Frame

    @property
    def signal(self) -> np.ndarray:
        """The detail as `LassoProblem` takes it, shape (1, n_features)."""
        return self.detail.reshape(1, -1)

    def dictionary(self, kernels: ArrayLike) -> ConvolutionalDictionary:
        """Return the dictionary that places kernels at the positions of this image.

        Parameters
        ----------
        kernels : array_like, shape (n_kernels, height, width[, channels])
            The kernels; for a signal, shape (n_kernels, length[, channels]).
        """
        planes = self.frame.kernels("kernels", kernels, None, self.kernel_size)
        shape = self.detail.shape[1] if self.frame.is_signal else self.detail.shape[:2]
        return ConvolutionalDictionary(self.frame.without_row(planes, axis=1), shape, self.stride)

    def restore(self, signal: ArrayLike) -> np.ndarray:
        """Return the image of a signal: the padding is cut off, and the background is added.

        Parameters
        ----------
        signal : array_like, shape (1, n_features), (n_features,) or the shape of `detail`
            A signal, such as `LassoProblem.reconstruct` returns.
        """
        shapes = (self.signal.shape, self.signal.shape[1:], self.detail.shape)
        if np.shape(signal) not in shapes:
            raise ValueError(f"signal must have one of the shapes {shapes}; got shape {np.shape(signal)}")
        padded = checks.real_array("signal", signal, shape=np.shape(signal)).reshape(self.detail.shape)
        (top, _), (left, _) = _padding(self.background.shape, self.detail.shape)
        rows, columns = self.background.shape[:2]
        return self.frame.without_row(self.background + padded[top : top + rows, left : left + columns])


def prepare_image(
    image: ArrayLike,
    kernel_size: int | tuple[int, int],
    *,
    stride: int = 1,
    margin: int = 0,
    background: str | float = "smooth",
    n_channels: int | None = None,
) -> PreparedImage:
    """Return an image or signal of any size as the signal of a convolutional dictionary.

    The smooth part of the image, which kernels code badly, is subtracted.  The detail is padded by its mirror
    image, which adds no edges, to a size that the grid of positions covers.  `PreparedImage.restore` undoes
    the subtraction and the padding.  With ``background="none"``, the restored image is exact.  Otherwise it
    is exact up to the rounding of a sum.

    Parameters
    ----------
    image : array_like, shape (height, width[, 1 or 3]) or (length,)
        An image or a signal; see `as_pixels`.
    kernel_size : int or (int, int)
        Side of square kernels, or (height, width), in pixels; for a signal, the length of kernels.
    stride : int, default 1
        Distance between neighbouring positions of kernels, in pixels.
    margin : int, default 0
        Least number of pixels by which each side is padded.  Without a margin, fewer kernels cover a pixel
        near the edge; with a margin of the kernel's side minus the stride, equally many kernels cover every
        pixel.
    background : {"smooth", "mean", "none"} or float, default "smooth"
        The part of each channel that is subtracted.  "smooth" is the image blurred by a Gaussian whose
        standard deviation is half the longer side of a kernel; a float is the standard deviation in pixels.
    n_channels : int, optional
        Length of the last axis; see `as_pixels`.
    """
    plane = as_pixels(image, n_channels=n_channels)
    frame = Frame(is_signal(image, n_channels), n_channels, plane.shape[2:])
    return prepared_plane(plane, frame, frame.size("kernel_size", kernel_size), stride, margin, background)


def prepared_plane(
    plane: np.ndarray,
    frame: Frame,
    kernel_size: tuple[int, int],
    stride: int,
    margin: int,
    background: str | float,
) -> PreparedImage:
    """Return the plane of an image as the signal of a dictionary; see `prepare_image`."""
    stride = checks.positive_integer("stride", stride)
    margin = checks.non_negative_integer("margin", margin)
    require_room(plane.shape[:2], kernel_size)
    below = background_of(plane, background, kernel_size)
    rows, columns = plane.shape[:2]
    least = (rows if frame.is_signal else rows + 2 * margin, columns + 2 * margin)
    pads = _padding(plane.shape, valid_shape(least, kernel_size, stride, pad=True))
    detail = np.pad(plane - below, pads + [(0, 0)] * (plane.ndim - 2), mode="symmetric")
    return PreparedImage(detail=detail, background=below, kernel_size=kernel_size, stride=stride, frame=frame)


def _padding(shape: tuple[int, ...], padded: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the padding of rows and of columns, each (before, after); an odd pixel is added after."""
    missing = (new - old for old, new in zip(shape[:2], padded, strict=False))
    return [(n // 2, n - n // 2) for n in missing]


def background_of(pixels: np.ndarray, background: str | float, kernel_size: tuple[int, int]) -> np.ndarray:
    """Return the background of an image, with the shape of the image; see `prepare_image`."""
    if isinstance(background, str):
        checks.one_of("background", background, BACKGROUNDS)
        width = max(kernel_size) / 2
    else:
        width = checks.positive_number("background", background)
    if background == "none":
        return np.zeros(pixels.shape)
    if background == "mean":
        below = np.broadcast_to(pixels.mean(axis=(0, 1)), pixels.shape)
    else:
        from scipy.ndimage import gaussian_filter  # imported here, because its import takes long

        # SciPy's mode "reflect" is NumPy's mode "symmetric".
        below = gaussian_filter(pixels, width, mode="reflect", axes=(0, 1))
    is_all = np.abs(pixels - below).max() <= DETAIL_ROUNDING * np.abs(pixels).max()
    return (pixels if is_all else below).copy()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CodedImage(Drawn):
    """An image with its code and its certificate.

    Attributes
    ----------
    prepared : PreparedImage
        The image as a signal, and its background.
    problem : LassoProblem
        The coding problem of the image.
    result : SparseCodingResult
        The code, its objective and duality gap, as the solver returned them.
    """

    prepared: PreparedImage
    problem: LassoProblem
    result: SparseCodingResult

    def _facts(self) -> Mapping[str, str]:
        return {"image": size(self.prepared.background.shape), **self.result._facts()}

    @property
    def image(self) -> np.ndarray:
        """The image reconstructed from the code and the background, in the shape of the original image."""
        return self.prepared.restore(self.problem.reconstruct(self.result.sparse_codes))

    @property
    def maps(self) -> np.ndarray:
        """The code as maps of coefficients, shape (grid rows, grid columns, n_kernels)."""
        dictionary = cast(ConvolutionalDictionary, self.problem.dictionary)
        return self.result.codes.reshape(*dictionary.grid_shape, -1)
