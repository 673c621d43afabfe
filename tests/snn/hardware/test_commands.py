"""Random commands for cores in Verilog, under Verilator; `tests.stress.random_commands` sends more."""

import shutil

import pytest

pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")

from tests.stress import random_commands

pytestmark = [
    pytest.mark.skipif(shutil.which("verilator") is None, reason="needs Verilator"),
    pytest.mark.filterwarnings("ignore:.* beyond the:UserWarning"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("name", random_commands.CORES)
def test_no_commands_hang_a_core_and_its_spikes_are_the_emulators(name, tmp_path, capsys):
    random_commands.try_core(name, 300, tmp_path)
    assert "300 sequences" in capsys.readouterr().out


def test_a_wrong_emulator_is_noticed(tmp_path, monkeypatch):
    class Wrong(random_commands.EmulatedCore):
        def do(self, action, neuron, value):
            return super().do(action, neuron, value if action != random_commands.Action.POTENTIAL else 0)

    monkeypatch.setattr(random_commands, "EmulatedCore", Wrong)
    with pytest.raises(SystemExit, match="delays: line"):
        random_commands.try_core("delays", 300, tmp_path)
