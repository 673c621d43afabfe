"""What the linear nodes of a NIR graph do to a vector: one class for each kind of node.

Values of nodes of any shape are vectors here, in C order of the shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from snn.base import checks
from snn.exchange.nir_graph import kind_of

Matrix: TypeAlias = np.ndarray | sparse.csr_array

MOST_ENTRIES = 2**27
"""Entries of a matrix that a convolution is expanded to."""


class LinearNode(ABC):
    """y = W x + b."""

    @property
    @abstractmethod
    def shape_before(self) -> tuple[int, ...]:
        """Shape of the array that x is, which does for a vector too."""

    @property
    def shape_behind(self) -> tuple[int, ...] | None:
        """Shape of the array that y is; None if it is the shape of x."""
        return None

    @abstractmethod
    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return W x, without b."""

    @abstractmethod
    def matrix(self) -> Matrix:
        """Return W."""

    def stencil(self, grid: tuple[int, ...]) -> np.ndarray | None:
        """Return W as the values of `StencilWeights` on a grid, or None if it is no such convolution."""
        return None

    @property
    def bias(self) -> np.ndarray | float:
        """b."""
        return 0.0

    @property
    def is_zero(self) -> bool:
        """Whether W is zero, so that no input matters."""
        return False


@dataclass(frozen=True, eq=False)
class Product(LinearNode):
    """Affine and Linear, and several nodes one after the other: a matrix and a bias."""

    weight: Matrix
    offset: np.ndarray | float = 0.0

    @property
    def shape_before(self) -> tuple[int, ...]:
        """See `LinearNode`."""
        return self.weight.shape[1:]

    @property
    def shape_behind(self) -> tuple[int, ...]:
        """See `LinearNode`."""
        return self.weight.shape[:1]

    def apply(self, values: np.ndarray) -> np.ndarray:
        """See `LinearNode`."""
        return self.weight @ values

    def matrix(self) -> Matrix:
        """See `LinearNode`."""
        return self.weight

    @property
    def bias(self) -> np.ndarray | float:
        """See `LinearNode`."""
        return self.offset

    @property
    def is_zero(self) -> bool:
        """See `LinearNode`."""
        return abs(self.weight).max() == 0.0


