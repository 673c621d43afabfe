"""The public API is the one that was agreed on, and a change of it is seen and said."""

from pathlib import Path

import pytest

import dictlearn
import dictlearn.resumable
import snn
import solvers
from tests.processes import run_python
from tests.release.public_api import COMMAND, LIST, difference, public_api

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def agreed():
    return LIST.read_text(encoding="utf-8")


def test_public_api_is_the_one_agreed_on(agreed):
    change = difference(agreed, public_api())
    assert not change, change


def simulate(network, duration, *, record_spikes=True):
    pass


CHANGES = {
    "a default": (snn, "simulate", simulate, "+snn.simulate(network, duration, *, record_spikes=True)"),
    "a method": (
        snn.SpikingNetwork,
        "halved",
        lambda self, by=2: self,
        "+snn.SpikingNetwork.halved(by=2)",
    ),
    "a property": (
        solvers.LassoProblem,
        "n_zeros",
        property(lambda self: 0),
        "+solvers.LassoProblem.n_zeros",
    ),
    "an export": (dictlearn, "__all__", [*dictlearn.__all__, "resumable"], "+dictlearn.resumable: module"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_shown_with_the_command_that_accepts_it(agreed, monkeypatch, change):
    owner, name, value, line = CHANGES[change]
    monkeypatch.setattr(owner, name, value, raising=False)
    said = difference(agreed, public_api()).splitlines()
    assert line in said
    assert sum(text.startswith("+") and not text.startswith("+++") for text in said) == 1
    assert COMMAND in said[-1]


def test_what_is_taken_away_is_shown(agreed, monkeypatch):
    monkeypatch.delattr(snn.SpikingNetwork, "with_soma_bias")
    assert "-snn.SpikingNetwork.with_soma_bias(soma_bias)" in difference(agreed, public_api()).splitlines()


@pytest.mark.thorough
def test_the_list_is_the_same_in_every_process():
    """No addresses, no order of sets; and it is what the command prints."""
    listed = [run_python("-m", "tests.release.public_api", PYTHONHASHSEED=seed).stdout for seed in ("1", "2")]
    assert listed[0] == listed[1] == public_api()
    assert "0x" not in listed[0]
