"""Contents of packages, tested on hand-made archives and on archives that are built here."""

import importlib.util
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.release.distribution import build, copy_files, faults_of_archive, faults_of_wheel, tracked_files
from tests.release.environments import run

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
TRACKED = [
    "LICENSE",
    "snn/__init__.py",
    "snn/new/__init__.py",
    "snn/py.typed",
    "tests/test_x.py",
    ".gitignore",
]
INFO = "sparsespike-1.dist-info"


def wheel_of(folder, names):
    path = folder / "sparsespike-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in names:
            wheel.writestr(name, "")
    return path


def archive_of(folder, names):
    path = folder / "sparsespike-1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            (folder / "empty").write_text("")
            archive.add(folder / "empty", f"sparsespike-1/{name}")
    return path


GOOD_WHEEL = [*TRACKED[1:4], f"{INFO}/METADATA", f"{INFO}/licenses/LICENSE"]
GOOD_ARCHIVE = [*TRACKED[:5], "PKG-INFO", "setup.cfg", "sparsespike.egg-info/SOURCES.txt"]


def test_what_archives_lack_or_have_too_many_is_named(tmp_path):
    assert faults_of_wheel(wheel_of(tmp_path, GOOD_WHEEL), TRACKED) == []
    assert faults_of_archive(archive_of(tmp_path, GOOD_ARCHIVE), TRACKED) == []
    for name in GOOD_WHEEL[:3]:
        (fault,) = faults_of_wheel(wheel_of(tmp_path, [n for n in GOOD_WHEEL if n != name]), TRACKED)
        assert f"must have {name}" in fault
    (fault,) = faults_of_wheel(wheel_of(tmp_path, GOOD_WHEEL[:-1]), TRACKED)
    assert "licence" in fault
    for name in ("tests/test_x.py", "snn/__pycache__/a.pyc", "docs/a.md"):
        (fault,) = faults_of_wheel(wheel_of(tmp_path, [*GOOD_WHEEL, name]), TRACKED)
        assert f"must not have {name}" in fault
    names = [name for name in GOOD_ARCHIVE if name != "tests/test_x.py"]
    lacking, excess = faults_of_archive(archive_of(tmp_path, [*names, "tests/a.pyc"]), TRACKED)
    assert ("must have tests/test_x.py" in lacking, "a.pyc" in excess) == (True, True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the wheel and source distribution of this checkout, and the files that Git tracks in it."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("build is not installed (it is in the extra `test`)")
    folder = tmp_path_factory.mktemp("built")
    try:
        tracked = tracked_files()
    except (SystemExit, FileNotFoundError):
        pytest.skip("this is no checkout of Git, which says what belongs to the project")
    copy_files(tracked, folder / "sources")
    try:
        return *build(folder / "sources", folder / "dist"), tracked
    except SystemExit as error:
        if "No matching distribution found for setuptools" in str(error):
            pytest.skip("pip finds no setuptools: there is no network")
        raise


def test_built_archives_are_complete(built):
    wheel, archive, tracked = built
    assert faults_of_wheel(wheel, tracked) + faults_of_archive(archive, tracked) == []


def test_metadata_are_those_of_the_project(built):
    wheel, _, _ = built
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith("/METADATA")]
        lines = opened.read(name).decode().splitlines()
    version = run("git", "grep", "-h", "^__version__ =", "snn/__init__.py", folder=ROOT).split('"')[1]
    for line in (f"Version: {version}", "License-Expression: BSD-3-Clause", "Requires-Python: >=3.11"):
        assert line in lines
    assert any(line.startswith("Requires-Dist: numpy>=2.0;") for line in lines)
