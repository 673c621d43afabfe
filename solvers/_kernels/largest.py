"""Kernels that list, for each of many signals, the atoms that correlate most with the signal."""

from functools import partial

import numpy as np

from snn._kernels.compiling import inner, uncounted

# Number of products whose maximum is compared with the smallest value of a list.
PRODUCTS_TOGETHER = 16


@partial(inner, fastmath={"nnan", "nsz"})
def _largest_of(row, factors, begin, end):
    """Return the largest of the products from `begin` up to `end`, times their factors."""
    largest = np.float32(-np.inf)
    for k in range(end - begin):
        i = np.uint64(begin + k)
        largest = max(largest, row[i] * factors[i])
    return largest


@inner
def _select(values, atoms, count, n_kept):
    """Move the `n_kept` largest of the first `count` values to the front, the smallest of them to index 0."""
    low = 0
    high = count - 1
    last = n_kept - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                atoms[i], atoms[j] = atoms[j], atoms[i]
                i += 1
                j -= 1
        if last <= j:
            high = j
        elif last >= i:
            low = i
        else:
            break
    values[0], values[last] = values[last], values[0]
    atoms[0], atoms[last] = atoms[last], atoms[0]


@uncounted
def list_largest(products, factors, first, n_kept, counts, smallest, atoms, values):
    """Add a block of atoms to each signal's list of the largest products."""
    # products : float32, a row of inner products for each signal, with the atoms `first`, `first + 1`, ...
    # factors : float32, a factor for each of these atoms, which multiplies all products with the atom.
    # n_kept : smallest length of a list, unless there are fewer atoms.
    # For each signal:
    # counts : the number of listed atoms.
    # smallest : an upper bound on the values of all other atoms, or -inf if there are no other atoms.
    # atoms, values : the listed atoms and their products times factors, in no order, with spare room.
    n_signals, n_products = products.shape
    room = atoms.shape[1]
    for k in range(n_signals):
        row, listed, sizes = products[k], atoms[k], values[k]
        count = counts[k]
        least = smallest[k]
        for begin in range(0, n_products, PRODUCTS_TOGETHER):
            end = min(begin + PRODUCTS_TOGETHER, n_products)
            if _largest_of(row, factors, begin, end) <= least:
                continue
            for i in range(begin, end):
                size = row[i] * factors[i]
                if size > least:
                    if count == room:
                        _select(sizes, listed, count, n_kept)
                        count = n_kept
                        least = sizes[0]
                        if size <= least:
                            continue
                    sizes[count] = size
                    listed[count] = first + i
                    count += 1
        counts[k] = count
        smallest[k] = least
