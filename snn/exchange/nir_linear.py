"""What the linear nodes of a NIR graph do to a vector.

Values of nodes of any shape are vectors here, in C order of the shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from snn.base import checks
from snn.exchange.nir_graph import kind_of

Shape: TypeAlias = tuple[int, ...]

MOST_ENTRIES = 2**27
"""Entries of a matrix that a convolution is expanded to."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution:
    """The weights of a Conv2d, as kernels: ``self @ x`` is y, and `matrix` is written out.

    ``y[l, i, j] = sum over k, a, b of kernels[l, k, a, b] x[k, s i + d a - p, s j + d b - p]``

    Attributes
    ----------
    name : str
        Name of the node.
    kernels : ndarray, shape (n_targets, n_sources / groups, height, width)
        The kernels.
    grid : (int, int)
        (rows, columns) of x.
    stride, padding, dilation : (int, int)
        s, p and d, along rows and columns.
    groups : int
        Into how many groups the channels are divided.
    """

    name: str
    kernels: np.ndarray
    grid: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    @property
    def shape_before(self) -> tuple[int, int, int]:
        """Shape of x."""
        return (self.kernels.shape[1] * self.groups, *self.grid)

    @property
    def shape_behind(self) -> tuple[int, int, int]:
        """Shape of y."""
        sides = zip(self.grid, self.kernels.shape[2:], self.stride, self.padding, self.dilation, strict=True)
        rows, columns = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sides)
        return len(self.kernels), rows, columns

    @property
    def keeps_grid(self) -> bool:
        """Whether x and y have the same grid and the same channels, and offsets go equally far both ways."""
        n_targets, n_sources, *sides = self.kernels.shape
        return (
            self.stride == self.dilation == (1, 1)
            and self.groups == 1
            and n_targets == n_sources
            and all(side % 2 == 1 for side in sides)
            and self.padding == (sides[0] // 2, sides[1] // 2)
        )

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        windows = np.split(self._windows(values), self.groups)
        return np.concatenate(
            [
                np.tensordot(kernels, seen, axes=([1, 2, 3], [0, 3, 4])).ravel()
                for kernels, seen in zip(np.split(self.kernels, self.groups), windows, strict=True)
            ]
        )

    def matrix(self) -> sparse.csr_array:
        """Return the weights as a matrix, [target, source]."""
        n_outputs = math.prod(self.shape_behind)
        n_entries = self.kernels[0].size * n_outputs
        if n_entries > MOST_ENTRIES:
            raise ValueError(
                f"node {self.name!r} must have at most {MOST_ENTRIES:,} weights, written out for every "
                f"position; got {n_entries:,}"
            )
        n_inputs = math.prod(self.shape_before)
        windows = self._windows(np.arange(1, n_inputs + 1))  # zero: beyond the image
        windows = windows.reshape(self.groups, -1, *windows.shape[1:])
        # For each entry [target, row, column, source, a, b] of the matrix: from where, by how much, to where.
        sources = np.repeat(windows, len(self.kernels) // self.groups, axis=0).transpose(0, 2, 3, 1, 4, 5)
        weights = np.broadcast_to(self.kernels[:, np.newaxis, np.newaxis], sources.shape)
        targets = np.broadcast_to(np.arange(n_outputs).reshape(*self.shape_behind, 1, 1, 1), sources.shape)
        inside = sources > 0
        return sparse.csr_array(
            (weights[inside], (targets[inside], sources[inside] - 1)), shape=(n_outputs, n_inputs)
        )

    def _windows(self, values: np.ndarray) -> np.ndarray:
        """Return what each position sees, shape (n_sources, rows, columns, height, width)."""
        (down, right), (height, width) = self.padding, self.kernels.shape[2:]
        padded = np.pad(values.reshape(self.shape_before), ((0, 0), (down, down), (right, right)))
        reach = self.dilation[0] * (height - 1) + 1, self.dilation[1] * (width - 1) + 1
        windows = sliding_window_view(padded, (1, *reach))[:, :, :, 0]
        return windows[:, :: self.stride[0], :: self.stride[1], :: self.dilation[0], :: self.dilation[1]]


Weight: TypeAlias = np.ndarray | sparse.csr_array | Convolution
"""Weights, [target, source]."""
Wire: TypeAlias = Weight | None
"""Weights, or None for the identity."""


class LinearNode(NamedTuple):
    """y = W x + b."""

    weight: Weight
    """W."""
    bias: np.ndarray | float
    """b."""
    is_zero: bool
    """Whether W is zero, so that no input matters."""
    shape_before: Shape
    """Shape of x."""
    shape_behind: Shape
    """Shape of y."""


def linear_node(name: str, node: Any, shape: Shape | None) -> LinearNode | None:
    """Return what a node does to an x of this shape (None: unknown), or None if the node is not linear."""
    match kind_of(node):
        case "Affine" | "Linear" as kind:
            weight = parameter(name, node, "weight", shape=(None, None), meaning="(targets, sources)")
            behind, before = weight.shape
            bias: np.ndarray | float = 0.0
            if kind == "Affine":
                bias = parameter(name, node, "bias", shape=(behind,), meaning="one for each target")
            return LinearNode(weight, bias, not weight.any(), (before,), (behind,))
        case "Conv2d":
            return _convolution(name, node, shape)
    return None


def scaling(factors: np.ndarray) -> sparse.csr_array:
    """Return the matrix that multiplies each value by its factor."""
    return sparse.diags_array(factors.ravel(), format="csr")


def real_values(
    label: str, value: Any, *, shape: tuple[int | None, ...] | None = None, meaning: str = ""
) -> np.ndarray:
    """Return `value` as `checks.real_array` does; without a shape, as an array of any number of axes."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{label} must be an array of real numbers; got {type(value).__name__}") from None
    if not array.size:
        raise ValueError(f"{label} must not be empty; got shape {array.shape}")
    if array.ndim == 0 and array.dtype.kind in "fiub" and not shape:
        return np.full((), checks.real_number(label, array))
    return checks.real_array(label, array, shape=array.shape if shape is None else shape, meaning=meaning)


def parameter(
    name: str, node: Any, what: str, *, shape: tuple[int | None, ...] | None = None, meaning: str = ""
) -> np.ndarray:
    """Return a parameter of a node as a float64 array, checked."""
    return real_values(f"{what} of node {name!r}", getattr(node, what), shape=shape, meaning=meaning)


def _convolution(name: str, node: Any, shape: Shape | None) -> LinearNode:
    meaning = "(targets, sources, rows, columns)"
    kernels = parameter(name, node, "weight", shape=(None,) * 4, meaning=meaning)
    bias = parameter(name, node, "bias", shape=kernels.shape[:1], meaning="one for each target channel")
    if node.input_shape is not None:
        grid = _pair(name, "input_shape", node.input_shape, least=1)
    elif shape is not None and len(shape) == 3:
        grid = shape[1], shape[2]
    else:
        raise ValueError(f"node {name!r} must have an input_shape; got None, and what reaches it is no image")
    dilation = _pair(name, "dilation", node.dilation, least=1)
    stride = _pair(name, "stride", node.stride, least=1)
    groups = checks.positive_integer(f"groups of node {name!r}", node.groups)
    if len(kernels) % groups:
        raise ValueError(f"groups of node {name!r} must divide {len(kernels)} channels; got {groups}")
    padding = node.padding
    word = np.asarray(padding).astype(str).item() if np.ndim(padding) == 0 else ""  # files have bytes
    if word in ("valid", "same"):
        reach = [d * (side - 1) for d, side in zip(dilation, kernels.shape[2:], strict=True)]
        if word == "same" and (stride != (1, 1) or any(side % 2 for side in reach)):
            raise ValueError(
                f"padding of node {name!r} must be numbers, not 'same', for strides or kernels of even length"
            )
        padding = [side // 2 for side in reach] if word == "same" else 0
    convolution = Convolution(
        name=name,
        kernels=kernels,
        grid=grid,
        stride=stride,
        padding=_pair(name, "padding", padding, least=0),
        dilation=dilation,
        groups=groups,
    )
    before, behind = convolution.shape_before, convolution.shape_behind
    if min(behind) < 1:
        raise ValueError(f"node {name!r} must have kernels no larger than its image, {grid}, and its padding")
    bias = np.repeat(bias, behind[1] * behind[2])
    return LinearNode(convolution, bias, not kernels.any(), before, behind)


def _pair(name: str, what: str, value: Any, *, least: int) -> tuple[int, int]:
    values = np.asarray(value)
    if values.dtype.kind not in "iu" or values.shape not in ((), (1,), (2,)) or (values < least).any():
        raise ValueError(
            f"{what} of node {name!r} must be one or two integers of at least {least}; got {value!r:.80}"
        )
    first, second = np.broadcast_to(values, (2,))
    return int(first), int(second)
