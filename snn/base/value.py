"""Values: dataclasses that check their fields, and properties computed once."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from scipy.sparse import issparse

from snn.base.checks import read_only

Object = TypeVar("Object")


# The only writers of frozen values: `tests/test_style.py` holds all other modules to that.


def assign(value: Object, /, **attributes: Any) -> Object:
    """Set attributes, unchecked and all at once, of a value that nobody else has yet; return the value."""
    # Learners, which change, do so too: Ctrl-C comes before or after.
    vars(value).update(attributes)
    return value


def unchecked(kind: type[Object], /, **attributes: Any) -> Object:
    """Return a value with these attributes; no constructor runs, and nothing is checked."""
    value = object.__new__(kind)
    vars(value).update(attributes)
    return value


def replaced(
    value: Any, kind: type | None = None, /, *, without: tuple[str, ...] = (), **changes: Any
) -> Any:
    """Return a copy of a value, perhaps of another class, with some attributes changed and some left out."""
    copy: Any = object.__new__(kind or type(value))
    attributes = vars(copy)
    attributes.update(vars(value), **changes)
    for name in without:
        attributes.pop(name, None)
    return copy


def take_over(target: Any, attributes: dict[str, Any]) -> None:
    """Give an object these attributes and no others, all at once."""
    target.__dict__ = attributes


def checked(check: Callable[..., Any], *arguments: Any, default: Any = MISSING, **rules: Any) -> Any:
    """Return a field that becomes ``check(name, value, *arguments, **rules)``; a default may be None."""

    def whole(name: str, value: Any) -> Any:
        return check(name, value, *arguments, **rules)

    return field(default=default, metadata={"check": whole})


class Value:
    """Base of frozen dataclasses: their fields are checked in order, and their arrays are read-only."""

    # They stay read-only after a value was pickled, copied or sent to a worker, where NumPy drops the flag:
    # caches rely on it, and kernels would be compiled once more for arrays that can be written.

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Refuse arguments without names in one sentence if all need names; `__init__` gets them all."""
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
        """Check rules between fields, which are checked before; `assign` replaces one."""

    def __getstate__(self) -> dict[str, Any]:
        # Copies: other threads may add what they compute while this is being pickled.
        values = dict(vars(self))
        return {name: dict(value) if type(value) is dict else value for name, value in values.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        assign(self, **{name: _read_only(value) for name, value in state.items()})


@functools.cache
def _checks_of(kind: Any) -> list[tuple[str, Any, bool]]:
    """Return the name of each checked field, its check, and whether None is allowed."""
    checks = ((one.name, one.metadata.get("check"), one.default is None) for one in fields(kind))
    return [one for one in checks if one[1]]


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
        """As that of Python 3.12: without the lock, one for all objects of a class, of Python 3.11."""

        def __get__(self, instance, owner=None):
            """Return the value, which threads that come at the same time may compute twice."""
            if instance is None:
                return self
            value = vars(instance)[self.attrname] = self.func(instance)
            return value
