"""The grid's records: what a run is given, and what it stores of positions and candidates."""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.workspace import new_floats, new_integers

LEAST_EVENTS_PER_EPOCH = 256
"""An epoch has up to this many spikes, or a quarter of the neurons if that is more."""
MOST_LOGGED = 16
"""Spikes in the log of a position."""

# Candidates of a position are stored in groups of eight lanes, which the processor computes together.  A
# field of a candidate is at this offset in its group.  Empty lanes never cross.
LANES = 8
CROSSING, OWN_W, OWN_P, SCALE, SCALED_BIAS, CHANNEL, STATUS, WEIGHT = range(0, 8 * LANES, LANES)
GROUP = 8 * LANES
# The status of a candidate: its crossing is a lower bound, exact, or not known yet; or the lane is empty.
BOUND, EXACT, NEW, EMPTY = 0.0, 1.0, 2.0, 3.0


class Grid(NamedTuple):
    """The weights and what is stored of positions and candidates, for one network after another."""

    values: np.ndarray
    """The weights one after the other: for each source channel and offset, those to all channels."""
    largest_value: float
    n_rows: int
    n_columns: int
    n_positions: int
    n_channels: int
    reach_rows: int
    reach_columns: int
    excess: np.ndarray
    excess_bits: np.ndarray
    length: np.ndarray
    """Of the window of each position, which ends at `end`; `end_fade` is e^-end."""
    end: np.ndarray
    end_fade: np.ndarray
    n_spikes: np.ndarray
    """Spikes that reached each position within its window, and how many candidates they touched."""
    n_touched: np.ndarray
    n_candidates: np.ndarray
    n_logged: np.ndarray
    times: np.ndarray
    """The earliest time of each position, and of blocks of positions, also as integers, in the same order."""
    time_bits: np.ndarray
    block_bits: np.ndarray
    block_size: int
    logged_offsets: np.ndarray
    logged_growths: np.ndarray
    candidates: np.ndarray
    candidate_bits: np.ndarray
    reached: np.ndarray
    """Positions that a spike reaches, and where in `values` its weights to them are."""
    reached_offsets: np.ndarray
    tied_neurons: np.ndarray
    tied_candidates: np.ndarray
    limit: np.ndarray
    limit_bits: np.ndarray


def events_per_epoch(n_neurons):
    """Return the number of spikes after which an epoch ends, apart from those that tie with the last."""
    return max(LEAST_EVENTS_PER_EPOCH, n_neurons // 4)


class Settings(NamedTuple):
    """How a grid is run: none of it changes its spikes but by rounding."""

    events_per_epoch: int


def settings_of(n_neurons, targets_per_source, *, screening):
    """Return the settings for a grid of so many neurons."""
    return Settings(events_per_epoch(n_neurons))


def single_step(settings):
    """Return settings with which a run pauses after the next spike, and those of the same instant."""
    return Settings(1)


def overshoot(n_neurons, settings):
    """Return how many spikes more than it was asked for a call may emit: epochs are never split."""
    return settings.events_per_epoch + n_neurons


def new_grid(stencil, n_neurons, settings):
    """Allocate what is stored of positions and candidates, once a run."""
    n_channels = stencil.n_channels
    n_positions = stencil.n_rows * stencil.n_columns
    block_size = max(8, math.ceil(math.sqrt(n_positions)))
    times = new_floats(n_positions)
    excess = new_floats(n_neurons)
    # Room for each neuron, most of it never touched: the k-th groups of all positions are neighbours.
    candidates = new_floats((n_channels + LANES - 1) // LANES * n_positions * GROUP)
    limit = new_floats(1)
    n_reached = (2 * stencil.reach_rows + 1) * (2 * stencil.reach_columns + 1)
    return Grid(
        values=stencil.values,
        largest_value=stencil.largest_value,
        n_rows=stencil.n_rows,
        n_columns=stencil.n_columns,
        n_positions=n_positions,
        n_channels=n_channels,
        reach_rows=stencil.reach_rows,
        reach_columns=stencil.reach_columns,
        excess=excess,
        excess_bits=excess.view(np.int64),
        length=new_floats(n_positions),
        end=new_floats(n_positions),
        end_fade=new_floats(n_positions),
        n_spikes=new_integers(n_positions),
        n_touched=new_integers(n_positions),
        n_candidates=new_integers(n_positions),
        n_logged=new_integers(n_positions),
        times=times,
        time_bits=times.view(np.int64),
        block_bits=new_integers((n_positions + block_size - 1) // block_size),
        block_size=block_size,
        logged_offsets=new_integers(n_positions * MOST_LOGGED),
        logged_growths=new_floats(n_positions * MOST_LOGGED),
        candidates=candidates,
        candidate_bits=candidates.view(np.int64),
        reached=new_integers(n_reached),
        reached_offsets=new_integers(n_reached),
        tied_neurons=new_integers(n_neurons),
        tied_candidates=new_integers(n_neurons),
        limit=limit,
        limit_bits=limit.view(np.int64),
    )
