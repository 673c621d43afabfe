"""The spiking solver: its network, its read-outs, polish, its stopping rule, independence of batch mates."""

import warnings
from functools import partialmethod

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snn import NetworkState, simulate, simulate_clocked
from solvers import (
    LassoProblem,
    SparseCodingStream,
    Status,
    compare,
    lasso_network,
    solve_active_set,
    solve_spiking,
)
from solvers.certificate.optimality import measure, penalty_max
from solvers.gram.gram import FullGram
from solvers.problem.dense_dictionary import DenseDictionary
from tests.reference.networks import random_dictionary
from tests.reference.problems import require_certified

# The read-outs of `solve_spiking`, and polish.
WAYS = [
    {},
    {"refine": False},
    {"readout": "rate"},
    {"readout": "current"},
    {"polish": True},
    {"time_step": 0.25},
]
NAMES = ["refined", "smooth", "rate", "current", "polish", "on a clock"]
each_way = pytest.mark.parametrize("options", WAYS, ids=NAMES)


def random_problem(
    n_atoms=40, n_features=20, n_signals=3, *, positive=False, share=0.2, seed=0, unit_norm=True
):
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features))
    if unit_norm:
        dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    signals = rng.standard_normal((n_signals, n_features))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    return LassoProblem(dictionary, signals, penalty, positive=positive)


# -- the network ---------------------------------------------------------------------------------


