"""State that is restored in spite of Ctrl-C, and objects that only one thread at a time may change.

CPython looks for signals when a function begins, when a loop repeats, and after a call.  Therefore Ctrl-C may
interrupt an `__exit__` in Python before its first line.  Ctrl-C cannot come between an `__enter__` in C and
its block, nor in a `finally` that only assigns, so C code restores the state.  A traceback keeps alive only
the local variables of functions, not these objects.
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
# For the `id` of each object that is being changed: the thread that changes the object.
_turns: dict[int, int] = {}


class Undo:
    """An object that calls a C function when nothing refers to it any more."""

    call: Callable[[], object] = int
    __del__ = property(attrgetter("call"))


class _Held(type(threading.RLock())):  # type: ignore[misc] # locks have `__enter__` and `__exit__` in C
    content: object = None


def held(make: Callable[..., object], *arguments: object) -> Any:
    """Return a context manager that has the only reference to the result of `make`."""
    holder = _Held()
    holder.content = make(*arguments)
    return holder


def undone(undo: Callable[[], object], change: Callable[..., object], *arguments: object) -> Any:
    """Call `change`; return a context manager that calls the C function `undo` at the end of its block."""
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
    """Return a context manager like `np.errstate` that restores the state in spite of Ctrl-C."""
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
    """Let a function change its first argument in one thread at a time; other threads get RuntimeError."""

    @wraps(change)
    def guarded(changed: Any, *arguments: Any, **options: Any) -> Any:
        with held(_turn, changed):
            return change(changed, *arguments, **options)

    return cast(Change, guarded)


def _turn(changed: object) -> Undo | None:
    key, thread, undo = id(changed), threading.get_ident(), cast(Any, Undo())
    end = partial(_turns.pop, key, None)
    try:
        if key not in _turns:  # the next lines call nothing, so no signal and no other thread interrupts them
            _turns[key] = thread
            undo.call = end
            return undo
    finally:
        undo = None
    if _turns.get(key) != thread:
        raise RuntimeError(
            f"a {type(changed).__name__} must be used by one thread at a time; got a call while another "
            "thread uses it: give each thread its own, or hold a threading.Lock around the calls"
        )
    return None


def fork_safe_lock() -> Any:
    """Return a `threading.Lock` that is free in a forked child, where no other thread could release it."""
    lock = threading.Lock()
    _locks.add(ref(lock, _locks.discard))
    return lock


def _forget_other_threads() -> None:
    _turns.clear()
    for lock in [reference() for reference in _locks]:
        if lock is not None and lock.locked():
            lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
