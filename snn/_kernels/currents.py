"""The currents that spikes or rates cause: weights of a source, added to all currents at once."""

from snn._kernels.compiling import implements, inner, resolved_by_record
from snn._kernels.forms import CompressedRows, Rows, Segments, Stencil


@inner
def _add(current, weights, factor):
    for i in range(weights.shape[0]):
        current[i] += factor * weights[i]


@resolved_by_record
def add_weights(form, current, neuron, count):
    """Add `count` spikes of one source, any real number, to the currents; return the number of weights."""
    # The current of the source itself may change too.


@implements(add_weights, Rows)
def _add_rows(form, current, neuron, count):
    n_rows = form.row_of.shape[0]
    is_positive = neuron < n_rows
    row = neuron if is_positive else neuron - n_rows
    first = form.row_of[row] * n_rows
    values = form.values[first : first + n_rows]
    if form.cross.shape[0] == 0:
        _add(current[:n_rows], values, count * form.factor)
        return n_rows
    factor = count * (form.factor if is_positive else -form.factor)
    opposite = row + n_rows if is_positive else row
    opposite_current = current[opposite] + count * form.cross[row]
    _add(current[:n_rows], values, factor)
    _add(current[n_rows : 2 * n_rows], values, -factor)
    current[opposite] = opposite_current
    return 2 * n_rows


@implements(add_weights, Segments)
def _add_segments(form, current, neuron, count):
    n_weights = 0
    for segment in range(form.starts[neuron], form.starts[neuron + 1]):
        target, length, offset = form.targets[segment], form.lengths[segment], form.offsets[segment]
        _add(
            current[target : target + length],
            form.values[offset : offset + length],
            count * form.factors[segment],
        )
        n_weights += length
    return n_weights


@implements(add_weights, CompressedRows)
def _add_compressed_rows(form, current, neuron, count):
    for entry in range(form.starts[neuron], form.starts[neuron + 1]):
        current[form.targets[entry]] += count * form.weights[entry]
    return form.starts[neuron + 1] - form.starts[neuron]


@implements(add_weights, Stencil)
def _add_stencil(form, current, neuron, count):
    # Positions in a row of the grid, and their channels, are neighbours in both arrays.
    position, channel = neuron // form.n_channels, neuron % form.n_channels
    row, column = position // form.n_columns, position % form.n_columns
    n_row_offsets, n_column_offsets = 2 * form.reach_rows + 1, 2 * form.reach_columns + 1
    first_column = max(column - form.reach_columns, 0)
    n_columns = min(column + form.reach_columns + 1, form.n_columns) - first_column
    column_offset = first_column - (column - form.reach_columns)
    n_weights = 0
    for i in range(n_row_offsets):
        target_row = row + i - form.reach_rows
        if target_row < 0 or target_row >= form.n_rows:
            continue
        first = (target_row * form.n_columns + first_column) * form.n_channels
        line = (channel * n_row_offsets + i) * n_column_offsets + column_offset
        length, offset = n_columns * form.n_channels, line * form.n_channels
        _add(current[first : first + length], form.values[offset : offset + length], count)
        n_weights += length
    return n_weights
