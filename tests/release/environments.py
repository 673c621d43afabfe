"""Separate virtual environments for programs that try the project as a user installs it."""

import os
import subprocess
from pathlib import Path


def run(*command, folder=None, **environment):
    """Run a program to its end and return what it printed; an error shows its output.

    The program does not see the search path, the installed packages or the compiled kernels of this process,
    unless `environment` passes them.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=inherited | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nfailed: {' '.join(str(part) for part in command)}")
    return done.stdout


HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NUMBA_CACHE_DIR")


def environment(folder, *, python):
    """Create an empty virtual environment and return its interpreter."""
    run(python, "-m", "venv", folder)
    return Path(folder) / "bin" / "python"


def install(python, *what, constraints=None):
    """Install requirements, wheels or folders, with what they need, into an environment."""
    limits = () if constraints is None else ("--constraint", constraints)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *limits, *what)
