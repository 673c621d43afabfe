"""Learning on a cluster: the bits of learning in memory, whoever dies; bad data end in a sentence."""

import copy
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    RunawayFeedbackError,
    TwoPhaseLearner,
    continue_learning,
    learn_dictionary,
    new_learner,
)
from dictlearn.distributed import continue_learning_on, learn_dictionary_on
from dictlearn.two_phase.threads import thread_count
from tests.cluster import kill, worker_pids

pytestmark = pytest.mark.thorough

da = pytest.importorskip("dask.array", reason="needs the extra: pip install 'sparsespike[dask]'")

ROOT = Path(__file__).parents[3]
N_ATOMS, N_SAMPLES = 20, 600
SETTINGS = LearningSettings(penalty=0.1, batch_size=90)


@pytest.fixture(scope="module")
def signals():
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(N_ATOMS, 16)) * (rng.uniform(size=(N_ATOMS, 16)) < 0.3)
    signals = (rng.uniform(size=(250, N_ATOMS)) * (rng.uniform(size=(250, N_ATOMS)) < 0.1)) @ atoms + 0.01
    return signals.astype(np.float32)


@pytest.fixture
def path(signals, tmp_path):
    path = tmp_path / "signals.npy"
    np.save(path, signals)
    return path


@pytest.fixture(scope="module")
def in_memory(signals):
    return learn_dictionary(signals, N_ATOMS, settings=SETTINGS, n_samples=N_SAMPLES, rng=1)


def require_same_bits(learner, expected):
    for name in ("feedforward", "feedback", "lateral"):
        np.testing.assert_array_equal(getattr(learner.network, name), getattr(expected.network, name))
    for name in ("usage", "last_fired", "last_compared", "n_samples", "n_spikes", "n_bounded", "scale"):
        np.testing.assert_array_equal(getattr(learner, name), getattr(expected, name), err_msg=name)
    for name, values in expected.history.items():
        np.testing.assert_array_equal(learner.history[name], values, err_msg=name)


def learn_on(client, data, **options):
    options = {"settings": SETTINGS, "n_samples": N_SAMPLES, "rng": 1, "rows_per_task": 32, **options}
    return learn_dictionary_on(client, data, N_ATOMS, **options)


@pytest.mark.parametrize("rows_per_task", [17, 64, 1000])
def test_a_file_gives_the_bits_of_its_array_in_memory(cluster_client, path, in_memory, rows_per_task):
    require_same_bits(learn_on(cluster_client, path, rows_per_task=rows_per_task), in_memory)


def test_so_does_its_memory_map(cluster_client, path, in_memory):
    require_same_bits(learn_on(cluster_client, np.load(path, mmap_mode="r")), in_memory)


def test_so_does_a_file_in_fortran_order(cluster_client, tmp_path):
    """Sums along its rows would round differently."""
    signals = np.asfortranarray(np.random.default_rng(9).random((500, 200)))
    np.save(tmp_path / "signals.npy", signals)
    options = {"settings": SETTINGS, "n_samples": 90, "rng": 1}
    learner = learn_on(cluster_client, tmp_path / "signals.npy", **options)
    require_same_bits(learner, learn_dictionary(signals, N_ATOMS, **options))


def test_so_does_the_paper_s_network_which_counts_spikes(cluster_client, path, signals):
    settings = LearningSettings(penalty=0.1, batch_size=40, readout="rate", steps=PaperSteps())
    options = {"settings": settings, "n_samples": 100, "rng": 1, "replace_dead": True}
    require_same_bits(
        learn_on(cluster_client, path, **options), learn_dictionary(signals, N_ATOMS, **options)
    )


def test_so_does_an_array_of_one_block(cluster_client, signals, in_memory):
    require_same_bits(learn_on(cluster_client, da.from_array(signals, chunks=-1)), in_memory)