@pytest.mark.parametrize("unit_norm", [True, False])
def test_signed_network_spikes_like_the_positive_network_of_both_signs(unit_norm):
    signed = random_problem(unit_norm=unit_norm)
    both_signs = LassoProblem(
        np.vstack([signed.dictionary, -signed.dictionary]),
        signed.signals,
        signed.l1_weights[0],
        positive=True,
    )
    for signal in range(signed.n_signals):
        compact = simulate(lasso_network(signed, signal), 200.0, record_spikes=True)
        explicit = simulate(lasso_network(both_signs, signal), 200.0, record_spikes=True)
        np.testing.assert_array_equal(compact.spikes.neurons, explicit.spikes.neurons)
        np.testing.assert_allclose(compact.spikes.times, explicit.spikes.times, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positive", [True, False])
def test_network_state_is_the_kkt_residual(positive):
    """Equation 9 of docs/theory.md: t (b - lambda - G a) = v + h from rest, for either half of a pair."""
    problem = random_problem(positive=positive, unit_norm=False)
    duration = 73.0
    result = simulate(lasso_network(problem, 1), duration)
    rates = result.spike_rate
    code = rates if positive else rates[: problem.n_atoms] - rates[problem.n_atoms :]
    residual_correlations = problem.dictionary @ (problem.signals[1] - code @ problem.dictionary)
    slack = residual_correlations - problem.l1_weights
    if not positive:
        slack = np.concatenate([slack, -residual_correlations - problem.l1_weights])
    state = result.state
    # Rounding: potentials of silent neurons are of the order of 100, so 1e-11 is a thousand ulps.
    np.testing.assert_allclose(
        duration * slack, state.membrane_potential + state.synaptic_current, rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("positive", [True, False])
def test_kkt_violation_of_the_rates_falls_like_one_over_time(positive):
    problem = random_problem(positive=positive, n_signals=1)
    network = lasso_network(problem)
    durations = 2.0 ** np.arange(4, 13)
    violations = []
    for duration in durations:
        rates = simulate(network, duration).spike_rate
        code = rates if positive else rates[: problem.n_atoms] - rates[problem.n_atoms :]
        violations.append(measure(problem, code[np.newaxis]).kkt_violation[0])
    slope = np.polyfit(np.log(durations), np.log(violations), 1)[0]
    assert -1.2 < slope < -0.8
    # The bound of Equation 9 of docs/theory.md: |v + h| <= theta + the currents of a few spikes.
    assert (violations * durations < 5.0).all()


def test_network_is_refused_for_a_signal_that_is_not_there():
    with pytest.raises(ValueError, match=r"signal must lie in \[0, 3\); got 3"):
        lasso_network(random_problem(), 3)
    with pytest.raises(TypeError, match="signal must be an integer; got float"):
        lasso_network(random_problem(), 0.5)


# -- the read-outs -------------------------------------------------------------------------------


@each_way
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_every_way_reaches_tol_and_says_what_it_did(options, positive, tol):
    problem = random_problem(positive=positive)
    result = solve_spiking(problem, tol=tol, **options)
    assert result.converged
    assert (result.status == Status.CONVERGED).all()
    assert (result.duality_gap <= tol * problem.energies).all()
    require_certified(problem, result)
    np.testing.assert_array_equal(result.n_steps, result.spike_counts.sum(axis=1))
    # What is polished starts from average currents.
    assert result.readout == options.get("readout", "current" if options.get("polish") else "smooth")
    if "polish" in options:
        assert result.polished.all()
    else:
        assert not result.polished.any()
        assert (result.n_corrections == 0).all()
        if result.readout == "rate":
            np.testing.assert_allclose(result.rate_duality_gap, result.duality_gap, rtol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
def test_counts_and_events_are_those_of_the_simulation(positive):
    problem = random_problem(positive=positive)
    result = solve_spiking(problem, tol=1e-2, readout="rate")
    for signal in range(problem.n_signals):
        scale = result.scale[signal]
        run = simulate(lasso_network(problem, signal, scale=scale), result.duration[signal])
        np.testing.assert_array_equal(result.spike_counts[signal], run.spike_counts)
        assert result.operations["network"].synaptic_operations[signal] == run.operations.synaptic_operations
        rates = run.spike_rate
        code = rates if positive else rates[: problem.n_atoms] - rates[problem.n_atoms :]
        np.testing.assert_array_equal(result.codes[signal], scale * code)


# -- the smooth window, and refinement -------------------------------------------------------------


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("unit_norm", [True, False])
def test_smooth_codes_are_those_of_recorded_spikes(positive, unit_norm):
    """The window summed up spike by spike, or the thresholded current that these rates cause."""
    problem = random_problem(positive=positive, unit_norm=unit_norm)
    result = solve_spiking(problem, tol=1e-2, refine=False)
    signs = np.eye(problem.n_atoms)
    if not positive:
        signs = np.vstack([signs, -signs])
    squared_norms = (problem.dictionary**2).sum(axis=1)
    for signal in range(problem.n_signals):
        network = lasso_network(problem, signal, scale=result.scale[signal])
        start = NetworkState(
            membrane_potential=0.5 * network.firing_threshold, synaptic_current=np.zeros(network.n_neurons)
        )
        duration = result.duration[signal]
        spikes = simulate(network, duration, state=start, record_spikes=True).spikes
        assert len(spikes) == result.n_steps[signal]
        share = spikes.times / duration
        weights = 30.0 * share**2 * (1.0 - share) ** 2 / duration
        rates = np.bincount(spikes.neurons, weights, network.n_neurons) @ signs * result.scale[signal]
        correlations = problem.dictionary @ (problem.signals[signal] - rates @ problem.dictionary)
        values = squared_norms * rates + correlations
        caused = np.sign(values) * np.maximum(np.abs(values) - problem.l1_weights, 0.0) / squared_norms
        if positive:
            caused = np.maximum(values - problem.l1_weights, 0.0) / squared_norms
        # The currents' code is looked at where that of the rates is not good enough.
        alone = problem.subset([signal])
        is_enough = measure(alone, rates[np.newaxis]).duality_gap <= 1e-2 * alone.energies
        best = rates if is_enough else caused
        np.testing.assert_allclose(result.codes[signal], best, rtol=0, atol=1e-12)


def test_gaps_of_one_smooth_window_fall_like_one_over_time_squared():
    problem = planted_problem(positive=True)
    durations = np.array([32.0, 128.0, 512.0, 2048.0])
    gaps = []
    for duration in durations:
        result = solve_spiking_quietly(problem, max_duration=duration, tol=1e-14, refine=False)
        gaps.append(np.median(result.duality_gap / problem.energies))
    slope = np.polyfit(np.log(durations), np.log(gaps), 1)[0]
    assert slope < -1.35


@pytest.mark.parametrize("positive", [True, False])
def test_each_digit_of_a_refined_code_takes_about_as_many_spikes_as_the_last(positive):
    problem = planted_problem(positive=positive)
    spikes = {tol: solve_spiking(problem, tol=tol).n_steps.mean() for tol in (1e-3, 1e-6, 1e-9)}
    assert spikes[1e-9] < 2.5 * spikes[1e-6]
    assert spikes[1e-6] < 4.0 * spikes[1e-3]
    # One window needs thirty times as many for three more digits.
    one_window = solve_spiking_quietly(problem, tol=1e-6, refine=False)
    assert one_window.n_steps.mean() > 5.0 * spikes[1e-6]


@pytest.mark.parametrize("positive", [True, False])
def test_spikes_alone_are_precise_where_atoms_are_alike(positive):
    """Bumps on a line, with a cosine of 0.84 between neighbours: stages have momentum."""
    places = np.arange(64.0)
    bumps = np.exp(-0.5 * ((places - places[:, np.newaxis]) / 1.2) ** 2)
    bumps /= np.linalg.norm(bumps, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    signals = (rng.random((4, 64)) * (rng.random((4, 64)) < 0.2)) @ bumps
    signals += 0.01 * rng.standard_normal((4, 64))
    penalty = 0.01 * penalty_max(bumps, signals, positive=positive).min()
    problem = LassoProblem(bumps, signals[[0, 2]], penalty, positive=positive)
    assert solve_spiking(problem, tol=1e-6, max_duration=2500.0).converged


@pytest.mark.parametrize("positive", [True, False])
def test_refined_codes_are_those_of_the_active_set(positive):
    problem = random_problem(n_atoms=80, n_features=40, n_signals=10, positive=positive, unit_norm=False)
    refined = solve_spiking(problem, tol=1e-11)
    assert refined.converged
    assert (refined.n_stages > 3).all()
    exact = solve_active_set(problem, tol=1e-12)
    np.testing.assert_allclose(refined.codes, exact.codes, rtol=0, atol=1e-4 * np.abs(exact.codes).max())
    np.testing.assert_allclose(refined.objective, exact.objective, rtol=1e-10)


def test_plain_rates_of_several_stages_have_no_gap():
    problem = planted_problem()
    refined = solve_spiking(problem, tol=1e-6)
    assert (refined.n_stages > 1).any()
    np.testing.assert_array_equal(np.isnan(refined.rate_duality_gap), refined.n_stages > 1)
    assert refined.sparse_average_currents is None
    # Another solver may start from it all the same, and has nothing left to correct.
    assert not solve_active_set(problem, start=refined).n_corrections.any()


def planted_problem(*, positive=False):
    """Signals that are mixtures of 5 % of the atoms."""
    rng = np.random.default_rng(6)
    codes = rng.uniform(0.5, 1.5, (5, 128)) * (rng.random((5, 128)) < 0.05)
    codes[codes.any(axis=1) == 0, :3] = 1.0
    dictionary = random_problem(n_atoms=128, n_features=64).dictionary
    return LassoProblem(dictionary, codes @ dictionary, 0.1, positive=positive)


def test_average_current_of_the_second_half_beats_the_rate():
    """In the objective, for signals that have a sparse code."""
    problem = planted_problem()
    optimum = solve_spiking(problem, polish=True).objective
    advantage = []
    for duration in (16.0, 128.0):
        errors = [
            solve_spiking_quietly(problem, max_duration=duration, tol=1e-12, readout=readout).objective
            - optimum
            for readout in ("rate", "current")
        ]
        advantage.append(np.median(errors[0] / np.maximum(errors[1], 1e-16)))
    # About a hundred at both times, here.
    assert min(advantage) > 20.0


def solve_spiking_quietly(problem, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve_spiking(problem, **arguments)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [1e-3, 0.03, 0.3, 0.99])
def test_polish_ends_at_machine_precision(positive, share):
    problem = random_problem(n_atoms=128, n_features=64, positive=positive, share=share)
    result = solve_spiking(problem, tol=1e-12, polish=True)
    assert (result.duality_gap <= 1e-12 * problem.energies).all()
    scale = np.abs(problem.correlations).max(axis=1)
    assert (result.kkt_violation <= 1e-13 * scale).all()


def test_a_polished_result_is_named_as_compare_names_it():
    """Tables and pictures tell the active-set method from spikes alone."""
    problem = LassoProblem(np.eye(2), np.array([[3.0, 0.5]]), 0.1)
    (record,) = compare(problem, ["active_set_from_spikes"])
    assert solve_spiking(problem, polish=True).method == record["method"]
    assert solve_spiking(problem).method == "spiking"


def test_polish_shows_the_share_of_the_network():
    problem = planted_problem()
    result = solve_spiking(problem, polish=True)
    # Two codes that are both optimal have gaps that are rounding.
    rounding = 1e-13 * problem.energies
    assert (result.rate_duality_gap >= result.duality_gap - rounding).all()
    assert np.median(result.rate_duality_gap) > 0.01 * np.median(problem.energies)
    # The spikes had found most of the support: fewer corrections than it has atoms.
    assert (result.n_corrections < result.support_size).all()
    assert result.n_corrections.sum() > 0


def test_average_currents_are_those_of_the_simulation():
    """Return currents of the neurons that fired, where they are positive: docs/theory.md, equation 4."""
    problem = random_problem(unit_norm=False)
    result = solve_spiking(problem, tol=1e-2, readout="rate")
    for signal in range(problem.n_signals):
        network = lasso_network(problem, signal, scale=result.scale[signal])
        run = simulate(network, result.duration[signal])
        average = np.where(run.spike_counts > 0, np.maximum(run.average_soma_current, 0.0), 0.0)
        expected = (average[: problem.n_atoms] - average[problem.n_atoms :]) * result.scale[signal]
        currents = result.sparse_average_currents.toarray()[signal]
        np.testing.assert_allclose(currents, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("positive", [True, False])
def test_polish_is_the_active_set_method_from_the_spikes(positive):
    """The two that it is made of, one after the other."""
    problem = random_problem(n_atoms=128, n_features=64, n_signals=20, positive=positive)
    polished = solve_spiking(problem, polish=True)
    corrected = solve_active_set(problem, start=polished)
    np.testing.assert_array_equal(corrected.codes, polished.codes)
    np.testing.assert_array_equal(corrected.n_corrections, polished.n_corrections)
    # From spikes that ran longer there is less to correct.
    longer = solve_spiking(problem, tol=1e-3, readout="current")
    corrected_less = solve_active_set(problem, start=longer)
    np.testing.assert_allclose(corrected_less.codes, polished.codes, rtol=0, atol=1e-11)
    assert corrected_less.n_corrections.sum() < corrected.n_corrections.sum()
    assert corrected_less.n_steps.sum() < solve_active_set(problem).n_steps.sum()


def smooth_bumps():
    """Broad bumps: neighbours differ by 1e-4 of their norm, and 200 of them have rank 20 or so."""
    centres, points = np.linspace(0.0, 1.0, 200), np.linspace(0.0, 1.0, 50)
    return np.exp(-0.5 * ((centres[:, np.newaxis] - points) / 0.1) ** 2)


def common_mode():
    """One vector in all atoms, plus a ten-thousandth of noise."""
    rng = np.random.default_rng(7)
    return rng.standard_normal(30) + 1e-4 * rng.standard_normal((60, 30))


def near_duplicates():
    rng = np.random.default_rng(8)
    atoms = rng.standard_normal((20, 30))
    return np.vstack([atoms, atoms + 1e-7 * rng.standard_normal((20, 30))])


@pytest.mark.parametrize("make", [smooth_bumps, common_mode, near_duplicates])
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.1])
def test_nearly_dependent_atoms_end_in_a_good_code_or_an_honest_one(make, positive, share):
    """Never worse than the zero code, whose gap is 1/2 ||s||^2; the status tells which of the two."""
    dictionary = make()
    signals = np.random.default_rng(9).standard_normal((6, dictionary.shape[1]))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    problem = LassoProblem(dictionary, signals, max(penalty, 1e-9), positive=positive)
    result = solve_spiking_quietly(problem, tol=1e-9, polish=True)
    assert (result.duality_gap <= problem.energies).all()
    # For the zero code they are the same number, summed in two orders.
    assert (result.objective <= (1.0 + 1e-14) * problem.energies).all()
    np.testing.assert_array_equal(
        result.status == Status.CONVERGED, result.duality_gap <= 1e-9 * problem.energies
    )


@pytest.mark.parametrize("positive", [True, False])
def test_duplicated_and_dependent_atoms(positive):
    rng = np.random.default_rng(2)
    atoms = rng.standard_normal((8, 6))
    dictionary = np.vstack([atoms, atoms, -atoms, 2.0 * atoms, atoms[:4] + atoms[4:]])
    signals = rng.standard_normal((20, 6))
    for share in (1e-3, 0.1, 0.7):
        penalty = share * penalty_max(dictionary, signals, positive=positive).min()
        problem = LassoProblem(dictionary, signals, penalty, positive=positive)
        assert solve_spiking(problem, tol=1e-11, polish=True).converged
        assert solve_spiking(problem, tol=1e-2, readout="current").converged
        assert solve_spiking(problem, tol=1e-2, readout="rate").converged


def test_penalty_of_each_atom_and_norms_of_each_atom():
    """Scaling atom i by c_i and its penalty likewise divides its coefficient by c_i."""
    problem = random_problem(n_atoms=30, n_features=20)
    scales = np.random.default_rng(4).uniform(0.3, 3.0, 30)
    scaled = LassoProblem(
        problem.dictionary * scales[:, np.newaxis], problem.signals, problem.l1_weights * scales
    )
    plain = solve_spiking(problem, polish=True)
    rescaled = solve_spiking(scaled, polish=True)
    np.testing.assert_allclose(rescaled.codes * scales, plain.codes, rtol=0, atol=1e-12)
    assert solve_spiking(scaled, tol=1e-2, readout="rate").converged


@each_way
@pytest.mark.parametrize("unit", [1e-60, 1e-3, 7.0, 1e60])
def test_the_unit_of_the_signals_is_of_no_consequence(options, unit):
    """Signal and penalty times c: the code times c, from the same spikes."""
    problem = random_problem()
    other = LassoProblem(problem.dictionary, unit * problem.signals, unit * problem.l1_weights)
    expected = solve_spiking(problem, tol=1e-2, **options)
    result = solve_spiking(other, tol=1e-2, **options)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    np.testing.assert_array_equal(result.duration, expected.duration)
    np.testing.assert_allclose(result.scale, unit * expected.scale, rtol=1e-10)
    np.testing.assert_allclose(result.codes, unit * expected.codes, rtol=1e-10, atol=unit * 1e-14)


# -- limits and zeros ----------------------------------------------------------------------------


@pytest.mark.parametrize("readout", ["smooth", "rate", "current"])
def test_a_signal_given_up_keeps_its_best_code_and_true_gap(readout):
    problem = random_problem()
    with pytest.warns(
        ConvergenceWarning, match=r"spiking(_\w+)?: 3 of 3 signals .* within max_duration=5; the worst"
    ):
        result = solve_spiking(problem, tol=1e-6, max_duration=5.0, readout=readout)
    assert not result.converged
    assert (result.status == Status.LIMIT_REACHED).all()
    assert (result.duration == 5.0).all()
    require_certified(problem, result)
    assert (result.duality_gap > 1e-6 * problem.energies).all()
    assert (result.support_size > 0).all()


def test_the_last_look_is_the_last_whatever_its_time_rounds_to():
    """195.1 minus the time of the stages before, plus that time, is less than 195.1."""
    rng = np.random.default_rng(0)
    dictionary = rng.normal(size=(20, 6))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    problem = LassoProblem(dictionary, rng.normal(size=(60, 6))[46:47], 0.1)
    result = solve_spiking_quietly(problem, tol=1e-4, max_duration=195.1)
    assert result.duration[0] <= 195.1


def test_one_window_goes_on_from_a_start_that_is_nearly_good_enough():
    """As by correlations; the certificate, which bounds its rounding, may disagree."""
    problem = random_problem(n_signals=1)
    start = solve_active_set(problem)
    tol = 0.99 * max(start.duality_gap[0] / problem.energies[0], 1e-17)
    result = solve_spiking_quietly(problem, start=start, refine=False, tol=tol, max_duration=200.0)
    assert result.duality_gap[0] <= start.duality_gap[0]


def test_where_no_neuron_is_driven_only_rounding_is_left():
    problem = random_problem(n_signals=1)
    largest = penalty_max(problem.dictionary, problem.signals)[0]
    at_the_maximum = LassoProblem(problem.dictionary, problem.signals, largest)
    result = solve_spiking_quietly(at_the_maximum, tol=1e-33, max_duration=500.0)
    assert result.n_stages[0] <= 1
    assert result.duality_gap[0] <= 1e-14 * problem.energies[0]


def test_a_network_that_runs_away_on_a_coarse_clock_is_refused():
    rng = np.random.default_rng(0)
    dictionary = np.abs(rng.normal(size=(256, 64)))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    signal = np.abs(rng.normal(size=(1, 64)))
    problem = LassoProblem(dictionary, signal, 0.05 * penalty_max(dictionary, signal)[0])
    with pytest.raises(
        ValueError, match=r"time_step must be so short .* in a step; got 0\.25, too long for neuron"
    ):
        solve_spiking(problem, time_step=0.25, max_duration=1600.0)


@each_way
@pytest.mark.parametrize("positive", [True, False])
def test_zero_signals_and_penalties_above_the_maximum_give_zero_codes(options, positive):
    problem = random_problem(positive=positive)
    signals = np.vstack([problem.signals, np.zeros(20)])
    penalty = penalty_max(problem.dictionary, signals, positive=positive).max()
    silent = LassoProblem(problem.dictionary, signals, 1.000001 * penalty, positive=positive)
    result = solve_spiking(silent, tol=1e-12, **options)
    assert not result.codes.any()
    assert not result.spike_counts.any()
    assert result.converged


# -- batch mates and workers ---------------------------------------------------------------------


@each_way
def test_a_code_depends_on_neither_batch_mates_nor_workers(options):
    # More signals than a batch holds, so that workers get several.
    problem = random_problem(n_atoms=64, n_features=32, n_signals=300)
    together = solve_spiking(problem, tol=1e-2, **options, n_jobs=1)
    spread = solve_spiking(problem, tol=1e-2, **options, n_jobs=2)
    for name in (
        "codes", "spike_counts", "duration", "objective", "duality_gap", "kkt_violation", "n_steps",
        "polished", "n_corrections", "rate_duality_gap",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(spread, name), getattr(together, name))
    for name in ("sparse_codes", "sparse_spike_counts", "sparse_average_currents"):
        if getattr(together, name) is None:
            continue
        assert not (getattr(spread, name) != getattr(together, name)).nnz
    require_certified(problem, together)
    for signal in (0, 7, 299):
        alone = solve_spiking(problem.subset([signal]), tol=1e-2, **options)
        np.testing.assert_array_equal(alone.spike_counts[0], together.spike_counts[signal])
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])


@pytest.mark.thorough
def test_joblib_chooses_the_backend():
    problem = random_problem(n_signals=300)
    expected = solve_spiking(problem, polish=True)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        result = solve_spiking(problem, polish=True)
    np.testing.assert_array_equal(result.codes, expected.codes)


def test_progress_is_shown_on_request_and_changes_nothing(capsys):
    problem = random_problem()
    quiet = solve_spiking(problem, readout="current")
    assert capsys.readouterr().err == ""
    shown = solve_spiking(problem, readout="current", progress=True)
    assert "spiking" in capsys.readouterr().err
    np.testing.assert_array_equal(quiet.codes, shown.codes)


def test_results_are_read_only():
    result = solve_spiking(random_problem(), polish=True)
    for array in (result.codes, result.duality_gap, result.spike_counts, result.duration):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


@each_way
@pytest.mark.parametrize("positive", [True, False])
def test_results_hold_the_entries_that_are_not_zero(options, positive):
    problem = random_problem(n_signals=5, positive=positive)
    result = solve_spiking(problem, tol=1e-2, **options)
    for entries, dense in (
        (result.sparse_codes, result.codes),
        (result.sparse_spike_counts, result.spike_counts),
    ):
        np.testing.assert_array_equal(entries.toarray(), dense)
        assert entries.has_canonical_format
        assert entries.nnz == np.count_nonzero(dense)
        with pytest.raises(ValueError, match="read-only"):
            entries.data[0] = 1.0
    assert result.codes.shape == (5, problem.n_atoms)
    assert result.spike_counts.shape == (5, problem.n_atoms * (1 if positive else 2))
    np.testing.assert_array_equal(result.support_size, np.count_nonzero(result.codes, axis=1))


def test_signals_whose_active_set_does_not_end_run_on_and_do_not_disturb_the_others(monkeypatch):
    """With few rounds allowed some need a better start: their codes replace rows among those that ended."""
    impatient = partialmethod(FullGram.optimal_codes, max_rounds=3)
    monkeypatch.setattr(FullGram, "optimal_codes", impatient)
    problem = random_problem(n_atoms=64, n_features=32, n_signals=12, share=0.3)
    together = solve_spiking_quietly(problem, tol=1e-9, polish=True)
    assert len(np.unique(together.duration)) > 1
    assert together.converged
    require_certified(problem, together)
    for signal in range(12):
        alone = solve_spiking_quietly(problem.subset([signal]), tol=1e-9, polish=True)
        for name in ("codes", "spike_counts", "duration", "duality_gap", "n_corrections"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[signal])


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("options", [WAYS[0], *WAYS[3:5]], ids=[NAMES[0], *NAMES[3:5]])
def test_one_signal_in_a_large_dictionary_makes_no_gram_matrix(options, positive, monkeypatch):
    rng = np.random.default_rng(12)
    dictionary = random_dictionary(rng, 700, 90)
    signal = (rng.uniform(0.5, 1.5, 6) @ dictionary[rng.choice(700, 6, replace=False)])[np.newaxis]
    asked = []
    gram_rows = DenseDictionary.gram_rows

    def noted(self, atoms):
        asked.extend(atoms.tolist())
        return gram_rows(self, atoms)

    monkeypatch.setattr(DenseDictionary, "gram_rows", noted)
    sparing = LassoProblem(dictionary, signal, 0.2, positive=positive)
    result = solve_spiking(sparing, **options)
    assert not sparing.has_gram
    assert 0 < len(asked) == len(set(asked)) < 250
    given = LassoProblem(dictionary, signal, 0.2, positive=positive, gram=dictionary @ dictionary.T)
    expected = solve_spiking(given, **options)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    np.testing.assert_allclose(result.codes, expected.codes, atol=1e-10)
    assert (
        result.operations["network"].synaptic_operations == expected.operations["network"].synaptic_operations
    )


# -- where potentials start ----------------------------------------------------------------------


def problem_of_few_atoms(seed, *, n_atoms=512, n_features=128, support=12):
    rng = np.random.default_rng(seed)
    dictionary = random_dictionary(rng, n_atoms, n_features)
    code = np.zeros(n_atoms)
    code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.5, 1.5, support)
    signal = (code @ dictionary)[np.newaxis]
    return LassoProblem(
        dictionary, signal, 0.1 * penalty_max(dictionary, signal, positive=True)[0], positive=True
    )


