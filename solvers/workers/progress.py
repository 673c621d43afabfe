"""Progress of a solver, also within one signal.

A bar counts what is done: batches, or signals.  Code that works on one of them for long says how far it is by
`report`, without knowing whether a bar is shown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from tqdm import tqdm

# Seconds from one drawing of the bar to the next, at least.
SECONDS_BETWEEN = 0.1
_SHOWN: ContextVar[Progress | None] = ContextVar("progress", default=None)


class Progress:
    """A bar."""

    def __init__(self, bar: tqdm, per_batch: int = 1) -> None:
        self._bar = bar
        self._per_batch = per_batch
        self._done = 0
        self._drawn = 0.0
        self._lock = Lock()

    def update(self, count: int = 1) -> None:
        """Count what has been done as a whole."""
        # Threads that update the bar at the same time would lose counts.
        with self._lock:
            self._done += count
            self._show(0.0)

    def within(self, share: float, text: str) -> None:
        """Show how much of the present batch is done."""
        with self._lock:
            self._bar.set_postfix_str(text, refresh=False)
            self._show(share * self._per_batch)

    def _show(self, share: float) -> None:
        shown = min(round(self._done + share, 2), self._bar.total)
        # A bar does not go back, and counts whole ones as whole numbers.
        shown = max(shown, self._bar.n)
        self._bar.n = int(shown) if shown == int(shown) else shown
        now = time.monotonic()
        if self._bar.n == self._bar.total or now - self._drawn > SECONDS_BETWEEN:
            self._drawn = now
            self._bar.refresh()


@contextmanager
def progress_bar(
    total: int, *, unit: str, description: str, shown: bool, per_batch: int = 1
) -> Iterator[Progress | None]:
    """Show a bar for what is done inside, or nothing."""
    if not shown:
        yield None
        return
    with tqdm(total=total, unit=unit, desc=description) as bar:
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
