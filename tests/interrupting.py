"""Helpers that send Ctrl-C wherever CPython checks for signals, and check that nothing is left behind."""

import _thread
import dis
import enum
import gc
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from snn import _interrupts
from snn.base import checks
from tests.processes import LIMIT

# Interrupts are sent in code of these folders: this project, and the parts of the standard library it runs.
FOLDERS = (
    *(str(Path(__file__).parents[1] / name) for name in ("snn", "solvers", "dictlearn")),
    contextmanager.__code__.co_filename,
    enum.__file__,
)
# CPython checks for signals at the end of these instructions, or at the start of the function they call.
LOOKING = ("CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD", "RESUME")
NOT_LOOKING = ("CALL_INTRINSIC", "JUMP_BACKWARD_NO_INTERRUPT")


class Signal(int):
    """A signal that is sent when `sent` is read: reading runs in C, where no interrupt can happen."""

    sent = property(_thread.interrupt_main)


@cache
def _places(code):
    return {
        place.offset
        for place in dis.get_instructions(code)
        if place.opname.startswith(LOOKING) and not place.opname.startswith(NOT_LOOKING)
    }


class Amid:
    """A tracer that reads `event.sent` at one of the places where CPython checks for signals."""

    def __init__(self, event=None, number=-1):
        self.event, self.number, self.count = event, number, 0

    def run(self, call):
        sys._getframe().f_trace_opcodes = True  # Python 3.12 needs this when tracing begins
        # A callback of the garbage collector, such as that of Hypothesis, would swallow an interrupt.
        callbacks, gc.callbacks[:] = list(gc.callbacks), []
        try:
            sys.settrace(self._trace)
            call()
        finally:
            sys.settrace(None)
            gc.callbacks[:] = callbacks

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(FOLDERS):
            return None
        frame.f_trace_opcodes = True  # from Python 3.13 on effective at the first line, when f_trace is set
        if event == "opcode" and frame.f_lasti in _places(frame.f_code):
            self.count += 1
            if self.count == self.number:
                # After this only a new frame may call the tracer, because CPython checks for signals there.
                frame.f_trace = None
                _ = self.event.sent
                return None
        return self._trace


def interrupted(call, number):
    """Interrupt a call at one of the places that `n_places` counts; return the error with its traceback."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        Amid(Signal(signal.SIGINT), number).run(call)
    except KeyboardInterrupt as error:
        return error
    finally:
        signal.signal(signal.SIGINT, before)
    raise AssertionError(f"no interrupt at {number}")


def n_places(call):
    """Return the number of places at which a call can be interrupted."""
    counting = Amid()
    counting.run(call)
    return counting.count


class Standstill(Amid):
    """A tracer that waits at a place where no lock is held, until `leave` is set."""

    def __init__(self, number):
        super().__init__(self, number)
        self.here, self.leave = threading.Event(), threading.Event()

    @property
    def sent(self):
        if locks_taken():
            self.number += 1
            return
        self.here.set()
        assert self.leave.wait(LIMIT)


def locks_taken():
    return [lock for one in _interrupts._locks if (lock := one()) is not None and lock.locked()]


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


@contextmanager
def nothing_left():
    """Require that a block leaves no lock held and does not change the state of the process."""
    with threadpool_limits(limits=2, user_api="blas"):
        filters, errors, threads = list(warnings.filters), np.geterr(), blas_threads()
        yield
        assert not locks_taken()
        assert not _interrupts._turns
        assert blas_threads()[: len(threads)] == threads
        assert checks._LEFT_OUT.get() == ()
        assert (warnings.filters, np.geterr()) == (filters, errors)
