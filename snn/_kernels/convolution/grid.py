"""Weights on a grid, the memory of the grid, and the search for its earliest candidate or end of a window."""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, record
from snn._kernels.delivery import Form, add_scaled
from snn._kernels.run_state import SpikeLog
from snn._kernels.workspace import new_floats, overshoot

MOST_LOGGED = 16  # largest number of spikes in the log of a position

# The candidates of a position are stored in groups of LANES, which the processor computes together.  CROSSING
# to STATUS are the offsets of the fields of a candidate in its group.  The crossing of an empty lane is inf.
LANES = 8
CROSSING, OWN_W, OWN_P, SCALE, SCALED_BIAS, CHANNEL, STATUS = range(0, 7 * LANES, LANES)
NUMBERS_PER_GROUP = 7 * LANES
# Status of a lane: the crossing is a lower bound, the crossing is exact, the crossing is not computed yet, or
# the lane has no candidate.
BOUND, EXACT_CROSSING, NEW_CROSSING, EMPTY = 0.0, 1.0, 2.0, 3.0


class _Stencil(NamedTuple):
    # Channel k at position (p, q) adds to channel l at position (p + i - reach_rows, q + j - reach_columns)
    # the weight ``values[((k * (2 reach_rows + 1) + i) * (2 reach_columns + 1) + j) * n_channels + l]``,
    # if that position is on the grid.  Neurons are numbered by row, then column, then channel.

    values: np.ndarray  # flat float64 array: [source channel, row offset, column offset, target channel]
    largest_value: float  # the largest absolute value in `values`
    n_rows: int
    n_columns: int
    n_channels: int
    reach_rows: int
    reach_columns: int


@record
class Stencil(_Stencil, Form):
    """The same weights at every position of a grid."""

    __slots__ = ()

    def targets_per_source(self, n_neurons):
        return self.values.size / self.n_channels

    def add_weights(self, current, neuron, count):
        # The positions of one row of the grid, and their channels, are contiguous in both arrays.
        position, channel = neuron // self.n_channels, neuron % self.n_channels
        row, column = position // self.n_columns, position % self.n_columns
        n_row_offsets, n_column_offsets = 2 * self.reach_rows + 1, 2 * self.reach_columns + 1
        first_column = max(column - self.reach_columns, 0)
        n_columns = min(column + self.reach_columns + 1, self.n_columns) - first_column
        column_offset = first_column - (column - self.reach_columns)
        n_weights = 0
        for i in range(n_row_offsets):
            target_row = row + i - self.reach_rows
            if target_row < 0 or target_row >= self.n_rows:
                continue
            first = (target_row * self.n_columns + first_column) * self.n_channels
            line = (channel * n_row_offsets + i) * n_column_offsets + column_offset
            length, offset = n_columns * self.n_channels, line * self.n_channels
            add_scaled(current[first : first + length], self.values[offset : offset + length], count)
            n_weights += length
        return n_weights


class GridMemory(NamedTuple):
    """The weights, and memory of positions and candidates, which all copies of a network use one by one."""

    stencil: Stencil
    n_positions: int
    excess: np.ndarray
    excess_bits: np.ndarray
    length: np.ndarray  # length of the window of each position; the window ends at `end`
    end: np.ndarray
    end_fade: np.ndarray  # e^-end
    n_spikes: np.ndarray  # number of spikes that reached each position within its window
    n_touched: np.ndarray  # number of candidates that the spikes of `n_spikes` reached
    n_candidates: np.ndarray
    n_logged: np.ndarray
    # The earliest time of each position and of each block of positions, and the bits of each time as an
    # integer.
    times: np.ndarray
    time_bits: np.ndarray
    block_times: np.ndarray
    block_bits: np.ndarray
    block_size: int
    logged_offsets: np.ndarray
    logged_growths: np.ndarray
    candidates: np.ndarray
    candidate_bits: np.ndarray
    tied_neurons: np.ndarray
    tied_candidates: np.ndarray
    bias: np.ndarray
    threshold: np.ndarray
    log: SpikeLog


