"""Tests of installed packages, run with other imports than they were written with."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path


class _OtherImports(ast.NodeTransformer):
    """Import from `by` what is imported by name from the modules `replaced`."""

    def __init__(self, replaced: tuple[str, ...], by: str) -> None:
        self.replaced, self.by = replaced, by
        self.found: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level == 0 and node.module in self.replaced:
            self.found.add(node.module)
            node.module = self.by
        return node


def installed_tests(module: str, *, replaced: tuple[str, ...], by: str) -> dict[str, object]:
    """Return the tests of an installed module, executed with other imports.

    Parameters
    ----------
    module : str
        Name of the module; it is read, not imported.
    replaced : tuple of str
        Modules from which names are not to be imported.
    by : str
        The module to import these names from.  One that it does not have is an ImportError.

    Returns
    -------
    dict
        The functions of the module that are tests, by name.
    """
    path = Path(find_spec(module).origin)
    imports = _OtherImports(replaced, by)
    tree = imports.visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    if imports.found != set(replaced):
        raise ImportError(
            f"{module} must import from {sorted(replaced)}; it does from {sorted(imports.found)}"
        )
    namespace: dict[str, object] = {"__name__": module, "__file__": str(path)}
    exec(compile(tree, str(path), "exec"), namespace)
    return {name: value for name, value in namespace.items() if name.startswith("test_")}
