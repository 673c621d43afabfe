"""The short forms of the programs of this folder that start processes and threads."""

import sys

import pytest

from tests.processes import run_python

PROGRAMS = {
    "broken_disks": ["--failures", "60", "--saves", "100"],
    "threads_and_interrupts": ["--rounds", "4"],
}


# On one machine the codes of "spikes, wide" differ in their last bits between the main thread and any other,
# and did before runs and methods had one interface.  The cause is not known yet.
OPEN = pytest.mark.xfail(strict=False, reason="last bits of 'spikes, wide' in a thread")
KNOWN = {"threads_and_interrupts": OPEN}


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork and timers of Unix")
@pytest.mark.parametrize(
    ("program", "options"),
    [
        pytest.param(program, options, id=program, marks=KNOWN.get(program, ()))
        for program, options in PROGRAMS.items()
    ],
)
def test_a_short_run_finds_nothing(program, options, tmp_path):
    results = tmp_path / "results.json"
    run_python("-m", f"tests.stress.{program}", *options, "--quiet", "--results", results)
    assert results.exists()
