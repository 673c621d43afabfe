"""Machine code on disk: found again when nothing has changed, never when something has, never in the way."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import snn
from snn import precompile
from snn._kernels import compiling
from tests.processes import ROOT, run_python

pytestmark = pytest.mark.thorough

INNER = """
from snn._kernels.compiling import inlined

@inlined
def scaled(value):
    return {factor} * value
"""
OUTER = """
from inner_of_test import scaled
from snn._kernels.compiling import compiled

@compiled
def total(values):
    result = 0.0
    for i in range(values.shape[0]):
        result += scaled(values[i])
    return result
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A folder of two kernels, of which one is part of the other; Numba keeps its files within."""
    folder = tmp_path / "_kernels"
    folder.mkdir()
    (folder / "inner_of_test.py").write_text(INNER.format(factor="2.0"))
    (folder / "outer_of_test.py").write_text(OUTER)
    monkeypatch.syspath_prepend(folder)
    yield folder
    forget()


def forget():
    for name in ("inner_of_test", "outer_of_test", "record_of_test"):
        sys.modules.pop(name, None)
    compiling._digest_of_files.cache_clear()


def as_a_new_process():
    """Return the kernel `total` with nothing compiled yet."""
    forget()
    importlib.invalidate_caches()
    return importlib.import_module("outer_of_test").total


def was_loaded(kernel):
    return sum(kernel.stats.cache_hits.values())


def files_of_total(folder):
    return sorted((folder / "__pycache__").glob("outer_of_test.total.*"))


def test_second_process_finds_what_the_first_compiled(kernels):
    first, second = as_a_new_process(), as_a_new_process()
    assert (first(np.ones(3)), was_loaded(first)) == (6.0, 0)
    assert (second(np.ones(3)), was_loaded(second)) == (6.0, 1)


def test_read_only_arrays_and_other_types_have_files_of_their_own(kernels):
    read_only = np.ones(3)
    read_only.flags.writeable = False
    arguments = [np.ones(3), read_only, np.ones(3, dtype=np.int64), np.ones((3, 2))[:, 0]]
    for values in arguments:
        assert as_a_new_process()(values) == 6.0
    assert len(files_of_total(kernels)) == len(arguments)
    kernel = as_a_new_process()
    assert [kernel(values) for values in arguments] == [6.0] * len(arguments)
    assert was_loaded(kernel) == len(arguments)


def test_change_of_one_file_renews_the_kernels_of_another(kernels):
    assert as_a_new_process()(np.ones(3)) == 6.0
    (kernels / "inner_of_test.py").write_text(INNER.format(factor="10.0"))
    kernel = as_a_new_process()
    assert (kernel(np.ones(3)), was_loaded(kernel)) == (30.0, 0)
    # What is out of date is gone, also when the kernel has moved within its file.
    (kernels / "outer_of_test.py").write_text("\n\n" + OUTER)
    assert as_a_new_process()(np.ones(3)) == 30.0
    assert len(files_of_total(kernels)) == 1


def test_change_in_a_sub_package_renews_the_kernels_around_it_and_the_other_way(kernels, monkeypatch):
    assert as_a_new_process()(np.ones(3)) == 6.0
    deeper = kernels / "deeper"
    deeper.mkdir()
    (deeper / "of_test.py").write_text("")
    kernel = as_a_new_process()
    assert (kernel(np.ones(3)), was_loaded(kernel)) == (6.0, 0)
    (kernels / "outer_of_test.py").rename(deeper / "outer_of_test.py")
    monkeypatch.syspath_prepend(deeper)
    assert as_a_new_process()(np.ones(3)) == 6.0
    (kernels / "inner_of_test.py").write_text(INNER.format(factor="10.0"))
    kernel = as_a_new_process()
    assert (kernel(np.ones(3)), was_loaded(kernel)) == (30.0, 0)


RECORD = """
from typing import NamedTuple
import numpy as np
from outer_of_test import weighted
from snn._kernels.compiling import implements

class Weighted(NamedTuple):
    values: np.ndarray

@implements(weighted, Weighted)
def times_a_factor(record, value):
    return {factor} * value
"""
OF_RECORDS = """
from snn._kernels.compiling import compiled, resolved_by_record

@resolved_by_record
def weighted(record, value):
    return value

@compiled
def total(record):
    result = 0.0
    for i in range(record.values.shape[0]):
        result += weighted(record, record.values[i])
    return result
