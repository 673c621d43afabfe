"""The effect of a spike, for each form of weights: the only place in which kernels look at weights.

Which implementation of an operation runs is resolved when a kernel is compiled, by the type of the record
(`forms`); what an operation says here serves forms that do not differ.  A form of weights needs

    add_weights         all weights of a source, added to the currents
    deliver             one spike, to neurons in a window
    weight_between      one weight
    add_sources         the spikes of an interval, summed up source by source, to a range of targets

all of them in one module: `rows`, `sparse_rows`.  `active_set` adds a form of its own, rows
gathered from any other, which needs `deliver` alone; a grid, which has a loop of its own, `add_weights`.
"""

from snn._kernels.candidates import renew_bounds
from snn._kernels.compiling import inner, resolved_by_record

TOTAL, TRACE, DEVIATION, LAST = 0, 1, 2, 3  # rows of the sums of `screening.Sources`

# Who delivers a spike, and which number it changes:
#   Rows, Segments, Gathered   `deliver` of rows, sparse_rows, active_set: of all targets `windows.excess` and
#                              `group.current` (`candidates.add_to_range`); of candidates, where these two do
#                              not count, `windows.candidates[ARRIVING]`, which `renew_bounds` then applies
#   CompressedRows             `deliver_of_rows` of sparse_rows: of each target those two, or ARRIVING, which
#                              `renew_touched` applies
#   Stencil                    `_deliver` of convolution.loop: `grid.excess`, and numbers of its candidates
#   on a clock                 `send` of stepped: currents by `add_weights`; with delays `copies.pending`
#   input spikes               `stops`: the current, or the drive


@inner
def add_scaled(current, weights, factor):
    """Add a multiple of some weights to the currents."""
    for i in range(weights.shape[0]):
        current[i] += factor * weights[i]


@resolved_by_record
def add_weights(form, current, neuron, count):
    """Add `count` spikes of one source, any real number, to the currents; return the number of weights."""


@resolved_by_record
def row_is_there(form, source):
    """Whether the row of a source has been computed."""
    return True


@resolved_by_record
def deliver(form, source, moment, length, group, windows, n_candidates):
    """Deliver one spike to the neurons of a group in a window; return the number of candidates."""


@resolved_by_record
def renew(form, n_candidates, moment, instant, windows):
    """Renew the bounds of candidates that the spikes of an instant reach; return the number of the next."""
    renew_bounds(n_candidates, moment, moment.to_end, moment.growth, windows)
    return instant + 1


@resolved_by_record
def weight_between(form, source, target):
    """Return the weight from a source to another neuron."""


@resolved_by_record
def gather(form, source, members, n_members, rows, offset):
    """Copy the weights from `source` to the members, its own zero, to `rows` from `offset` on."""
    for k in range(n_members):
        rows[offset + k] = weight_between(form, source, members[k])


@resolved_by_record
def prepare_sources(form, active, sources, n_sources):
    """Note where the weights of each source are; return the number of sources, padding included."""
    for s in range(n_sources):
        sources.rows[s] = active.members[sources.members[s]]
    return n_sources


@resolved_by_record
def add_sources(form, start, size, sources, n_sources, sums):
    """Add sources to the sums of `size` targets from `start` on."""
