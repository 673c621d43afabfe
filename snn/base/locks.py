"""A lock that a forked process has free, whichever thread held it when the process was forked."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet


class ForkSafeLock:
    """As `threading.Lock`, for a ``with`` statement.

    A child has only the thread that forked it: what another thread held would never be released there.
    """

    def __init__(self) -> None:
        self.renew()
        _ALL.add(self)

    def renew(self) -> None:
        """Make it free."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_ALL: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_ALL):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
