"""The line that a user sees while kernels are compiled, once in each process."""

import sys
import threading
import time
from contextlib import suppress

from numba.core import event

# Loading from disk, and compiling a small kernel, end before; nothing is said then.
SECONDS_OF_SILENCE = 2.0
SENTENCE = (
    "sparsespike compiles for its first use here, about a minute in all; later runs load it from disk "
    "(`snn.warm_up()` does it ahead)"
)
PLAINLY = "; it takes three times as long: inner functions are not linked, {reason}"
OURS = ("snn.", "solvers.", "dictlearn.")


class CompileNotice(event.Listener):
    """Say on stderr that kernels are being compiled, if that takes more than two seconds in all."""

    # Numba holds a lock while it compiles, so that events never come from two threads at once.

    def __init__(self) -> None:
        self.sentence = SENTENCE
        self._depth = 0
        self._seconds = 0.0

    def on_start(self, compilation: event.Event) -> None:
        """Begin to wait; within another compilation, that one waits already."""
        self._depth += _is_ours(compilation)
        if self._depth == 1 and _is_ours(compilation):
            self._began = time.monotonic()
            self._timer = threading.Timer(max(SECONDS_OF_SILENCE - self._seconds, 0.0), self._say)
            self._timer.daemon = True
            if self.sentence:
                self._timer.start()

    def on_end(self, compilation: event.Event) -> None:
        """Stop waiting, and keep how long it took."""
        self._depth -= _is_ours(compilation)
        if not self._depth and _is_ours(compilation):
            self._timer.cancel()
            self._seconds += time.monotonic() - self._began

    def _say(self) -> None:
        sentence, self.sentence = self.sentence, ""
        # Without a stream, or with one that was closed: a notice is not worth an error.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"{sentence}\n")
            sys.stderr.flush()


def _is_ours(compilation: event.Event) -> bool:
    # A function that a program makes by itself has no module.
    return (compilation.data["dispatcher"].py_func.__module__ or "").startswith(OURS)


NOTICE = CompileNotice()
