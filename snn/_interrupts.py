"""State that is given back in C, so that Ctrl-C leaves none behind; and objects that one thread changes.

CPython looks for signals where a function begins, where a loop goes back, and after a call.  So Ctrl-C may
come before the first line of an `__exit__` in Python, but not between an `__enter__` in C and the block, nor
in a `finally` that only assigns.  A traceback keeps the locals of functions, and nothing else.
"""

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial, wraps
from operator import attrgetter
from typing import Any, TypeVar, cast
from weakref import ref

import numpy as np

Change = TypeVar("Change", bound=Callable[..., Any])
_locks: set[ref[Any]] = set()
# The thread that is changing an object, by the `id` of the object.
_turns: dict[int, int] = {}


class Undo:
    """Calls a function of C when nothing refers to it any more."""

    call: Callable[[], object] = int
    __del__ = property(attrgetter("call"))


class _Held(type(threading.RLock())):  # type: ignore[misc] # for its `__enter__` and `__exit__` in C
    content: object = None


def held(make: Callable[..., object], *arguments: object) -> Any:
    """Return a context manager that alone refers to what `make` returns; that keeps no local of it."""
    holder = _Held()
    holder.content = make(*arguments)
    return holder


def undone(undo: Callable[[], object], change: Callable[..., object], *arguments: object) -> Any:
    """Return a context manager at whose end a function of C takes back what another one changes now."""
    return held(_changed, undo, change, arguments)


def _changed(
    call: Callable[[], object], change: Callable[..., object], arguments: tuple[object, ...]
) -> Undo:
    undo: Any = Undo()
    try:
        undo.call = call
        change(*arguments)
        return undo
    finally:
        undo = None


def float_errors(**errors: Any) -> Any:
    """Return a context manager as `np.errstate` is."""
    before = _ERRORS.get()
    changed = _changed_errors(before, *errors.items())
    return held(_changed, partial(_ERRORS.set, before), _ERRORS.set, (changed,))


@lru_cache
def _changed_errors(_: object, *errors: tuple[str, Any]) -> object:
    context = copy_context()
    context.run(np.seterr, **dict(errors))
    return context[_ERRORS]


def _variable_of_numpy() -> ContextVar[Any]:
    context = copy_context()
    context.run(np.seterr, all="raise")
    return next(variable for variable in context if context[variable] is not copy_context().get(variable))


_ERRORS = _variable_of_numpy()


def one_thread(change: Change) -> Change:
    """Let a function change its first argument in one thread at a time; in another it raises RuntimeError."""

    @wraps(change)
    def alone(changed: Any, *arguments: Any, **options: Any) -> Any:
        with held(_turn, changed):
            return change(changed, *arguments, **options)

    return cast(Change, alone)


def _turn(changed: object) -> Undo | None:
    key, thread, undo = id(changed), threading.get_ident(), cast(Any, Undo())
    end = partial(_turns.pop, key, None)
    try:
        if key not in _turns:  # from here on no signal and no other thread can come: nothing is called
            _turns[key] = thread
            undo.call = end
            return undo
    finally:
        undo = None
    if _turns.get(key) != thread:
        raise RuntimeError(
            f"a {type(changed).__name__} changes and must be used by one thread at a time, and one has it: "
            "give each thread its own, or hold a threading.Lock around the calls"
        )
    return None


def fork_safe_lock() -> Any:
    """Return a `threading.Lock` that is free in a forked child: no thread there would release it."""
    lock = threading.Lock()
    _locks.add(ref(lock, _locks.discard))
    return lock


def _forget_other_threads() -> None:
    _turns.clear()
    for lock in [one() for one in _locks]:
        if lock is not None and lock.locked():
            lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