"""


def test_change_of_what_a_record_does_renews_the_kernels_of_another_folder(kernels, tmp_path, monkeypatch):
    (kernels / "outer_of_test.py").write_text(OF_RECORDS)
    other = tmp_path / "other" / "_kernels"
    other.mkdir(parents=True)
    monkeypatch.syspath_prepend(other)
    for factor, result in ((2.0, 6.0), (10.0, 30.0)):
        (other / "record_of_test.py").write_text(RECORD.format(factor=factor))
        for n_loaded in (0, 1):
            kernel = as_a_new_process()
            record = importlib.import_module("record_of_test").Weighted(np.ones(3))
            assert (kernel(record), was_loaded(kernel)) == (result, n_loaded)
    assert len(files_of_total(kernels)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:1000] + bytes([content[1000] ^ 1]) + content[1001:],
    ],
    ids=["empty", "half", "one bit"],
)
def test_damaged_file_is_replaced(kernels, damage):
    as_a_new_process()(np.ones(3))
    (file,) = files_of_total(kernels)
    file.write_bytes(damage(file.read_bytes()))
    kernel = as_a_new_process()
    assert (kernel(np.ones(3)), was_loaded(kernel)) == (6.0, 0)
    kernel = as_a_new_process()
    assert (kernel(np.ones(3)), was_loaded(kernel)) == (6.0, 1)


def test_file_of_another_type_under_this_ones_name_is_not_run(kernels):
    """As an index of Numba's that lost a race would have it."""
    as_a_new_process()(np.ones(3))
    (of_floats,) = files_of_total(kernels)
    as_a_new_process()(np.ones(3, dtype=np.int64))
    (of_integers,) = set(files_of_total(kernels)) - {of_floats}
    of_floats.write_bytes(of_integers.read_bytes())
    kernel = as_a_new_process()
    # Read as integers, these would add up to about 1e19.
    assert (kernel(np.ones(3)), was_loaded(kernel)) == (6.0, 0)


PROGRAM = """
import resource, sys
import numpy as np
if {limited}:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from outer_of_test import total
sys.stdout.write(str(total(np.ones(3))))
"""


def run(program, folder, **environment):
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(folder)))
    return run_python("-W", "error", "-c", program, **environment).stdout


def test_full_disk_is_no_error(kernels):
    assert run(PROGRAM.format(limited=True), kernels) == "6.0"
    # Neither the kernel nor a part of its file.
    assert not files_of_total(kernels)


def test_nowhere_to_write_is_no_error(kernels):
    (kernels / "__pycache__").write_text("not a folder")
    nowhere = os.devnull + "/none"
    environment = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), nowhere)
    assert run(PROGRAM.format(limited=False), kernels, **environment) == "6.0"


def test_warm_up_names_what_it_compiles(capsys):
    done = []
    tasks = {"one": lambda: done.append(1), "two": lambda: done.append(2)}
    precompile.run_tasks([lambda: tasks], progress=True)
    assert done == [1, 2]
    shown = capsys.readouterr().err
    assert "compiling: one" in shown
    assert "compiling: two" in shown
    precompile.run_tasks([lambda: {"one": lambda: None}], progress=False)
    assert capsys.readouterr().err == ""


TASKS = """
import os, pathlib, time
import numpy as np
from outer_of_test import total

NOTE = pathlib.Path(__file__).parent / "note"

def one():
    total(np.ones(3))
    while not NOTE.exists():
        time.sleep(0.01)
    global other
    other = int(NOTE.read_text())

def two():
    part = NOTE.with_suffix(".part")
    part.write_text(str(os.getpid()))
    os.replace(part, NOTE)

def tasks():
    return {"one": one, "two": two}
"""


def test_second_process_runs_the_tasks_from_the_last_on(kernels):
    (kernels / "tasks_of_test.py").write_text(TASKS)
    tasks_of_test = importlib.import_module("tasks_of_test")
    try:
        # The first task waits for what the second leaves, which another process begins with.
        precompile.run_tasks([tasks_of_test.tasks], progress=False)
    finally:
        del sys.modules["tasks_of_test"]
    assert tasks_of_test.other != os.getpid()


def test_entries_of_the_path_that_are_no_text_are_left_out(monkeypatch):
    commands = []
    monkeypatch.setattr(sys, "path", [Path("/of/a/program"), "/of/a/name"])
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    precompile._SecondProcess([precompile.tasks]).on_start(None)
    assert commands[0][3:] == ["/of/a/name", "snn.precompile"]


def test_nothing_to_compile_needs_no_second_process(monkeypatch):
    monkeypatch.setattr(precompile.subprocess, "Popen", None)
    precompile.run_tasks([lambda: {"one": lambda: None}], progress=False)


def test_inner_function_is_kept_as_a_part_alone_and_python_may_call_it(kernels):
    assert as_a_new_process()(np.ones(3)) == 6.0
    assert not list((kernels / "__pycache__").glob("inner_of_test.*.nbc"))
    assert sys.modules["inner_of_test"].scaled(2.0) == 4.0
    assert len(list((kernels / "__pycache__").glob("inner_of_test.*.nbc"))) == 1


def test_kernels_are_compiled_where_numba_has_moved_what_linking_needs(kernels):
    program = "import sys; sys.modules['snn._kernels.linking'] = None\n" + PROGRAM.format(limited=False)
    assert run(program, kernels) == "6.0"


def test_small_network_compiles_no_active_set(tmp_path):
    program = """
import sys
import numpy as np
import snn
from snn._kernels import active_set, screening, simulation
snn.simulate(snn.SpikingNetwork(np.zeros((3, 3)), np.ones(3), np.ones(3)), 2.0)
assert simulation.advance.signatures
sys.stdout.write(str(len(active_set.integrate_active.signatures) + len(screening.screen.signatures)))
"""
    assert run(program, ROOT, NUMBA_CACHE_DIR=str(tmp_path)) == "0"


def test_warm_up_refuses_what_is_no_flag():
    with pytest.raises(TypeError, match="progress must be True or False; got 'yes'"):
        snn.warm_up(progress="yes")
