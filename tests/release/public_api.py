"""List every public name, one per line: ``python -m tests.release.public_api [--accept]``.

`public_api.txt` in this folder is the list that was agreed on; a test compares both lists.  A list has the
names that public packages and modules export, and the methods, properties and fields of the public classes of
this project.  Parameters are not listed: mypy checks parameters, and docstrings describe them.
"""

import argparse
import difflib
import enum
import importlib
import re
from pathlib import Path

LIST = Path(__file__).with_name("public_api.txt")
COMMAND = "python -m tests.release.public_api --accept"
MODULES = (
    "snn",
    "snn.digital",
    "snn.exchange",
    "snn.hardware",
    "snn.pictures",
    "solvers",
    "solvers.methods",
    "dictlearn",
    "dictlearn.distributed",
    "dictlearn.pictures",
    "dictlearn.rules",
)
"""Modules that documentation tells users to import from."""
OURS = ("snn", "solvers", "dictlearn")
ROUTING = re.compile(r"set_\w+_request")
"""Methods that some versions of scikit-learn add."""


def public_api():
    """Return the list as text."""
    things = {}
    for module_name in MODULES:
        module = module_of(module_name)
        things |= {f"{module_name}.{name}": getattr(module, name) for name in exported(module)}
    public, lines, listed = {id(thing) for thing in things.values()}, [], set()
    for name, thing in things.items():
        lines.append(name)
        # A class may have several names: list its members only after the first name.
        if isinstance(thing, type) and thing not in listed:
            listed.add(thing)
            lines += [f"{name}.{member}" for member in members(thing, public)]
    return "\n".join([*lines, ""])


def changes(agreed, found):
    """Return the lines of a diff; none if nothing changed."""
    return list(difflib.unified_diff(agreed.splitlines(), found.splitlines(), n=0, lineterm=""))[2:]


def exported(module):
    """Return the public names of a module: what it declares, or the functions and classes it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    )


def module_of(name):
    """Import a module by the name that users write; the name may be an attribute of a package."""
    package, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(package), last)


def members(cls, public):
    """Return the public names of a class, except names from a public base class."""
    if issubclass(cls, enum.Enum):
        return [member.name for member in cls]
    ours = [kind for kind in cls.__mro__ if kind.__module__.split(".")[0] in OURS]
    given = {name for base in ours[1:] if id(base) in public for name in names_of(base)}
    found = names_of(cls) - given
    return sorted(name for name in found if not name.startswith("_") and not ROUTING.fullmatch(name))


def names_of(cls):
    """Return the names and fields that this project defines in a class and in the bases of the class."""
    ours = [vars(kind) for kind in cls.__mro__ if kind.__module__.split(".")[0] in OURS]
    return {name for own in ours for name in (*own, *own.get("__dataclass_fields__", ()))}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--accept", action="store_true", help=f"write {LIST.name}")
    found = public_api()
    if options.parse_args().accept:
        LIST.write_text(found, encoding="utf-8")
    else:
        print(found, end="")


if __name__ == "__main__":
    main()