def spikes_to_one_percent(problem, head_start):
    """Spikes until the average current of the last three quarters is within 1 % of the optimum."""
    scale = 2.0 * (problem.correlations[0] - problem.l1_weights).max()
    network = lasso_network(problem, scale=scale)
    start = NetworkState(
        membrane_potential=head_start * network.firing_threshold,
        synaptic_current=np.zeros(network.n_neurons),
    )
    limit = 1.01 * solve_spiking(problem, polish=True).objective[0]
    for duration in 2.0 ** np.arange(0.0, 10.0, 0.25):
        first = simulate(network, 0.25 * duration, state=start)
        rest = simulate(network, 0.75 * duration, state=first.state)
        code = np.maximum(rest.average_soma_current, 0.0) * scale / network.firing_threshold
        if measure(problem, code[np.newaxis]).objective[0] <= limit:
            return first.n_spikes + rest.n_spikes
    raise AssertionError("never within 1 % of the optimum")


def test_potentials_at_half_their_thresholds_spare_spikes():
    """One spike an active atom is as few as there can be; from rest it is nearly twice as many."""
    problems = [problem_of_few_atoms(seed) for seed in range(6)]
    support = sum(solve_spiking(problem, polish=True).support_size[0] for problem in problems)
    from_half = sum(spikes_to_one_percent(problem, 0.5) for problem in problems)
    from_rest = sum(spikes_to_one_percent(problem, 0.0) for problem in problems)
    assert support <= from_half < 1.6 * support
    assert from_half < 0.8 * from_rest


