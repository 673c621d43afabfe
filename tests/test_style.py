"""Rules of style that no checker knows; `make lint` runs the checkers."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]


PACKAGES = ("snn", "solvers", "dictlearn")
COMPILERS = {"compiled", "uncounted", "inlined"}


def modules(*, kernels):
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if ("_kernels" in file.parts) == kernels:
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
        node.name
        for node in classes
        if any("NamedTuple" in names_in(base) for base in node.bases)
        or any("record" in names_in(decorator) for decorator in node.decorator_list)
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


def test_a_function_without_a_body_is_abstract():
    """A kernel that lacks an operation does not compile; an empty body would silently do nothing."""
    empty = [
        node.name
        for tree in modules(kernels=True)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and len(node.body) == 1
        and isinstance(node.body[0], ast.Expr | ast.Pass)
        and not any("abstractmethod" in names_in(decorator) for decorator in node.decorator_list)
        and (isinstance(node.body[0], ast.Pass) or isinstance(node.body[0].value, ast.Constant))
    ]
    assert not empty
