"""Plots of how well a dictionary was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snn.base.html import counted
from snn.drawing import current_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# From here on an atom counts as found, in the title.
FOUND = 0.9


def cosines(best: np.ndarray, assigned: np.ndarray, *, ax: Axes | None = None) -> Axes:
    """Draw the cosines of given atoms with those of a dictionary, in falling order.

    Parameters
    ----------
    best, assigned : ndarray, shape (n_atoms,)
        As of `AtomMatch`.
    ax : Axes, optional
        Where to draw; by default the current axes.
    """
    ax = current_axes(ax)
    places = np.arange(1, len(best) + 1)
    ax.plot(places, np.sort(best)[::-1], "o-", markersize=3.0, label="best atom")
    ax.plot(places, np.sort(assigned)[::-1], "s--", markersize=3.0, label="assigned atom, each once")
    ax.set(
        xlabel="given atoms, best found first",
        ylabel="cosine with an atom of the dictionary",
        ylim=(min(0.0, float(best.min()), float(assigned.min())), 1.03),
        title=f"{int((best >= FOUND).sum()):,} of {counted(len(best), 'atom')} found to {FOUND} or more",
    )
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize="small")
    return ax
