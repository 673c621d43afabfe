"""Crossings of single kernels agree with 50 digits, and compiled functions free their memory."""

import gc
import math
import weakref
from functools import partial

import mpmath
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from snn._kernels.compiling import compiled, inner, uncounted
from snn._kernels.neuron import BOUND_SLACK, FAR, crossing_time, end_bound
from snn._kernels.run_state import SpikeLog
from tests.reference.simulator import crossing_exists, polished_crossing

EPS = np.finfo(float).eps
FOREVER = 1e300


def exact_crossing(gap, bias, current):
    """Return the crossing in 50 digits, or None, by Newton's method from where it converges monotonically."""
    gap, bias, current = (mpmath.mpf(float(x)) for x in (gap, bias, current))
    if not crossing_exists(gap, bias, current):
        return None
    return polished_crossing(gap, bias, current, (gap - current) / bias if current <= 0 else 0)


def potential(time, bias, current):
    return mpmath.mpf(bias) * time - mpmath.mpf(current) * mpmath.expm1(-time)


def scale_of(gap, time, bias, current):
    """Return the size of the terms of the potential at `time`: rounding errors are EPS times this size."""
    return abs(bias) * time + abs(current) * -math.expm1(-time) + gap


def random_cases(seed, n_cases):
    rng = np.random.default_rng(seed)
    for _ in range(n_cases):
        gap = 10.0 ** rng.uniform(-15, 6)
        bias, current = rng.choice([-1, 1], 2) * 10.0 ** rng.uniform(-9, 6, 2)
        yield gap, bias * rng.choice([0, 1], p=[0.1, 0.9]), current * rng.choice([0, 1], p=[0.1, 0.9])
    for _ in range(n_cases):  # bias and current of similar size, where a crossing may or may not exist
        yield rng.uniform(0.0, 2.0), rng.uniform(-1.0, 1.0), rng.uniform(-4.0, 4.0)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_first_crossing_over_a_wide_grid(seed):
    """A crossing is found if and only if it exists; it is the first crossing, and exact up to rounding."""
    n_crossings = 0
    with mpmath.workdps(50):
        for gap, bias, current in random_cases(seed, 500):
            exact = exact_crossing(gap, bias, current)
            found = crossing_time(gap, bias, current, FOREVER)
            if exact is None:
                assert found == math.inf, (gap, bias, current)
                continue
            n_crossings += 1
            assert math.isfinite(found), (gap, bias, current)
            rounding = EPS * scale_of(gap, found, bias, current)
            residual = float(potential(found, bias, current) - mpmath.mpf(gap))
            slope = float(bias + current * mpmath.exp(-exact))
            # The last bits of a time limit its precision; the slope turns this into an error of potential.
            assert abs(residual) <= 4 * rounding + 4 * EPS * found * abs(slope), (gap, bias, current)
            # Effect of a rounding error of the potential on the time, which near a tangency is a square root.
            error = abs(float(found - exact))
            assert error <= 4 * EPS * found + 8 * rounding / slope, (gap, bias, current)
    assert n_crossings > 400


@pytest.mark.parametrize("seed", range(2))
def test_horizon(seed):
    """No crossing is reported after the horizon; a later horizon changes the answer only by rounding."""
    for gap, bias, current in random_cases(seed + 10, 500):
        found = crossing_time(gap, bias, current, FOREVER)
        if found == math.inf:
            assert crossing_time(gap, bias, current, 7.0) == math.inf
            continue
        early = crossing_time(gap, bias, current, 0.99 * found)
        assert early > 0.99 * found
        slope = bias + current * math.exp(-found)
        tolerance = 4 * EPS * found + 8 * EPS * scale_of(gap, found, bias, current) / slope
        if tolerance > 1e-3 * found:  # the time is mostly rounding error
            continue
        for factor in (1.01, 2.0, 1e6):
            later = crossing_time(gap, bias, current, factor * found)
            assert abs(later - found) <= 2 * tolerance, (gap, bias, current, factor)


