"""Spiking methods: certified codes from the spikes of the network, for any kind of time and any unit."""

import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from snn import Clock, NetworkState, simulate
from snn._kernels.run_state import BurstLimit
from snn.run.exact import MOST_WORK_PER_CALL
from solvers import (
    METHODS,
    LassoModel,
    LassoProblem,
    SparseCodingStream,
    Status,
    lasso_network,
    solve,
    solve_active_set,
    solve_spiking,
)
from solvers.certificate.optimality import measure, penalty_max
from solvers.methods import AverageCurrents, OneWindow, Rates, Stages
from tests.reference.costs import costs
from tests.reference.methods import methods
from tests.reference.problems import random_problem, require_certified
from tests.tiers import examples

either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
WAYS = {name: method for name, method in methods().items() if method.steps == "spikes"}
FIELDS = ("codes", "duality_gap", "n_steps", "n_stages", "duration", "scale", "spike_counts")
POLISH, RATE = METHODS["active_set_from_spikes"], METHODS["spiking_rate"]


def quietly(method, problem, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return method(problem, **options)


def figure(result, name):
    return getattr(result, name) if hasattr(result, name) else result.info[name]


def require_same(first, second, k=slice(None), fields=FIELDS):
    for name in fields:
        np.testing.assert_array_equal(figure(first, name), figure(second, name)[k], err_msg=name)
    for part, counts in first._found.work.items():
        np.testing.assert_array_equal(counts, second._found.work[part][k], err_msg=part)


def planted(*, positive=False):
    """Return a problem whose signals mix 5 % of the atoms."""
    rng = np.random.default_rng(6)
    codes = rng.uniform(0.5, 1.5, (5, 128)) * (rng.random((5, 128)) < 0.05)
    dictionary = random_problem(64, 128).dictionary
    return LassoProblem(dictionary, codes @ dictionary, 0.1, positive=positive)


def half_way(network):
    """Return the state of a network with potentials at half the thresholds."""
    return NetworkState(
        membrane_potential=0.5 * network.firing_threshold, synaptic_current=np.zeros(network.n_neurons)
    )


# -- every method of spikes ------------------------------------------------------------------------


@pytest.mark.property
@examples(40)
@given(
    name=st.sampled_from(list(WAYS)),
    positive=st.booleans(),
    unit_norm=st.booleans(),
    share=st.sampled_from((0.1, 0.3, 0.8)),
    tol=st.sampled_from((0.1, 0.01, 1e-3, 1e-6)),
    unit=st.sampled_from((1e-60, 1e-3, 7.0, 1e60)),
    seed=st.integers(0, 99),
)
def test_methods_of_spikes_certify_what_they_say_they_did(name, positive, unit_norm, share, tol, unit, seed):
    method = WAYS[name]
    tol = max(tol, method.finest_tol, 1e-4 if name in ("spiking_clock", "digital") else 0.0)
    options = {"positive": positive, "unit_norm": unit_norm, "share": share, "seed": seed}
    problem = random_problem(n_signals=4, **options)
    # Two of the four signals have the code zero; the last of them is zero itself.
    signals = problem.signals * np.array([1.0, 1.0, 0.999 * share, 0.0])[:, np.newaxis]
    problem = problem.with_signals(signals)
    result = solve(problem, method, tol=tol)
    assert result.method == method.name
    assert result.converged
    assert result.converged
    assert (result.duality_gap <= tol * problem.energies).all()
    require_certified(problem, result)
    assert not result.codes[2:].any()
    assert not result.n_steps[2:].any()
    counts = result.info["spike_counts"].toarray()
    assert counts.shape == (4, problem.n_atoms * (1 if positive else 2))
    if name != "digital":
        np.testing.assert_array_equal(result.n_steps, counts.sum(axis=1))
        np.testing.assert_array_equal(result.spike_counts, counts)
        degrees = np.count_nonzero(lasso_network(problem).weights.toarray(), axis=1)
        network = result.operations["network"]
        np.testing.assert_array_equal(network.spikes, result.n_steps)
        np.testing.assert_array_equal(network.synaptic_operations, counts @ degrees)
        assert name in ("spiking", "spiking_clock") or not (result.info["n_stages"] > 1).any()
    # The spikes do not depend on the unit of the signals.
    # Formats scale by powers of two, and on a clock rounding may move a spike at the end of a step.
    if name in ("digital", "spiking_clock"):
        unit = 2.0 ** np.floor(np.log2(unit))
    other = LassoProblem(
        problem.dictionary, unit * problem.signals, unit * problem.l1_weights, positive=positive
    )
    scaled = solve(other, method, tol=tol)
    np.testing.assert_array_equal(scaled.info["spike_counts"].toarray(), counts)
    np.testing.assert_array_equal(scaled.info["duration"], result.info["duration"])
    fired = result.n_steps > 0
    # The scales of stages depend on differences of codes, and have the rounding errors of codes.
    scale = unit * result.info["scale"][fired]
    np.testing.assert_allclose(scaled.info["scale"][fired], scale, rtol=1e-10, atol=unit * 1e-12)
    np.testing.assert_allclose(scaled.codes, unit * result.codes, rtol=1e-10, atol=unit * 1e-12)
    # At a limit, the method returns its best code with the true gap, and warns once.
    short = replace(method, max_duration=3.0)
    cut = quietly(short, problem, tol=1e-22)
    require_certified(problem, cut)
    assert (cut.info["duration"] <= 3.0).all()
    missed = cut.duality_gap > 1e-22 * problem.energies
    np.testing.assert_array_equal(cut.reached, ~missed)
    assert (cut.duality_gap <= problem.energies * (1.0 + 1e-14)).all()


@pytest.mark.property
@examples(12)
@given(
    name=st.sampled_from([name for name, method in WAYS.items() if name != "digital"]),
    positive=st.booleans(),
    tol=st.sampled_from((0.1, 1e-2, 1e-5)),
    share=st.sampled_from((0.02, 0.2)),
    seed=st.integers(0, 99),
)
def test_signals_one_after_the_other_are_a_batch(name, positive, tol, share, seed):
    """Codes have equal bits in any order, with a network used before, and for a batch in a stream."""
    method = WAYS[name]
    tol = max(tol, method.finest_tol)
    problem = random_problem(24, 60, n_signals=6, share=share, positive=positive, seed=seed)
    together = quietly(method, problem, tol=tol)
    prepared = LassoModel(problem.dictionary, problem.penalty, positive=positive)
    results = []
    for k in np.random.default_rng(seed).permutation(6):
        quietly(METHODS["spiking"], prepared.with_signals(-problem.signals[[k]]), tol=0.5)
        results.append((quietly(method, prepared.with_signals(problem.signals[[k]]), tol=tol), [k]))
    for result, k in results:
        require_same(result, together, k)
    if name == "spiking":
        stream = SparseCodingStream(problem.dictionary, problem.penalty, positive=positive)
        frame = stream.code(problem.signals, tol=tol)
        for field in ("codes", "n_steps", "n_stages", "duration", "duality_gap"):
            np.testing.assert_array_equal(figure(frame, field), figure(together, field))


def test_bits_do_not_depend_on_where_calls_of_kernels_end():
    """A call ends after a number of spikes over all its signals, so it may end within a signal."""
    problem = random_problem(24, 60, n_signals=2_000)
    whole = solve_spiking(problem, tol=1e-5)
    assert whole.n_steps.sum() > 5 * MOST_WORK_PER_CALL
    for first in (300, 1_500):
        rows = slice(first, None)
        require_same(solve_spiking(problem.subset(rows), tol=1e-5), whole, rows)


def test_threads_have_networks_of_their_own():
    problem = random_problem(24, 60, n_signals=40)
    together = solve_spiking(problem, tol=1e-5)
    prepared = LassoModel(problem.dictionary, problem.penalty)
    found, begin = {}, threading.Barrier(4)

    def work(first):
        begin.wait()
        for k in range(first, 40, 4):
            found[k] = solve_spiking(prepared.with_signals(problem.signals[[k]]), tol=1e-5)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(40):
        require_same(found[k], together, [k])


@either_sign
@pytest.mark.parametrize("name", ["spiking", "spiking_current", "active_set_from_spikes"])
def test_one_signal_in_a_large_dictionary_makes_no_gram_matrix(name, positive):
    rng = np.random.default_rng(12)
    dictionary = random_problem(90, 700).dictionary
    signal = (rng.uniform(0.5, 1.5, 6) @ dictionary[rng.choice(700, 6, replace=False)])[np.newaxis]
    sparing = LassoProblem(dictionary, signal, 0.2, positive=positive)
    result = METHODS[name](sparing)
    assert not sparing.has_gram
    n_rows = result.operations["gram"].total().multiply_adds / (700 * 90)
    fired = result.spike_counts.reshape(-1, 700).any(axis=0)
    assert np.count_nonzero(fired) <= n_rows < 250
    given_gram = LassoProblem(dictionary, signal, 0.2, positive=positive, gram=dictionary @ dictionary.T)
    expected = METHODS[name](given_gram)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    np.testing.assert_allclose(result.codes, expected.codes, atol=1e-10)
    network, others = (one.operations["network"] for one in (result, expected))
    assert network.synaptic_operations == others.synaptic_operations


# -- the network -----------------------------------------------------------------------------------


@either_sign
def test_network_state_is_the_kkt_residual(positive):
    """Equation 9 of docs/theory.md: t (b - lambda - G a) = v + h from rest, in both neurons of a pair."""
    problem = random_problem(positive=positive, unit_norm=False, share=0.2)
    for duration in (16.0, 73.0, 4096.0):
        run = simulate(lasso_network(problem, 1), duration)
        rates = run.spike_rate
        code = rates if positive else rates[: problem.n_atoms] - rates[problem.n_atoms :]
        correlations = problem.dictionary @ (problem.signals[1] - code @ problem.dictionary)
        slack = correlations - problem.l1_weights
        if not positive:
            slack = np.concatenate([slack, -correlations - problem.l1_weights])
        reached = run.state.membrane_potential + run.state.synaptic_current
        atol = 1e-13 * np.abs(reached).max()
        np.testing.assert_allclose(duration * slack, reached, rtol=0, atol=max(atol, 1e-10))


# -- what is read out of it ------------------------------------------------------------------------


@either_sign
def test_rates_and_average_currents_are_those_of_the_simulation(positive):
    """Average currents count if they are positive and the neuron fired: docs/theory.md, equation 4."""
    problem = random_problem(positive=positive, unit_norm=False, share=0.2)
    result = solve(problem, RATE, tol=1e-2)
    for signal in range(problem.n_signals):
        scale = result.info["scale"][signal]
        run = simulate(lasso_network(problem, signal, scale=scale), result.info["duration"][signal])
        np.testing.assert_array_equal(result.spike_counts[signal], run.spike_counts)
        for name in ("spikes", "synaptic_operations", "neuron_time"):
            ours = getattr(result.operations["network"], name)[signal]
            assert ours == getattr(run.operations, name)
        average = np.where(run.spike_counts > 0, np.maximum(run.average_soma_current, 0.0), 0.0)
        n = problem.n_atoms
        for values, found in (
            (run.spike_rate, result.codes[signal]),
            (average, result.info["average_currents"].toarray()[signal]),
        ):
            expected = scale * (values if positive else values[:n] - values[n:])
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@either_sign
@pytest.mark.parametrize("unit_norm", [True, False])
def test_smooth_codes_are_those_of_recorded_spikes(positive, unit_norm):
    """The code is a windowed sum over the spikes, or the thresholded current that these rates cause."""
    problem = random_problem(positive=positive, unit_norm=unit_norm, share=0.2)
    result = solve(problem, OneWindow(), tol=1e-2)
    squared_norms = (problem.dictionary**2).sum(axis=1)
    for signal in range(problem.n_signals):
        network = lasso_network(problem, signal, scale=result.info["scale"][signal])
        duration = result.info["duration"][signal]
        spikes = simulate(network, duration, state=half_way(network), record_spikes=True).spikes
        assert len(spikes) == result.n_steps[signal]
        share = spikes.times / duration
        weights = 30.0 * share**2 * (1.0 - share) ** 2 / duration
        rates = np.bincount(spikes.neurons, weights, network.n_neurons) * result.info["scale"][signal]
        rates = rates if positive else rates[: problem.n_atoms] - rates[problem.n_atoms :]
        correlations = problem.dictionary @ (problem.signals[signal] - rates @ problem.dictionary)
        values = squared_norms * rates + correlations
        caused = np.maximum((values if positive else np.abs(values)) - problem.l1_weights, 0.0)
        caused *= np.sign(values) / squared_norms
        # The code of the currents is read if the code of the rates is not good enough.
        alone = problem.subset([signal])
        is_enough = measure(alone, rates[np.newaxis]).duality_gap <= 1e-2 * alone.energies
        best = rates if is_enough else caused
        np.testing.assert_allclose(result.codes[signal], best, rtol=0, atol=1e-12)


@either_sign
def test_each_digit_of_a_refined_code_takes_about_as_many_spikes_as_the_last(positive):
    problem = planted(positive=positive)
    results = {tol: solve_spiking(problem, tol=tol) for tol in (1e-3, 1e-6, 1e-9, 1e-11)}
    spikes = {tol: result.n_steps.mean() for tol, result in results.items()}
    assert spikes[1e-9] < 2.5 * spikes[1e-6]
    assert spikes[1e-6] < 4.0 * spikes[1e-3]
    assert np.median(results[1e-11].info["n_stages"]) > 3
    exact = solve_active_set(problem, tol=1e-12)
    np.testing.assert_allclose(results[1e-11].codes, exact.codes, rtol=0, atol=1e-4)
    np.testing.assert_allclose(results[1e-11].objective, exact.objective, rtol=1e-10)


# -- starts ----------------------------------------------------------------------------------------


@either_sign
@pytest.mark.parametrize("method", [Stages(), OneWindow(), Stages(time=Clock(0.25))], ids=str)
def test_the_network_starts_from_codes(positive, method):
    problem = random_problem(32, 64, n_signals=10, positive=positive)
    optimum = solve_active_set(problem)
    assert not solve(problem, method, start=optimum, tol=1e-5).n_steps.any()
    near = optimum.codes * np.random.default_rng(0).uniform(0.9, 1.1, optimum.codes.shape)
    warm, alone = (solve(problem, method, start=start, tol=1e-3) for start in (near, None))
    assert warm.converged
    assert warm.n_steps.sum() < 0.8 * alone.n_steps.sum()
    # A start that is worse than zero is ignored.
    worse = solve(problem, method, start=100.0 * near, tol=1e-3)
    np.testing.assert_array_equal(worse.codes, alone.codes)


# -- the active set from spikes --------------------------------------------------------------------


@either_sign
def test_polish_is_the_active_set_method_from_the_spikes(positive):
    """The result equals the result of the spiking method followed by the active-set method."""
    problem = random_problem(64, 128, n_signals=20, positive=positive, share=0.2)
    polished = solve(problem, POLISH)
    corrected = solve_active_set(problem, start=polished)
    np.testing.assert_array_equal(corrected.codes, polished.codes)
    np.testing.assert_array_equal(corrected.info["n_corrections"], polished.info["n_corrections"])
    np.testing.assert_array_equal(
        polished.operations["polish"].multiply_adds, corrected.operations["method"].multiply_adds
    )
    assert polished.operations["network"].multiply_adds == 0
    assert (polished.kkt_violation <= 1e-13 * np.abs(problem.correlations).max(axis=1)).all()
    # The spikes had found most of the support.
    assert corrected.info["n_corrections"].sum() < polished.support_size.sum()
    # A refined code leaves nothing to correct.
    assert not solve_active_set(problem, start=solve_spiking(problem, tol=1e-9)).info["n_corrections"].any()


# -- limits ----------------------------------------------------------------------------------------


def test_the_last_look_is_the_last_whatever_its_time_rounds_to():
    """In floating point, 195.1 minus the time of earlier stages, plus this time, is less than 195.1."""
    rng = np.random.default_rng(0)
    dictionary = rng.normal(size=(20, 6))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    problem = LassoProblem(dictionary, rng.normal(size=(60, 6))[46:47], 0.1)
    assert quietly(Stages(195.1), problem, tol=1e-4).info["duration"][0] <= 195.1


def test_where_only_rounding_is_left_nothing_goes_on():
    problem = random_problem(n_signals=1)
    start = solve_active_set(problem)
    tol = 0.99 * max(start.relative_gap[0], 1e-17)
    result = quietly(OneWindow(200.0), problem, start=start, tol=tol)
    assert result.duality_gap[0] <= start.duality_gap[0]
    largest = penalty_max(problem.dictionary, problem.signals)[0]
    result = quietly(Stages(500.0), problem.with_penalty(largest), tol=1e-33)
    assert result.info["n_stages"][0] <= 1
    assert result.duality_gap[0] <= 1e-14 * problem.energies[0]


def test_a_signal_alone_that_cannot_go_on_is_solved_once(monkeypatch):
    problem = random_problem(24, 60, n_signals=1, share=0.01)
    shown = quietly(Stages(300.0), problem, tol=1e-14, progress=True)
    monkeypatch.setattr(Stages, "search", None)
    alone = quietly(Stages(300.0), problem, tol=1e-14)
    require_same(alone, shown)
    assert not alone.converged
    assert not shown.converged


# -- on a clock ------------------------------------------------------------------------------------


@either_sign
@pytest.mark.parametrize("time_step", [0.1, 0.25])
def test_a_coarse_clock_reaches_small_gaps_with_as_many_spikes(positive, time_step):
    problem = random_problem(40, 100, n_signals=4, positive=positive)
    on_a_clock = solve_spiking(problem, tol=1e-6, time=Clock(time_step))
    exact = solve_spiking(problem, tol=1e-6)
    assert on_a_clock.converged
    require_certified(problem, on_a_clock)
    assert on_a_clock.n_steps.sum() < 2 * exact.n_steps.sum()  # spikes
    # A look may be between the ends of two steps.
    missing = on_a_clock.info["duration"] - time_step * on_a_clock.info["n_clock_steps"]
    assert ((missing >= -1e-9) & (missing < time_step * on_a_clock.info["n_stages"])).all()
    n, network = problem.n_atoms * (1 if positive else 2), on_a_clock.operations["network"]
    np.testing.assert_array_equal(network.neuron_updates, n * on_a_clock.info["n_clock_steps"])


def test_one_stage_on_a_clock_is_the_clocked_network():
    """Spikes are the spikes of `simulate`; a look between two steps sees the spikes of earlier steps."""
    problem = random_problem(n_signals=1, positive=True)
    result = quietly(OneWindow(50.1, Clock(0.25)), problem, tol=1e-12)
    network = lasso_network(problem, scale=float(result.info["scale"][0]))
    run = simulate(network, 50.0, Clock(0.25), state=half_way(network))
    np.testing.assert_array_equal(result.spike_counts[0], run.spike_counts)


def test_a_network_that_runs_away_on_a_coarse_clock_is_stopped_and_says_so():
    rng = np.random.default_rng(0)
    dictionary = np.abs(rng.normal(size=(256, 64)))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    signal = np.abs(rng.normal(size=(1, 64)))
    problem = LassoProblem(dictionary, signal, 0.05 * penalty_max(dictionary, signal)[0])
    with pytest.warns(ConvergenceWarning, match="ran away: use a shorter time_step"):
        result = solve_spiking(problem, time=Clock(0.25), max_duration=1600.0)
    require_certified(problem, result)
    assert result.status == [Status.RAN_AWAY]
    assert result.info["duration"][0] < 1600.0


# -- atoms of extreme norms ------------------------------------------------------------------------

READ_OUTS = pytest.mark.parametrize(
    "kind", [Stages, OneWindow, Rates, AverageCurrents], ids=lambda kind: kind.name
)
BURSTING = [[0.8, 0.6], [0.2, 1.0], [0.5, 0.4], [1.0, 0.9], [0.8, 0.61], [0.3, 0.33], [0.9, -0.2]]


def bursting_problem(smallest, signals=BURSTING, *, positive=True):
    """Return a problem with signals whose networks fire 1 / smallest times at once, and other signals."""
    dictionary = [[1.0, 0.0], [-0.6 * smallest, 0.8 * smallest]]
    return LassoProblem(dictionary, signals, [0.1, 0.1 * smallest], positive=positive)


@pytest.fixture
def small_bursts():
    """Stop networks after shorter bursts, so that tests are quick."""
    with costs(burst=BurstLimit(spikes=100_000)):
        yield


@READ_OUTS
def test_which_networks_are_stopped_does_not_depend_on_others_or_threads(kind, small_bursts):
    problem = bursting_problem(1.5e-5)
    with pytest.warns(ConvergenceWarning, match="ran away: scale the atoms"):
        together = solve(problem, kind())
    assert 0 < (together.relative_gap > 1e-3).sum() < len(BURSTING) or kind in (Rates, AverageCurrents)
    in_threads = quietly(kind(), problem, n_jobs=2)
    alone = {k: quietly(kind(), problem.subset([k])) for k in (0, 4)}
    for name in ("codes", "n_steps", "duration", "status", "n_stages", "duality_gap"):
        np.testing.assert_array_equal(figure(in_threads, name), figure(together, name))
        for k, one in alone.items():
            np.testing.assert_array_equal(figure(one, name)[0], figure(together, name)[k])


def test_a_stopped_network_ran_for_the_time_that_it_reports(small_bursts):
    problem = bursting_problem(1e-6, [[0.8, 0.61]])
    result = quietly(RATE, problem)
    duration = float(result.info["duration"][0])
    assert duration < 100.0
    assert result.operations["network"].neuron_time[0] == 2 * duration
    network = lasso_network(problem, scale=float(result.info["scale"][0]))
    # The run ended at the recorded time of its last spike, up to rounding.
    assert abs(simulate(network, duration).n_spikes - result.n_steps[0]) <= 2


@READ_OUTS
@pytest.mark.parametrize("smallest", [1e-8, 1e-14, 1e-20])
def test_a_neuron_that_fires_without_end_costs_its_own_signal_only(smallest, kind, small_bursts):
    problem = bursting_problem(smallest, [[0.8, 0.6], [-0.2, -1.0]])
    with pytest.warns(ConvergenceWarning, match="1 .*before their networks ran away: scale the atoms"):
        result = solve(problem, kind())
    assert list(result.reached) == [False, True]
    assert 10_000 < result.n_steps[0] < 1_000_000
    # The code is read at the time when the run stopped.
    assert result.relative_gap[0] < 0.5
    require_certified(problem, result)
    units = np.sqrt(problem.atoms.squared_norms)
    scaled = LassoProblem(
        problem.dictionary / units[:, np.newaxis], problem.signals, problem.l1_weights / units, positive=True
    )
    assert solve(scaled, kind()).converged