# -- on a clock ----------------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("time_step", [0.1, 0.25])
def test_a_coarse_clock_reaches_small_gaps_with_as_many_spikes(positive, time_step):
    problem = random_problem(100, 40, 4, positive=positive)
    on_a_clock = solve_spiking(problem, tol=1e-6, time_step=time_step)
    exact = solve_spiking(problem, tol=1e-6)
    assert (on_a_clock.status == Status.CONVERGED).all()
    gaps = measure(problem, on_a_clock.codes).duality_gap / (0.5 * (problem.signals**2).sum(axis=1))
    assert (gaps <= 1e-6).all()
    assert on_a_clock.n_steps.sum() < 2 * exact.n_steps.sum()  # spikes
    assert not np.array_equal(on_a_clock.n_steps, exact.n_steps)


def test_one_stage_on_a_clock_is_the_clocked_network():
    """The same spikes as `simulate_clocked`, and a look between two steps sees those up to then."""
    problem = random_problem(n_signals=1, positive=True)
    options = {"tol": 1e-12, "max_duration": 50.1, "refine": False}
    result = solve_spiking_quietly(problem, time_step=0.25, **options)
    network = lasso_network(problem, scale=float(result.scale[0]))
    state = NetworkState(
        membrane_potential=0.5 * network.firing_threshold, synaptic_current=np.zeros(network.n_neurons)
    )
    run = simulate_clocked(network, 50.0, time_step=0.25, state=state)
    np.testing.assert_array_equal(result.spike_counts[0], run.spike_counts)


