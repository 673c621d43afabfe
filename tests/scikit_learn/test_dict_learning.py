"""scikit-learn's own tests of dictionary learning, as installed, on our classes.

`conftest.py` marks the cases that do not apply; `not_applicable.py` lists these cases.
"""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.thorough,
    # With ten signals many atoms stay silent, which scikit-learn's tests accept.
    pytest.mark.filterwarnings("default"),
]

MODULE = "sklearn.decomposition.tests.test_dict_learning"
REPLACED = {"sklearn.decomposition", "sklearn.decomposition._dict_learning"}


def installed_tests():
    """Return the tests of scikit-learn's module, after its imports are replaced by our adapters."""
    path = Path(find_spec(MODULE).origin)
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    found = [
        n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level and n.module in REPLACED
    ]
    assert {node.module for node in found} == REPLACED
    for node in found:
        node.module = "tests.scikit_learn.adapters"
    namespace = {"__name__": MODULE, "__file__": str(path)}
    exec(compile(tree, str(path), "exec"), namespace)
    tests = {name: value for name, value in namespace.items() if name.startswith("test_")}
    assert len(tests) > 40
    return tests


globals().update(installed_tests())
