"""Sentences of errors change only when somebody means it, and read alike."""

import re

import pytest

from tests.release.public_api import changes
from tests.release.sentences import COMMAND, LIST, sentences

LINE = re.compile(r"    (?P<kind>[\w.]+): (?P<said>.+)")


@pytest.fixture(scope="module")
def agreed():
    return LIST.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def said(agreed):
    matches = (LINE.fullmatch(line) for line in agreed.splitlines())
    return [(match["kind"], match["said"]) for match in matches if match]


def test_sentences_are_those_agreed_on(agreed):
    change = "\n".join(changes(agreed, sentences()))
    assert not change, f"if this is meant, read it, and accept it by `{COMMAND}`:\n{change}"


def test_sentences_read_alike(said):
    assert len(said) > 300
    for kind, sentence in said:
        assert not sentence.endswith("."), sentence
        assert "  " not in sentence, sentence
        assert kind[0].isupper() or "." in kind or kind.islower(), kind


def test_values_that_are_refused_are_said(said):
    """What came: by far the most sentences about an argument end in it."""
    about_arguments = [s for kind, s in said if kind in {"TypeError", "ValueError"} and " must " in s]
    without = [s for s in about_arguments if "got " not in s]
    assert len(without) <= 0.2 * len(about_arguments), without
