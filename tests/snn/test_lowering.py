"""Short cuts of lowering: what compiled functions read and write is what Python does."""

import gc
import weakref
from functools import partial

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from snn._kernels.compiling import compiled, inner, kernel_of
from snn._kernels.event_loop import Log

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


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_, np.complex128]
)
@pytest.mark.parametrize("index", [0, 3, -1, -LENGTH, np.uint8(4), np.int32(-2), True])
@pytest.mark.parametrize("is_contiguous", [True, False])
def test_elements(dtype, index, is_contiguous):
    numbers = np.random.default_rng(0).integers(0, 2, (2 * LENGTH, 2 * LENGTH)).astype(dtype)
    step = 1 if is_contiguous else 2
    values, table = (
        numbers[0, : step * LENGTH : step],
        numbers[: step * LENGTH : step, : step * LENGTH : step],
    )
    if is_contiguous:
        values, table = np.ascontiguousarray(values), np.ascontiguousarray(table)
    if not isinstance(index, bool):
        assert kernel_of(_element)(values, index) == values[index]
        expected = values.copy(), table.copy()
        _put.py_func(*expected, index, 3)
        values, table = values.copy(), table.copy()
        kernel_of(_put)(values, table, index, 3)
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(table, expected[1])
    row = int(index)
    assert kernel_of(_corner)(table * 1.0, row, 1) == table[row, 1] * 1.0 + table[-1, -2] * 1.0


@inner
def _last(log):
    return log.times[-1] + log.neurons[log.neurons.shape[0] - 1]


@inner
def _both(first, second):
    return _last(first) - 2.0 * _last(second)


@inner
def _swapped(log, times):
    if times.shape[0] > 1:
        log = Log(times, log.neurons)
    return _both(log, log) + _last(log)


@partial(compiled)
def _of_records(log, times, n):
    total = 0.0
    for i in range(n):
        # One of these is made here, and memory of it is counted.
        own = Log(np.full(2, float(i)), log.neurons)
        total += _both(log, own) + _swapped(own, times) + _both(own, log)
        own.times[0] = total
        total += own.times[0]
    return total, log


def test_records_by_address():
    log = Log(np.array([1.0, 2.5]), np.array([3, 4]))
    times = np.array([0.5, 0.25])
    references = [np.array([7.0]), times]
    for given in references:
        value, back = _of_records(log, given, 4)
        assert value == _of_records.py_func(log, given, 4)[0]
        assert isinstance(back, Log)
        assert (
            back.times.base is log.times or back.times is log.times or np.shares_memory(back.times, log.times)
        )
    np.testing.assert_array_equal(log.times, [1.0, 2.5])


@partial(inner, _nrt=True)
def _summed(log, other, size):
    """Two ways out of the loop, after which one record is not needed."""
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


@compiled
def _summed_often(log, sizes):
    total = 0.0
    other = Log(np.ones(2), np.zeros(1, np.int64))
    for size in sizes:
        other, part = _summed(log, other, size)
        total += part
    return total


def test_a_record_that_a_loop_needs_last_is_freed_once():
    log = Log(np.ones(3), np.arange(3))
    watched = weakref.ref(log.times)
    sizes = np.array([3, 20, 5])
    for _ in range(50):
        assert _summed_often(log, sizes) == _summed_often.py_func(log, sizes)
    np.testing.assert_array_equal(log.times, 1.0)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        _summed_often(log, sizes)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert watched() is not None


def test_memory_of_records_is_counted():

    times = np.arange(3.0)
    watched = weakref.ref(times)
    _of_records(Log(times, np.array([1, 2])), np.ones(1), 3)
    del times
    gc.collect()
    assert watched() is None
