"""Files of named arrays: what is read is what was written, or nothing is."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from snn import NetworkState
from snn.base.archive import load_archive, save_archive

ENTRIES = {"first": np.arange(6.0), "second": np.arange(6.0) + 10.0, "count": 3, "text": "words"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file.npz"
    save_archive(path, ENTRIES)
    return path


def load(path, *names):
    return load_archive(path, names or ENTRIES, kind="thing")


def parts(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}, archive.comment


def write(path, entries, comment):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.comment = comment


def test_what_is_read_is_what_was_written(path):
    for name, value in load(path).items():
        np.testing.assert_array_equal(value, ENTRIES[name])
        assert value.dtype == np.asarray(ENTRIES[name]).dtype
    with np.load(path) as archive:  # as before, for everyone
        np.testing.assert_array_equal(archive["first"], ENTRIES["first"])


def test_entries_that_were_not_written_together_are_refused(path, tmp_path):
    """Swapped, changed, added or left out, each with a checksum of its own that is right."""
    entries, comment = parts(path)
    first, second = entries["first.npy"], entries["second.npy"]
    assert comment
    for changed in (
        {**entries, "first.npy": second, "second.npy": first},
        {**entries, "first.npy": first[:-1] + b"\x00" if first[-1] else first[:-1] + b"\x01"},
        {**entries, "third.npy": first},
        {name: content for name, content in entries.items() if name != "count.npy"},
    ):
        write(path, changed, comment)
        with pytest.raises(
            ValueError, match=r"path must name a saved thing; got '.*' \(its entries are not those"
        ):
            load(path, "first", "second")


def test_an_archive_of_numpy_is_read(path):
    np.savez(path, **ENTRIES)
    np.testing.assert_array_equal(load(path)["second"], ENTRIES["second"])


def header_of(content, shape):
    """Change the shape that an array's header says; its numbers stay."""
    end = content.index(b"\n") + 1
    changed = content[:end].replace(b"(6,)", shape)
    return changed[: end - 1].ljust(end - 1)[: end - 1] + b"\n" + content[end:]


def test_a_header_that_says_less_than_there_is_is_refused(path):
    """Read by it, an array would end before the checksum is compared."""
    entries, _ = parts(path)
    write(path, {**entries, "first.npy": header_of(entries["first.npy"], b"(5,)")}, b"")
    with pytest.raises(ValueError, match=r"first is longer than its shape says"):
        load(path)
    whole = path.read_bytes()
    save_archive(path, ENTRIES)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(6,)", b"(4,)", 1))
    with pytest.raises(ValueError, match="Bad CRC-32"):
        load(path)


@pytest.mark.parametrize("shape", [b"(2305843009213693952,)", b"(-1,)", b"(7,)", b"x"])
def test_a_header_that_lies_is_refused(path, shape):
    entries, _ = parts(path)
    write(path, {**entries, "first.npy": header_of(entries["first.npy"], shape)}, b"")
    with pytest.raises(ValueError, match=r"path must name a saved thing; got '.*' \(.*\)$"):
        load(path)


def test_a_bit_that_flipped_in_an_array_is_refused(path):
    """The comment has the checksums that `zipfile` was told, and they are compared with what is read."""
    whole = path.read_bytes()
    number = ENTRIES["first"].tobytes()
    assert whole.count(number) == 1
    path.write_bytes(whole.replace(number, number[:-1] + b"\x41"))
    with pytest.raises(ValueError, match="Bad CRC-32"):
        load(path, "first")


@pytest.mark.parametrize("save", [save_archive, lambda path, entries: np.savez_compressed(path, **entries)])
def test_an_array_is_in_memory_once(path, save):
    values = np.random.default_rng(0).random(2**20)
    save(path, {"values": values})
    tracemalloc.start()
    try:
        loaded = load(path, "values")["values"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(loaded, values)
    assert peak < 1.25 * values.nbytes


def test_an_entry_that_is_no_array_is_refused(path):
    """`numpy.load` returns bytes there."""
    entries, _ = parts(path)
    write(path, {**entries, "text.npy": b"words and words"}, b"")
    with pytest.raises(ValueError, match=r"path must name a saved thing; got '.*' \(the magic string"):
        load(path)


def test_errors_of_others_are_one_line(path):
    content = io.BytesIO()
    np.save(content, np.arange(3.0))
    longer = content.getvalue().replace(b"'descr'", b"'wrong'")
    entries, _ = parts(path)
    write(path, {**entries, "first.npy": longer}, b"")
    with pytest.raises(ValueError, match=r"got '.*' \(.*\)$") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_every_byte_counts(tmp_path):
    """Any bit flipped anywhere: the same state, or an error."""
    path = tmp_path / "state.npz"
    state = NetworkState(membrane_potential=[0.5, -1.5], synaptic_current=[2.5, 0.25], time=3.0)
    state.save(path)
    whole = path.read_bytes()
    n_refused = n_errors = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            loaded = NetworkState.load(path)
        except ValueError as error:
            n_refused += str(error).startswith("path must name a saved NetworkState; got")
            n_errors += 1
        else:
            np.testing.assert_array_equal(loaded.membrane_potential, state.membrane_potential)
            np.testing.assert_array_equal(loaded.synaptic_current, state.synaptic_current)
            assert loaded.time == state.time
    assert n_refused == n_errors > len(whole) // 2
