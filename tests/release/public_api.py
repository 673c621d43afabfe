"""Every public name with its signature, as one text: ``python -m tests.release.public_api [--accept]``.

`public_api.txt` beside this file is the list that was agreed on; a test compares.  Listed are the names that
public packages and modules export, the parameters of functions and classes with their defaults, and what
classes of this project give their users: methods, properties, fields, documented attributes.  Annotations
are left out: mypy checks them, and a call looks the same without.
"""

import argparse
import dataclasses
import difflib
import enum
import importlib
import inspect
import re
from pathlib import Path

from snn.base.drawn import Drawn, drawing_of

LIST = Path(__file__).with_name("public_api.txt")
COMMAND = "python -m tests.release.public_api --accept"
MODULES = (
    "snn",
    "snn.digital",
    "snn.exchange",
    "snn.hardware",
    "snn.pictures",
    "snn.record.rates",
    "snn.record.traces",
    "snn.weights",
    "solvers",
    "solvers.certificate.optimality",
    "solvers.methods",
    "dictlearn",
    "dictlearn.distributed",
    "dictlearn.pictures",
    "dictlearn.rules",
)
"""What documentation tells users to import from."""

PROTOCOLS = (
    "__add__",
    "__array__",
    "__call__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__matmul__",
    "_repr_html_",
)
"""Methods that users reach by an operator or a display."""
ROUTING = re.compile(r"set_\w+_request")
"""Methods that scikit-learn makes, in some of its versions."""


def public_api():
    """Return the list as text."""
    names = {}
    for module_name in MODULES:
        module = module_of(module_name)
        for public in exported(module):
            thing = getattr(module, public)
            # The first module that exports a thing is its place; others name that.
            names.setdefault(id(thing), (f"{module_name}.{public}", thing))
    lines = []
    for name in MODULES:
        lines += [f"# {name}", *_module_lines(name, names), ""]
    return "\n".join(lines)


def difference(agreed, found):
    """Return what changed as a diff, and how to accept it; an empty string if nothing did."""
    diff = changes(agreed, found)
    if not diff:
        return ""
    return "\n".join(
        [
            "the public API is not the one in tests/release/public_api.txt:",
            *diff,
            f"If this is meant, run `{COMMAND}`, commit the list, and add a line to CHANGELOG.md.",
        ]
    )


def changes(agreed, found):
    """Return the lines of a diff; none if nothing changed."""
    return list(
        difflib.unified_diff(
            agreed.splitlines(), found.splitlines(), "agreed on", "in the packages", n=3, lineterm=""
        )
    )


def exported(module):
    """Return the public names of a module: what it declares, or the functions and classes it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    )


def _module_lines(module_name, names):
    module = module_of(module_name)
    for public in exported(module):
        thing, name = getattr(module, public), f"{module_name}.{public}"
        place = names[id(thing)][0]
        if place != name:
            yield f"{name}: {place}"
        elif isinstance(thing, type):
            bases = [names.get(id(base), (base.__name__,))[0] for base in _public_bases(thing, names)]
            yield f"{name}{_signature(thing, names)}: {' '.join(['class', *bases])}"
            yield from (f"{name}.{member}" for member in _members(thing, names))
        elif callable(thing):
            yield f"{name}{_signature(thing, names)}"
        else:
            yield f"{name}: {type(thing).__name__}"


def module_of(name):
    """Import a module by the name that users write, which may be that of an attribute of a package."""
    package, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(package), last)


def _public_bases(cls, names):
    """Return the bases by which things are caught or passed on; other projects change theirs."""
    return [base for base in cls.__bases__ if id(base) in names or issubclass(base, (Exception, enum.Enum))]


def _signature(thing, names):
    """Return the parameters without annotations; nothing for classes that Python gives a constructor."""
    if (
        isinstance(thing, type)
        and issubclass(thing, (enum.Enum, Exception))
        and "__init__" not in vars(thing)
    ):
        return ""
    signature = inspect.signature(thing)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_default(parameter.default, names))
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


class _Text(str):
    """Shown as it is."""

    __slots__ = ()
    __repr__ = str.__str__


def _default(value, names):
    """Return a default that shows alike in every process and on every Python."""
    if value is inspect.Parameter.empty:
        return value
    if id(value) in names:
        return _Text(names[id(value)][0])
    if isinstance(value, enum.Enum):
        return _Text(f"{type(value).__name__}.{value.name}")
    if callable(value) or dataclasses.is_dataclass(value):
        return _Text(getattr(value, "__qualname__", f"{type(value).__qualname__}(...)"))
    text = repr(value)
    return _Text("..." if " at 0x" in text or "<factory>" in text else text)


def _members(cls, names):
    """Return the lines of what a class gives its users, unless a public base gives them the same."""
    if issubclass(cls, enum.Enum):
        return [f"{member.name} = {member.value!r}" for member in cls]
    inherited, lines = {}, {}
    for kind in reversed(cls.__mro__):
        if kind.__module__.split(".")[0] not in ("snn", "solvers", "dictlearn"):
            continue
        for name, line in _own_members(kind, names).items():
            if kind is not cls and id(kind) in names:
                inherited[name] = line
            lines[name] = line
    return [line for name, line in sorted(lines.items()) if inherited.get(name) != line]


def _own_members(cls, names):
    members = {name: name for name in _attributes(cls)}
    if issubclass(cls, Drawn) and cls is not Drawn:
        members["plot"] = f"plot{_plot_signature(cls)}"
    for name, value in vars(cls).items():
        if (name.startswith("_") and name not in PROTOCOLS) or ROUTING.fullmatch(name):
            continue
        if isinstance(value, (staticmethod, classmethod)) or inspect.isfunction(value):
            members[name] = f"{name}{_signature(getattr(cls, name), names)}"
        else:
            members[name] = name
    return members


def _plot_signature(cls):
    """Return what ``plot`` takes for a class: the options of its drawing, after `ax`."""
    parameters = dict(inspect.signature(drawing_of(cls)).parameters)
    ax = parameters.pop("ax").replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    _, *options = (p.replace(annotation=inspect.Parameter.empty) for p in parameters.values())
    return inspect.Signature([ax.replace(annotation=inspect.Parameter.empty), *options])


def _attributes(cls):
    """Return fields, and attributes that the docstring of a class describes."""
    names = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    section = re.search(
        r"^Attributes\n-{10}\n(.*?)(?=^\w.*\n-{3,}$|\Z)", text, flags=re.MULTILINE | re.DOTALL
    )
    if section:
        for described in re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", section[1], flags=re.MULTILINE):
            names += described.split(", ")
    return [name for name in names if not name.startswith("_")]


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
