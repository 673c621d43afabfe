"""Run the tests with the lowest version of each dependency that the project allows: ``make test-lowest``.

Each lower bound of `pyproject.toml` that users install becomes a constraint, ``>=`` read as ``==``.
Packages that only tests, docs or comparisons need have their newest version.
"""

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.release.environments import environment, install, run

ROOT = Path(__file__).parents[2]
# Old releases of one package call functions that new releases of another deprecate: no fault of this project.
# The setting is in the environment, so that tests which start pytest pass it on.
NOT_ERRORS = {"PYTEST_ADDOPTS": "-W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning"}
EXTRAS = ("brian2", "dask", "nir", "examples", "digits")
"""Extras whose packages this project imports if a user asks for them."""


def constraints(project):
    """Return a line ``name==version; marker`` for each bound of the table ``[project]``.

    Raises
    ------
    ValueError
        If a requirement has no lower bound: then nothing says what it was tested with.
    """
    requirements = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    return sorted({line for text in requirements if (line := lowest(Requirement(text)))})


def lowest(requirement):
    """Return the constraint of a requirement, or None if the requirement has limits, but no lower bound."""
    floors = [clause.version for clause in requirement.specifier if clause.operator == ">="]
    if not floors and len(requirement.specifier):
        return None
    if len(floors) != 1:
        raise ValueError(f"{requirement} must have one lower bound, `>=`; got {str(requirement.specifier)!r}")
    marker = f"; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}=={floors[0]}{marker}"


def prepared(python, folder, text):
    """Return the interpreter of an environment with these constraints; make the environment if necessary."""
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    inside, stamp = folder / version / "bin" / "python", folder / version / "constraints.txt"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != text:
        environment(folder / version, python=python)
        wanted = folder / version / "wanted.txt"
        wanted.write_text(text, encoding="utf-8")
        install(inside, "--editable", f"{ROOT}[test,{','.join(EXTRAS)}]", constraints=wanted)
        wanted.rename(stamp)
    return inside


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--print", action="store_true", help="show the constraints and end")
    options.add_argument("--folder", type=Path, default=ROOT / ".venv-lowest", help="of the environments")
    options.add_argument("--pythons", nargs="+", default=[sys.executable], help="interpreters to test with")
    options.add_argument("--tests", nargs=argparse.REMAINDER, default=[], help="arguments of pytest")
    arguments = options.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = "\n".join([*constraints(project), ""])
    print(text, flush=True)
    if arguments.print:
        return
    failed = []
    for python in arguments.pythons:
        inside = prepared(python, arguments.folder.absolute(), text)
        print(run(inside, "-VV"), run(inside, "-m", "pip", "freeze", "--exclude-editable"), flush=True)
        command = [inside, "-m", "pytest", *arguments.tests]
        if subprocess.run(command, cwd=ROOT, env={**os.environ, **NOT_ERRORS}, check=False).returncode:
            failed.append(python)
    if failed:
        raise SystemExit(f"tests failed with the lowest versions: {', '.join(failed)}")


if __name__ == "__main__":
    main()
