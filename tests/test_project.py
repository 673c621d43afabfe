"""The project as a new user finds it: package, documentation, and cost of an import."""

import enum
import importlib
import importlib.metadata
import inspect
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from PIL import Image

import snn
from tests.processes import run_python
from tests.release.public_api import MODULES, exported, module_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("snn", "solvers", "dictlearn")
PUBLIC = [(module, name) for module in MODULES for name in exported(module_of(module))]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_modules_is_a_package_and_is_found(package):
    wanted = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    for folder in {file.parent for file in (ROOT / package).rglob("*.py")}:
        assert (folder / "__init__.py").is_file(), f"{folder} needs an __init__.py to be packaged"
        name = ".".join(folder.relative_to(ROOT).parts)
        assert any(fnmatch(name, pattern) for pattern in wanted), f"pyproject.toml does not find {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_types_are_declared(package):
    assert (ROOT / package / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"][package]


def test_the_version_is_that_of_the_packages_and_of_the_installation():
    assert {importlib.import_module(package).__version__ for package in PACKAGES} == {snn.__version__}
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "snn.__version__"}
    try:
        installed = importlib.metadata.version("sparsespike")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("sparsespike is not installed: the tests run from the checkout")
    assert installed == snn.__version__, "install again: pip install --editable ."


@pytest.mark.parametrize(("package", "needs"), [("solvers", "snn"), ("dictlearn", "solvers")])
def test_packages_of_others_with_our_names_end_in_one_sentence(tmp_path, package, needs):
    foreign = tmp_path / needs / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text("solve = print\n")
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import {package}"
    last = run_python("-c", program, returns=1).stderr.splitlines()[-1]
    assert last.startswith("ImportError")
    assert str(foreign) in last


def test_changelog_citation_and_makefile_know_the_versions():
    for name, line in (("CHANGELOG.md", r"^## {}\b"), ("CITATION.cff", r"^version: {}$")):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.search(line.format(re.escape(snn.__version__)), text, flags=re.MULTILINE), name
    (floor,) = re.findall(r"^>=(\d+\.\d+)$", PROJECT["project"]["requires-python"])
    assert f"v >= ({floor.replace('.', ', ')}) else" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(("package", "name"), PUBLIC, ids=map(".".join, PUBLIC))
def test_public_names_are_documented(package, name):
    thing = getattr(module_of(package), name)
    if not callable(thing):
        return
    described = inspect.getdoc(thing)
    assert described
    assert described.splitlines()[0].endswith(".")
    if isinstance(thing, type) and issubclass(thing, (Exception, enum.Enum)):
        return
    # Docstrings of all bases describe the attributes of a result class.
    kinds = thing.__mro__ if isinstance(thing, type) else (thing,)
    text = "\n".join(inspect.cleandoc(kind.__doc__ or "") for kind in kinds if kind is not object)
    parameters = [p for p in inspect.signature(thing).parameters if not p.startswith("_")]
    if parameters:
        assert re.search(r"^(Parameters|Attributes)\n-{10}$", text, flags=re.MULTILINE)
    undescribed = [
        p for p in parameters if not re.search(rf"^(\*\*)?(\w+, )*{p}(, \w+)*( :.*)?$", text, re.MULTILINE)
    ]
    assert not undescribed


@pytest.mark.thorough
def test_import_compiles_and_draws_nothing():
    program = """
import importlib, pkgutil, sys
packages = [importlib.import_module(name) for name in ("snn", "solvers", "dictlearn")]
assert "matplotlib" not in sys.modules
names = [m.name for p in packages for m in pkgutil.walk_packages(p.__path__, p.__name__ + ".")]
modules = [importlib.import_module(name) for name in names]
from numba.core.dispatcher import Dispatcher
kernels = {id(k): k for m in modules for k in vars(m).values() if isinstance(k, Dispatcher)}.values()
compiled = [k.__name__ for k in kernels if k.signatures]
print(len(kernels), compiled)
"""
    n_kernels, compiled = run_python("-c", program).stdout.split(maxsplit=1)
    assert int(n_kernels) > 5
    assert compiled.strip() == "[]"


# --- a clone holds all files that were ever committed --------------------------------------------


def test_pictures_of_the_documentation_are_light():
    pictures = [path for path in (ROOT / "docs").glob("*/*.*") if path.suffix in (".png", ".webp", ".gif")]
    assert len(pictures) > 30
    for path in pictures:
        with Image.open(path) as picture:
            wanted = picture.mode in ("P", "L") if path.suffix == ".png" else path.suffix == ".webp"
        assert wanted, f"{path}: python -m examples._pictures {path.relative_to(ROOT)}"
        assert path.stat().st_size < 800_000
    assert sum(path.stat().st_size for path in pictures) < 6_000_000
