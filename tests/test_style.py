"""Style, format, the direction of imports and type hints are tests like any other."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command",
    [("ruff", "check"), ("ruff", "format", "--check"), ("lint-imports", "--no-cache"), ("mypy",)],
    ids=" ".join,
)
def test_checker_is_content(command):
    program = shutil.which(command[0], path=str(Path(sys.executable).parent)) or shutil.which(command[0])
    if program is None:
        pytest.skip(f"{command[0]} is not installed (it is in the extra `test`)")
    if command[0] == "mypy" and numpy.lib.NumpyVersion(numpy.__version__) < "2.3.0":
        pytest.skip("for mypy, `ndarray` alone is no type with NumPy before 2.3")
    checked = subprocess.run(
        [program, *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
