"""Learning on a cluster gives the bits of learning in memory, even if workers die; bad data cause errors."""

# ruff: noqa: E501 - a case a line reads better

import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    TwoPhaseLearner,
    continue_learning,
    learn_dictionary,
    new_learner,
)
from dictlearn.two_phase.phases import thread_count
from tests.cluster import kill, worker_pids
from tests.dictlearn.two_phase.learners import SIGNS, assert_same, planted
from tests.processes import ROOT, run_python

pytestmark = pytest.mark.thorough
pytest.importorskip("distributed", reason="needs the extra: pip install 'sparsespike[dask]'")
from dictlearn.distributed import ClusterSamples  # noqa: E402

N_ATOMS, N_SAMPLES = 20, 600
SETTINGS = LearningSettings(penalty=0.1, batch_size=90)
TASK = {"settings": SETTINGS, "n_samples": N_SAMPLES, "rng": 1}


@pytest.fixture(scope="module")
def signals():
    return (planted(N_ATOMS, 16, 250)[1] + 0.01).astype(np.float32)


@pytest.fixture
def path(signals, tmp_path):
    np.save(tmp_path / "signals.npy", signals)
    return tmp_path / "signals.npy"


@pytest.fixture(scope="module")
def in_memory(signals):
    return learn_dictionary(signals, N_ATOMS, **TASK)


def learn_on(client, data, *, rows_per_task=32, **options):
    samples = ClusterSamples(client, data, rows_per_task=rows_per_task)
    return learn_dictionary(samples, N_ATOMS, **{**TASK, **options})


@pytest.mark.parametrize("form", ["17 rows", "1000 rows", "Fortran"])
def test_data_in_any_form_give_the_bits_of_an_array_in_memory(cluster_client, path, signals, in_memory, form):
    options = {"rows_per_task": int(form.split()[0])} if "rows" in form else {}
    if form == "Fortran":  # sums along rows in Fortran order would round differently
        np.save(path, np.asfortranarray(signals))
    assert_same(learn_on(cluster_client, path, **options), in_memory)


@pytest.mark.parametrize(
    "changes",
    [{"readout": "rate", "rule": PaperSteps(), "batch_size": 40}, SIGNS["signed atoms and codes"], {"penalty": [0.1] * N_ATOMS}, {"inputs": "graded"}],
    ids=["paper", "signed", "penalties", "graded"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:signals has an offset")
def test_so_does_every_way_of_learning(cluster_client, path, signals, changes):
    if "inputs" in changes:  # the offset causes the step of the clock to be halved once
        np.save(path, signals := signals + 4.0)
    settings = LearningSettings(**{"penalty": 0.1, "batch_size": 90, **changes})
    options = {"settings": settings, "n_samples": 200}
    expected = learn_dictionary(signals, N_ATOMS, **{**TASK, **options})
    assert expected.n_halvings == int("inputs" in changes)
    assert_same(learn_on(cluster_client, path, **options), expected)


@pytest.mark.parametrize("n_killed", [1, 2])
def test_killed_workers_lose_nothing(cluster_client, path, in_memory, n_killed):
    pids = worker_pids(cluster_client)[:n_killed]

    def kill_soon(learner):
        while pids:  # a worker is killed while the next batch runs or is being sent
            threading.Timer(0.01, kill, [pids.pop()]).start()

    assert_same(learn_on(cluster_client, path, callback=kill_soon, callback_every=90), in_memory)
    assert not pids


def test_learning_ends_early_and_goes_on_with_the_same_bits(cluster_client, path, in_memory):
    learner = learn_on(cluster_client, path, callback=lambda _: True, callback_every=340)
    assert learner.n_samples == 340
    continue_learning(learner, ClusterSamples(cluster_client, path), n_samples=N_SAMPLES, rng=1)
    assert_same(learner, in_memory)


PROGRAM = """
import sys
from distributed import Client
from dictlearn import LearningSettings, learn_dictionary
from dictlearn.distributed import ClusterSamples

with Client(sys.argv[1]) as client:
    learn_dictionary(
        ClusterSamples(client, sys.argv[2]), 20,
        settings=LearningSettings(penalty=0.1, batch_size=90), n_samples=600, rng=1,
        callback=lambda learner: print(learner.n_samples, flush=True), callback_every=90,
        checkpoint=sys.argv[3], checkpoint_every=90,
    )
"""


def test_a_killed_client_goes_on_from_its_checkpoint(cluster_client, path, signals, in_memory, tmp_path):
    checkpoint = tmp_path / "learner.npz"
    command = [sys.executable, "-c", PROGRAM, cluster_client.scheduler.address, str(path), str(checkpoint)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        # The callback precedes the save: when it is called a second time, the first batch is saved.
        assert [child.stdout.readline() for _ in range(2)] == ["90\n", "180\n"]
    finally:
        child.kill()
        child.communicate()
    assert 90 <= TwoPhaseLearner.load(checkpoint).n_samples < N_SAMPLES
    assert_same(learn_on(cluster_client, path, checkpoint=checkpoint), in_memory)
    np.save(path, 2.0 * signals)
    with pytest.raises(ValueError, match="other data"):
        learn_on(cluster_client, path, checkpoint=checkpoint)


def test_threads_are_counted_here_and_not_on_the_cluster(cluster_client):
    with joblib.parallel_config(backend="dask", client=cluster_client):
        assert [thread_count(n) for n in (None, 7, -1)] == [1, 7, joblib.cpu_count()]
    with joblib.parallel_config(n_jobs=3):
        assert thread_count(None) == 3


def saved(folder, values):
    np.save(folder / "a.npy", values)
    return folder / "a.npy"


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda x, folder: saved(folder, -x), ValueError, "signals must not be negative"),
        (lambda x, folder: saved(folder, x * np.inf), ValueError, "finite"),
        (lambda x, folder: saved(folder, 0 * x), ValueError, "signals must not all be zero"),
        (lambda x, folder: saved(folder, x * 1j), TypeError, "real numbers"),
        (lambda x, folder: ROOT / "README.md", ValueError, "path must name a .npy file"),
        (lambda x, folder: folder / "b.npy", FileNotFoundError, "b.npy"),
        (lambda x, folder: x, TypeError, "learn_dictionary"),
    ],
)  # fmt: skip
def test_bad_data_are_named(cluster_client, signals, tmp_path, make, error, name):
    with pytest.raises(error, match=name):
        learn_on(cluster_client, make(signals, tmp_path))


def test_bad_arguments_and_a_missing_extra_are_named(cluster_client, path):
    with pytest.raises(TypeError, match="client must be"):
        learn_on("tcp://127.0.0.1:8786", path)
    with pytest.raises(ValueError, match="rows_per_task"):
        learn_on(cluster_client, path, rows_per_task=0)
    with pytest.raises(TypeError, match="n_atoms or a start must be given"):
        learn_dictionary(ClusterSamples(cluster_client, path), penalty=0.1)
    with pytest.raises(TypeError, match="mask must be None"):
        learn_on(cluster_client, path, mask=np.ones(16, dtype=bool))
    learner = new_learner(np.ones((2, 3)), 4, penalty=0.1)
    with pytest.raises(ValueError, match="path must name samples of 3 features, the network's; got 16"):
        continue_learning(learner, ClusterSamples(cluster_client, path))
    program = "import sys; sys.modules['distributed'] = None; from dictlearn.distributed import ClusterSamples as f; f(None, 'a.npy')"
    ran = run_python("-c", program, returns=1)
    assert ran.stderr.splitlines()[-1].endswith("pip install 'sparsespike[dask]'")
