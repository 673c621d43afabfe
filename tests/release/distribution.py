"""Build the wheel and the source distribution and try them as a user would: ``make package``.

Both archives are built from the files that Git tracks, in isolated environments.  The program checks their
contents and metadata.  It installs the wheel into an empty environment of each Python that is named.  The
README's code runs there twice, outside of the checkout: first it compiles, then it uses the kernels on disk.
"""

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path, PurePosixPath

from tests.docs.pages import blocks
from tests.release.environments import environment, install, run

ROOT = Path(__file__).parents[2]
PACKAGES = ("snn", "solvers", "dictlearn")
NOT_IN_SOURCES = (".gitignore", ".ci", ".github", ".pre-commit-config.yaml")
"""Tracked by Git, and of no use outside of it."""

PLACE = (
    "import snn, solvers, dictlearn as d; print(snn.__file__, solvers.__file__, d.__file__, d.__version__)"
)


def tracked_files(root=ROOT):
    """Return the paths that Git tracks, relative to the root of the checkout."""
    listed = run("git", "ls-files", "-z", folder=root)
    return sorted(name for name in listed.split("\0") if name and (root / name).is_file())


def copy_files(names, folder, root=ROOT):
    """Copy files to another folder, so that a build contains no other file of the checkout."""
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)


def build(sources, output):
    """Build the source distribution, and the wheel from it; return both paths, the wheel first."""
    run(sys.executable, "-m", "build", "--outdir", output, sources)
    (wheel,), (archive,) = output.glob("*.whl"), output.glob("*.tar.gz")
    return wheel, archive


def faults_of_wheel(path, tracked):
    """Return a sentence for each file too few or too many in the wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith("/")]
    metadata = {name for name in names if PurePosixPath(name).parts[0].endswith(".dist-info")}
    wanted = {name for name in tracked if PurePosixPath(name).parts[0] in PACKAGES}
    faults = _differences(path.name, wanted, set(names) - metadata)
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in metadata):
        faults.append(f"{path.name} must have the licence; got {sorted(metadata)}")
    return faults


def faults_of_archive(path, tracked):
    """Return a sentence for each file too few or too many in the source distribution."""
    with tarfile.open(path) as archive:
        inside = {PurePosixPath(*PurePosixPath(m.name).parts[1:]) for m in archive.getmembers() if m.isfile()}
    made = {
        str(name) for name in inside if str(name) in ("PKG-INFO", "setup.cfg") or "egg-info" in name.parts[0]
    }
    wanted = {name for name in tracked if PurePosixPath(name).parts[0] not in NOT_IN_SOURCES}
    return _differences(path.name, wanted, {str(name) for name in inside} - made)


def _differences(archive, wanted, got):
    faults = [f"{archive} must have {name}, which Git tracks; it does not" for name in sorted(wanted - got)]
    faults += [f"{archive} must not have {name}, which Git does not track" for name in sorted(got - wanted)]
    return faults


def try_wheel(wheel, python, folder):
    """Install the wheel into an empty environment, run the README's code there twice, return a report."""
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    inside = environment(folder / f"environment-{version}", python=python)
    install(inside, wheel)
    run(inside, "-m", "pip", "check")
    elsewhere = folder / f"elsewhere-{version}"
    elsewhere.mkdir()
    *places, number = run(inside, "-c", PLACE, folder=elsewhere).split()
    for place in places:
        if not Path(place).is_relative_to(inside.parents[1]):
            raise SystemExit(f"the installed packages must be imported; got {place}")
    if f"-{number}-" not in wheel.name:
        raise SystemExit(f"__version__ must be that of {wheel.name}; got {number}")
    program = elsewhere / "readme.py"
    program.write_text("\n".join(block.code for block in blocks(ROOT / "README.md")), encoding="utf-8")
    printed, first = _timed(inside, program, elsewhere)
    _, second = _timed(inside, program, elsewhere)
    return (
        f"Python {version}: the README's code printed {' '.join(printed.split()[:3])}; first run, with "
        f"compiling, {first}; second run {second}"
    )


def _timed(python, program, folder):
    """Return what a program printed, and its time by the clock and of the processor."""
    begin, used = time.perf_counter(), os.times()
    printed = run(python, "-W", "error", program, folder=folder)
    elapsed, now = time.perf_counter() - begin, os.times()
    processor = now.children_user + now.children_system - used.children_user - used.children_system
    return printed, f"{elapsed:.0f} s ({processor:.0f} s of one processor)"


def try_sources(archive, folder):
    """Unpack the source distribution and let pytest find all tests in it, in this environment."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    found = run(
        sys.executable, "-m", "pytest", "--collect-only", "-q", folder=unpacked, PYTHONPATH=str(unpacked)
    )
    return f"{archive.name}: {found.strip().splitlines()[-1]}"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--output", type=Path, default=ROOT / "dist", help="where the two go; emptied first")
    options.add_argument(
        "--pythons", nargs="*", default=[sys.executable], help="interpreters to try them with"
    )
    arguments = options.parse_args()
    shutil.rmtree(arguments.output, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="sparsespike-package-") as scratch:
        folder = Path(scratch)
        tracked = tracked_files()
        copy_files(tracked, folder / "sources")
        wheel, archive = build(folder / "sources", arguments.output.absolute())
        print(wheel, archive, sep="\n")
        faults = faults_of_wheel(wheel, tracked) + faults_of_archive(archive, tracked)
        if faults:
            raise SystemExit("\n".join(faults))
        print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive).strip())
        print(try_sources(archive, folder / "unpacked"), flush=True)
        for python in arguments.pythons:
            print(try_wheel(wheel, python, folder), flush=True)


if __name__ == "__main__":
    main()
