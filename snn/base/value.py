"""Values: dataclasses that check their fields, properties computed once, locks that a fork leaves free."""

import functools
import os
import threading
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
from scipy.sparse import issparse

from snn.base.checks import read_only


def checked(
    check: Callable[..., Any],
    *arguments: Any,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    repr: bool = True,
    **rules: Any,
) -> Any:
    """Return a field of a `Value` that becomes ``check(name, value, *arguments, **rules)``.

    A field whose default is None may be None.
    """
    whole = partial(check, **rules) if rules else check
    return field(
        default=default, default_factory=default_factory, repr=repr, metadata={"check": (whole, arguments)}
    )


class Value:
    """Base of frozen dataclasses: their fields are checked in order, and their arrays are read-only.

    A class with rules between fields defines `_check`, which runs after them.  Arrays stay read-only after
    a value was pickled, copied or sent to a worker, where NumPy drops the flag: caches rely on it, and
    kernels would be compiled once more for arrays that can be written.
    """

    def __post_init__(self) -> None:
        values = vars(self)
        for name, check, arguments, may_be_none in _checks_of(type(self)):  # type: ignore[arg-type]
            value = values[name]
            if value is not None or not may_be_none:
                values[name] = check(name, value, *arguments)
        self._check()
        for name, value in values.items():
            if type(value) is np.ndarray and value.flags.writeable:
                values[name] = read_only(value)

    def _check(self) -> None:
        """Check rules between fields; ``vars(self)[name] = value`` replaces one."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: _read_only(value) for name, value in state.items()})


@cache
def _checks_of(kind: Any) -> list[tuple[str, Callable[..., Any], tuple[Any, ...], bool]]:
    """Return name, check, arguments of the check, and whether None is allowed, of each checked field."""
    return [
        (one.name, *one.metadata["check"], one.default is None)
        for one in fields(kind)
        if "check" in one.metadata
    ]


def _read_only(value: Any) -> Any:
    """Return an array, or the arrays of a tuple or of compressed rows, read-only."""
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, tuple):
        parts = [_read_only(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if issparse(value):
        for part in (value.data, value.indices, value.indptr):
            part.flags.writeable = False
    return value


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
