"""Ctrl-C at any place where CPython looks for it, and all that it must not leave behind."""

import _thread
import dis
import gc
import signal
import sys
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from snn import _interrupts
from snn.base import checks

FOLDERS = tuple(str(Path(__file__).parents[1] / name) for name in ("snn", "solvers", "dictlearn"))
# Signals are looked for at the end of these, or at the beginning of a function that they call.
LOOKING = ("CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD", "RESUME")
NOT_LOOKING = ("CALL_INTRINSIC", "JUMP_BACKWARD_NO_INTERRUPT")


class _Signal(int):
    # In C: this reading is no such place itself, so that the signal comes at the next one of the caller.
    sent = property(_thread.interrupt_main)


SIGNAL = _Signal(signal.SIGINT)


@cache
def _places(code):
    return {
        place.offset
        for place in dis.get_instructions(code)
        if place.opname.startswith(LOOKING) and not place.opname.startswith(NOT_LOOKING)
    }


class Interruption:
    """Interrupts a call at one of the places where CPython looks for signals in the code of this project."""

    def __init__(self, number=-1):
        self.number, self.count, self.error = number, 0, None

    def of(self, call):
        """Call; return whether it was interrupted.  The traceback stays in `error`."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            sys.settrace(self._trace)
            call()
        except KeyboardInterrupt as error:
            self.error = error
        finally:
            sys.settrace(None)
            signal.signal(signal.SIGINT, before)
        return self.error is not None

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith((*FOLDERS, contextmanager.__code__.co_filename)):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in _places(frame.f_code):
            self.count += 1
            if self.count == self.number:
                _ = SIGNAL.sent
        return self._trace


def n_places(call):
    """Return in how many places a call can be interrupted."""
    counting = Interruption()
    assert not counting.of(call)
    return counting.count


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


@contextmanager
def nothing_left():
    """Require that a block leaves no lock taken, and all that belongs to the process as it was."""
    with threadpool_limits(limits=2, user_api="blas"):
        filters, errors, threads = list(warnings.filters), np.geterr(), blas_threads()
        yield
        locks = [lock for one in _interrupts._locks if (lock := one()) is not None]
        assert not any(lock.locked() for lock in locks)
        assert not _interrupts._turns
        assert blas_threads()[: len(threads)] == threads
        assert gc.isenabled()
        assert checks._LEFT_OUT.get() == ()
        assert (warnings.filters, np.geterr()) == (filters, errors)
