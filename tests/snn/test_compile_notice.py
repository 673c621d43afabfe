"""What a user sees while kernels are compiled."""

import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.processes import LIMIT

pytestmark = pytest.mark.thorough

PROGRAM = """
import numpy as np
from snn._kernels import compile_notice
compile_notice.PATIENCE = {patience}
compile_notice.SECONDS_BETWEEN = 0.01
from snn._kernels.compiling import compiled
from snn.precompile import run_tasks

def kernel(values):
    return values.sum()

kernel.__module__ = {module!r}
first, second = compiled(kernel), compiled(kernel)

def compile_both():
    first(np.arange(3.0))
    second(np.arange(3, dtype=np.float32))

{call}
"""


def output(tmp_path, module="snn.of_a_test", call="compile_both()", patience=0.0, **options):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(module=module, call=call, patience=patience))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.getcwd()}
    return subprocess.run([sys.executable, program], env=environment, text=True, check=True, **options)


def everything(terminal):
    """Return what is written to a pseudo-terminal until its other end is closed."""
    shown = b""
    try:
        while part := os.read(terminal, 65_536):
            shown += part
    except OSError:  # on Linux, where nothing can be written any more
        pass
    return shown.decode()


def test_the_sentence_is_written_once_to_stderr(tmp_path):
    ran = output(tmp_path, capture_output=True)
    assert ran.stdout == ""
    assert ran.stderr.count("sparsespike compiles for its first use here") == 1
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        {"module": "somebody.elses"},
        {"patience": LIMIT},
        {"call": "run_tasks([lambda: {'both': compile_both}], progress=False)"},
    ],
    ids=["not ours", "quick", "warm_up"],
)
def test_nothing_is_written_where_there_is_nothing_to_say(tmp_path, options):
    assert output(tmp_path, capture_output=True, **options).stderr == ""


def test_a_terminal_sees_seconds_and_kernels_counted(tmp_path):
    master, terminal = pty.openpty()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(everything, master)  # all the time: a terminal holds 4 KB
        try:
            output(tmp_path, stderr=terminal)
        finally:
            os.close(terminal)
        shown = reading.result()
    os.close(master)
    assert "first use" in shown
    assert re.search(r"\rcompiling: \d+ s, \d kernels", shown)
    assert shown.endswith("\r")


def test_function_without_a_module_is_compiled_in_silence(tmp_path):
    """As programs make them from text."""
    call = "import numba; f = lambda x: x + 1; f.__module__ = None; assert numba.njit(f)(1) == 2"
    assert output(tmp_path, call=call, stderr=subprocess.PIPE).stderr == ""
