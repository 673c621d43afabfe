"""The effect of a spike: what kernels ask of weights in any form.  No other code looks at weights.

This code delivers a spike, and changes these numbers:

    Rows, Segments, Gathered    `deliver` changes `windows.excess` and `group.current` of all targets
                                (`candidates.add_to_range`).  For candidates these two do not count:
                                `deliver` changes `windows.candidates[ARRIVING]`; `renew_bounds` applies it
    CompressedRows              `deliver` changes the same numbers; `renew_touched` applies ARRIVING
    Stencil                     `_deliver` of `convolution.loop` changes `grid.excess` and candidates
    on a clock                  `send` changes currents, or with delays `copies.pending` (`stepped`)
    input spikes                `stops` changes the current, or the drive
"""

from abc import abstractmethod

from snn._kernels.candidates import renew_bounds
from snn._kernels.compiling import inner

TOTAL, TRACE, DEVIATION, LAST = 0, 1, 2, 3  # rows of the sums of `screening.Sources`


class Form:
    """A record of weights in any form, as kernels take them."""

    # A kernel is compiled once for each type of record.  All records of one type have the same types of
    # fields: 64-bit numbers, and one-dimensional arrays that are contiguous and read-only.

    __slots__ = ()

    @abstractmethod
    def targets_per_source(self, n_neurons):
        """Return the mean number of targets of a spike, counting stored zeros and targets beyond a grid."""

    @abstractmethod
    def add_weights(self, current, neuron, count):
        """Add `count` (real) times the weights of a source to the currents; return the number of weights."""

    def row_is_there(self, source):
        """Return whether the row of a source has been computed."""
        return True

    def send(self, neurons, copies, k, neuron, step, message):
        """Deliver a message of a neuron of copy k on a clock without a delay."""
        neurons.receive(self, neuron, message)


class ScreenedForm(Form):
    """Weights of a network in `event_loop`, which may have an active set (`active_neurons`, `screening`)."""

    __slots__ = ()

    @abstractmethod
    def deliver(self, source, moment, length, group, windows, n_candidates):
        """Deliver one spike to the neurons of a group in a window; return the number of candidates."""

    def renew(self, n_candidates, moment, instant, windows):
        """Renew the bounds of candidates that an instant reaches; return the number of the next instant."""
        renew_bounds(n_candidates, moment, windows)
        return instant + 1

    @abstractmethod
    def weight_between(self, source, target):
        """Return the weight from a source to another neuron."""

    @abstractmethod
    def add_sources(self, start, size, sources, n_sources, sums):
        """Add the sums over the spikes of each source to the sums of `size` targets, from `start` on."""

    def note_rows(self, active, sources, n_sources):
        """Note where the weights of each source are; return the number of sources, padding included."""
        for s in range(n_sources):
            sources.rows[s] = active.members[sources.members[s]]
        return n_sources

    def gather(self, source, members, n_members, rows, offset):
        """Copy the weights from `source` to the members to `rows`, from `offset` on; the diagonal is zero."""
        for k in range(n_members):
            rows[offset + k] = self.weight_between(source, members[k])


@inner
def add_scaled(current, weights, factor):
    """Add factor * weights to the currents."""
    for i in range(weights.shape[0]):
        current[i] += factor * weights[i]
