"""The plugin that runs scikit-learn's tests: what it must notice."""

import os

import pytest

from tests.processes import ROOT, run_python
from tests.scikit_learn.installed import installed_tests
from tests.scikit_learn.not_applicable import REASONS, reason_of, unmatched_rules

pytestmark = pytest.mark.thorough

MODULE = "sklearn.decomposition.tests.test_dict_learning"
ADAPTERS = "tests.scikit_learn.adapters"


def test_names_that_are_imported_from_elsewhere_are_noticed():
    with pytest.raises(ImportError, match=r"must import from .*'sklearn.else'.*; it does from"):
        installed_tests(MODULE, replaced=("sklearn.decomposition", "sklearn.else"), by=ADAPTERS)
    with pytest.raises(ImportError, match="cannot import name"):
        installed_tests(MODULE, replaced=("sklearn.decomposition",), by="dictlearn")


def test_the_tests_are_run_with_our_classes():
    tests = installed_tests(MODULE, replaced=("sklearn.decomposition",), by=ADAPTERS)
    ours = tests["test_dict_learning_shapes"].__globals__["DictionaryLearning"]
    assert ours.__module__ == ADAPTERS
    assert "sklearn" in tests["test_dict_learning_shapes"].__code__.co_filename
    assert len(tests) > 40


def test_a_rule_without_a_case_is_noticed():
    current = [rule for reason in REASONS if reason.is_current for rule in reason.rules]
    assert unmatched_rules([]) == current
    assert "test_update_dict" not in unmatched_rules(["test_update_dict"])
    assert reason_of("test_update_dict").text.startswith("a private function")
    assert reason_of("test_dict_learning_shapes") is None


def test_a_listed_case_that_passes_is_an_error(tmp_path):
    """The bodies of all tests are exchanged for nothing, which passes."""
    plugin = "import pytest\n\n\ndef pytest_collection_modifyitems(items):\n"
    plugin += "    for item in items:\n        item.obj = lambda **_: None\n"
    (tmp_path / "passing.py").write_text(plugin)
    case = "tests/scikit_learn/test_dict_learning.py::test_dict_learning_split"
    options = ("-q", "-p", "passing", "-p", "no:cacheprovider", case)
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    run = run_python("-m", "pytest", *options, returns=1, PYTHONPATH=path)
    assert "XPASS(strict)" in run.stdout
