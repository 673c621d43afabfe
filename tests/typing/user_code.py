"""Code as users write it: type checkers must know the types of all results. The tests also run this code."""

from typing import assert_type

import numpy as np

from dictlearn import LearningSettings, TwoPhaseLearner, learn_dictionary
from snn import Clock, DenseRows, SimulationResult, SpikeTrain, SpikingNetwork, simulate
from solvers import (
    LassoProblem,
    LassoRegressor,
    PathResult,
    SparseCodingResult,
    SparseCodingStream,
    SpikingCodingResult,
    SpikingSparseCoder,
    compare,
    lasso_network,
    path,
    reweighted,
    solve_active_set,
    solve_fista,
    solve_spiking,
)


def simulate_a_network() -> None:
    network = SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, 0.5], 1.0)
    assert_type(network.soma_bias, np.ndarray)
    assert_type(network.firing_threshold, np.ndarray)
    assert_type(network.weights.toarray(), np.ndarray)
    assert_type(network.with_soma_bias([0.5, 0.5]), SpikingNetwork)
    run = simulate(network, 5.0, record_spikes=True)
    assert_type(run, SimulationResult)
    assert_type(run.spike_rate, np.ndarray)
    assert_type(run.n_spikes, int)
    assert_type(run.spikes, SpikeTrain | None)
    if run.spikes is not None:
        assert_type(run.spikes.of(0), np.ndarray)
    on_clock = simulate(network, 5.0, Clock(0.25), state=run.state)
    assert_type(on_clock.spike_counts, np.ndarray)
    SpikingNetwork(DenseRows(np.eye(3), -1.0), np.ones(3))


def solve_a_problem() -> None:
    problem = LassoProblem([[1.0, 0.0], [0.6, 0.8]], [[1.0, 2.0]], 0.1)
    result = solve_spiking(problem, tol=1e-4)
    assert_type(result, SpikingCodingResult)
    assert_type(result.codes, np.ndarray)
    assert_type(result.duality_gap, np.ndarray)
    assert_type(result.spike_counts, np.ndarray)
    assert_type(result.converged, bool)
    assert_type(solve_active_set(problem, start=result), SparseCodingResult)
    assert_type(solve_fista(problem, start=[[0.0, 1.0]]), SparseCodingResult)
    assert_type(lasso_network(problem), SpikingNetwork)
    along = path(problem, n_multiples=3)
    assert_type(along, PathResult)
    assert_type(along.codes, np.ndarray)
    for record in compare(problem, ["fista", "active_set"]):
        print(record["method"], record["seconds"])
    for mask in ([True, False], np.array([True, True])):
        assert_type(problem.with_signals([[0.5, 0.5]], mask=mask), LassoProblem)
    assert_type(SparseCodingStream(np.eye(2), 0.1).code([1.0, 2.0]), SpikingCodingResult)


def use_an_estimator() -> None:
    coder = SpikingSparseCoder([[1.0, 0.0], [0.6, 0.8]], alpha=0.1)
    assert_type(coder.transform([[1.0, 2.0]]), np.ndarray)
    assert_type(coder.encode([[1.0, 2.0]]).codes, np.ndarray)
    model = LassoRegressor(0.1, positive=[True, False]).fit([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0])
    assert_type(model, LassoRegressor)
    assert_type(model.predict([[1.0, 2.0]]), np.ndarray)


def use_statistics() -> None:
    problem = LassoProblem.from_statistics(np.eye(2), [1.0, 2.0], None, 0.1, positive=True)
    assert_type(problem, LassoProblem)
    assert_type(path(problem).bic(), np.ndarray)
    assert_type(reweighted(problem).codes, np.ndarray)


def learn() -> None:
    signals = np.random.default_rng(0).random((20, 6))
    learner = learn_dictionary(signals, 4, penalty=0.1, n_samples=32, rng=0)
    assert_type(learner, TwoPhaseLearner)
    assert_type(learner.dictionary, np.ndarray)
    assert_type(LearningSettings(penalty=[0.1, 0.2]).penalties(2), np.ndarray)
