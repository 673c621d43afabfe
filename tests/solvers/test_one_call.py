"""Looks within the kernel: the bits of looks from Python, whatever was before."""

import pickle
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from snn import Exact
from snn.run import exact
from solvers import LassoProblem, PreparedLasso, solve_spiking
from solvers.methods.spiking import Stages
from solvers.spiking.alone import CodesAlone
from solvers.spiking.network import LassoNetwork
from solvers.spiking.stages import RefinedCodes
from tests.reference.convolutions import GEOMETRIES
from tests.reference.convolutions import random_dictionary as random_kernels

TOL = 1e-5


def dense(n_signals, *, positive=True, n_features=24, n_atoms=60, penalty=0.2):
    rng = np.random.default_rng(5)
    atoms = rng.standard_normal((n_atoms, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    signals = rng.standard_normal((n_signals, n_features))
    return LassoProblem(atoms, signals, penalty, positive=positive)


def convolutional():
    dictionary = random_kernels(GEOMETRIES[0])
    signals = np.random.default_rng(1).standard_normal((2, dictionary.shape[1]))
    return LassoProblem(dictionary, signals, 0.5)


PROBLEMS = {
    "not negative": lambda: dense(5),
    "signed": lambda: dense(5, positive=False),
    "small penalty": lambda: dense(5, positive=False, penalty=0.005),
    "screened": lambda: dense(3, n_features=60, n_atoms=300),
    "kernels": convolutional,
    "rows on demand": lambda: dense(1, n_features=30, n_atoms=2500),
}


def refined(problem, *, refine=True, max_duration=10_000.0, on_demand=True):
    network = LassoNetwork.of(problem, on_demand=on_demand)
    return RefinedCodes(problem, network, how=Exact(), tol=TOL, max_duration=max_duration, refine=refine)


def seen(codes):
    """Return all that is read of codes that are done."""
    run = codes.run
    return [
        codes.codes, codes.gaps, codes.duration, codes.scale, codes.n_stages, codes.n_multiply_adds,
        run.spike_counts, run.is_lost,
    ]  # fmt: skip


def require_equal(first, second):
    for one, other in zip(seen(first), seen(second), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_looks_within_the_kernel_are_looks_from_python(name, refine):
    options = {"refine": refine, "max_duration": 10_000.0 if refine else 50.0}
    whole, stepped = (refined(PROBLEMS[name](), **options) for _ in range(2))
    whole.advance_to_ends()
    while len(stepped.active):
        stepped.advance()
    require_equal(whole, stepped)
    assert not len(whole.active)
    assert (whole.n_stages > 0).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_bits_do_not_depend_on_where_calls_end(name, monkeypatch):
    whole = refined(PROBLEMS[name]())
    whole.advance_to_ends()
    monkeypatch.setattr(exact, "MOST_WORK_PER_CALL", exact.LEAST_WORK_PER_CALL)
    paused, n_calls = refined(PROBLEMS[name]()), []
    paused.advance_to_ends(lambda: n_calls.append(len(paused.active)))
    require_equal(whole, paused)
    assert len(n_calls) > 3


def test_lost_networks_are_read_where_they_are(monkeypatch):
    """As one spike that causes millions would leave them."""
    monkeypatch.setattr(exact, "SPIKES_PER_NEURON", 0)
    monkeypatch.setattr(exact, "LARGEST_BURST", 8)
    monkeypatch.setattr(exact, "BURST_RATE", 1)
    whole, stepped = refined(dense(5)), refined(dense(5))
    whole.advance_to_ends()
    while len(stepped.active):
        stepped.advance()
    assert whole.run.is_lost.any()
    require_equal(whole, stepped)


FIELDS = ("codes", "duality_gap", "n_steps", "n_stages", "duration", "scale", "spike_counts")


def require_same_result(first, second, k):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(first, name)[0], getattr(second, name)[k], err_msg=name)
    for part, counts in first.work.multiply_adds.items():
        assert counts[0] == second.work.multiply_adds[part][k], part


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize(
    "options", [{"tol": TOL}, {"tol": 1e-2, "refine": False}], ids=["stages", "one window"]
)
def test_signals_one_after_the_other_are_a_batch(positive, options):
    """The network of one signal is used again, by other signals and other settings in between."""
    problem = dense(20, positive=positive)
    together = solve_spiking(problem, **options)
    prepared = PreparedLasso(problem.dictionary, problem.penalty, positive=positive)
    for k, signal in enumerate(problem.signals):
        if k % 3 == 1:
            solve_spiking(prepared.with_signals(-signal[np.newaxis]), tol=0.5, refine=k % 2 == 0)
        alone = solve_spiking(prepared.with_signals(signal[np.newaxis]), **options)
        require_same_result(alone, together, k)
    assert len(prepared.model.once(CodesAlone)._idle) == 1


def test_results_stay_when_the_network_is_used_again():
    problem = dense(2)
    prepared = PreparedLasso(problem.dictionary, problem.penalty, positive=True)
    first = solve_spiking(prepared.with_signals(problem.signals[:1]), tol=TOL)
    before = {name: getattr(first, name).copy() for name in FIELDS}
    solve_spiking(prepared.with_signals(problem.signals[1:]), tol=TOL)
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(first, name), values)


def test_threads_have_networks_of_their_own():
    problem = dense(40, positive=False)
    together = solve_spiking(problem, tol=TOL)
    prepared = PreparedLasso(problem.dictionary, problem.penalty)
    found, begin = {}, threading.Barrier(4)

    def work(first):
        begin.wait()
        for k in range(first, 40, 4):
            found[k] = solve_spiking(prepared.with_signals(problem.signals[k : k + 1]), tol=TOL)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(40):
        require_same_result(found[k], together, k)


def test_a_signal_alone_that_is_not_solved_goes_on_as_others_do():
    problem = dense(1, penalty=0.01)
    with pytest.warns(UserWarning, match="did not reach"):
        result = solve_spiking(problem, tol=1e-9, max_duration=30.0)
    assert result.duration[0] == 30.0
    assert result.codes.any()


def test_a_signal_alone_that_cannot_go_on_is_solved_once(monkeypatch):
    problem = dense(1, penalty=0.01)
    options = {"tol": 1e-14, "max_duration": 300.0}
    with pytest.warns(UserWarning, match="did not reach"):
        shown = solve_spiking(problem, progress=True, **options)
    monkeypatch.setattr(Stages, "solve", None)
    with pytest.warns(UserWarning, match="did not reach"):
        alone = solve_spiking(problem, **options)
    require_same_result(alone, shown, 0)
    assert alone.status[0] == shown.status[0]


def test_a_signal_alone_has_the_bits_of_one_thread():
    """Of a product of this size BLAS gives each of its threads a part."""
    problem = dense(2, n_features=1000, n_atoms=2000, penalty=1.2)
    together = solve_spiking(problem, tol=1e-2)
    prepared = PreparedLasso(problem.dictionary, problem.penalty, positive=True)
    assert prepared.model.gram is not None
    with threadpool_limits(2, "blas"):
        for k, signal in enumerate(problem.signals):
            alone = solve_spiking(prepared.with_signals(signal[np.newaxis]), tol=1e-2)
            require_same_result(alone, together, k)


def test_signals_that_have_not_begun_are_not_done():
    codes = refined(dense(3))
    assert (codes.gaps > 0.01).all()


def test_a_problem_that_has_solved_signals_can_be_sent():
    problem = dense(1)
    result = solve_spiking(problem, tol=TOL)
    again = solve_spiking(pickle.loads(pickle.dumps(problem)), tol=TOL)
    np.testing.assert_array_equal(result.codes, again.codes)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)).codes, result.codes)
