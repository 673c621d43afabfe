"""What is refused: the type of the error, and the argument that it names."""

import numpy as np
import pytest
from scipy import sparse

from snn import Imperfections
from solvers import (
    METHODS,
    Comparison,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    PreparedLasso,
    SparseCodingStream,
    SpikingSparseCoder,
    certify,
    compare,
    comparison_table,
    duality_gap,
    held_out_score,
    kkt_violation,
    lasso_network,
    memory_limit,
    objective,
    path,
    penalty_max,
    solve,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_digital,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.optimality import measure

NAN, INF = float("nan"), float("inf")
DICTIONARY, SIGNALS = np.eye(2), np.array([[3.0, 0.5], [0.2, -1.0]])
PROBLEM = LassoProblem(DICTIONARY, SIGNALS, 0.1)
POSITIVE = LassoProblem(DICTIONARY, SIGNALS, 0.1, positive=True)
FOUR = LassoProblem(np.eye(3), np.ones((4, 3)), 0.1)
ZERO = np.zeros((2, 2))
KERNELS = ConvolutionalDictionary(np.ones((1, 2, 2)), (4, 4), 2)
TINY = ConvolutionalDictionary(np.full((1, 2, 2), 1e-200), (5, 5), 1)
IMAGES = LassoProblem(KERNELS, np.ones((1, 16)), 0.1)
LONG = 1e130 * np.eye(2)


def problem(dictionary=DICTIONARY, signals=SIGNALS, penalty=0.1, **options):
    return LassoProblem(dictionary, signals, penalty, **options)


def malformed_rows():
    rows = sparse.csr_array(np.eye(2))
    rows.indices[1] = 7
    return rows


def without_room(call):
    with memory_limit(1):
        return call(problem())


def dependent(**options):
    rng = np.random.default_rng(0)
    return solve_active_set(LassoProblem(rng.random((12, 8)), rng.random((3, 8)), 0.0, **options))


def kernels(values, image_shape=(5, 5), stride=1):
    return ConvolutionalDictionary(values, image_shape, stride)


FORMS = [
    (lambda: problem([1.0, 2.0]), ValueError, "dictionary"),
    (lambda: problem(None), TypeError, "dictionary"),
    (lambda: problem(np.eye(2) + 0j), TypeError, "dictionary"),
    (lambda: problem([["a", "b"]]), TypeError, "dictionary"),
    (lambda: problem([[1.0], [1.0, 2.0]]), TypeError, "dictionary"),
    (lambda: problem(np.zeros((0, 2))), ValueError, "dictionary"),
    (lambda: problem([[1.0, NAN]]), ValueError, r"dictionary .*nan at \[0, 1\]"),
    (lambda: problem(ZERO), ValueError, "dictionary"),
    (lambda: problem([[1e200, 0.0]]), ValueError, "dictionary .*atom 0"),
    (lambda: problem([[1.0, 0.0], [1e-150, 0.0]]), ValueError, "dictionary .*atom 1"),
    (lambda: problem(sparse.csr_array(np.eye(2) + 0j)), TypeError, "dictionary"),
    (lambda: problem(sparse.csr_array([[1.0, NAN]])), ValueError, "dictionary"),
    (lambda: problem(sparse.csr_array((2, 2))), ValueError, "dictionary"),
    (lambda: problem(sparse.csr_array((0, 2))), ValueError, "dictionary"),
    (lambda: problem(sparse.csr_array([[1e200, 0.0]])), ValueError, "dictionary"),
    (lambda: problem(signals=SIGNALS[0]), ValueError, r"signals .*signal\[np.newaxis\]"),
    (lambda: problem(np.ones((2, 5)), np.ones((5, 1))), ValueError, r"signals .*signals\.T"),
    (lambda: problem(np.ones((5, 2)), np.ones(5)), ValueError, r"signals .*X\.T"),
    (lambda: problem(np.ones((5, 2)), np.ones((1, 5))), ValueError, r"signals .*X\.T"),
    (lambda: problem(signals=np.ones((3, 4))), ValueError, "signals"),
    (lambda: problem(signals=[[1.0, -INF]]), ValueError, "signals .*mask"),
    (lambda: problem(signals=[[0.0, 0.0], [1e-150, 0.0]]), ValueError, "signals .*signal 1"),
    (lambda: problem(signals=[[1e160, 0.0]]), ValueError, "signals .*signal 0"),
    (lambda: problem(signals="noise"), TypeError, "signals"),
    (lambda: problem(signals=np.ma.masked_invalid([[NAN, 1.0]])), TypeError, "signals .*mask"),
    (lambda: problem(signals=sparse.csr_array(np.eye(2)), mask=[True, False]), TypeError, "signals"),
    (lambda: problem(signals=sparse.csc_matrix(np.eye(2))), TypeError, r"signals .*tocsr\(\)"),
    (lambda: problem(signals=sparse.csr_array(np.eye(2) + 0j)), TypeError, "signals"),
    (lambda: problem(signals=sparse.csr_array([[0.0, 1.0], [0.0, NAN]])), ValueError, r"signals .*\[1, 1\]"),
    (lambda: problem(signals=sparse.csr_array((0, 2))), ValueError, "signals"),
    (lambda: problem(signals=sparse.csr_array((1, 3))), ValueError, "signals"),
    (lambda: problem(signals=malformed_rows()), ValueError, "signals"),
    (lambda: problem(signals=sparse.csr_array([[1.0, 0.0], [0.0, 1e-150]])), ValueError, "signals .*1"),
    (lambda: LassoProblem(KERNELS, sparse.csr_array((1, 16)), 0.1), TypeError, r"signals .*toarray"),
    (lambda: LassoProblem(KERNELS, np.ones((1, 15)), 0.1), ValueError, "signals"),
    (lambda: problem(penalty=-1e-300), ValueError, "penalty"),
    (lambda: problem(penalty=NAN), ValueError, "penalty"),
    (lambda: problem(penalty=[0.1, -0.1]), ValueError, r"penalty .*\[1\]"),
    (lambda: problem(penalty=[0.1] * 3), ValueError, "penalty"),
    (lambda: problem(penalty=True), TypeError, "penalty"),
    (lambda: problem(penalty="l1"), TypeError, "penalty"),
    (lambda: problem(penalty=ElasticNet([1.0] * 3, 1.0)), ValueError, "l1"),
    (lambda: problem(penalty=ElasticNet(1.0, [1.0])), ValueError, "l2"),
    (lambda: problem(penalty=ElasticNet(1.0, [1.0, 1e-16])), ValueError, "l2 .*atom 1"),
    (lambda: ElasticNet(-1.0, 1.0), ValueError, "l1"),
    (lambda: ElasticNet(True, 1.0), TypeError, "l1"),
    (lambda: ElasticNet([1.0, NAN], 1.0), ValueError, r"l1 .*\[1\]"),
    (lambda: ElasticNet([], 1.0), ValueError, "l1"),
    (lambda: ElasticNet(np.ones((2, 2)), 1.0), ValueError, "l1"),
    (lambda: ElasticNet(1.0, -0.5), ValueError, "l2"),
    (lambda: ElasticNet(1.0, [0.0, -1.0]), ValueError, r"l2 .*\[1\]"),
    (lambda: ElasticNet(1.0, INF), ValueError, "l2"),
    (lambda: ElasticNet(1.0, 1j), TypeError, "l2"),
    (lambda: ElasticNet(1.0, False), TypeError, "l2"),
    (lambda: problem(positive=1), TypeError, "positive"),
    (lambda: problem(gram=np.eye(3)), ValueError, "gram"),
    (lambda: problem(gram=2 * np.eye(2)), ValueError, "gram"),
    (lambda: problem(sparse.eye_array(2), gram=2 * np.eye(2)), ValueError, "gram"),
    (lambda: LassoProblem(KERNELS, np.ones((1, 16)), 0.1, gram=np.eye(4)), TypeError, "gram"),
    (lambda: problem(mask=[1, 0]), TypeError, "mask"),
    (lambda: problem(mask=[[True], [True, False]]), TypeError, "mask"),
    (lambda: problem(mask=[True] * 3), ValueError, "mask"),
    (lambda: problem(mask=sparse.csr_array(np.eye(2, dtype=bool))), TypeError, "mask"),
    (lambda: problem(mask=[True, False], feature_weights=[1.0, 0.0]), ValueError, "mask"),
    (lambda: problem(signals=[[NAN, 1.0]], mask=[True, False]), ValueError, r"signals .*\[0, 0\]"),
    (lambda: problem(signals=[[NAN, 1.0]], feature_weights=[1.0, 0.0]), ValueError, "signals"),
    (lambda: problem(feature_weights=[True, False]), TypeError, "feature_weights .*mask"),
    (lambda: problem(feature_weights=[1.0, -1.0]), ValueError, r"feature_weights .*\[1\]"),
    (lambda: problem(feature_weights=[1.0, NAN]), ValueError, "feature_weights"),
    (lambda: problem(feature_weights=[1.0, 1e61]), ValueError, "feature_weights"),
    (lambda: problem(feature_weights=2.0), ValueError, "feature_weights"),
    (lambda: problem(LONG, feature_weights=[1.0, 1e60]), ValueError, "feature_weights .*atom 1"),
    (lambda: problem(LONG, feature_weights=[[1.0, 1.0], [1e60, 1.0]]), ValueError, "weights .*atom 0"),
    (lambda: PreparedLasso(LONG, 1.0, feature_weights=[1.0, 1e60]), ValueError, "feature_weights"),
    (lambda: problem(signals=[[1.0, 1e120]], feature_weights=[1.0, 1e60]), ValueError, "weights .*signal 0"),
    (lambda: PreparedLasso(DICTIONARY, 0.1, mask=[[True, False]]), ValueError, "mask"),
    (lambda: PreparedLasso(DICTIONARY, -1.0), ValueError, "penalty"),
    (lambda: PreparedLasso([[INF, 1.0]], 0.1), ValueError, "dictionary"),
    (lambda: PreparedLasso(DICTIONARY, 0.1, gram=ZERO), ValueError, "gram"),
    (lambda: PreparedLasso(DICTIONARY, 0.1).with_signals("text"), TypeError, "signals"),
    (lambda: PreparedLasso(DICTIONARY, 0.1).with_signals(np.ones(2)), ValueError, "signals"),
    (lambda: PreparedLasso(DICTIONARY, 0.1).with_signals(np.ones((1, 3))), ValueError, "signals"),
    (lambda: PreparedLasso(DICTIONARY, 0.1).with_signals([[NAN, 0.0]]), ValueError, "signals"),
    (lambda: PreparedLasso(DICTIONARY, 0.1).with_signals([[1e200, 0.0]]), ValueError, "signals"),
    (lambda: PreparedLasso(DICTIONARY, 0.1).with_signals([[1e-200, 0.0]]), ValueError, "signals"),
    (lambda: kernels(np.ones((3, 3))), ValueError, "kernels"),
    (lambda: kernels(["a"]), TypeError, "kernels"),
    (lambda: kernels(np.full((1, 2, 2), NAN)), ValueError, "kernels"),
    (lambda: kernels(np.zeros((1, 2, 2))), ValueError, "kernels"),
    (lambda: kernels(np.ones((1, 6, 2))), ValueError, "6 rows"),
    (lambda: kernels(np.ones((1, 2, 6))), ValueError, "6 columns"),
    (lambda: kernels(np.ones((1, 2, 2)), (5, 6), 2), ValueError, "stride .*rows"),
    (lambda: kernels(np.ones((1, 2, 2)), (6, 5), 2), ValueError, "stride .*columns"),
    (lambda: kernels(np.ones((1, 2, 2)), stride=0), ValueError, "stride"),
    (lambda: kernels(np.ones((1, 2, 2)), stride=1.0), TypeError, "stride"),
    (lambda: kernels(np.ones((1, 2, 2)), 5.0), TypeError, "image_shape"),
    (lambda: kernels(np.ones((1, 2, 2, 2)), 5), ValueError, "kernels"),
    (lambda: kernels(np.ones((1, 2, 2)), (5, 5, 3)), ValueError, "image_shape"),
    (lambda: kernels(np.ones((1, 2, 2)), (5, 5.0)), TypeError, "image_shape"),
    (
        lambda: LassoProblem(kernels(np.full((1, 2, 2), 1e-200)), np.ones((1, 25)), 1.0),
        ValueError,
        "kernel 0",
    ),
    (lambda: LassoProblem(KERNELS, np.ones((1, 16)), 0.0), ValueError, "penalty"),
]
PARTS = [
    (lambda: FOUR.subset([0, 4]), ValueError, "which .*4"),
    (lambda: FOUR.subset([-5]), ValueError, "which .*-5"),
    (lambda: FOUR.subset([0.5]), TypeError, "which"),
    (lambda: FOUR.subset("first"), TypeError, "which"),
    (lambda: FOUR.subset([[0, 1]]), ValueError, "which"),
    (lambda: FOUR.subset(1), ValueError, "which"),
    (lambda: FOUR.subset(slice(0, 0)), ValueError, "which"),
    (lambda: FOUR.subset(np.array([], dtype=int)), ValueError, "which"),
    (lambda: FOUR.subset([True, False]), ValueError, "which"),
    (lambda: FOUR.gram_rows([0, 3]), ValueError, "atoms"),
    (lambda: FOUR.gram_rows([-1]), ValueError, "atoms"),
    (lambda: FOUR.gram_rows([0.0]), TypeError, "atoms"),
    (lambda: FOUR.gram_rows([True, False, True]), TypeError, "atoms"),
    (lambda: FOUR.gram_rows(1), ValueError, "atoms"),
    (lambda: FOUR.correlate(np.ones(3)), ValueError, r"signals .*signal\[np.newaxis\]"),
    (lambda: FOUR.correlate(np.ones((1, 2))), ValueError, "signals"),
    (lambda: FOUR.reconstruct(np.ones((1, 2))), ValueError, "codes"),
    (lambda: FOUR.reconstruct(np.ones((1, 1, 3))), ValueError, "codes"),
    (lambda: IMAGES.gram, TypeError, "array of atoms"),
    (lambda: problem(mask=np.eye(2, dtype=bool)).gram, TypeError, "one mask"),
    (lambda: problem(mask=np.eye(2, dtype=bool)).gram_rows([0]), TypeError, "one mask"),
    (lambda: without_room(lambda given: given.gram), MemoryError, "Gram matrix of 2 atoms"),
    (lambda: measure("problem", ZERO), TypeError, "problem"),
    (lambda: objective(DICTIONARY, ZERO), TypeError, "problem"),
    (lambda: objective(PROBLEM, np.zeros((2, 3))), ValueError, "codes"),
    (lambda: duality_gap(PROBLEM, [[0.0, NAN], [0.0, 0.0]]), ValueError, r"codes .*\[0, 1\]"),
    (lambda: kkt_violation(POSITIVE, [[0.0, -0.5], [0.0, 0.0]]), ValueError, "codes"),
    (lambda: kkt_violation(PROBLEM, sparse.coo_array((2, 2), dtype=int)), TypeError, "codes"),
    (lambda: certify(PROBLEM, np.zeros((2, 3))), ValueError, "codes"),
    (lambda: certify(PROBLEM, sparse.csr_array((3, 2))), ValueError, "codes"),
    (lambda: penalty_max([[0.0, 0.0]], SIGNALS), ValueError, "dictionary"),
    (lambda: penalty_max(DICTIONARY, np.ones((1, 3))), ValueError, "signals"),
    (lambda: penalty_max(DICTIONARY, SIGNALS, positive="yes"), TypeError, "positive"),
    (lambda: lasso_network(DICTIONARY), TypeError, "problem"),
    (lambda: lasso_network(PROBLEM, 2), ValueError, "signal"),
    (lambda: lasso_network(PROBLEM, 0.5), TypeError, "signal"),
    (lambda: memory_limit(-1), ValueError, "bytes|limit"),
]
OF_SOLVERS = [
    (lambda: solve_fista(PROBLEM, max_iter=0), ValueError, "max_iter"),
    (lambda: solve_fista(PROBLEM, max_iter=10.0), TypeError, "max_iter"),
    (lambda: solve_coordinate_descent(PROBLEM, max_iter=-1), ValueError, "max_iter"),
    (lambda: solve_analog(PROBLEM, max_duration=0.0), ValueError, "max_duration"),
    (lambda: solve_analog(PROBLEM, max_duration="long"), TypeError, "max_duration"),
    (lambda: solve_spiking(PROBLEM, max_duration=-1.0), ValueError, "max_duration"),
    (lambda: solve_spiking(PROBLEM, max_duration=INF), ValueError, "max_duration"),
    (lambda: solve_spiking(PROBLEM, time_step=0.0), ValueError, "time_step"),
    (lambda: solve_spiking(PROBLEM, time_step="1/4"), TypeError, "time_step"),
    (lambda: solve_spiking(PROBLEM, imperfections=Imperfections()), ValueError, "imperfections"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, imperfections={}), TypeError, "imperfections"),
    (lambda: solve_spiking(PROBLEM, time_step=0.25, imperfections=Imperfections(delays=[1.0, 2.0])),
     ValueError, "delays"),
    (lambda: solve_digital(PROBLEM, imperfections=0.5), TypeError, "imperfections"),
    (lambda: solve_active_set(PROBLEM, max_rounds=0), ValueError, "max_rounds"),
    (lambda: solve_active_set(PROBLEM, max_rounds=1.5), TypeError, "max_rounds"),
    (lambda: dependent(), ValueError, "penalty .*independent"),
    (lambda: dependent(mask=np.arange(24).reshape(3, 8) != 20), ValueError, "penalty .*signal"),
    (lambda: path(problem(penalty=[1.0, 0.0])), ValueError, "multiples"),
    (lambda: SparseCodingStream(np.eye(3), [1.0, 0.0, 1.0]), ValueError, "penalty .*atom 1"),
    (lambda: SparseCodingStream(DICTIONARY, 0.1).code([1.0, NAN], mask=[True, True]), ValueError, "frame"),
    (lambda: SparseCodingStream(DICTIONARY, 0.1).code([1.0, 1.0], mask=[[True, True]]), ValueError, "mask"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=-0.5).fit(SIGNALS), ValueError, "alpha"),
    (lambda: SpikingSparseCoder(ZERO, alpha=0.5).fit(SIGNALS), ValueError, "dictionary"),
    (lambda: SpikingSparseCoder([1.0, 2.0], alpha=0.1).fit(SIGNALS), ValueError, "dictionary"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1, positive="no").fit(SIGNALS), TypeError, "positive"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1).fit(np.ones((1, 3))), ValueError, "X"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1).fit(np.ma.masked_equal(SIGNALS, 3.0)), TypeError, "X"),
    (lambda: SpikingSparseCoder(DICTIONARY, alpha=0.1, tol=0.0).fit_transform(SIGNALS), ValueError, "tol"),
    (lambda: path(PROBLEM, method="x"), ValueError, "method"),
    (lambda: held_out_score(PROBLEM, n_folds=0), ValueError, "n_folds"),
    (lambda: held_out_score(PROBLEM, fold_of=[0.0, 1.0]), TypeError, "fold_of"),
    (lambda: held_out_score(PROBLEM, fold_of=[0, 1, 0]), ValueError, "fold_of"),
    (lambda: compare("problem", ["fista"]), TypeError, "problem"),
    (lambda: compare(PROBLEM, ["fista"], tol=-1.0), ValueError, "tol"),
    (lambda: compare(PROBLEM, ["newton"]), ValueError, "methods"),
    (lambda: compare(PROBLEM, [solve_fista]), TypeError, "methods"),
    (lambda: compare(PROBLEM, "fista"), TypeError, "methods"),
    (lambda: compare(PROBLEM, ["fista", "fista"]), ValueError, "methods"),
    (lambda: compare(PROBLEM, []), ValueError, "methods"),
    (lambda: compare(PROBLEM, {"mine": 3}), TypeError, "methods"),
    (lambda: compare(PROBLEM, {3: solve_fista}), TypeError, "methods"),
    (lambda: compare(PROBLEM, {"mine": lambda problem, tol: ZERO}), TypeError, "'mine'"),
    (lambda: comparison_table({"method": "fista"}), TypeError, "records"),
    (lambda: comparison_table([]), ValueError, "records"),
    (lambda: comparison_table(["fista"]), TypeError, r"records\[0\]"),
    (lambda: comparison_table([{"method": "fista"}]), ValueError, "'n_signals'"),
    (lambda: Comparison(compare(PROBLEM, ["fista"])).plot(ax="here"), TypeError, "ax"),
    (lambda: solve(PROBLEM, "fista"), TypeError, "method"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "name"), FORMS + PARTS + OF_SOLVERS)