def new_grid_memory(stencil, n_neurons, settings):
    """Return memory that all copies of a network use, one by one."""
    n_log = overshoot(n_neurons, settings)
    n_positions = stencil.n_rows * stencil.n_columns
    block_size = max(8, math.ceil(math.sqrt(n_positions)))
    times, block_times = new_floats(n_positions), new_floats((n_positions + block_size - 1) // block_size)
    excess = new_floats(n_neurons)
    # Every neuron has room for a candidate.  The k-th groups of all positions are contiguous, and most groups
    # are never touched.
    candidates = new_floats((stencil.n_channels + LANES - 1) // LANES * n_positions * NUMBERS_PER_GROUP)
    return GridMemory(
        stencil=stencil,
        n_positions=n_positions,
        excess=excess,
        excess_bits=excess.view(np.int64),
        length=new_floats(n_positions),
        end=new_floats(n_positions),
        end_fade=new_floats(n_positions),
        n_spikes=_new_integers(n_positions),
        n_touched=_new_integers(n_positions),
        n_candidates=_new_integers(n_positions),
        n_logged=_new_integers(n_positions),
        times=times,
        time_bits=times.view(np.int64),
        block_times=block_times,
        block_bits=block_times.view(np.int64),
        block_size=block_size,
        logged_offsets=_new_integers(n_positions * MOST_LOGGED),
        logged_growths=new_floats(n_positions * MOST_LOGGED),
        candidates=candidates,
        candidate_bits=candidates.view(np.int64),
        tied_neurons=_new_integers(n_neurons),
        tied_candidates=_new_integers(n_neurons),
        bias=new_floats(n_neurons),
        threshold=new_floats(n_neurons),
        log=SpikeLog(new_floats(n_log), _new_integers(n_log)),
    )


def _new_integers(size):
    return new_floats(size).view(np.int64)


@inlined
def candidate_at(k, q, grid):
    """Return the index of the k-th candidate of position q in the array of candidates."""
    return NUMBERS_PER_GROUP * (k // LANES * grid.n_positions + q) + k % LANES


@inlined
def note_earliest_of_position(q, grid):
    """Store the earliest time of a position: the end of its window, or the crossing of a candidate."""
    # The bits of nonnegative times, read as integers, have the same order, and are compared faster.
    grid.times[q] = grid.end[q]
    earliest = grid.time_bits[q]
    group = NUMBERS_PER_GROUP * q
    for _ in range(0, grid.n_candidates[q], LANES):
        for lane in range(LANES):
            bits = grid.candidate_bits[np.uint64(group + CROSSING + lane)]
            earliest = bits if bits < earliest else earliest
        group += NUMBERS_PER_GROUP * grid.n_positions
    grid.time_bits[q] = earliest


@inlined
def note_earliest_of_block(block, grid):
    """Store the earliest time of a block of positions."""
    first = block * grid.block_size
    last = min(first + grid.block_size, grid.n_positions)
    earliest = grid.time_bits[first]
    for q in range(first, last):
        bits = grid.time_bits[np.uint64(q)]
        earliest = bits if bits < earliest else earliest
    grid.block_bits[block] = earliest


@inlined
def note_earliest(q, grid):
    """Store the earliest times of a position and of its block."""
    note_earliest_of_position(q, grid)
    note_earliest_of_block(q // grid.block_size, grid)


@inlined
def earliest_position(grid):
    """Return the first position that has the earliest time."""
    earliest = grid.block_bits[0]
    for block in range(grid.block_bits.shape[0]):
        bits = grid.block_bits[np.uint64(block)]
        earliest = bits if bits < earliest else earliest
    block = 0
    while grid.block_bits[block] != earliest:
        block += 1
    q = block * grid.block_size
    while grid.time_bits[q] != earliest:
        q += 1
    return q


@inlined
def _count_until(limit, first, last, times):
    count = np.int64(0)
    for k in range(first, last):
        count += np.int64(1) if times[np.uint64(k)] <= limit else np.int64(0)
    return count


@inlined
def is_contested(q, limit, grid):
    """Return whether a neuron other than the first candidate of position q could fire before the limit."""
    if _count_until(limit, 0, grid.block_times.shape[0], grid.block_times) > 1:
        return True
    first = q // grid.block_size * grid.block_size
    if _count_until(limit, first, min(first + grid.block_size, grid.n_positions), grid.times) > 1:
        return True
    count = 1 if grid.end[q] <= limit else 0
    for k in range(grid.n_candidates[q]):
        count += 1 if grid.candidates[candidate_at(k, q, grid) + CROSSING] <= limit else 0
    return count > 1
