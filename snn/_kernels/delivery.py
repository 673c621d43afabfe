"""What a spike adds, for each form of weights: the only place in which event loops look at weights.

Which implementation of an operation runs is resolved when a kernel is compiled, by the type of the record
(`forms`); what an operation says here serves forms that do not differ.  A form of weights needs

    deliver             one spike, to neurons in a window
    gather              the weights of a source to the members of an active set
    weight_between      one weight
    add_sources         the spikes of an interval, summed up source by source, to a range of targets
    cost_in_place       nanoseconds that a spike costs while all neurons are integrated
    cost_of_source      nanoseconds that a source costs for the neurons that are screened

all of them in one module: `rows`, `segments`, `compressed_rows`.  `active_set` adds a form of its own, rows
gathered from any other, which needs the first alone.
"""

from snn._kernels.candidates import renew_bounds
from snn._kernels.compiling import resolved_by_record

TOTAL, TRACE, DEVIATION, LAST = 0, 1, 2, 3
"""Rows of the sums of `screening.Sources`."""


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
def gather(form, source, members, n_members, rows, offset):
    """Copy the weights from `source` to the members, its own zero, to `rows` from `offset` on."""
    for k in range(n_members):
        rows[offset + k] = weight_between(form, source, members[k])


@resolved_by_record
def weight_between(form, source, target):
    """Return the weight from a source to another neuron."""


@resolved_by_record
def prepare_sources(form, active, sources, n_sources):
    """Note where the weights of each source are; return the number of sources, padding included."""
    for s in range(n_sources):
        sources.rows[s] = active.members[sources.members[s]]
    return n_sources


@resolved_by_record
def add_sources(form, start, size, sources, n_sources, sums):
    """Add sources to the sums of `size` targets from `start` on."""