def test_it_is_refused_and_the_argument_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()


ARGUMENTS = [
    ({"tol": 0.0}, ValueError, "tol"),
    ({"tol": NAN}, ValueError, "tol"),
    ({"tol": "fine"}, TypeError, "tol"),
    ({"progress": 2}, TypeError, "progress"),
    ({"n_jobs": 0}, ValueError, "n_jobs"),
    ({"n_jobs": 1.5}, TypeError, "n_jobs"),
]
STARTS = [
    (np.ones(2), ValueError),
    (sparse.csr_array((2, 3)), ValueError),
    (sparse.coo_array((2, 2)), TypeError),
    (np.ones((2, 2)) * 1j, TypeError),
    (sparse.csr_array(np.ones((2, 2)) * 1j), TypeError),
    (np.full((2, 2), NAN), ValueError),
    (sparse.csr_array(np.full((2, 2), NAN)), ValueError),
    (-np.eye(2), ValueError),
    ("zero", TypeError),
    (solve_fista(problem(signals=SIGNALS[:1])), ValueError),
]


@pytest.mark.parametrize("method", [*METHODS.values(), solve_spiking, solve_digital], ids=str)
def test_what_every_solver_refuses(method):
    with pytest.raises(TypeError, match="problem"):
        method(DICTIONARY)
    for options, error, name in ARGUMENTS:
        with pytest.raises(error, match=name):
            method(PROBLEM, **options)
    if not hasattr(method, "takes"):
        return
    for start, error in STARTS if method.takes.start else [(ZERO, ValueError)]:
        with pytest.raises(error, match="start"):
            method(POSITIVE, start=start)


