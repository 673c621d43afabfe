"""Saving a state is complete or has no effect, and wrong files are refused."""

from functools import partial

import numpy as np
import pytest

from snn import NetworkState, simulate
from snn.base.archive import save_archive
from tests.reference.networks import golden_network


@pytest.fixture
def state():
    return simulate(golden_network(), 7.3).state


def names_in(folder):
    return [entry.name for entry in folder.iterdir()]


@pytest.mark.parametrize("name", ["state.npz", "x" * 255, "é" * 127], ids=["usual", "long", "two bytes each"])
def test_round_trip_keeps_every_bit(state, tmp_path, name):
    state.save(tmp_path / name)
    loaded = NetworkState.load(str(tmp_path / name))
    np.testing.assert_array_equal(loaded.membrane_potential, state.membrane_potential)
    np.testing.assert_array_equal(loaded.synaptic_current, state.synaptic_current)
    assert loaded.time == state.time
    assert names_in(tmp_path) == [name]


@pytest.mark.parametrize("stage", ["numpy.savez", "os.fsync", "os.replace"])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["full", "interrupt"])
def test_a_failing_write_leaves_the_old_file(state, tmp_path, monkeypatch, stage, failure):
    path = tmp_path / "state.npz"
    state.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(stage, fail)
        with pytest.raises(type(failure)):
            NetworkState.at_rest(3).save(path)
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["state.npz"]


def truncated(path):
    NetworkState.at_rest(100).save(path)
    path.write_bytes(path.read_bytes()[:-200])


NONSENSE = [
    lambda path: path.write_text("not an archive"),
    lambda path: path.write_bytes(b""),
    truncated,
    partial(np.save, arr=np.zeros(3)),
    partial(save_archive, entries={"membrane_potential": np.zeros(1), "synaptic_current": np.zeros(1)}),
    partial(np.savez, membrane_potential=np.zeros(1), synaptic_current=np.zeros(1), time=0.0),
    lambda path: save_archive(
        path, {"membrane_potential": np.zeros(1), "synaptic_current": np.zeros(1), "time": "late"}
    ),
]


@pytest.mark.parametrize("write", NONSENSE)
def test_nonsense_is_refused_by_its_path(write, tmp_path):
    path = tmp_path / "nonsense.npy"
    write(path)
    other = path if path.exists() else tmp_path / "nonsense.npy.npz"  # NumPy appends ".npz"
    with pytest.raises(ValueError, match=r"path .*nonsense"):
        NetworkState.load(other)