@dataclass(frozen=True, eq=False)
class Factors(LinearNode):
    """Scale: a factor for each entry of an array of some shape."""

    factors: np.ndarray

    @property
    def shape_before(self) -> tuple[int, ...]:
        """See `LinearNode`."""
        return self.factors.shape

    def apply(self, values: np.ndarray) -> np.ndarray:
        """See `LinearNode`."""
        return self.factors.ravel() * values

    def matrix(self) -> sparse.csr_array:
        """See `LinearNode`."""
        return sparse.diags_array(self.factors.ravel(), format="csr")

    @property
    def is_zero(self) -> bool:
        """See `LinearNode`."""
        return not self.factors.any()


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution(LinearNode):
    """Conv2d: y[l, i, j] = b[l] + sum over k, a, b of w[l, k, a, b] x[k, s i + d a - p, s j + d b - p].

    Attributes
    ----------
    name : str
        Name of the node.
    weight : ndarray, shape (n_targets, n_sources / groups, height, width)
        The kernels.
    per_channel : ndarray, shape (n_targets,)
        The bias.
    input_shape : (int, int)
        (rows, columns) of x.
    stride, padding, dilation : (int, int)
        Along rows and columns.
    groups : int
        Into how many groups the channels are divided.
    """

    name: str
    weight: np.ndarray
    per_channel: np.ndarray
    input_shape: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    @property
    def shape_before(self) -> tuple[int, int, int]:
        """See `LinearNode`."""
        return (self.weight.shape[1] * self.groups, *self.input_shape)

    @property
    def shape_behind(self) -> tuple[int, int, int]:
        """See `LinearNode`."""
        return (len(self.weight), *self.output_grid)

    @property
    def output_grid(self) -> tuple[int, int]:
        """(rows, columns) of y."""
        sides = zip(
            self.input_shape, self.weight.shape[2:], self.stride, self.padding, self.dilation, strict=True
        )
        rows, columns = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sides)
        return rows, columns

    @property
    def bias(self) -> np.ndarray:
        """See `LinearNode`."""
        return np.repeat(self.per_channel, math.prod(self.output_grid))

    @property
    def is_zero(self) -> bool:
        """See `LinearNode`."""
        return not self.weight.any()

    def stencil(self, grid: tuple[int, ...]) -> np.ndarray | None:
        """See `LinearNode`: this grid, equal channels, and offsets that go equally far both ways."""
        n_targets, n_sources, *sides = self.weight.shape
        keeps_grid = (
            self.input_shape == grid
            and self.stride == self.dilation == (1, 1)
            and self.groups == 1
            and n_targets == n_sources
            and all(side % 2 == 1 for side in sides)
            and self.padding == (sides[0] // 2, sides[1] // 2)
        )
        return (
            self.weight.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
            if keeps_grid and self.input_shape == grid
            else None
        )

    def apply(self, values: np.ndarray) -> np.ndarray:
        """See `LinearNode`."""
        windows = self._windows(values.reshape(self.shape_before))
        return np.concatenate(
            [
                np.tensordot(weight, part, axes=([1, 2, 3], [0, 3, 4])).ravel()
                for weight, part in zip(
                    np.split(self.weight, self.groups), np.split(windows, self.groups), strict=True
                )
            ]
        )

    def matrix(self) -> sparse.csr_array:
        """See `LinearNode`."""
        n_positions = math.prod(self.output_grid)
        n_entries = self.weight.size * n_positions
        if n_entries > MOST_ENTRIES:
            raise ValueError(
                f"node {self.name!r} must have at most {MOST_ENTRIES:,} weights, written out for every "
                f"position; got {n_entries:,}"
            )
        n_inputs = math.prod(self.shape_before)
        numbers = np.arange(1, n_inputs + 1).reshape(self.shape_before)
        windows = self._windows(numbers)  # zero: beyond the image
        n_targets, n_sources, height, width = self.weight.shape
        in_group = n_targets // self.groups
        shape = (n_targets, *self.output_grid, n_sources, height, width)
        sources = np.empty(shape, dtype=np.int64)
        for target in range(n_targets):
            first = target // in_group * n_sources
            sources[target] = windows[first : first + n_sources].transpose(1, 2, 0, 3, 4)
        entries = np.broadcast_to(self.weight[:, np.newaxis, np.newaxis], shape)
        inside = sources > 0
        rows = np.arange(n_targets * n_positions).reshape(*shape[:3], 1, 1, 1)
        return sparse.csr_array(
            (entries[inside], (np.broadcast_to(rows, shape)[inside], sources[inside] - 1)),
            shape=(n_targets * n_positions, n_inputs),
        )

    def _windows(self, image: np.ndarray) -> np.ndarray:
        """Return what each position sees, shape (n_sources, rows, columns, height, width)."""
        (down, right), (height, width) = self.padding, self.weight.shape[2:]
        padded = np.pad(image, ((0, 0), (down, down), (right, right)))
        reach = self.dilation[0] * (height - 1) + 1, self.dilation[1] * (width - 1) + 1
        windows = sliding_window_view(padded, (1, *reach))[:, :, :, 0]
        return windows[:, :: self.stride[0], :: self.stride[1], :: self.dilation[0], :: self.dilation[1]]


def linear_node(name: str, node: Any, shape: tuple[int, ...] | None) -> LinearNode | None:
    """Return what a node does, or None if it is not linear.

    Parameters
    ----------
    name : str
        Name of the node.
    node : nir.NIRNode
        The node.
    shape : tuple of int, optional
        Shape of what reaches the node, where it is known.

    Raises
    ------
    TypeError, ValueError
        If its parameters are not what NIR says.
    """
    match kind_of(node):
        case "Linear":
            return Product(_weight(name, node))
        case "Affine":
            weight = _weight(name, node)
            bias = parameter(name, "bias", node.bias, shape=weight.shape[:1], meaning="one for each target")
            return Product(weight, bias)
        case "Scale":
            return Factors(np.atleast_1d(parameter(name, "scale", node.scale)))
        case "Conv2d":
            return _convolution(name, node, shape)
    return None


def parameter(
    name: str,
    what: str,
    value: Any,
    *,
    shape: tuple[int | None, ...] | None = None,
    meaning: str = "",
) -> np.ndarray:
    """Return a parameter of a node as a float64 array, checked."""
    label = f"{what} of node {name!r}"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{label} must be an array of real numbers; got {type(value).__name__}") from None
    if not array.size:
        raise ValueError(f"{label} must not be empty; got shape {array.shape}")
    if array.ndim == 0 and not shape:
        return np.full((), checks.real_number(label, array))
    return checks.real_array(label, array, shape=array.shape if shape is None else shape, meaning=meaning)


def _weight(name: str, node: Any) -> np.ndarray:
    return parameter(name, "weight", node.weight, shape=(None, None), meaning="(targets, sources)")


def _convolution(name: str, node: Any, shape: tuple[int, ...] | None) -> Convolution:
    weight = parameter(
        name,
        "weight",
        node.weight,
        shape=(None, None, None, None),
        meaning="(targets, sources, rows, columns)",
    )
    bias = parameter(name, "bias", node.bias, shape=weight.shape[:1], meaning="one for each target channel")
    if node.input_shape is not None:
        grid = _pair(name, "input_shape", node.input_shape, least=1)
    elif shape is not None and len(shape) == 3:
        grid = (int(shape[1]), int(shape[2]))
    else:
        raise ValueError(f"node {name!r} must have an input_shape; got None, and what reaches it is no image")
    dilation = _pair(name, "dilation", node.dilation, least=1)
    stride = _pair(name, "stride", node.stride, least=1)
    groups = checks.positive_integer(f"groups of node {name!r}", node.groups)
    if weight.shape[0] % groups:
        raise ValueError(f"groups of node {name!r} must divide {weight.shape[0]} channels; got {groups}")
    padding = node.padding
    word = np.asarray(padding).astype(str).item() if np.ndim(padding) == 0 else ""  # files have bytes
    if word == "valid":
        padding = (0, 0)
    elif word == "same":
        reach = [d * (side - 1) for d, side in zip(dilation, weight.shape[2:], strict=True)]
        if stride != (1, 1) or any(side % 2 for side in reach):
            raise ValueError(
                f"padding of node {name!r} must be numbers, not 'same', for strides or kernels of even length"
            )
        padding = (reach[0] // 2, reach[1] // 2)
    convolution = Convolution(
        name=name,
        weight=weight,
        per_channel=bias,
        input_shape=grid,
        stride=stride,
        padding=_pair(name, "padding", padding, least=0),
        dilation=dilation,
        groups=groups,
    )
    if min(convolution.output_grid) < 1:
        raise ValueError(f"node {name!r} must have kernels no larger than its image, {grid}, and its padding")
    return convolution


def _pair(name: str, what: str, value: Any, *, least: int) -> tuple[int, int]:
    values = np.asarray(value)
    if values.dtype.kind not in "iu" or values.shape not in ((), (1,), (2,)) or (values < least).any():
        raise ValueError(
            f"{what} of node {name!r} must be one or two integers of at least {least}; got {value!r:.80}"
        )
    first, second = np.broadcast_to(values, (2,))
    return int(first), int(second)
