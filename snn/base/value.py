"""Values: dataclasses that check their fields, and properties that are computed once."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from scipy.sparse import issparse

from snn.base.checks import read_only

Object = TypeVar("Object")


# Only the next four functions may write frozen values (`tests/test_style.py`).


def assign(value: Object, /, **attributes: Any) -> Object:
    """Set attributes of a value that no other code has yet, unchecked and all at once; return the value."""
    # Learners use `assign` for their changes, so that Ctrl-C cannot come between two changes.
    vars(value).update(attributes)
    return value


def unchecked(kind: type[Object], /, **attributes: Any) -> Object:
    """Return an object of class `kind` with `attributes`, without running a constructor or checks."""
    value = object.__new__(kind)
    vars(value).update(attributes)
    return value


def replaced(
    value: Any, kind: type | None = None, /, *, without: tuple[str, ...] = (), **changes: Any
) -> Any:
    """Return a copy of a value, of class `kind`, with `changes` and without the attributes in `without`."""
    copy: Any = object.__new__(kind or type(value))
    attributes = vars(copy)
    attributes.update(vars(value), **changes)
    for name in without:
        attributes.pop(name, None)
    return copy


def take_over(target: Any, attributes: dict[str, Any]) -> None:
    """Replace all attributes of an object at once."""
    target.__dict__ = attributes


def checked(check: Callable[..., Any], *arguments: Any, default: Any = MISSING, **rules: Any) -> Any:
    """Return a dataclass field that becomes ``check(name, value, *arguments, **rules)``."""

    def apply(name: str, value: Any) -> Any:
        return check(name, value, *arguments, **rules)

    return field(default=default, metadata={"check": apply})


class Value:
    """Base class of frozen dataclasses whose fields are checked in order and whose arrays are read-only."""

    # NumPy drops the read-only flag in pickles and copies; `__setstate__` restores the flag.  Caches rely on
    # the flag, and kernels would be compiled again for writable arrays.

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Make a value; if all fields need names, raise TypeError for an argument without a name."""
        known = getattr(cls, "__dataclass_fields__", {})
        if arguments and known and all(field.kw_only for field in known.values()):
            raise TypeError(
                f"arguments of {cls.__name__} must be named, as in {cls.__name__}({next(iter(known))}=...); "
                f"got {arguments[0]!r:.80} without a name"
            )
        return super().__new__(cls)

    __new__.__signature__ = inspect.signature(lambda cls: None)  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        values = vars(self)
        for name, check, may_be_none in _checks_of(type(self)):  # type: ignore[arg-type]
            if values[name] is not None or not may_be_none:
                values[name] = check(name, values[name])
        self._check()
        for name, value in values.items():
            if type(value) is np.ndarray and value.flags.writeable:
                values[name] = read_only(value)

    def _check(self) -> None:
        """Check rules between fields, after the check of each field; `assign` may replace a field."""

    def __getstate__(self) -> dict[str, Any]:
        # Dictionaries are copied, because other threads may add results to them during pickling.
        values = dict(vars(self))
        return {name: dict(value) if type(value) is dict else value for name, value in values.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        assign(self, **{name: _read_only(value) for name, value in state.items()})


@functools.cache
def _checks_of(kind: Any) -> list[tuple[str, Any, bool]]:
    """Return (name, check, whether None is allowed) for each checked field."""
    checks = ((field.name, field.metadata.get("check"), field.default is None) for field in fields(kind))
    return [check for check in checks if check[1]]


def _read_only(value: Any) -> Any:
    """Return a value whose arrays are read-only: an array, a tuple of arrays, or a sparse matrix."""
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
        """The cached property without the lock of Python 3.11, which all objects of a class share."""

        def __get__(self, instance, owner=None):
            """Return the value; two threads that ask at the same time may both compute the value."""
            if instance is None:
                return self
            value = vars(instance)[self.attrname] = self.func(instance)
            return value
