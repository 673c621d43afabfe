"""Style, format, the direction of imports and type hints are tests like any other."""

import ast
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


PACKAGES = ("snn", "solvers", "dictlearn")
COMPILERS = {"compiled", "uncounted", "merged", "inlined"}


def modules(*, kernels):
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            # The table of engines is the Python side of the kernels.
            inside = "_kernels" in file.parts and file.name != "engines.py"
            if inside == kernels:
                yield ast.parse(file.read_text(encoding="utf-8"))


def names_in(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def test_python_calls_no_compiled_function_that_returns_a_record():
    """Numba makes the record by calling Python, and looks for no error: Ctrl-C could end the process."""
    kernels = list(modules(kernels=True))
    classes = [node for tree in kernels for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    records = {
        node.name for node in classes if "NamedTuple" in {name for b in node.bases for name in names_in(b)}
    }
    assert len(records) > 20
    returning = {
        function.name
        for tree in kernels
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and any(names_in(decorator) & COMPILERS for decorator in function.decorator_list)
        and any(
            isinstance(node, ast.Return) and node.value is not None and names_in(node.value) & records
            for node in ast.walk(function)
        )
    }
    assert returning
    called = set().union(*(names_in(tree) for tree in modules(kernels=False)))
    assert not returning & called
