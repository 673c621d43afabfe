"""Files of named arrays: a read returns what was written, or ends in an error."""

import io
from hashlib import sha256

import numpy as np
import pytest

from snn import NetworkState
from snn.base.archive import Entry, conforming, reading, save_archive

ENTRIES = {"first": np.arange(6.0), "second": np.arange(6.0) + 10.0, "count": 3, "text": "words"}


def load(path):
    with reading(path, "thing") as entries:
        return entries


def test_what_is_read_is_what_was_written(tmp_path):
    path = tmp_path / "file.npz"
    save_archive(path, ENTRIES)
    for name, value in load(path).items():
        np.testing.assert_array_equal(value, ENTRIES[name])
        assert value.dtype == np.asarray(ENTRIES[name]).dtype
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["first"], ENTRIES["first"])


def test_entries_that_were_not_written_together_are_refused(tmp_path):
    """If NumPy writes the same entries, each entry has a checksum, but the file has no digest."""
    path = tmp_path / "file.npz"
    np.savez(path, **ENTRIES)
    with pytest.raises(ValueError, match=r"^path must name a saved thing") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="first must be"):
        save_archive(path, {"first": np.array([{}], dtype=object)})


def test_every_byte_counts(tmp_path):
    """With any bit flipped, a file loads the same state or ends in an error."""
    path = tmp_path / "state.npz"
    state = NetworkState(membrane_potential=[0.5, -1.5], synaptic_current=[2.5, 0.25], time=3.0)
    state.save(path)
    whole = path.read_bytes()
    n_refused = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            loaded = NetworkState.load(path)
        except ValueError as error:
            n_refused += 1
            if not str(error).startswith("path must name a saved NetworkState"):
                raise
        else:
            np.testing.assert_array_equal(loaded.membrane_potential, state.membrane_potential)
            np.testing.assert_array_equal(loaded.synaptic_current, state.synaptic_current)
            assert loaded.time == state.time
    assert n_refused >= len(whole) - 2  # the two bytes for the length of the digest may be ignored


def rewritten(path, **changes):
    """Rewrite a file with changed entries, compressed, and with a digest that is right."""
    with np.load(path) as arrays:
        entries = {**arrays, **changes}
    packed = io.BytesIO()
    np.savez_compressed(packed, **entries)
    content = packed.getvalue()[:-2]
    path.write_bytes(content + (32).to_bytes(2, "little") + sha256(content).digest())


def test_a_small_file_does_not_become_large(tmp_path, monkeypatch):
    """An entry that is too large is not decompressed, whether or not the schema names it."""
    path = tmp_path / "state.npz"
    for name in ("other", "synaptic_current"):
        NetworkState.at_rest(2).save(path)
        rewritten(path, **{name: np.zeros(1_000_000)})
        with monkeypatch.context() as patched:
            patched.setattr(np.lib.npyio.NpzFile, "__getitem__", None)
            with pytest.raises(ValueError, match=r"its entries are larger than the file"):
                NetworkState.load(path)


@pytest.mark.parametrize("counter", [-1, 2**62 + 1, 2**64 - 1])
def test_counters_have_a_range(counter):
    schema = {"counter": Entry("iu", (), 0)}
    assert conforming({"counter": np.array(2**62)}, schema)
    with pytest.raises(ValueError, match="counter has numbers that are"):
        conforming({"counter": np.array(counter)}, schema)


@pytest.mark.parametrize("potential", [np.array(0.5), np.zeros((1, 2)), np.array(["a", "b"])])
def test_potentials_that_are_no_vector_of_numbers_are_refused(tmp_path, potential):
    path = tmp_path / "file.npz"
    save_archive(path, {"membrane_potential": potential, "synaptic_current": np.zeros(2), "time": 0.0})
    with pytest.raises(ValueError, match=r"^path must name a saved NetworkState"):
        NetworkState.load(path)
