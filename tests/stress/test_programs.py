"""The short forms of the programs of this folder that start processes and threads."""

import sys

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.thorough

PROGRAMS = {
    "broken_disks": ["--failures", "60", "--saves", "100"],
    "threads_and_interrupts": ["--rounds", "4"],
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork and timers of Unix")
@pytest.mark.parametrize(("program", "options"), PROGRAMS.items(), ids=PROGRAMS)
def test_a_short_run_finds_nothing(program, options, tmp_path):
    results = tmp_path / "results.json"
    run_python("-m", f"tests.stress.{program}", *options, "--quiet", "--results", results)
    assert results.exists()
