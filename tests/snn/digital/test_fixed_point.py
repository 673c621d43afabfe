"""Fixed-point numbers against exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snn.digital import FixedPoint

SIGNS = ["signed", "non-negative", "non-positive"]


def expected_mantissa(value, fmt, exponent):
    """Return (mantissa, whether it saturates) of one number, by fractions, for rules without chance."""
    exact = Fraction(value) / Fraction(2) ** exponent
    mantissa = {"nearest": round, "floor": math.floor, "truncate": math.trunc}[fmt.rounding](exact)
    clipped = min(max(mantissa, fmt.smallest), fmt.largest)
    return clipped, clipped != mantissa


@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    bits=st.integers(2, 52),
    exponent=st.integers(-40, 20),
    sign=st.sampled_from(SIGNS),
    rounding=st.sampled_from(["nearest", "floor", "truncate"]),
)
def test_rounding_is_that_of_fractions(values, bits, exponent, sign, rounding):
    fmt = FixedPoint(bits=bits, exponent=exponent, sign=sign, rounding=rounding)
    result = fmt.quantise(values)
    expected = [expected_mantissa(value, fmt, exponent) for value in values]
    assert result.mantissas.tolist() == [mantissa for mantissa, _ in expected]
    assert result.n_saturated == sum(saturated for _, saturated in expected)
    floats = result.to_float()
    assert [Fraction(x) for x in floats.tolist()] == [m * Fraction(2) ** exponent for m, _ in expected]
    in_place = np.array(values)
    assert fmt.round_in_place(in_place) == result.n_saturated
    np.testing.assert_array_equal(in_place, floats)


def test_ties_go_to_the_even_mantissa():
    values = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
    assert FixedPoint(bits=8, exponent=0).quantise(values).mantissas.tolist() == [-2, -2, 0, 0, 2, 2]


@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=6),
    bits=st.integers(2, 52),
    sign=st.sampled_from(SIGNS),
)
def test_chosen_exponent_is_the_smallest_that_holds_all_numbers(values, bits, sign):
    if sign != "signed":
        values = [abs(value) if sign == "non-negative" else -abs(value) for value in values]
    if 0 < max(abs(value) for value in values) < 1e-200:
        return  # an exponent beyond the range: another test
    fmt = FixedPoint(bits=bits, sign=sign)
    chosen = fmt.exponent_for(np.array(values))
    fits = [
        all(
            fmt.smallest * Fraction(2) ** e <= Fraction(value) <= fmt.largest * Fraction(2) ** e
            for value in values
        )
        for e in (chosen, chosen - 1)
    ]
    assert fits[0]
    assert not fits[1] or not any(values)
    for rounding in ("nearest", "floor", "truncate", "stochastic"):
        assert FixedPoint(bits=bits, sign=sign, rounding=rounding).quantise(values, rng=0).n_saturated == 0


def test_zeros_have_exponent_zero():
    result = FixedPoint(bits=4).quantise(np.zeros((2, 3)))
    assert result.exponent == 0
    assert not result.mantissas.any()


def test_stochastic_rounding_keeps_the_mean_and_the_grid():
    fmt = FixedPoint(bits=8, exponent=-4, rounding="stochastic")
    value = 0.7  # 11.2 in units of 1/16
    mantissas = fmt.quantise(np.full(40_000, value), rng=3).mantissas
    assert set(mantissas.tolist()) == {11, 12}
    # Four standard deviations of the mean of 40,000 draws.
    assert abs(mantissas.mean() - 11.2) < 4 * math.sqrt(0.2 * 0.8 / 40_000)
    whole = np.arange(-8, 8) / 16
    np.testing.assert_array_equal(fmt.quantise(whole, rng=0).to_float(), whole)


def test_stochastic_rounding_depends_on_the_generator_alone():
    fmt = FixedPoint(bits=6, rounding="stochastic")
    values = np.random.default_rng(0).standard_normal((20, 30))
    first, second = (fmt.quantise(values, rng=7).mantissas for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(fmt.quantise(np.asfortranarray(values), rng=7).mantissas, first)
    assert (fmt.quantise(values, rng=8).mantissas != first).any()
    in_place = values.copy()
    fmt.round_in_place(in_place, rng=7)
    np.testing.assert_array_equal(in_place, fmt.quantise(values, rng=7).to_float())


def test_numbers_far_beyond_the_range_saturate():
    for rounding in ("nearest", "floor", "truncate", "stochastic"):
        fmt = FixedPoint(bits=3, exponent=-900, rounding=rounding)
        result = fmt.quantise([1e300, -1e300, 0.0], rng=0)
        assert result.mantissas.tolist() == [3, -4, 0]
        assert result.n_saturated == 2


def test_arguments_are_not_changed_and_results_are_read_only():
    values = np.array([0.3, -0.8])
    result = FixedPoint(bits=4).quantise(values)
    assert values.tolist() == [0.3, -0.8]
    with pytest.raises(ValueError, match="read-only"):
        result.mantissas[0] = 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bits": 1}, ValueError, r"bits must lie in \[2, 52\] for signed mantissas; got 1"),
        ({"bits": 53}, ValueError, r"bits must lie in \[2, 52\]"),
        ({"bits": 0}, ValueError, "bits must be positive; got 0"),
        ({"bits": 8.0}, TypeError, "bits must be an integer; got float"),
        ({"bits": 8, "exponent": 901}, ValueError, r"exponent must lie in \[-900, 900\]; got 901"),
        ({"bits": 8, "exponent": 0.5}, TypeError, "exponent must be an integer"),
        ({"bits": 8, "sign": "mixed"}, ValueError, "sign must be one of"),
        ({"bits": 8, "rounding": "up"}, ValueError, "rounding must be one of"),
    ],
)
def test_bad_formats(arguments, error, message):
    with pytest.raises(error, match=message):
        FixedPoint(**arguments)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([np.nan], ValueError, "values must be finite"),
        ([], ValueError, "values must not be empty"),
        (["a"], TypeError, "values must be an array of real numbers"),
        ([5e-324], ValueError, "divide them by a scale"),
    ],
)
def test_bad_values(values, error, message):
    with pytest.raises(error, match=message):
        FixedPoint(bits=8).quantise(values)
