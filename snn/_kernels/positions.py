"""Positions of a grid of neurons: what is kept of each, and which is the first to do something.

See `stencil` for what they are.
"""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined

LONGEST_WINDOW = 16.0
SHORTEST_WINDOW = 1e-9
# Candidates touched by a spike, for each position it reaches: windows are made to have that many.
FEW_CANDIDATES, MANY_CANDIDATES = 3, 7
MOST_WAITING = 16
"""Spikes that a window takes in before another is opened."""
MOST_LOGGED = 128
"""Spikes that a position keeps before all its neurons are brought up to date."""

# Candidates of a position stand in groups of eight lanes, which the processor works on at once; what is
# kept of each, in single precision, is a line of the group.  Lanes nobody stands in belong to a neuron that
# cannot fire.
LANES = 8
OWN_W, OWN_H, OWN_BIAS, CHANNEL, IS_EXACT, WEIGHT, DISTANCE = range(0, 7 * LANES, LANES)
GROUP = 7 * LANES
IS_NEW = np.float32(-1.0)
"""In place of IS_EXACT: the bound of a candidate is still to be found."""
NEVER = np.float32(-1e30)
"""The excess of a candidate, of places that belong to nobody, and w there: not found, and never firing."""

# What is kept of a position.
END, END_FADE, LENGTH, START_FADE, START_GROWTH, RECENT, LOST, LOST_PART = range(8)
POSITION_FIELDS = 8
N_CANDIDATES, N_LOGGED, N_SEEN, N_TOUCHED, N_REACHED, N_WINDOWS, FIRST_RECORD = range(7)
POSITION_COUNTS = 7

# What is kept of a neuron that has been looked at exactly.
EXACT_W, EXACT_P, EXACT_BIAS, EXACT_THRESHOLD = range(4)
RECORD_FIELDS = 4
NEURON, N_ADDED, NEXT_RECORD = range(3)
RECORD_COUNTS = 3
NONE = -1

BOTH_NEGATIVE = np.int64(np.uint64(0x8000000080000000).astype(np.int64))
"""The signs of two numbers of single precision."""


def padded(n_channels):
    """Return the places of a position's excesses: two signs are looked at together, sixteen numbers added."""
    return (n_channels + 15) // 16 * 16


class Run(NamedTuple):
    """What the functions below share: the weights, one network's state, and work arrays."""

    values: np.ndarray
    """Weights [channel, row offset, column offset, channel], one after the other: lines of the last."""
    single_values: np.ndarray
    """Likewise, in units of the largest, and padded; a line of zeros follows."""
    per_threshold: float
    """1 / the largest threshold."""
    weight_ratio: float
    """The largest weight / the largest threshold."""
    n_columns: int
    n_channels: int
    n_positions: int
    n_padded: int
    bias: np.ndarray
    threshold: np.ndarray
    w: np.ndarray
    """Without the spikes in the log of the position."""
    p: np.ndarray
    p_bits: np.ndarray
    single_w: np.ndarray
    """(w - threshold) / the largest threshold, without the spikes of the window."""
    single_h: np.ndarray
    """The current at the beginning of the window, likewise."""
    single_bias: np.ndarray
    excess: np.ndarray
    excess_signs: np.ndarray
    places: np.ndarray
    place_counts: np.ndarray
    times: np.ndarray
    """The earliest of each position, and of blocks of them; as integers, which keep their order."""
    time_bits: np.ndarray
    block_bits: np.ndarray
    block_size: int
    logged_lines: np.ndarray
    logged_growths: np.ndarray
    lanes: np.ndarray
    crossings: np.ndarray
    crossing_bits: np.ndarray
    mask: np.ndarray
    mask_words: np.ndarray
    record_of: np.ndarray
    records: np.ndarray
    record_counts: np.ndarray
    n_records: np.ndarray
    tied_neurons: np.ndarray
    tied_lanes: np.ndarray
    limit: np.ndarray
    limit_bits: np.ndarray
    reached: np.ndarray
    reached_lines: np.ndarray
    row: np.ndarray
    row_bits: np.ndarray


@inlined
def crossing_of(k, q, n_positions):
    """Return where the crossing of the k-th candidate of a position stands."""
    return LANES * (k // LANES * n_positions + q) + k % LANES


@inlined
def lane_of(crossing):
    """Return where the candidate stands whose crossing stands there."""
    return crossing // LANES * GROUP + crossing % LANES


@inlined
def earliest_of_position(q, run):
    """Note the earliest time of a position: the end of its window, or a candidate's.

    As integers, times that are not negative keep their order.
    """
    run.times[q] = run.places[q, END]
    earliest = run.time_bits[q]
    first = LANES * q
    for _ in range(0, run.place_counts[q, N_CANDIDATES], LANES):
        for lane in range(LANES):
            bits = run.crossing_bits[np.uint64(first + lane)]
            earliest = bits if bits < earliest else earliest
        first += LANES * run.n_positions
    run.time_bits[q] = earliest


@inlined
def earliest_of_block(block, run):
    """Note the earliest time of a block of positions."""
    first = block * run.block_size
    last = min(first + run.block_size, run.time_bits.shape[0])
    earliest = run.time_bits[first]
    for q in range(first, last):
        bits = run.time_bits[np.uint64(q)]
        earliest = bits if bits < earliest else earliest
    run.block_bits[block] = earliest


@inlined
def earliest(run):
    """Return the first position of the earliest time."""
    earliest = run.block_bits[0]
    for block in range(run.block_bits.shape[0]):
        bits = run.block_bits[np.uint64(block)]
        earliest = bits if bits < earliest else earliest
    block = 0
    while run.block_bits[block] != earliest:
        block += 1
    q = block * run.block_size
    while run.time_bits[q] != earliest:
        q += 1
    return q


@inlined
def count_until(limit_bits, first, last, bits):
    """Return how many of some times are at most the limit."""
    count = 0
    for k in range(first, last):
        count += 1 if bits[np.uint64(k)] <= limit_bits else 0
    return count
