"""Nonsense to every public argument of `solvers`, and the sentence that comes back."""

# ruff: noqa: E501 - a case a line reads better

import re

import numpy as np
import pytest
from scipy import sparse

from snn import Imperfections
from solvers import (
    METHODS,
    Comparison,
    LassoProblem,
    PreparedLasso,
    SparseCodingStream,
    SpikingSparseCoder,
    compare,
    comparison_table,
    duality_gap,
    held_out_score,
    kkt_violation,
    lasso_network,
    objective,
    penalty_max,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_digital,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from solvers.certificate.optimality import measure

NAN, INF = float("nan"), float("inf")
DICTIONARY, SIGNALS = np.eye(2), np.array([[3.0, 0.5], [0.2, -1.0]])
PROBLEM = LassoProblem(DICTIONARY, SIGNALS, 0.1)
POSITIVE = LassoProblem(DICTIONARY, SIGNALS, 0.1, positive=True)
ZERO = np.zeros((2, 2))
RECORD = {
    "method": "fista",
    "n_signals": 1,
    "n_converged": 1,
    "objective": 1.0,
    "mean_objective": 1.0,
    "largest_relative_gap": 1e-3,
    "mean_support": 1.0,
    "n_steps": 1,
    "synaptic_operations": None,
    "multiply_adds": 10,
    "bound": "",
    "seconds": 1.0,
}


def problem(dictionary=DICTIONARY, signals=SIGNALS, penalty=0.1, **options):
    return LassoProblem(dictionary, signals, penalty, **options)


NAMES = ", ".join(map(repr, METHODS))
CASES = [
    # -- the problem --
    (lambda: problem([1.0, 2.0]), ValueError, "dictionary must be 2-D, (n_atoms, n_features); got shape (2,)"),
    (lambda: problem(None), TypeError, "dictionary must be an array of real numbers; got dtype object"),
    (lambda: problem(np.eye(2) + 0j), TypeError, "dictionary must be an array of real numbers; got dtype complex128"),
    (lambda: problem([["a", "b"]]), TypeError, "dictionary must be an array of real numbers; got dtype <U1"),
    (lambda: problem([[1.0], [1.0, 2.0]]), TypeError, "dictionary must be an array of real numbers; got list"),
    (lambda: problem(sparse.csr_array(np.eye(2) + 0j)), TypeError, "dictionary must hold real numbers; got dtype complex128"),
    (lambda: problem(np.zeros((0, 2))), ValueError, "dictionary must not be empty; got shape (0, 2)"),
    (lambda: problem([[1.0, NAN]]), ValueError, "dictionary must be finite; got nan at [0, 1]"),
    (lambda: problem([[0.0, 0.0], [0.0, 0.0]]), ValueError, "dictionary must have an atom of positive norm; got zeros only"),
    (lambda: problem([[1e200, 0.0]]), ValueError, "dictionary must have rows of squared norm between 1e-292 and 2e+308; got inf for atom 0: rescale"),
    (lambda: problem([[1.0, 0.0], [1e-150, 0.0]]), ValueError, "dictionary must have rows of squared norm between 1e-292 and 2e+308; got 1e-300 for atom 1: rescale"),
    (lambda: problem(signals=SIGNALS[0]), ValueError, "signals must be 2-D, (n_signals, n_features); for one signal pass signal[np.newaxis]; got shape (2,)"),
    (lambda: LassoProblem(np.ones((2, 5)), np.ones((5, 1)), 0.1), ValueError, "dictionary has 5 features but signals have 1; signals are rows: pass signals.T"),
    (lambda: LassoProblem(np.ones((5, 2)), np.ones(5), 0.1), ValueError, "signals must be 2-D, (n_signals, n_features); for one signal pass signal[np.newaxis]; atoms are rows: for a regression pass X.T; got shape (5,)"),
    (lambda: LassoProblem(np.ones((5, 2)), np.ones((1, 5)), 0.1), ValueError, "dictionary has 2 features but signals have 5; atoms are rows: for a regression pass X.T"),
    (lambda: problem(signals=np.ones((3, 4))), ValueError, "dictionary has 2 features but signals have 4"),
    (lambda: problem(signals=[[1.0, -INF]]), ValueError, "signals must be finite; got -inf at [0, 1]: for features that are missing, pass mask="),
    (lambda: problem(signals=[[0.0, 0.0], [1e-150, 0.0]]), ValueError, "signals must have rows of squared norm between 1e-292 and 2e+308; got 1e-300 for signal 1: rescale"),
    (lambda: problem(signals="noise"), TypeError, "signals must be an array of real numbers; got dtype <U5"),
    (lambda: problem(penalty=-1e-300), ValueError, "penalty must not be negative; got -1e-300"),
    (lambda: problem(penalty=-1), ValueError, "penalty must not be negative; got -1.0"),
    # -- masks, weights, sparse signals --
    (lambda: problem(mask=[1, 0]), TypeError, "mask must be an array of bools, True where a feature is known; got dtype int64"),
    (lambda: problem(mask=[[True], [True, False]]), TypeError, "mask must be an array of bools; got list"),
    (lambda: problem(mask=[True, False, True]), ValueError, "mask must have shape (2,), one for all signals, or (2, 2), a row for each signal; got shape (3,)"),
    (lambda: problem(mask=sparse.csr_array(np.eye(2, dtype=bool))), TypeError, "mask must be a dense array of bools; got a csr_array"),
    (lambda: problem(mask=[True, False], feature_weights=[1.0, 0.0]), ValueError, "mask must be None with feature_weights; got both: pass weights of 0 where a feature is missing"),
    (lambda: problem(signals=[[NAN, 1.0]], mask=[True, False]), ValueError, "signals must be finite; got nan at [0, 0] where it counts: mask is False, or the weight 0, where a " "feature is missing"),
    (lambda: problem(signals=[[NAN, 1.0]], feature_weights=[1.0, 0.0]), ValueError, "signals must be finite; got nan at [0, 0] where it counts: mask is False, or the weight 0, where a " "feature is missing"),
    (lambda: problem(feature_weights=[True, False]), TypeError, "feature_weights must be an array of real numbers; got dtype bool: pass it as mask"),
    (lambda: problem(feature_weights=[1.0, -1.0]), ValueError, "feature_weights must be 0, or from 1e-60 to 1e+60; got -1.0 at [1]"),
    (lambda: problem(feature_weights=[1.0, NAN]), ValueError, "feature_weights must be 0, or from 1e-60 to 1e+60; got nan at [1]"),
    (lambda: problem(dictionary=1e130 * np.eye(2), feature_weights=[1.0, 1e60]), ValueError, "feature_weights must leave the squared norm of each atom, the sum of w_j d_ij^2, in the range of " "floats; got inf for atom 1: divide them, or the dictionary"),
    (
        lambda: problem(dictionary=1e130 * np.eye(2), feature_weights=[[1.0, 1.0], [1e60, 1.0]]),
        ValueError,
        "feature_weights must leave the squared norm of each atom, the sum of w_j d_ij^2, in the range of "
        "floats; got inf for atom 0: divide them, or the dictionary",
    ),
    (lambda: PreparedLasso(1e130 * np.eye(2), 1.0, feature_weights=[1.0, 1e60]), ValueError, "feature_weights must leave the squared norm of each atom, the sum of w_j d_ij^2, in the range of " "floats; got inf for atom 1: divide them, or the dictionary"),
    (
        lambda: problem(signals=[[1.0, 1.0], [1.0, 1e120]], feature_weights=[1.0, 1e60]),
        ValueError,
        "feature_weights must leave the squared norm of each signal times its weights, the sum of (w_j s_j)^2, "
        "in the range of floats; got inf for signal 1: divide them, or the signals",
    ),
    (
        lambda: problem(signals=[[1.0, 1.0], [1.0, 1e140]], feature_weights=[1.0, 1e60]),
        ValueError,
        "feature_weights must leave the squared norm of each signal times its weights, the sum of (w_j s_j)^2, "
        "in the range of floats; got inf for signal 1: divide them, or the signals",
    ),
    (lambda: problem(feature_weights=2.0), ValueError, "feature_weights must have shape (2,), one for all signals, or (2, 2), a row for each signal; got " "shape ()"),
    (lambda: problem(signals=np.ma.masked_invalid([[NAN, 1.0]])), TypeError, "signals must not be a masked array; pass its data, and mask=~numpy.ma.getmaskarray(signals): True is " "a feature that is known"),
    (lambda: problem(signals=sparse.csr_array(np.eye(2)), mask=[True, False]), TypeError, "signals must be a dense array with mask or feature_weights; got a csr_array: what it does not store " "is zero, not missing; pass signals.toarray()"),
    (lambda: problem(signals=sparse.csc_matrix(np.eye(2))), TypeError, "signals must be an array, or compressed rows (CSR); got a csc_matrix: pass signals.tocsr()"),
    (lambda: problem(signals=sparse.csr_array(np.eye(2) + 0j)), TypeError, "signals must hold real numbers; got dtype complex128"),
    (lambda: problem(signals=sparse.csr_array(np.array([[0.0, 1.0], [0.0, NAN]]))), ValueError, "signals must be finite; got nan at [1, 1]: for features that are missing, pass a dense array and mask="),
    (lambda: problem(signals=sparse.csr_array((0, 2))), ValueError, "signals must not be empty; got shape (0, 2)"),
    (lambda: problem(signals=sparse.csr_array((1, 3))), ValueError, "dictionary has 2 features but signals have 3"),
    (lambda: PreparedLasso(DICTIONARY, 0.1, mask=[[True, False]]), ValueError, "mask must have shape (2,), one for all signals; got shape (1, 2)"),
    (lambda: SparseCodingStream(DICTIONARY, 0.1).code([1.0, NAN], mask=[True, True]), ValueError, "frame must be finite; got nan at [1] where mask is True"),
    (lambda: SparseCodingStream(DICTIONARY, 0.1).code([1.0, 1.0], mask=[[True, True]]), ValueError, "mask must have shape (2,), one for all signals; got shape (1, 2)"),
    (lambda: problem(penalty=NAN), ValueError, "penalty must be finite; got nan"),
    (lambda: problem(penalty=[0.1, -0.1]), ValueError, "penalty must not be negative; got -0.1 at [1]"),
    (lambda: problem(penalty=[0.1, 0.1, 0.1]), ValueError, "penalty must have shape (2,), one penalty an atom; got shape (3,)"),
    (lambda: problem(penalty=True), TypeError, "penalty must be a real number; got bool"),
    (lambda: problem(penalty="l1"), TypeError, "penalty must be an array of real numbers; got dtype <U2"),
    (lambda: problem(positive=1), TypeError, "positive must be True or False; got 1"),
    (lambda: problem(gram=np.eye(3)), ValueError, "gram must have shape (2, 2), (n_atoms, n_atoms); got shape (3, 3)"),
    (lambda: problem(gram=2 * np.eye(2)), ValueError, "gram must be dictionary @ dictionary.T; got a matrix that differs by about 1 of it"),
    # -- certificates --
    (lambda: measure("problem", ZERO), TypeError, "problem must be a LassoProblem; got str"),
    (lambda: objective(DICTIONARY, ZERO), TypeError, "problem must be a LassoProblem; got ndarray"),
    (lambda: objective(PROBLEM, np.zeros((2, 3))), ValueError, "codes must have shape (2, 2), (n_signals, n_atoms); got shape (2, 3)"),
    (lambda: duality_gap(PROBLEM, [[0.0, NAN], [0.0, 0.0]]), ValueError, "codes must be finite; got nan at [0, 1]"),
    (lambda: duality_gap(None, ZERO), TypeError, "problem must be a LassoProblem; got NoneType"),
    (lambda: kkt_violation(POSITIVE, [[0.0, -0.5], [0.0, 0.0]]), ValueError, "codes must not be negative for a positive problem; got -0.5"),
    (lambda: kkt_violation(PROBLEM, sparse.coo_array(np.zeros((2, 2), dtype=int))), TypeError, "codes must hold float64 numbers where they are sparse; got int64"),
    (lambda: penalty_max([[0.0, 0.0]], SIGNALS), ValueError, "dictionary must have an atom of positive norm; got zeros only"),
    (lambda: penalty_max(DICTIONARY, np.ones((1, 3))), ValueError, "dictionary has 2 features but signals have 3"),
    (lambda: penalty_max(DICTIONARY, SIGNALS, positive="yes"), TypeError, "positive must be True or False; got 'yes'"),
    # -- what only some solvers take --
    (lambda: solve_fista(PROBLEM, max_iter=0), ValueError, "max_iter must be positive; got 0"),
    (lambda: solve_fista(PROBLEM, max_iter=10.0), TypeError, "max_iter must be an integer; got float"),
    (lambda: solve_coordinate_descent(PROBLEM, max_iter=-1), ValueError, "max_iter must be positive; got -1"),
    (lambda: solve_lars(PROBLEM, max_iter=True), TypeError, "max_iter must be an integer; got bool"),
    (lambda: solve_analog(PROBLEM, max_duration=0.0), ValueError, "max_duration must be positive; got 0.0"),
    (lambda: solve_analog(PROBLEM, max_duration="long"), TypeError, "max_duration must be a real number; got str"),
    (lambda: solve_spiking(PROBLEM, max_duration=-1.0), ValueError, "max_duration must be positive; got -1.0"),
    (lambda: solve_spiking(PROBLEM, max_duration=INF), ValueError, "max_duration must be finite; got inf"),
    (lambda: solve_spiking(PROBLEM, readout="mean"), ValueError, "readout must be one of 'smooth', 'rate', 'current'; got 'mean'"),
    (lambda: solve_spiking(PROBLEM, readout=None), TypeError, "readout must be one of 'smooth', 'rate', 'current'; got NoneType"),
    (lambda: solve_spiking(PROBLEM, time_step=0.0), ValueError, "time_step must be positive; got 0.0"),
    (lambda: solve_spiking(PROBLEM, time_step="1/4"), TypeError, "time_step must be a real number; got str"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, readout="rate"), ValueError, "time_step must come with readout='smooth' and polish=False; got 'rate' and False"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, polish=True), ValueError, "time_step must come with readout='smooth' and polish=False; got 'smooth' and True"),
    (lambda: solve_spiking(PROBLEM, polish="yes"), TypeError, "polish must be True or False; got 'yes'"),
    (lambda: solve_spiking(PROBLEM, imperfections=Imperfections()), ValueError, "imperfections must come with a time_step: exact runs have perfect neurons; got None"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, imperfections={}), TypeError, "imperfections must be an Imperfections; got dict"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, imperfections=Imperfections(delays=[1.0, 2.0])), ValueError, "delays must be one number, one for each of 4 neurons, or one for each synapse, (4, 4); got shape (2,)"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, readout="rate", imperfections=Imperfections()), ValueError, "time_step must come with readout='smooth' and polish=False; got 'rate' and False"),
    (lambda: solve_digital(PROBLEM, imperfections=0.5), TypeError, "imperfections must be an Imperfections; got float"),
    # -- the active-set solver --
    (lambda: solve_active_set(PROBLEM, max_rounds=0), ValueError, "max_rounds must be positive; got 0"),
    (lambda: solve_active_set(PROBLEM, max_rounds=1.5), TypeError, "max_rounds must be an integer; got float"),
    (lambda: solve_active_set(PROBLEM, start=np.ones(3)), ValueError, "start must have shape (2, 2), (n_signals, n_atoms); got shape (3,)"),
    (lambda: solve_active_set(PROBLEM, start=[[0.0, INF], [0.0, 0.0]]), ValueError, "start must be finite; got inf at [0, 1]"),
    (lambda: solve_active_set(POSITIVE, start=[[0.0, -1.0], [0.0, 0.0]]), ValueError, "start must not be negative for a positive problem; got -1.0"),
    (lambda: solve_active_set(PROBLEM, start=sparse.csr_array((2, 3))), ValueError, "start must have shape (2, 2), (n_signals, n_atoms); got shape (2, 3)"),
    (lambda: solve_active_set(PROBLEM, start=sparse.coo_array((2, 2))), TypeError, "start must be an array, a csr_array or a result; got a coo_array: pass csr_array(start)"),
    (lambda: solve_active_set(PROBLEM, start=solve_fista(problem(signals=SIGNALS[:1]))), ValueError, "start must have shape (2, 2), (n_signals, n_atoms); got shape (1, 2)"),
    (lambda: solve_active_set(PROBLEM, start="nothing"), TypeError, "start must be an array of real numbers; got dtype <U7"),
    (lambda: lasso_network(DICTIONARY), TypeError, "problem must be a LassoProblem; got ndarray"),
    (lambda: lasso_network(PROBLEM, 2), ValueError, "signal must lie in [0, 2); got 2"),
    (lambda: lasso_network(PROBLEM, 0.5), TypeError, "signal must be an integer; got float"),
    # -- the estimator, whose parameters are checked when they are used --
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=-0.5).fit(SIGNALS), ValueError, "alpha must not be negative; got -0.5"),
    (lambda: SpikingSparseCoder([1.0, 2.0], alpha=0.1).fit(SIGNALS), ValueError, "dictionary must be 2-D, (n_atoms, n_features); got shape (2,)"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1, positive="no").fit(SIGNALS), TypeError, "positive must be True or False; got 'no'"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1).fit(np.ones((1, 3))), ValueError, "Dictionary and X have different numbers of features: dictionary.shape is (2, 2), X.shape is (1, 3)"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1).fit(np.ma.masked_equal(SIGNALS, SIGNALS[0, 0])), TypeError, "X must not have masked entries; if they are missing, pass X.filled(np.nan) to an estimator with missing_values=np.nan"),
    (lambda: held_out_score(LassoProblem(DICTIONARY, SIGNALS, 0.1), n_folds=0), ValueError, "n_folds must be positive; got 0"),
    (lambda: held_out_score(LassoProblem(DICTIONARY, SIGNALS, 0.1), fold_of=[0.0, 1.0]), TypeError, "fold_of must be an array of integers; got dtype float64"),
    (lambda: held_out_score(LassoProblem(DICTIONARY, SIGNALS, 0.1), fold_of=[0, 1, 0]), ValueError, "fold_of must have shape (2,), one fold a feature; got (3,)"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1, tol=0.0).fit_transform(SIGNALS), ValueError, "tol must be positive; got 0.0"),
    (
        lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1, method="x").fit_transform(SIGNALS),
        ValueError,
        f"method must be one of {NAMES}; got 'x'",
    ),
    # -- comparisons --
    (lambda: compare("problem", ["fista"]), TypeError, "problem must be a LassoProblem; got str"),
    (lambda: compare(PROBLEM, ["fista"], tol=-1.0), ValueError, "tol must be positive; got -1.0"),
    (
        lambda: compare(PROBLEM, ["newton"]),
        ValueError,
        f"methods must be one of {NAMES}; got 'newton'",
    ),
    (
        lambda: compare(PROBLEM, [solve_fista]),
        TypeError,
        f"methods must be one of {NAMES}; got function",
    ),
    (lambda: compare(PROBLEM, "fista"), TypeError, "methods must be a sequence of names or a mapping to callables; got str"),
    (lambda: compare(PROBLEM, ["fista", "fista"]), ValueError, "methods must not repeat a name; got ['fista', 'fista']"),
    (lambda: compare(PROBLEM, []), ValueError, "methods must not be empty"),
    (lambda: compare(PROBLEM, {"mine": 3}), TypeError, "methods must map labels to callables; got int"),
    (lambda: compare(PROBLEM, {3: solve_fista}), TypeError, "a label of methods must be a str; got int"),
    (lambda: compare(PROBLEM, {"mine": lambda problem, tol: ZERO}), TypeError, "result of method 'mine' must be a SparseCodingResult; got ndarray"),
    (lambda: comparison_table(RECORD), TypeError, "records must be a sequence of dicts; got dict"),
    (lambda: comparison_table([]), ValueError, "records must not be empty"),
    (lambda: comparison_table(["fista"]), TypeError, "records[0] must be a dict; got str"),
    (lambda: comparison_table([{"method": "fista"}]), ValueError, "records must have the key 'n_signals'; got ['method']"),
    (lambda: Comparison([RECORD]).plot(ax="here"), TypeError, "ax must be an Axes; got str"),
]  # fmt: skip

# What every solver takes.
for solve in (*METHODS.values(), solve_spiking, solve_digital, solve_active_set):
    CASES += [
        (lambda solve=solve: solve(DICTIONARY), TypeError, "problem must be a LassoProblem; got ndarray"),
        (lambda solve=solve: solve(PROBLEM, tol=0.0), ValueError, "tol must be positive; got 0.0"),
        (lambda solve=solve: solve(PROBLEM, tol=NAN), ValueError, "tol must be finite; got nan"),
        (lambda solve=solve: solve(PROBLEM, tol="fine"), TypeError, "tol must be a real number; got str"),
        (lambda solve=solve: solve(PROBLEM, progress=2), TypeError, "progress must be True or False; got 2"),
        (lambda solve=solve: solve(PROBLEM, n_jobs=0), ValueError, "n_jobs must not be 0; -1 is one worker for each processor"),
        (lambda solve=solve: solve(PROBLEM, n_jobs=1.5), TypeError, "n_jobs must be an integer; got float"),
    ]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "sentence"), CASES, ids=[sentence for _, _, sentence in CASES])
def test_nonsense_is_refused_in_a_sentence(call, error, sentence):
    with pytest.raises(error, match=f"^{re.escape(sentence)}$"):
        call()
