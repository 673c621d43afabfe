"""Hints say what docstrings say; the code that mypy checks as a user's own also runs.

mypy itself is run by `tests/test_style.py`.
"""

import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

PACKAGES = ("snn", "snn.digital", "snn.exchange", "solvers", "dictlearn", "dictlearn.distributed")
# What takes lists and arrays.  `Start` is an alias of such a union.
TAKES_LISTS = r"ArrayLike|Sequence\[float\]|\bStart\b|\bAny\b"
ARRAY_LIKE = re.compile(r"^([\w, ]+) : .*array_like", re.MULTILINE)


def public_callables():
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                methods = [(m, getattr(thing, m)) for m in vars(thing) if not m.startswith("_")]
                yield from ((f"{package}.{name}.{m}", method) for m, method in methods if callable(method))
            if (
                callable(thing)
                and getattr(thing, "__module__", "").partition(".")[0] == package.partition(".")[0]
            ):
                yield f"{package}.{name}", thing


@pytest.mark.parametrize(
    "described",
    [thing for _, thing in public_callables()],
    ids=[name for name, _ in public_callables()],
)
def test_hints_take_lists_where_docstrings_say_array_like(described):
    documented = [
        name for names in ARRAY_LIKE.findall(inspect.getdoc(described) or "") for name in names.split(", ")
    ]
    source = inspect.getsource(described)
    hints = {name: re.findall(rf"\b{name}: ([^=\n]*)", source) for name in documented}
    missing = {
        name: found
        for name, found in hints.items()
        if found and not any(re.search(TAKES_LISTS, hint) for hint in found)
    }
    assert not missing


def test_code_of_users_runs(capsys):
    functions = runpy.run_path(str(Path(__file__).with_name("user_code.py")))
    for name in ("simulate_a_network", "solve_a_problem", "use_an_estimator", "learn"):
        functions[name]()
    assert "fista" in capsys.readouterr().out
