"""Files of named arrays: what is read is what was written, or nothing is."""

import io
import zipfile

import numpy as np
import pytest

from snn import NetworkState
from snn.base.archive import reading, save_archive

ENTRIES = {"first": np.arange(6.0), "second": np.arange(6.0) + 10.0, "count": 3, "text": "words"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file.npz"
    save_archive(path, ENTRIES)
    return path


def load(path):
    with reading(path, "thing") as entries:
        return entries


def write(path, entries, comment=b""):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.comment = comment


def require_refused(path):
    with pytest.raises(ValueError, match=r"^path must name a saved thing") as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("save", [save_archive, lambda path, entries: np.savez(path, **entries)])
def test_what_is_read_is_what_was_written(path, save):
    save(path, ENTRIES)
    for name, value in load(path).items():
        np.testing.assert_array_equal(value, ENTRIES[name])
        assert value.dtype == np.asarray(ENTRIES[name]).dtype
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["first"], ENTRIES["first"])


def test_entries_that_were_not_written_together_are_refused(path):
    """Swapped, changed, added or left out, each with a checksum of its own that is right."""
    with zipfile.ZipFile(path) as archive:
        entries, comment = {name: archive.read(name) for name in archive.namelist()}, archive.comment
    first, second = entries["first.npy"], entries["second.npy"]
    assert comment
    for changed in (
        {**entries, "first.npy": second, "second.npy": first},
        {**entries, "first.npy": first[:-1] + bytes([first[-1] ^ 1])},
        {**entries, "third.npy": first},
        {name: content for name, content in entries.items() if name != "count.npy"},
    ):
        write(path, changed, comment)
        require_refused(path)


def header_of(content, shape):
    """Change the shape that an array's header says; its numbers stay."""
    end = content.index(b"\n") + 1
    changed = content[:end].replace(b"(6,)", shape)
    return changed[: end - 1].ljust(end - 1)[: end - 1] + b"\n" + content[end:]


def of_numpy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


FIRST = of_numpy(ENTRIES["first"])


@pytest.mark.parametrize(
    "content",
    [
        *(header_of(FIRST, shape) for shape in (b"(5,)", b"(2305843009213693952,)", b"(-1,)", b"(7,)", b"x")),
        b"words and words",  # `numpy.load` returns bytes there
        FIRST.replace(b"'descr'", b"'wrong'"),
        of_numpy(np.array([{}], dtype=object)),
        b"",
    ],
    ids=["shorter", "huge", "negative", "longer", "no shape", "no array", "no type", "objects", "empty"],
)  # fmt: skip
def test_an_entry_that_is_not_what_its_header_says_is_refused(path, content):
    whole = {f"{name}.npy": of_numpy(np.asarray(value)) for name, value in ENTRIES.items()}
    write(path, {**whole, "first.npy": content})
    require_refused(path)


def test_every_byte_counts(tmp_path):
    """Any bit flipped anywhere: the same state, or an error."""
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
    assert len(whole) // 2 < n_refused < len(whole)


@pytest.mark.parametrize("potential", [np.array(0.5), np.zeros((1, 2)), np.array(["a", "b"])])
def test_potentials_that_are_no_vector_of_numbers_are_refused(path, potential):
    np.savez(path, membrane_potential=potential, synaptic_current=np.zeros(2), time=0.0)
    with pytest.raises(ValueError, match=r"^path must name a saved NetworkState"):
        NetworkState.load(path)
