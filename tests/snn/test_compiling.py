"""Machine code on disk is reused only if nothing has changed, and is never an obstacle."""

import os

import numpy as np
import pytest

from tests.processes import ROOT, run_python
from tests.reference.kernel_files import imported_anew, kernel_folder

pytestmark = pytest.mark.thorough

INNER = """
from snn._kernels.compiling import inlined

@inlined
def scaled(value):
    return {factor} * value
"""
OUTER = """
from inner_of_test import scaled
from snn._kernels.compiling import compiled

@compiled
def total(values):
    result = 0.0
    for i in range(values.shape[0]):
        result += scaled(values[i])
    return result
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Yield a folder with two kernels, one of which calls the other, and with the files of Numba."""
    sources = {"inner_of_test": INNER.format(factor="2.0"), "outer_of_test": OUTER}
    with kernel_folder(tmp_path, monkeypatch, **sources) as folder:
        yield folder


def as_a_new_process():
    """Return the kernel `total` from a new import, with nothing compiled yet."""
    return imported_anew("outer_of_test").total


def require_total(expected, *, n_loaded, values=None):
    """Call the kernel; require its result, and that it loads `n_loaded` compiled functions from disk."""
    kernel = as_a_new_process()
    assert kernel(np.ones(3) if values is None else values) == expected
    assert sum(kernel.stats.cache_hits.values()) == n_loaded


def files_of_total(folder):
    return sorted((folder / "__pycache__").glob("outer_of_test.total.*"))


def test_read_only_arrays_and_other_types_have_files_of_their_own(kernels):
    read_only = np.ones(3)
    read_only.flags.writeable = False
    arguments = [np.ones(3), read_only, np.ones(3, dtype=np.int64), np.ones((3, 2))[:, 0]]
    for n_loaded in (0, 1):
        for values in arguments:
            require_total(6.0, n_loaded=n_loaded, values=values)
        assert len(files_of_total(kernels)) == len(arguments)


def test_a_change_of_one_file_renews_the_kernels_of_another(kernels):
    require_total(6.0, n_loaded=0)
    (kernels / "inner_of_test.py").write_text(INNER.format(factor="10.0"))
    require_total(30.0, n_loaded=0)
    # Outdated code is deleted, also if the kernel has moved within its file.
    (kernels / "outer_of_test.py").write_text("\n\n" + OUTER)
    require_total(30.0, n_loaded=0)
    assert len(files_of_total(kernels)) == 1


@pytest.mark.parametrize("damage", ["empty", "half", "one bit", "of another type"])
def test_a_damaged_file_is_replaced(kernels, damage):
    """In one case the code is for another type, as happens if two processes write Numba's index at once."""
    as_a_new_process()(np.ones(3))
    (file,) = files_of_total(kernels)
    as_a_new_process()(np.ones(3, dtype=np.int64))
    (of_integers,) = set(files_of_total(kernels)) - {file}
    content = file.read_bytes()
    instead = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "one bit": content[:1000] + bytes([content[1000] ^ 1]) + content[1001:],
        "of another type": of_integers.read_bytes(),  # floats read as integers would sum to about 1e19
    }
    file.write_bytes(instead[damage])
    require_total(6.0, n_loaded=0)
    require_total(6.0, n_loaded=1)


PROGRAM = """
import resource, sys
import numpy as np
{before}
from outer_of_test import total
sys.stdout.write(str(total(np.ones(3))))
"""
NOWHERE = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), os.devnull + "/none")


@pytest.mark.parametrize(
    ("before", "environment"),
    [("resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))", {}), ("", NOWHERE)],
    ids=["full disk", "nowhere to write"],
)
def test_what_cannot_be_kept_is_compiled(kernels, before, environment):
    if environment:
        (kernels / "__pycache__").write_text("not a folder")
    path = os.pathsep.join((str(ROOT), str(kernels)))
    program = PROGRAM.format(before=before)
    assert run_python("-W", "error", "-c", program, PYTHONPATH=path, **environment).stdout == "6.0"
    assert "RLIMIT" not in before or not files_of_total(kernels)  # not even part of a file is left


BITS = """
import hashlib, sys
import numpy as np
import snn, solvers
from tests.reference.networks import golden_network
rng = np.random.default_rng(0)
problem = solvers.LassoProblem(rng.standard_normal((30, 10)), rng.standard_normal((3, 10)), 1.0)
run = snn.simulate(golden_network(), 20.0, record_spikes=True)
codes = [solve(problem).codes for solve in (solvers.solve_spiking, solvers.solve_active_set)]
bits = b"".join(array.tobytes() for array in (run.spikes.times, run.average_soma_current, *codes))
sys.stdout.write(hashlib.sha256(bits).hexdigest())
"""


def test_linked_kernels_and_plain_ones_give_the_same_bits(tmp_path):
    linked, plain = (
        run_python(
            "-c",
            BITS,
            PYTHONPATH=str(ROOT),
            NUMBA_CACHE_DIR=str(tmp_path / switch),
            SPARSESPIKE_LINKING=switch,
        )
        for switch in ("1", "0")
    )
    assert linked.stdout == plain.stdout
    assert "SPARSESPIKE_LINKING" in plain.stderr
