"""The line that a user sees while kernels are compiled, once in each process."""

import sys
import threading
import time
from contextlib import suppress

from numba.core import event

# Seconds of compiling before the notice: loading from disk and compiling a small kernel take less.
SECONDS_OF_SILENCE = 2.0
SENTENCE = (
    "sparsespike compiles its kernels for their first use here, about a minute in all; later runs load them "
    "from disk (`snn.warm_up()` compiles them ahead)"
)
PLAINLY = "; this takes three times as long, because inner functions are not linked: {reason}"
OURS = ("snn.", "solvers.", "dictlearn.")


class CompileNotice(event.Listener):
    """Say on stderr that kernels are being compiled, if that takes more than two seconds in all."""

    # Numba holds a lock while it compiles, so events never come from two threads at once.

    def __init__(self) -> None:
        self.sentence = SENTENCE
        self._depth = 0
        self._seconds = 0.0

    def on_start(self, compilation: event.Event) -> None:
        """Start the timer, unless this compilation is part of another."""
        self._depth += _is_ours(compilation)
        if self._depth == 1 and _is_ours(compilation):
            self._began = time.monotonic()
            self._timer = threading.Timer(max(SECONDS_OF_SILENCE - self._seconds, 0.0), self._say)
            self._timer.daemon = True
            if self.sentence:
                self._timer.start()

    def on_end(self, compilation: event.Event) -> None:
        """Stop the timer, and add the time of the compilation."""
        self._depth -= _is_ours(compilation)
        if not self._depth and _is_ours(compilation):
            self._timer.cancel()
            self._seconds += time.monotonic() - self._began

    def _say(self) -> None:
        sentence, self.sentence = self.sentence, ""
        # Without stderr, or if it is closed, nothing is written: a notice is not worth an error.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"{sentence}\n")
            sys.stderr.flush()


def _is_ours(compilation: event.Event) -> bool:
    # A function that a program generates may have no module.
    return (compilation.data["dispatcher"].py_func.__module__ or "").startswith(OURS)


NOTICE = CompileNotice()
