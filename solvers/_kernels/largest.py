"""The atoms with which each of many signals correlates most, found while products are computed."""

from functools import partial

import numpy as np

from snn._kernels.compiling import inner, uncounted

# Products that are compared with the smallest of a list together.
PRODUCTS_TOGETHER = 16


@partial(inner, fastmath={"nnan", "nsz"})
def _largest_of(row, factors, begin, end):
    """Return the largest of some products times their factors."""
    largest = np.float32(-np.inf)
    for k in range(end - begin):
        i = np.uint64(begin + k)
        largest = max(largest, row[i] * factors[i])
    return largest


@inner
def _select(values, atoms, count, n_kept):
    """Move the `n_kept` largest of the first `count` values to the front, and the smallest of these to 0."""
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
    """Let the products of some atoms enter the lists of the largest."""
    # products : float32, a row for each signal: the inner products of signals with atoms `first`, `first + 1`
    #     and so on.
    # factors : float32, one number for each of these atoms, to multiply its products by.
    # n_kept : how many atoms a list has to name at least.
    # counts, smallest, atoms, values : of each signal, how many are listed; what the others are at most, -inf
    #     as long as there are none; which are listed, with room for more than n_kept; and their products
    #     times factors, in no order.
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
