"""Tests that lower bounds of requirements become constraints of pip."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.release.lowest import EXTRAS, constraints

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def project(*dependencies, **extras):
    return {"dependencies": dependencies, "optional-dependencies": {extra: [] for extra in EXTRAS} | extras}


def test_each_lower_bound_becomes_an_equality():
    table = project("numpy>=2.0,<3", "tqdm >= 4.66.3", dask=["dask[array]>=2024.8"], docs=["sphinx>=8"])
    assert constraints(table) == ["dask==2024.8", "numpy==2.0", "tqdm==4.66.3"]


def test_bounds_of_some_pythons_stay_theirs():
    table = project("scipy>=1.13; python_version < '3.13'", "scipy>=1.14.1; python_version >= '3.13'")
    lines = [Requirement(line) for line in constraints(table)]
    for python, version in (("3.11", "1.13"), ("3.13", "1.14.1")):
        (chosen,) = [r for r in lines if r.marker.evaluate({"python_version": python})]
        assert str(chosen.specifier) == f"=={version}"


def test_an_upper_bound_alone_is_no_constraint():
    assert constraints(project(brian2=["brian2>=2.9", "numpy<2.4"])) == ["brian2==2.9"]


@pytest.mark.parametrize("text", ["numpy", "numpy>=1,>=2"])
def test_a_dependency_without_one_lower_bound_is_refused(text):
    with pytest.raises(ValueError, match=f"{text.split('>')[0]}.* must have one lower bound"):
        constraints(project(text))


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_dependency_has_one_bound_on_each_python(python):
    lines = [Requirement(line) for line in constraints(PROJECT)]
    held = [r.name for r in lines if r.marker is None or r.marker.evaluate({"python_version": python})]
    assert len(held) == len(set(held))
    assert {Requirement(text).name for text in PROJECT["dependencies"]} <= set(held)
    named = [c for c in PROJECT["classifiers"] if c.endswith(f":: {python}")]
    assert named, f"a classifier must name Python {python}"
