"""Helpers that run other processes, with time limits that a busy machine does not reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Seconds after which a process counts as hanging, even if the machine is busy compiling.
LIMIT = 1500.0


def run_python(*arguments, returns=0, cwd=ROOT, **environment) -> subprocess.CompletedProcess:
    """Run Python with the given arguments and environment variables; return the finished process."""
    ran = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == returns, ran.stdout + ran.stderr
    return ran


def interrupted(program: str, *arguments, after: float = 0.5) -> tuple[str, float]:
    """Run a program that prints "ready", and interrupt it some seconds later.

    Return what the program prints after this line, and the processor seconds it uses after this line.
    """
    command = [sys.executable, "-W", "error", "-c", PREPARED + program, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        watch = threading.Timer(LIMIT, child.kill)
        watch.start()
        try:
            line = child.stdout.readline()
            assert line.startswith("ready "), line
            time.sleep(after)
            child.send_signal(signal.SIGINT)
            printed = child.stdout.read()
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            watch.cancel()
            child.kill()
    assert child.returncode == 0
    return printed, used.ru_utime + used.ru_stime - float(line.split()[1])


# Programs in the background of a shell ignore SIGINT, so set the handler.
PREPARED = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
def ready():
    print("ready", time.process_time(), flush=True)
"""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Require that a block takes less processor time than `seconds`; other programs do not count."""
    begin = time.process_time()
    yield
    used = time.process_time() - begin
    assert used < seconds, f"{used:.1f} s"
