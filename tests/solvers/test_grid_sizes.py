"""Which sizes and strides fit, against the definition: the last kernel ends with the image."""

import re
from itertools import product

import pytest

from solvers import ConvolutionalDictionary
from solvers.problem.grid_sizes import require_grid, require_room, valid_shape, valid_strides


def covers(image, kernel, stride):
    """Whether a kernel at some multiple of the stride ends with the image."""
    return any(stride * k + kernel == image for k in range(image + 1))


def test_valid_shapes_are_the_nearest_that_a_grid_covers():
    for image, kernel, stride in product(range(1, 20), range(1, 8), range(1, 7)):
        if kernel > image:
            continue
        larger = next(side for side in range(image, 60) if covers(side, kernel, stride))
        smaller = next(side for side in range(image, 0, -1) if covers(side, kernel, stride))
        assert valid_shape((image, 9), (kernel, 9), stride, pad=True) == (larger, 9)
        assert valid_shape((9, image), (9, kernel), stride, pad=False) == (9, smaller)


@pytest.mark.parametrize(("image", "kernel"), [((427, 640), (8, 8)), ((20, 14), (8, 2)), ((8, 8), (8, 8))])
def test_valid_strides_are_those_that_fit_both_sides(image, kernel):
    fitting = [
        stride
        for stride in range(1, min(kernel) + 1)
        if all(covers(*sides, stride) for sides in zip(image, kernel, strict=True))
    ]
    assert valid_strides(image, kernel) == fitting
    for stride in range(1, 9):
        if all(covers(*sides, stride) for sides in zip(image, kernel, strict=True)):
            require_grid(image, kernel, stride)
        else:
            with pytest.raises(ValueError, match="stride must divide"):
                require_grid(image, kernel, stride)


def test_the_message_proposes_what_fits():
    with pytest.raises(ValueError, match="stride must divide the columns") as caught:
        ConvolutionalDictionary([[[1.0] * 8] * 8], (428, 642), 3)
    message = str(caught.value)
    assert "strides that fit are 1, 2;" in message
    sizes = re.findall(r"(\d+) x (\d+) \((crop|pad)\)", message)
    assert sizes == [("428", "641", "crop"), ("428", "644", "pad")]
    for rows, columns, _ in sizes:
        ConvolutionalDictionary([[[1.0] * 8] * 8], (int(rows), int(columns)), 3)


def test_an_image_smaller_than_a_kernel_is_named():
    with pytest.raises(ValueError, match=r"larger than images\[3\]; got 8 columns in an image of 5"):
        require_room((9, 5), (8, 8), name="images[3]")
