"""Numbered cases in a child process, so that a crash or a hang costs one case and is counted."""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

LENGTH = struct.Struct("<Q")
CRASHED, HUNG = "crashed", "hung"


def watched(
    run: Callable[[int], Any], first: int, last: int, *, patience: float
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the outcome of each case, first <= number < last.

    The child is forked: it has what this process has imported and compiled, which must have started no
    threads.  Where it dies or says nothing for `patience` seconds, the outcome is `CRASHED` or `HUNG`, and
    another child goes on with the next case.

    Parameters
    ----------
    run : callable
        Called with a number; what it returns can be pickled.
    first, last : int
        The numbers.
    patience : float
        Seconds of the wall's clock, for one case.
    """
    number = first
    while number < last:
        child, told = _start(run, number, last)
        try:
            while number < last:
                outcome = _told(told, patience)
                yield number, outcome
                number += 1
                if outcome in (CRASHED, HUNG):
                    break
        finally:
            os.close(told)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _start(run: Callable[[int], Any], first: int, last: int) -> tuple[int, int]:
    """Return the id of a new child, and the end of a pipe that it writes to."""
    told, tell = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(tell)
        return child, told
    try:
        os.close(told)
        for number in range(first, last):
            _write(tell, pickle.dumps(run(number)))
        # The parent ends it: what is left to do here is done there, too.
        signal.pause()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _write(tell: int, outcome: bytes) -> None:
    data = memoryview(LENGTH.pack(len(outcome)) + outcome)
    while data:
        data = data[os.write(tell, data) :]


def _told(told: int, patience: float) -> Any:
    """Return the next outcome."""
    header = _read(told, LENGTH.size, patience)
    if isinstance(header, str):
        return header
    outcome = _read(told, *LENGTH.unpack(header), patience)
    return outcome if isinstance(outcome, str) else pickle.loads(outcome)


def _read(told: int, length: int, patience: float) -> bytes | str:
    data = b""
    while len(data) < length:
        if not select.select([told], [], [], patience)[0]:
            return HUNG
        part = os.read(told, length - len(data))
        if not part:
            return CRASHED
        data += part
    return data
