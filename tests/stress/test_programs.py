"""The short forms of the programs of this folder that start processes and threads."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = {
    "broken_disks": ["--failures", "60", "--saves", "100"],
    "threads_and_interrupts": ["--rounds", "4"],
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork and timers of Unix")
@pytest.mark.parametrize(("program", "options"), PROGRAMS.items(), ids=PROGRAMS)
def test_a_short_run_finds_nothing(program, options, tmp_path):
    results = tmp_path / "results.json"
    command = [
        sys.executable,
        "-m",
        f"tests.stress.{program}",
        *options,
        "--quiet",
        "--results",
        str(results),
    ]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert results.exists()
