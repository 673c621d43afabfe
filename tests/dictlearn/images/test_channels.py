"""Signed signals in two channels, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dictlearn.images.channels import join_channels, split_channels


def test_channels_of_a_signal():
    assert split_channels([[1.0, -2.0, 0.0]]).tolist() == [[1.0, 0.0, 0.0, 0.0, 2.0, 0.0]]


@given(
    signals=arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 6)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_round_trip_is_exact(signals):
    split = split_channels(signals)
    assert split.shape == (len(signals), 2 * signals.shape[1])
    assert not np.signbit(split).any()
    assert not (split[:, : signals.shape[1]] * (split[:, signals.shape[1] :] > 0.0)).any()
    np.testing.assert_array_equal(join_channels(split), signals)


def test_atoms_that_use_both_channels_of_a_pixel_are_joined():
    assert join_channels([[3.0, 0.0, 1.0, 2.0], [0.0, 1.0, 0.0, 0.0]]).tolist() == [[2.0, -2.0], [0.0, 1.0]]


@pytest.mark.parametrize("kind", [np.float32, np.int16])
def test_any_real_type_and_order(kind):
    signals = np.asfortranarray(np.arange(12).reshape(3, 4) - 6, dtype=kind)
    signals.flags.writeable = False
    split = split_channels(signals)
    assert split.dtype == np.float64
    np.testing.assert_array_equal(join_channels(np.asfortranarray(split)), signals)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: split_channels([1.0, 2.0]), ValueError, r"signals must be 2-D"),
        (lambda: split_channels([["a"]]), TypeError, "signals must be an array of real numbers"),
        (lambda: split_channels([[np.inf]]), ValueError, "signals must be finite"),
        (lambda: join_channels([[1.0, 2.0, 3.0]]), ValueError, "two columns a feature; got 3 columns"),
        (lambda: join_channels([1.0, 2.0]), ValueError, r"split must be 2-D"),
    ],
)
def test_nonsense_is_named(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