# -- atoms of extreme norms ----------------------------------------------------------------------

STOPPED = (
    r"the networks of 1 were stopped before, because one spike caused millions: scale the atoms to one norm"
)
ALL_READOUTS = [
    pytest.param({}, id="smooth"),
    pytest.param({"readout": "rate"}, id="rate"),
    pytest.param({"readout": "current"}, id="current"),
]


def problem_of_extreme_norms(smallest, *, positive):
    """A spike of the first atom makes the second one fire 1 / smallest times, for the first signal."""
    dictionary = [[1.0, 0.0], [-0.6 * smallest, 0.8 * smallest]]
    signals = [[0.8, 0.6], [-0.2, -1.0]]
    return LassoProblem(dictionary, signals, [0.1, 0.1 * smallest], positive=positive)


BURSTING = [[0.8, 0.6], [0.2, 1.0], [0.5, 0.4], [1.0, 0.9], [0.8, 0.61], [0.3, 0.33], [0.9, -0.2]]


def bursting_problem(smallest, signals=BURSTING):
    """Signals whose networks fire 1 / smallest times at once, and others."""
    dictionary = [[1.0, 0.0], [-0.6 * smallest, 0.8 * smallest]]
    return LassoProblem(dictionary, signals, [0.1, 0.1 * smallest], positive=True)


