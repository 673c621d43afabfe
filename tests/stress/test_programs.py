"""Short runs of the programs in this folder that start processes and threads."""

import sys

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.thorough

PROGRAMS = {
    "broken_disks": "broken_disks --failures 60 --saves 100 --files 60",
    "kills": "kill_and_resume --rounds 50 --samples 1500",
    "threads": "threads_and_forks --rounds 4 --forks 0 --interrupts 0",
    "forks": "threads_and_forks --rounds 0 --forks 20 --interrupts 0",
    "interrupts": "threads_and_forks --rounds 0 --forks 0 --interrupts 200",
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork and timers of Unix")
@pytest.mark.parametrize("command", PROGRAMS.values(), ids=PROGRAMS)
def test_a_short_run_finds_nothing(command, tmp_path):
    program, *options = command.split()
    results = tmp_path / "results.json"
    run_python("-m", f"tests.stress.{program}", *options, "--quiet", "--results", results)
    assert results.exists()
