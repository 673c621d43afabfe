"""The public names are those that were agreed on."""

import pytest

import dictlearn
import snn
from tests.release.public_api import COMMAND, LIST, changes, public_api


def test_public_names_are_those_agreed_on():
    change = changes(LIST.read_text(encoding="utf-8"), public_api())
    assert not change, f"if this is meant, run `{COMMAND}`, and commit the list: {change}"


@pytest.mark.parametrize(
    ("owner", "name", "line"),
    [
        (snn.SpikingNetwork, "halved", "+snn.SpikingNetwork.halved"),
        (dictlearn, "resumable", "+dictlearn.resumable"),
        (snn.SpikingNetwork, "with_soma_bias", "-snn.SpikingNetwork.with_soma_bias"),
    ],
)
def test_what_is_added_or_taken_away_is_shown(monkeypatch, owner, name, line):
    before = public_api()
    if owner is dictlearn:
        monkeypatch.setattr(dictlearn, "__all__", [*dictlearn.__all__, name])
    elif line.startswith("+"):
        monkeypatch.setattr(owner, name, property(lambda self: 0), raising=False)
    else:
        monkeypatch.delattr(owner, name)
    assert [said for said in changes(before, public_api()) if not said.startswith("@")] == [line]
