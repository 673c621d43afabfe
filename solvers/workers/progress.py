"""Progress of a solver, also within one signal.

A bar counts what is done: batches, or signals.  Code that works on one of them for long says how far it is by
`report`, without knowing whether a bar is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm import tqdm

# Seconds from one drawing of the bar to the next, at least.
SECONDS_BETWEEN = 0.1
_SHOWN: ContextVar[Progress | None] = ContextVar("progress", default=None)


class Progress:
    """A bar that the caller's thread moves."""

    def __init__(self, bar: tqdm, per_batch: int = 1) -> None:
        self._bar = bar
        self._per_batch = per_batch
        self._done = 0

    def update(self, count: int = 1) -> None:
        """Count what has been done as a whole."""
        self._done += count
        self._show(self._done)

    def within(self, share: float, text: str) -> None:
        """Show how much of the present batch is done."""
        self._bar.set_postfix_str(text, refresh=False)
        self._show(self._done + share * self._per_batch)

    def _show(self, done: float) -> None:
        # A bar does not go back, and counts whole ones as whole numbers.
        shown = max(min(round(done, 2), self._bar.total), self._bar.n)
        self._bar.n = int(shown) if shown == int(shown) else shown
        self._bar.update(0)


@contextmanager
def progress_bar(
    total: int, *, unit: str, description: str, shown: bool, per_batch: int = 1
) -> Iterator[Progress | None]:
    """Show a bar for what is done inside, or nothing."""
    if not shown:
        yield None
        return
    with tqdm(total=total, unit=unit, desc=description, mininterval=SECONDS_BETWEEN, miniters=0) as bar:
        progress = Progress(bar, per_batch)
        token = _SHOWN.set(progress)
        try:
            yield progress
        finally:
            _SHOWN.reset(token)


def is_shown() -> bool:
    """Return whether this thread's call has a bar."""
    return _SHOWN.get() is not None


def report(share: float, text: str) -> None:
    """Show how much of the present batch is done, if this thread's call has a bar."""
    progress = _SHOWN.get()
    if progress is not None:
        progress.within(share, text)


def share_of_decades(now: float, first: float, last: float) -> float:
    """Return how far a number has fallen from `first` to `last`, on a scale of logarithms, from 0 to 1."""
    if not now > last:
        return 1.0
    if not first > now:
        return 0.0
    return math.log(first / now) / math.log(first / max(last, 1e-300))