def test_blocks_come_one_after_the_other_and_every_sample_once_an_epoch(cluster_client, signals):
    """The same bits as an array in memory in that order; also from the middle of a block on."""
    array = da.from_array(signals, chunks=(100, -1))
    expected = new_learner(signals, N_ATOMS, settings=SETTINGS, rng=1)
    seed = int(np.random.default_rng(1).integers(2**62))
    batches = []
    for epoch in range(3):
        rng = np.random.default_rng([seed, epoch])
        for block in rng.permutation(3):
            samples = 100 * block + rng.permutation(min(100, 250 - 100 * block))
            batches += [samples[first : first + 90] for first in range(0, len(samples), 90)]
    assert all(
        sorted(np.concatenate(batches[first : first + 5])) == list(range(250)) for first in range(0, 15, 5)
    )
    for rows in batches:
        expected.learn(signals[rows])
    learner = learn_on(cluster_client, array, n_samples=750, callback=lambda _: True, callback_every=340)
    assert learner.n_samples == 340
    continue_learning_on(cluster_client, learner, array, n_samples=750, rng=1)
    require_same_bits(learner, expected)


@pytest.mark.parametrize(("data", "n_killed"), [("file", 1), ("file", 2), ("blocks", 1)])
def test_killed_workers_lose_nothing(cluster_client, path, signals, in_memory, data, n_killed):
    pids = worker_pids(cluster_client)[:n_killed]

    def kill_soon(learner):
        # While the next batch runs, or is being sent.
        while pids:
            threading.Timer(0.01, kill, [pids.pop()]).start()

    data = path if data == "file" else da.from_array(signals, chunks=-1)
    require_same_bits(learn_on(cluster_client, data, callback=kill_soon, callback_every=90), in_memory)
    assert not pids


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_ctrl_c_leaves_whole_batches_from_which_learning_continues(cluster_client, path, signals, in_memory):
    learner = new_learner(signals, N_ATOMS, settings=SETTINGS, rng=1)
    pids = [os.getpid()]

    def interrupt_soon(_):
        while pids:
            threading.Timer(0.01, os.kill, [pids.pop(), signal.SIGINT]).start()

    options = {"rng": 1, "rows_per_task": 32}
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            continue_learning_on(
                cluster_client,
                learner,
                path,
                n_samples=1_000_000,
                callback=interrupt_soon,
                callback_every=90,
                **options,
            )
    finally:
        signal.signal(signal.SIGINT, previous)
    assert 0 < learner.n_samples < 100_000
    n_samples = 250 * (learner.n_samples // 250 + 1)
    continue_learning_on(cluster_client, learner, path, n_samples=n_samples, **options)
    expected = learn_dictionary(signals, N_ATOMS, settings=SETTINGS, n_samples=n_samples, rng=1)
    require_same_bits(learner, expected)


PROGRAM = """
import sys
from distributed import Client
from dictlearn import LearningSettings
from dictlearn.distributed import learn_dictionary_on

def tell(learner):
    print(learner.n_samples, flush=True)

with Client(sys.argv[1]) as client:
    learn_dictionary_on(
        client, sys.argv[2], 20, settings=LearningSettings(penalty=0.1, batch_size=90), n_samples=600, rng=1,
        callback=tell, callback_every=90, checkpoint=sys.argv[3], checkpoint_every=90,
    )
"""


def test_a_killed_client_goes_on_from_its_checkpoint(cluster_client, path, in_memory, tmp_path):
    checkpoint = tmp_path / "learner.npz"
    address = cluster_client.scheduler.address
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, address, str(path), str(checkpoint)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        # Called before a batch is saved: at the second call the first is.
        assert [child.stdout.readline() for _ in range(2)] == ["90\n", "180\n"]
    finally:
        child.kill()
        child.communicate()
    assert 90 <= TwoPhaseLearner.load(checkpoint).n_samples < N_SAMPLES
    require_same_bits(learn_on(cluster_client, path, checkpoint=checkpoint), in_memory)


def test_a_checkpoint_of_other_data_is_refused(cluster_client, path, signals, tmp_path):
    checkpoint = tmp_path / "learner.npz"
    learn_on(cluster_client, path, n_samples=90, checkpoint=checkpoint)
    np.save(path, 2.0 * signals)
    with pytest.raises(ValueError, match="was made with other data"):
        learn_on(cluster_client, path, checkpoint=checkpoint)


def test_threads_are_counted_here_and_not_on_the_cluster(cluster_client):
    with joblib.parallel_config(backend="dask", client=cluster_client):
        assert thread_count(None) == 1
        assert thread_count(7) == 7
        assert thread_count(-1) == joblib.cpu_count()
    with joblib.parallel_config(n_jobs=3):
        assert thread_count(None) == 3


def test_a_runaway_says_what_it_says_in_memory(cluster_client, path, signals):
    learner = new_learner(signals, N_ATOMS, settings=SETTINGS, rng=1)
    # Without inhibition feedback excites the inputs, which excite it.
    learner.synapses.lateral_rows[:] = 0.05 * np.eye(N_ATOMS)
    expected = copy.deepcopy(learner)
    with pytest.raises(RunawayFeedbackError) as here:
        continue_learning(expected, signals, rng=1)
    with pytest.raises(RunawayFeedbackError) as there:
        continue_learning_on(cluster_client, learner, path, rng=1, rows_per_task=32)
    assert str(there.value) == str(here.value)
    require_same_bits(learner, expected)


def bad_data(kind, signals, folder):
    if kind == "negative":
        np.save(folder / "a.npy", -signals)
        return folder / "a.npy", ValueError, "signals must not be negative"
    if kind == "infinite":
        np.save(folder / "a.npy", signals * np.inf)
        return folder / "a.npy", ValueError, "signals must be finite|must contain finite|finite"
    if kind == "zero":
        np.save(folder / "a.npy", 0 * signals)
        return folder / "a.npy", ValueError, "data must not all be zero"
    if kind == "flat":
        np.save(folder / "a.npy", signals[0])
        return folder / "a.npy", ValueError, "must hold a 2-D array"
    if kind == "complex":
        np.save(folder / "a.npy", signals * 1j)
        return folder / "a.npy", TypeError, "must hold real numbers"
    if kind == "text":
        (folder / "a.npy").write_text("no array")
        return folder / "a.npy", ValueError, "must be the path of a .npy file"
    if kind == "absent":
        return folder / "b.npy", FileNotFoundError, "b.npy"
    if kind == "in memory":
        return signals, TypeError, "for an array in memory call learn_dictionary"
    if kind == "part of a map":
        np.save(folder / "a.npy", signals)
        return np.load(folder / "a.npy", mmap_mode="r")[:9], ValueError, "must be all of its file"
    if kind == "columns":
        return da.from_array(signals, chunks=(-1, 8)), ValueError, r"data\.rechunk"
    if kind == "unknown":
        array = da.from_array(signals, chunks=(100, -1))
        return array[array[:, 0] > 0.02], ValueError, "compute_chunk_sizes"
    return da.from_array(signals[0]), ValueError, "must be 2-D"


KINDS = (
    "negative", "infinite", "zero", "flat", "complex", "text", "absent", "in memory", "part of a map",
    "columns", "unknown", "one-dimensional",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_bad_data_end_in_a_sentence(cluster_client, signals, tmp_path, kind):
    data, error, message = bad_data(kind, signals, tmp_path)
    with pytest.raises(error, match=message):
        learn_on(cluster_client, data)


def test_a_bad_sample_is_named_by_its_place_among_all(cluster_client, signals):
    bad = signals.copy()
    bad[203, 4] = np.nan
    with pytest.raises(ValueError, match=r"signals must be finite; got nan at \[203, 4\]"):
        learn_on(cluster_client, da.from_array(bad, chunks=(100, -1)))


def test_bad_arguments_end_in_a_sentence(cluster_client, path, in_memory):
    with pytest.raises(TypeError, match="client must be"):
        learn_on("tcp://127.0.0.1:8786", path)
    with pytest.raises(ValueError, match="rows_per_task must be"):
        learn_on(cluster_client, path, rows_per_task=0)
    with pytest.raises(TypeError, match="n_atoms must be given"):
        learn_dictionary_on(cluster_client, path, penalty=0.1)
    other = new_learner(np.ones((2, 3)), 4, penalty=0.1)
    with pytest.raises(ValueError, match="data has 16 features but the network has 3 inputs"):
        continue_learning_on(cluster_client, other, path)