@pytest.fixture
def small_bursts(monkeypatch):
    """Networks are given up sooner, so that tests are quick."""
    monkeypatch.setattr("snn.run.exact.LARGEST_BURST", 300_000)


@pytest.mark.parametrize("options", [*ALL_READOUTS, pytest.param({"refine": False}, id="one stage")])
def test_which_networks_are_stopped_does_not_depend_on_others_or_threads(options, small_bursts):
    problem = bursting_problem(5e-6)
    with pytest.warns(ConvergenceWarning, match="were stopped before"):
        together = solve_spiking(problem, **options)
    assert 0 < (together.relative_gap > 1e-3).sum() < len(BURSTING) or "readout" in options
    in_threads = solve_spiking_quietly(problem, n_jobs=2, **options)
    alone = [solve_spiking_quietly(problem.subset([k]), **options) for k in range(len(BURSTING))]
    for name in ("codes", "n_steps", "duration", "status", "n_stages", "duality_gap"):
        np.testing.assert_array_equal(getattr(in_threads, name), getattr(together, name))
        each = np.concatenate([getattr(result, name) for result in alone])
        np.testing.assert_array_equal(each, getattr(together, name))


def test_a_network_that_converges_in_a_second_is_not_stopped():
    result = solve_spiking(bursting_problem(3e-6, [[0.8, 0.61]]))
    assert result.converged
    assert result.n_steps[0] > 2_000_000


