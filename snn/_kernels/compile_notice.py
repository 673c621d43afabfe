"""The line that a user sees while kernels are compiled, once in each process, with its progress."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event

# Loading from disk, and compiling a small kernel, end before; nothing is said then.
PATIENCE = 2.0
SENTENCE = (
    "sparsespike compiles for its first use here, about a minute in all; later runs load it from disk "
    "(`snn.warm_up()` does it ahead)"
)
PLAINLY = "; it takes three times as long: inner functions are not linked, {reason}"
# Of the count in a terminal: how often it is written, and how wide.
SECONDS_BETWEEN = 0.5
WIDTH = 40
OURS = ("snn.", "solvers.", "dictlearn.")


class CompileNotice(event.Listener):
    """Say on stderr that kernels are being compiled, if that takes more than two seconds.

    The sentence is written once in a process.  In a terminal, seconds and kernels are counted behind it.
    Numba holds a lock while it compiles, so that events never come from two threads at once.
    """

    def __init__(self) -> None:
        self.sentence = SENTENCE
        self._depth = 0
        self._n_compiled = 0
        self._seconds = 0.0
        self._began = 0.0
        self._said = False
        self._silences = 0
        self._finished = threading.Event()
        self._watcher: threading.Thread | None = None

    def on_start(self, compilation: event.Event) -> None:
        """Begin to wait, where this is not part of another compilation."""
        if not _is_ours(compilation):
            return
        self._depth += 1
        if self._depth > 1 or self._silences:
            return
        self._began = time.monotonic()
        self._finished = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def on_end(self, compilation: event.Event) -> None:
        """Count what was compiled."""
        if not _is_ours(compilation):
            return
        self._depth -= 1
        self._n_compiled += 1
        if not self._depth and self._watcher is not None:
            self._seconds += time.monotonic() - self._began
            self._finished.set()
            self._watcher.join()
            self._watcher = None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Say nothing inside, because something else does."""
        self._silences += 1
        try:
            yield
        finally:
            self._silences -= 1

    def _watch(self) -> None:
        """Write the sentence when patience ends, and count in a terminal until the kernel is finished."""
        finished = self._finished
        if finished.wait(max(PATIENCE - self._seconds, 0.0)):
            return
        stream = sys.stderr
        if stream is None:
            return
        try:
            if not self._said:
                self._said = True
                print(self.sentence, file=stream, flush=True)
            while stream.isatty() and not finished.wait(SECONDS_BETWEEN):
                seconds = self._seconds + time.monotonic() - self._began
                count = f"compiling: {seconds:.0f} s, {self._n_compiled} kernels"
                print(f"\r{count:{WIDTH}}", end="", file=stream, flush=True)
            if stream.isatty():
                print("\r" + " " * WIDTH + "\r", end="", file=stream, flush=True)
        except (OSError, ValueError):
            # Closed by its owner: a notice is not worth an error.
            return


def _is_ours(compilation: event.Event) -> bool:
    # A function that a program makes by itself has no module.
    return (compilation.data["dispatcher"].py_func.__module__ or "").startswith(OURS)


NOTICE = CompileNotice()
