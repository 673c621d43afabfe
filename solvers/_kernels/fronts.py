"""The dense matrices of a sparse Cholesky factorisation: what is added to them, and taken from them.

A front has its own members, which it eliminates, and members on its border, which are eliminated later.  Its
lower triangle is kept in three matrices: `own` x `own`, `border` x `own` and `border` x `border`.  `place`
says where in a front each member of the whole is: its own members come first, and -1 is not there.
"""

from snn._kernels.compiling import uncounted
from solvers._kernels.sparse_gram import _rows_in_reach, _run


@uncounted
def count_members(first, positions):
    """Return how many members are at some positions."""
    count = 0
    for position in positions:
        count += first[position + 1] - first[position]
    return count


@uncounted
def name_members(first, positions, members):
    """Fill `members`, those at some positions, one position after the other."""
    count = 0
    for position in positions:
        for member in range(first[position], first[position + 1]):
            members[count] = member
            count += 1


@uncounted
def put_places(members, offset, place):
    """Say that some members are in the front, from `offset` on."""
    for k in range(members.shape[0]):
        place[members[k]] = offset + k


@uncounted
def clear_places(members, place):
    """Say that some members are not in the front."""
    for member in members:
        place[member] = -1


@uncounted
def add_entries(part, positions, damping, diagonal, place, own, border):
    """Add the columns of the members at some positions, of those that are in the front.

    `damping` times an entry of `diagonal` is added to the diagonal.
    """
    n_own = own.shape[0]
    for position in positions:
        row, column = position // part.n_columns, position % part.n_columns
        top, bottom = _rows_in_reach(part, row)
        for k in range(part.first[position], part.first[position + 1]):
            target = place[k]
            own[target, target] += damping * diagonal[k]
            entry = part.pointers[k]
            for i in range(top, bottom):
                start, stop = _run(part, i, column)
                for member in range(start, stop):
                    source = place[member]
                    if source >= n_own:
                        border[source - n_own, target] += part.values[entry]
                    elif source >= target:
                        own[source, target] += part.values[entry]
                    entry += 1


@uncounted
def add_remainder(remainder, members, place, own, border, rest):
    """Add what an earlier front leaves for its border, `remainder`, whose rows are `members`."""
    n_own = own.shape[0]
    for j in range(members.shape[0]):
        column = place[members[j]]
        for i in range(j, members.shape[0]):
            row = place[members[i]]
            low, high = min(row, column), max(row, column)
            if low >= n_own:
                rest[high - n_own, low - n_own] += remainder[i, j]
            elif high >= n_own:
                border[high - n_own, low] += remainder[i, j]
            else:
                own[high, low] += remainder[i, j]