@pytest.mark.parametrize("gap", [0.0, -0.0, -1e-300, -5.0])
@pytest.mark.parametrize("bias", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("current", [-3.0, 0.0, 3.0])
def test_at_or_above_the_threshold_the_crossing_is_now(gap, bias, current):
    assert crossing_time(gap, bias, current, 1.0) == 0.0


@pytest.mark.parametrize("bias", [-0.3, -1e-3, -1e-12])
def test_peak_just_below_and_just_above_the_gap(bias):
    peak = math.log(1.0 / -bias)
    height = bias * peak - math.expm1(-peak)
    margin = 1e-12
    assert crossing_time(height + margin, bias, 1.0, FOREVER) == math.inf
    found = crossing_time(height - margin, bias, 1.0, FOREVER)
    # To second order, the potential at time t is -bias (peak - t)^2 / 2 below its maximum.
    assert peak - found == pytest.approx(math.sqrt(2 * margin / -bias), rel=0.01 + 1e-12 / -bias)


@pytest.mark.parametrize("tiny", [5e-324, 1e-320, 1e-308])
def test_a_bias_next_to_nothing_is_as_good_as_none(tiny):
    without = crossing_time(1.0, 0.0, 10.0, FOREVER)
    for bias in (-tiny, tiny):
        assert crossing_time(1.0, bias, 10.0, FOREVER) == pytest.approx(without, rel=8 * EPS)
    assert crossing_time(1.0, tiny, -1.0, 1e3) == math.inf
    assert crossing_time(1.0, -tiny, 1.0 - 1e-9, FOREVER) == math.inf


@pytest.mark.parametrize(
    ("gap", "bias", "current"),
    [
        (5e-324, 1.0, 0.0),
        (1e-310, 0.5, -1.0),
        (1e-310, 0.5, 3.0),
        (1e300, 1e300, 1e300),
        (1.0, 1e-310, -1e-310),
    ],
)
def test_no_nan_at_the_ends_of_the_number_range(gap, bias, current):
    for horizon in (1e-300, 1.0, 1e300):
        assert not math.isnan(crossing_time(gap, bias, current, horizon))


@pytest.mark.parametrize("size", [1.0, 1e3, 4e6, 1e9, 1e12])
def test_a_neuron_that_reaches_its_threshold_in_a_window_is_found_however_large_its_numbers(size):
    """A bias, a current or both raise the neuron from far below, so that large numbers cancel."""
    rng = np.random.default_rng(0)
    threshold, length = 1.0, 0.7
    rise = -math.expm1(-length)
    with mpmath.workdps(50):
        for share in (0.0, 0.3, 1.0, 1.4):
            for start in -size * rng.uniform(0.5, 1.0, 200):
                bias = share * (threshold - start) / length
                current = float(
                    (threshold - mpmath.mpf(start) - mpmath.mpf(bias) * length) / mpmath.mpf(rise)
                )
                current = math.nextafter(current, math.inf)
                y = mpmath.mpf(start) + mpmath.mpf(current) * mpmath.mpf(rise)
                assert y + mpmath.mpf(bias) * length >= threshold
                over = start + current * rise - end_bound(bias, threshold, start, length)
                assert over >= 0.0
    # The slack is only as large as rounding requires.
    assert end_bound(0.0, 1.0, -FAR, 1.0) == 1.0 - BOUND_SLACK
    assert end_bound(size, 1.0, -size, 1.0) > (1.0 - size) - BOUND_SLACK * (1.0 + 3.0 * size)


# -- short cuts of lowering --

LENGTH = 5


@inner
def _element(values, i):
    return values[i]


@inner
def _corner(table, i, j):
    return table[i, j] + table[-1, -2]


@inner
def _put(values, table, i, value):
    values[i] = value
    table[i, -1] = value
    values[0] += 1


OTHER_TYPES = [np.float32, np.int64, np.int32, np.uint8, np.bool_, np.complex128]


@pytest.mark.parametrize(
    "dtype", [np.float64, *(pytest.param(other, marks=pytest.mark.thorough) for other in OTHER_TYPES)]
)
@pytest.mark.parametrize("index", [0, 3, -1, -LENGTH, np.uint8(4), np.int32(-2), True])
@pytest.mark.parametrize("is_contiguous", [True, False])
def test_elements(dtype, index, is_contiguous):
    numbers = np.random.default_rng(0).integers(0, 2, (2 * LENGTH, 2 * LENGTH)).astype(dtype)
    step = 1 if is_contiguous else 2
    values = numbers[0, : step * LENGTH : step]
    table = numbers[: step * LENGTH : step, : step * LENGTH : step]
    if is_contiguous:
        values, table = np.ascontiguousarray(values), np.ascontiguousarray(table)
    if not isinstance(index, bool):
        assert uncounted(_element)(values, index) == values[index]
        expected = values.copy(), table.copy()
        _put.py_func(*expected, index, 3)
        values, table = values.copy(), table.copy()
        uncounted(_put)(values, table, index, 3)
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(table, expected[1])
    row = int(index)
    assert uncounted(_corner)(table * 1.0, row, 1) == table[row, 1] * 1.0 + table[-1, -2] * 1.0


@inner
def _last(log):
    return log.times[-1] + log.neurons[log.neurons.shape[0] - 1]


@inner
def _both(first, second):
    return _last(first) - 2.0 * _last(second)


@inner
def _swapped(log, times):
    if times.shape[0] > 1:
        log = SpikeLog(times, log.neurons)
    return _both(log, log) + _last(log)


@partial(compiled)
def _of_records(log, times, n):
    total = 0.0
    for i in range(n):
        # The array of times is created in this kernel, so its memory has a reference count.
        own = SpikeLog(np.full(2, float(i)), log.neurons)
        total += _both(log, own) + _swapped(own, times) + _both(own, log)
        own.times[0] = total
        total += own.times[0]
    return total, log


@partial(inner, _nrt=True)
def _summed(log, other, size):
    """Leave a loop in two ways, after which the record `log` is no longer needed."""
    total = 0.0
    is_done = False
    while not is_done:
        if size > 0:
            total += log.times[0] + other.times[1]
            size -= 1
            if size == 7:
                break
        is_done = size <= 0
    if is_done:
        total += other.times[0]
    return other, total


SIZES = np.array([3, 20, 5])


@compiled
def _summed_often(log, sizes):
    total = 0.0
    other = SpikeLog(np.ones(2), np.zeros(1, np.int64))
    for size in sizes:
        other, part = _summed(log, other, size)
        total += part
    return total


def total_of(answer):
    return answer[0] if isinstance(answer, tuple) else answer


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [(_of_records, (np.array([0.5, 0.25]), 4)), (_of_records, (np.ones(1), 4)), (_summed_often, (SIZES,))],
)
def test_records_by_address_are_those_of_python_and_are_freed_once(kernel, arguments):
    """Records whose last use is in a loop are freed once, too."""
    log = SpikeLog(np.array([1.0, 2.5, 4.0]), np.array([3, 4, 5]))
    for _ in range(20):
        assert total_of(kernel(log, *arguments)) == total_of(kernel.py_func(log, *arguments))
    np.testing.assert_array_equal(log.times, [1.0, 2.5, 4.0])
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        kernel(log, *arguments)
        gc.collect()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    watched = weakref.ref(log.times)
    del log
    gc.collect()
    assert watched() is None
