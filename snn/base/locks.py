"""Locks that a forked process has free, whichever thread held them when the process was forked."""

from __future__ import annotations

import functools
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """As that of Python 3.12, without the lock of Python 3.11: one for all objects of a class.

        Threads that come at the same time may compute a value twice.
        """

        def __get__(self, instance, owner=None):
            """Return the value, computed at the first time."""
            if instance is None:
                return self
            values = vars(instance)
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]


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
