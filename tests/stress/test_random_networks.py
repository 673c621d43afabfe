"""The fuzzer of networks, on a few of them; and that it finds what is wrong, and makes it small."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.reference.weight_forms import NAMES
from tests.stress import network_checks, random_networks
from tests.stress.network_cases import REGIMES
from tests.stress.random_networks import Tally, play

pytestmark = pytest.mark.thorough

N_NETWORKS = 200


@pytest.fixture(scope="module")
def tally():
    tally = Tally(7)
    play(tally, N_NETWORKS, quiet=True, save=lambda _: None)
    return tally


def test_networks_of_all_forms_and_regimes_are_right(tally):
    assert tally.failures == []
    assert set(tally.forms) == set(NAMES)
    assert set(tally.regimes) == set(REGIMES)
    assert set(tally.ways) == set(network_checks.WAYS)
    assert sum(count["spikes"] for count in tally.forms.values()) > 50 * N_NETWORKS
    # Without an undecided tie, spikes are those of the free simulator, to the end.
    assert sum(count["apart by rounding"] for count in tally.forms.values()) == 0


def test_it_goes_on_where_it_was(tally):
    first = Tally(7)
    play(first, 30, quiet=True, save=lambda _: None)
    second = Tally.from_json(first.as_json())
    play(second, 50, quiet=True, save=lambda _: None)
    whole = Tally(7)
    play(whole, 50, quiet=True, save=lambda _: None)
    one, other = (json.loads(t.as_json()) | {"seconds": 0} for t in (second, whole))
    assert one == other


def test_a_failure_is_found_and_made_small(monkeypatch, capsys):
    """As if currents were off by a last digit that counts, in networks in which neuron 0 has one."""
    right = network_checks.simulate

    def wrong(*arguments, **options):
        run = right(*arguments, **options)
        current = run.state.synaptic_current.copy()
        current[:1] *= 1.0 + 1e-9
        return replace(run, state=replace(run.state, synaptic_current=current))

    monkeypatch.setattr(network_checks, "simulate", wrong)
    tally = Tally(7)
    play(tally, 12, quiet=True, save=lambda _: None)
    assert tally.failures
    assert "neuron 0 ended with another current" in tally.failures[0]
    assert f"--seed 7 --only {int(tally.failures[0].split()[1][:-1])}" in tally.failures[0]
    assert tally.failures[0] in capsys.readouterr().err
    sizes = [int(text.split("smallest that fails, ")[1].split()[0]) for text in tally.failures]
    assert min(sizes) <= 2
    assert np.median(sizes) <= 12


def test_only_one(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["random_networks", "--seed", "7", "--only", "3"])
    assert random_networks.main() == 0
    assert capsys.readouterr().out == "right\n"
