"""States: rest, saving whole or not at all, loading nonsense."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from snn import NetworkState, simulate
from tests.reference.networks import golden_network


@pytest.fixture
def state():
    return simulate(golden_network(), 7.3).state


def test_at_rest():
    rest = NetworkState.at_rest(4)
    assert rest.n_neurons == 4
    assert rest.time == 0.0
    assert not rest.membrane_potential.any()
    assert not rest.synaptic_current.any()


def test_round_trip_keeps_every_bit(state, tmp_path):
    path = tmp_path / "state.npz"
    state.save(path)
    loaded = NetworkState.load(str(path))
    np.testing.assert_array_equal(loaded.membrane_potential, state.membrane_potential)
    np.testing.assert_array_equal(loaded.synaptic_current, state.synaptic_current)
    assert loaded.time == state.time
    straight = simulate(golden_network(), 20.0, state=state)
    resumed = simulate(golden_network(), 20.0, state=loaded)
    np.testing.assert_array_equal(resumed.state.membrane_potential, straight.state.membrane_potential)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]


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
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]


@pytest.mark.parametrize("name", ["missing/state.npz", "", "x" * 300])
def test_an_error_names_the_path_that_was_asked_for(state, tmp_path, name):
    (tmp_path / "file").touch()
    path = tmp_path / name if name else tmp_path / "file" / "state.npz"
    with pytest.raises(OSError) as caught:
        state.save(path)
    assert caught.value.filename == str(path)
    assert ".part" not in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127], ids=["ASCII", "two bytes each"])
def test_names_of_any_length_that_file_systems_have(state, tmp_path, name):
    state.save(tmp_path / name)
    assert NetworkState.load(tmp_path / name).time == state.time
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_saves_to_one_path_at_the_same_time_leave_one_of_them_whole(state, tmp_path):
    path = tmp_path / "state.npz"
    state.save(path)

    def save_and_load(times):
        mine = dataclasses.replace(state, time=times)
        for _ in range(50):
            mine.save(path)
            assert NetworkState.load(path).time in (state.time, 1.0, 2.0, 3.0, 4.0)

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(save_and_load, (1.0, 2.0, 3.0, 4.0)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]


def write_text(path):
    path.write_text("not an archive")


def write_nothing(path):
    path.write_bytes(b"")


def write_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


def write_pickle(path):
    np.savez(path, membrane_potential=np.array([None]), synaptic_current=np.zeros(1), time=0.0)


def write_other_archive(path):
    np.savez(path, membrane_potential=np.zeros(3))


def write_wrong_sizes(path):
    np.savez(path, membrane_potential=np.zeros(3), synaptic_current=np.zeros(2), time=0.0)


def write_nan(path):
    np.savez(path, membrane_potential=[np.nan], synaptic_current=np.zeros(1), time=0.0)


def write_words(path):
    np.savez(path, membrane_potential=np.zeros(1), synaptic_current=np.zeros(1), time="late")


def write_two_times(path):
    np.savez(path, membrane_potential=np.zeros(1), synaptic_current=np.zeros(1), time=[0.0, 1.0])


def write_truncated(path):
    NetworkState.at_rest(100).save(path)
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize(
    "write",
    [
        write_text,
        write_nothing,
        write_array,
        write_pickle,
        write_other_archive,
        write_wrong_sizes,
        write_nan,
        write_words,
        write_two_times,
        write_truncated,
    ],
)
def test_loading_nonsense(write, tmp_path):
    path = tmp_path / "nonsense.npz"
    write(path)
    with pytest.raises(ValueError, match=r"path must name a saved NetworkState; got .*nonsense\.npz"):
        NetworkState.load(path)


def test_loading_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        NetworkState.load(tmp_path / "absent.npz")
    with pytest.raises(FileNotFoundError):
        NetworkState.at_rest(1).save(tmp_path / "absent" / "state.npz")
