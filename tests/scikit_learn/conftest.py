"""A plugin: cases of scikit-learn's tests that do not apply are expected to fail, strictly, and counted."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scikit_learn.not_applicable import reason_of, unmatched_rules

MODULE = "test_dict_learning.py"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thread_unsafe: scikit-learn's mark of tests that start processes")


@pytest.hookimpl(tryfirst=True)  # before cases are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases = [item for item in items if item.path.name == MODULE and item.path.parent.name == "scikit_learn"]
    chosen_by_name = any("::" in argument for argument in config.args)
    unmatched = [] if not cases or chosen_by_name else unmatched_rules([case.name for case in cases])
    if unmatched:
        raise pytest.UsageError(f"tests/scikit_learn/not_applicable.py: no case matches {unmatched}")
    counts: Counter[str] = Counter()
    for case in cases:
        reason = reason_of(case.name)
        counts["passing" if reason is None else reason.text] += 1
        if reason is not None:
            case.add_marker(pytest.mark.xfail(reason=reason.text, raises=reason.raises, strict=True))
    config.stash[COUNTS] = counts


COUNTS = pytest.StashKey[Counter]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash.get(COUNTS, Counter())
    if not counts or config.get_verbosity() < 0:
        return
    terminalreporter.section("scikit-learn's tests of dictionary learning, on our classes")
    for text, count in counts.most_common():
        terminalreporter.write_line(f"{count:4d} {text}")
