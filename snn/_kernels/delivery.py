"""The protocol of weights in kernels: only methods of `Form` read weights.

The following methods deliver a spike, and change the following numbers:

    Rows, Segments, Gathered    `deliver` changes `windows.excess` and `group.current` of all targets
                                (`candidates.add_to_range`).  For targets that are candidates, `deliver`
                                changes `windows.candidates[ARRIVING]`, which `renew_bounds` applies
    CompressedRows              `deliver` changes the numbers that `Rows` changes; for candidates,
                                `renew_touched` applies ARRIVING
    Stencil                     `_deliver` of `convolution.loop` changes `grid.excess` and candidates
    on a clock                  `send` changes currents, or with delays `copies.pending` (`stepped`)
    input spikes                `stops` changes the current, or the drive
"""

from abc import abstractmethod

from snn._kernels.candidates import renew_bounds
from snn._kernels.compiling import inner

TOTAL, TRACE, DEVIATION, LAST = 0, 1, 2, 3  # rows of the sums of `screening.Sources`


class Form:
    """A record of weights in any form, which kernels take."""

    # A kernel is compiled once for each type of record.  All records of one type must have fields of the same
    # types: 64-bit numbers, and one-dimensional arrays that are contiguous and read-only.

    __slots__ = ()

    @abstractmethod
    def targets_per_source(self, n_neurons):
        """Return the mean number of targets of a spike, counting stored zeros and targets beyond a grid."""

    @abstractmethod
    def add_weights(self, current, neuron, count):
        """Add `count`, a real number, times the weights of a source to currents; return their number."""

    def row_is_there(self, source):
        """Return whether the row of a source has been computed."""
        return True

    def send(self, neurons, copies, k, neuron, step, message):
        """Deliver a message of a neuron of copy k, on a clock and without a delay."""
        neurons.receive(self, neuron, message)


class ScreenedForm(Form):
    """Weights for `event_loop`, and for networks with an active set (`active_neurons`, `screening`)."""

    __slots__ = ()

    @abstractmethod
    def deliver(self, source, moment, length, group, windows, n_candidates):
        """Deliver one spike to the neurons of a group in a window; return the number of candidates."""

    def renew(self, n_candidates, moment, instant, windows):
        """Renew the bounds of the candidates that the spikes of an instant reach; return the next instant."""
        renew_bounds(n_candidates, moment, windows)
        return instant + 1

    @abstractmethod
    def weight_between(self, source, target):
        """Return the weight from a source to another neuron."""

    @abstractmethod
    def add_sources(self, start, size, sources, n_sources, sums):
        """Add the sums of each source, times its weights, to `sums` of `size` targets from `start` on."""

    def note_rows(self, active, sources, n_sources):
        """Store the place of the weights of each source; return the number of sources, with padding."""
        for s in range(n_sources):
            sources.rows[s] = active.members[sources.members[s]]
        return n_sources

    def gather(self, source, members, n_members, rows, offset):
        """Copy the weights from `source` to the members to rows[offset:]; the weight to `source` is 0."""
        for k in range(n_members):
            rows[offset + k] = self.weight_between(source, members[k])


@inner
def add_scaled(current, weights, factor):
    """Add ``factor * weights`` to currents."""
    for i in range(weights.shape[0]):
        current[i] += factor * weights[i]
