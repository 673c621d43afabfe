"""Rules of style that no checker knows; `make lint` runs the checkers."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


PACKAGES = ("snn", "solvers", "dictlearn")
COMPILERS = {"compiled", "uncounted", "inlined"}
WRITERS = {"update", "pop", "popitem", "setdefault", "clear", "__setitem__", "__delitem__", "__ior__"}


def files():
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def modules(*, kernels):
    return (tree for file, tree in files() if ("_kernels" in file.split("/")) == kernels)


def names_in(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def test_python_calls_no_compiled_function_that_returns_a_record():
    """Numba calls Python to make a record without a check for errors, so Ctrl-C could end the process."""
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


def is_state(node, aliases=()):
    """Return whether a node is ``vars(value)``, ``value.__dict__``, or an alias of one of them."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "vars"
    return getattr(node, "attr", None) == "__dict__" or getattr(node, "id", None) in aliases


def writes_to_state(tree):
    """Return the lines that bypass a constructor by a write to ``vars(value)`` or by methods of `object`."""
    aliases, lines = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_state(node.value):
            aliases |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            is_write = is_state(node.value, aliases)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            is_write = node.attr == "__dict__"
        elif isinstance(node, ast.AugAssign):
            is_write = is_state(node.target, aliases)
        elif isinstance(node, ast.Attribute) and node.attr in WRITERS:
            is_write = is_state(node.value, aliases)
        elif isinstance(node, ast.Attribute) and node.attr in {"__new__", "__setattr__", "__delattr__"}:
            # A class may call ``super().__new__`` to make its own objects.
            is_write = not (isinstance(node.value, ast.Call) and names_in(node.value) == {"super"})
        else:
            is_write = False
        if is_write:
            lines.append(node.lineno)
    return lines


def test_one_module_writes_to_frozen_values():
    """Only `assign`, `made`, `replaced` and `take_over` in `snn.base.value` bypass the checks of a value."""
    writing = {file: writes_to_state(tree) for file, tree in files()}
    assert len(writing.pop("snn/base/value.py")) > 5
    assert {file: lines for file, lines in writing.items() if lines} == {}


def test_what_writes_to_values_is_recognised():
    for line in (
        "vars(self)['a'] = 1",
        "vars(self).update(a=1)",
        "values = vars(self)\nvalues['a'] = 1",
        "del vars(self)['a']",
        "self.__dict__ = {}",
        "self.__dict__.pop('a')",
        "object.__new__(Network)",
        "Network.__new__(Network)",
        "object.__setattr__(self, 'a', 1)",
    ):
        assert writes_to_state(ast.parse(line)), line
    for line in ("vars(self).items()", "f(**vars(self))", "super().__new__(cls)", "vars(self)['a']"):
        assert not writes_to_state(ast.parse(line)), line


def imports():
    """Return what each module imports from the three packages, also for types and within functions."""
    trees = {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree for file, tree in files()
    }
    found = {module: set() for module in trees}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found[module] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, "imports name the package"
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found[module] |= names & trees.keys() or {node.module}
    return {module: imported & trees.keys() for module, imported in found.items()}


def test_imports_have_no_circle():
    """Imports for types count, too: every module can be read after the modules that it imports."""
    left = imports()
    assert sum(map(len, left.values())) > 500
    while read := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in read}
    assert not left


def test_the_lowest_package_names_none_above_it():
    strings = [
        node.value
        for file, tree in files()
        if file.startswith("snn/base/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(strings) > 100
    assert not [text for text in strings if re.search(r"\b(solvers|dictlearn)\b", text)]


def constants_of(tree):
    """Return the constants that a module defines, without leading underscores."""
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return {name.lstrip("_") for name in names if name.isupper() and not name.startswith("__")}


def test_a_constant_has_one_definition():
    """Modules import equal constants; different constants have different names, so readers can search."""
    defined = {}
    for file, tree in files():
        for name in constants_of(tree):
            defined.setdefault(name, []).append(file)
    assert len(defined) > 500
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}