def test_a_stopped_network_ran_for_the_time_that_it_reports(small_bursts):
    problem = bursting_problem(1e-6, [[0.8, 0.61]])
    result = solve_spiking_quietly(problem, readout="rate")
    duration = float(result.duration[0])
    assert duration < 100.0
    assert result.operations.counts("network").neuron_time[0] == 2 * duration
    network = lasso_network(problem, scale=float(result.scale[0]))
    # The recorded time of the last spike is the end, but for rounding.
    assert abs(simulate(network, duration).n_spikes - result.n_steps[0]) <= 2
    smooth = solve_spiking_quietly(problem)
    assert smooth.duration[0] < 100.0
    assert smooth.n_steps[0] > 300_000


@pytest.mark.thorough
@pytest.mark.parametrize("readout", ["rate", "current"])
@pytest.mark.parametrize("largest", [100_000, 1_000_000])
@pytest.mark.parametrize("signal", [0, 2, 4])
def test_a_stopped_network_does_not_replace_a_better_code(readout, signal, largest, monkeypatch):
    monkeypatch.setattr("snn.run.exact.LARGEST_BURST", largest)
    problem = bursting_problem(3e-6, BURSTING[signal : signal + 1])
    result = solve_spiking_quietly(problem, readout=readout)
    # By spikes, not by the time that the result reports.
    for look in 2.0 * 2.0 ** (np.arange(12) / 2) if result.n_steps[0] > largest else []:
        before = solve_spiking_quietly(problem, readout=readout, max_duration=float(look))
        if before.n_steps[0] == result.n_steps[0]:
            break
        last = before.duality_gap[0]
    else:
        return
    assert look == 2.0 or result.duality_gap[0] <= last


