"""Which position of the grid is the first to do something, and where its candidates are stored."""

import numpy as np

from snn._kernels.compiling import inlined
from snn._kernels.convolution.grid import CROSSING, GROUP, LANES


@inlined
def candidate_at(k, q, grid):
    """Return where the k-th candidate of position q is stored."""
    return GROUP * (k // LANES * grid.n_positions + q) + k % LANES


@inlined
def note_earliest_of_position(q, grid):
    """Note the earliest time of a position: the end of its window, or a candidate's."""
    # As integers, times that are not negative have the same order, and are compared faster.
    grid.times[q] = grid.end[q]
    earliest = grid.time_bits[q]
    group = GROUP * q
    for _ in range(0, grid.n_candidates[q], LANES):
        for lane in range(LANES):
            bits = grid.candidate_bits[np.uint64(group + CROSSING + lane)]
            earliest = bits if bits < earliest else earliest
        group += GROUP * grid.n_positions
    grid.time_bits[q] = earliest


@inlined
def note_earliest_of_block(block, grid):
    """Note the earliest time of a block of positions."""
    first = block * grid.block_size
    last = min(first + grid.block_size, grid.n_positions)
    earliest = grid.time_bits[first]
    for q in range(first, last):
        bits = grid.time_bits[np.uint64(q)]
        earliest = bits if bits < earliest else earliest
    grid.block_bits[block] = earliest


@inlined
def earliest_position(grid):
    """Return the first position of the earliest time."""
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
def earliest_candidate(q, grid):
    """Return where the candidate is stored whose time is the earliest of position q."""
    k = 0
    while grid.candidate_bits[candidate_at(k, q, grid) + CROSSING] != grid.time_bits[q]:
        k += 1
    return candidate_at(k, q, grid)


@inlined
def _count_until(limit_bits, first, last, bits):
    count = 0
    for k in range(first, last):
        count += 1 if bits[np.uint64(k)] <= limit_bits else 0
    return count


@inlined
def is_contested(q, limit, grid):
    """Return whether a neuron other than the first candidate of position q could fire until the limit."""
    grid.limit[0] = limit
    bits = grid.limit_bits[0]
    if _count_until(bits, 0, grid.block_bits.shape[0], grid.block_bits) > 1:
        return True
    first = q // grid.block_size * grid.block_size
    if _count_until(bits, first, min(first + grid.block_size, grid.n_positions), grid.time_bits) > 1:
        return True
    count = 1 if grid.end[q] <= limit else 0
    for k in range(grid.n_candidates[q]):
        count += 1 if grid.candidates[candidate_at(k, q, grid) + CROSSING] <= limit else 0
    return count > 1