def one_atom_changed(dictionary):
    dictionary[500, 3] *= 1.001
    return dictionary @ dictionary.T


def with_a_sign(dictionary):
    dictionary[700] *= -1.0
    return dictionary @ dictionary.T


def with_nan(dictionary):
    return np.where(np.arange(len(dictionary)) == 600, NAN, dictionary @ dictionary.T)


WRONG_GRAMS = {
    "atoms in another order": lambda atoms: atoms[::-1] @ atoms[::-1].T,
    "one atom changed a little": one_atom_changed,
    "the sign of an atom": with_a_sign,
    "other units": lambda atoms: 4.0 * atoms @ atoms.T,
    "correlations": np.corrcoef,
    "upper triangle": lambda atoms: np.triu(atoms @ atoms.T),
    "not symmetric": lambda atoms: atoms @ atoms.T + 1e-3 * np.triu(np.ones((len(atoms),) * 2), 1),
    "single precision": lambda atoms: atoms.astype(np.float32) @ atoms.astype(np.float32).T,
    "of the features": lambda atoms: atoms.T @ atoms,
    "another diagonal": lambda atoms: atoms @ atoms.T + 1e-3 * np.eye(len(atoms)),
    "a column that is not finite": with_nan,
}


@pytest.mark.parametrize("wrong", WRONG_GRAMS.values(), ids=WRONG_GRAMS)
def test_a_wrong_gram_matrix_of_a_large_dictionary_is_refused(wrong):
    """Of more than 511 atoms, not every row is read."""
    atoms = np.random.default_rng(0).standard_normal((1100, 20))
    signals = np.ones((1, 20))
    assert LassoProblem(atoms, signals, 0.1, gram=atoms @ atoms.T).has_gram
    with pytest.raises(ValueError, match="gram"):
        LassoProblem(atoms, signals, 0.1, gram=wrong(atoms.copy()))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("atom", [0, 4, 17])
def test_a_wrong_entry_is_refused_whatever_the_norm_of_its_atom(atom, symmetric):
    atoms = np.random.default_rng(0).standard_normal((20, 8))
    atoms *= 10.0 ** np.random.default_rng(1).uniform(-8, 8, (20, 1))
    gram = atoms @ atoms.T
    assert LassoProblem(atoms, np.ones((1, 8)), 0.1, gram=gram).has_gram
    gram[atom, 3] *= 1.001
    if symmetric:
        gram[3, atom] = gram[atom, 3]
    with pytest.raises(ValueError, match="gram"):
        LassoProblem(atoms, np.ones((1, 8)), 0.1, gram=gram)