@pytest.mark.parametrize("options", ALL_READOUTS)
@pytest.mark.parametrize("smallest", [1e-8, 1e-14, 1e-20])
def test_a_neuron_that_fires_without_end_costs_its_own_signal_only(smallest, options, small_bursts):
    problem = problem_of_extreme_norms(smallest, positive=True)
    with pytest.warns(ConvergenceWarning, match=STOPPED):
        result = solve_spiking(problem, **options)
    assert list(result.status) == [Status.LIMIT_REACHED, Status.CONVERGED]
    assert 10_000 < result.n_steps[0] < 1_000_000
    assert np.isfinite(result.codes).all()
    measured = measure(problem, result.codes)
    np.testing.assert_allclose(result.duality_gap, measured.duality_gap, rtol=1e-9)
    # What it is warned to do.
    units = np.sqrt(problem.squared_norms)
    scaled = LassoProblem(
        problem.dictionary / units[:, np.newaxis], problem.signals, problem.l1_weights / units, positive=True
    )
    assert solve_spiking(scaled, **options).converged


def test_polish_and_streams_take_atoms_of_extreme_norms(small_bursts):
    for smallest in (1e-8, 1e-20):
        problem = problem_of_extreme_norms(smallest, positive=False)
        assert solve_spiking(problem, polish=True, tol=1e-12).converged
        stream = SparseCodingStream(problem.dictionary, problem.penalty)
        for limits in ({}, {"max_spikes": 5000}):
            result = stream.code(problem.signals[0], **limits)
            assert np.isfinite(result.codes).all()
            assert result.n_steps[0] < 1_000_000


@pytest.mark.parametrize("seed", [131, 152, 162])
def test_a_polished_code_does_not_depend_on_the_others_of_its_batch(seed):
    """One that is good enough is left alone where another one is not."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal(2) + rng.standard_normal((8, 2)) * 1e-7
    dictionary *= 10.0 ** rng.uniform(-6, 6, (8, 1))
    signals = rng.standard_normal((3, 2)) * [[1e12], [1.0], [1.0]]
    problem = LassoProblem(dictionary, signals, float(10.0 ** rng.uniform(-3, 6)))
    with pytest.warns(ConvergenceWarning, match="1 of 3 signals"):
        together = solve_spiking(problem, polish=True, tol=1e-6)
    for one in (1, 2):
        alone = solve_spiking(problem.subset(slice(one, one + 1)), polish=True, tol=1e-6)
        np.testing.assert_array_equal(alone.codes[0], together.codes[one])
        assert alone.polished[0] == together.polished[one]
