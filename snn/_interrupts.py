"""State that C takes and gives back, so that Ctrl-C leaves none behind; and objects that one thread changes.

CPython looks for signals where a function begins, where a loop goes back, and after a call.  So Ctrl-C may
come before the first line of an `__exit__` written in Python, but not between an `__enter__` in C and the
block, nor in a `finally` that only assigns.  A traceback keeps the locals of every function that it passes, and
nothing else: state ends in time if only a `with` statement refers to it.
"""

import os
import threading
from collections.abc import Callable
from functools import partial, wraps
from operator import attrgetter
from typing import Any, TypeVar, cast
from weakref import ref

Change = TypeVar("Change", bound=Callable[..., Any])


class Undo:
    """Calls a function of C when nothing refers to it any more."""

    call: Callable[[], object] = int
    __del__ = property(attrgetter("call"))


class _Held(type(threading.RLock())):  # type: ignore[misc] # an `__enter__` and an `__exit__` in C
    """Refers to something for the length of a `with` block."""

    content: object = None


def held(make: Callable[..., object], *arguments: object) -> Any:
    """Return a context manager that alone refers to what `make` returns; that keeps no local of it."""
    holder = _Held()
    holder.content = make(*arguments)
    return holder


_locks: set[ref[Any]] = set()
# The thread that is changing an object, by the `id` of the object.
_turns: dict[int, int] = {}


def fork_safe_lock() -> Any:
    """Return a `threading.Lock` that is free in a forked child: no thread there would release it."""
    lock = threading.Lock()
    _locks.add(ref(lock, _locks.discard))
    return lock


def one_thread(change: Change) -> Change:
    """Let a function change its first argument in one thread at a time; in another it raises RuntimeError."""

    @wraps(change)
    def alone(changed: Any, *arguments: Any, **options: Any) -> Any:
        with held(_turn, changed):
            return change(changed, *arguments, **options)

    return cast(Change, alone)


def _turn(changed: object) -> Undo | None:
    key, thread, undo = id(changed), threading.get_ident(), Undo()
    end = partial(_turns.pop, key, None)
    try:
        if key not in _turns:
            # Neither a signal nor another thread comes between these lines: none is a call.
            _turns[key] = thread
            undo.call = end
            return undo
    finally:
        undo = None  # type: ignore[assignment]
    if _turns.get(key) != thread:
        raise RuntimeError(
            f"a {type(changed).__name__} changes and must be used by one thread at a time; another thread "
            "uses it now: give each thread its own, or hold a threading.Lock around the calls"
        )
    return None


def _forget_other_threads() -> None:
    _turns.clear()
    for lock in [one() for one in _locks]:
        if lock is not None and lock.locked():
            lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
