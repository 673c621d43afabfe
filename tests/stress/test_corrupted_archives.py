"""The fuzzer of archives, on a few files of each kind."""

import numpy as np
import pytest

from tests.stress import corrupted_archives
from tests.stress.archive_kinds import KINDS
from tests.stress.corrupted_archives import BARE, OTHER, Fuzzer, main, play

pytestmark = pytest.mark.thorough

OURS = [name for name in KINDS if name != "network in NIR"]
N_FILES = 60


def test_no_damage_is_silent():
    outcomes = play(OURS, N_FILES, 1, quiet=True)
    assert outcomes["failures"] == []
    for name, table in outcomes["kinds"].items():
        assert sum(sum(counts.values()) for counts in table.values()) == N_FILES, name
        assert table["cut short"] == {"refused": N_FILES // 10}
        assert table["entries swapped"].keys() <= {"refused", "loaded as it was"}


def test_networks_in_nir_are_read_or_refused():
    pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
    outcomes = play(["network in NIR"], 15, 1, quiet=True)
    assert outcomes["failures"] == []


def test_failures_are_seen(tmp_path):
    """Other numbers, and errors that are no sentence."""
    fuzzer = Fuzzer("network state", tmp_path, 0)
    cut_short = list(fuzzer.damages).index("cut short")
    assert fuzzer.examine(cut_short)[0] == corrupted_archives.REFUSED
    kind = fuzzer.kind
    fuzzer.kind = kind._replace(read=lambda path: None, content=lambda state: {"time": np.array(1.0)})
    assert fuzzer.examine(cut_short)[0] == OTHER

    def fail(path):
        raise KeyError("membrane_potential")

    fuzzer.kind = kind._replace(read=fail)
    assert fuzzer.examine(cut_short) == (BARE, "KeyError: 'membrane_potential'")


def test_the_command_counts(monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv",
        ["corrupted_archives", "--files", "10", "--kind", "digital state", "--quiet"],
    )
    assert main() == 0
    assert "digital state: " in capsys.readouterr().out
