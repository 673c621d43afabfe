"""Refusals: the type of the error, and the argument that it names."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from snn import Clock, Imperfections
from solvers import (
    METHODS,
    Comparison,
    ConvolutionalDictionary,
    ElasticNet,
    LassoModel,
    LassoProblem,
    SparseCodingStream,
    SpikingSparseCoder,
    certify,
    compare,
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
    solve_digital,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from solvers.methods import Analog, CoordinateDescent

NAN, INF = float("nan"), float("inf")
DICTIONARY, SIGNALS = np.eye(2), np.array([[3.0, 0.5], [0.2, -1.0]])
PROBLEM = LassoProblem(DICTIONARY, SIGNALS, 0.1)
POSITIVE = LassoProblem(DICTIONARY, SIGNALS, 0.1, positive=True)
FOUR = LassoProblem(np.eye(3), np.ones((4, 3)), 0.1)
ZERO = np.zeros((2, 2))
KERNELS = ConvolutionalDictionary(np.ones((1, 2, 2)), (4, 4), 2)
PREPARED = LassoModel(DICTIONARY, 0.1)
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


def kernels(kernels=(((1.0, 1.0), (1.0, 1.0)),), image_shape=(5, 5), stride=1):
    return ConvolutionalDictionary(kernels, image_shape, stride)


def coder(dictionary=DICTIONARY, alpha=0.1, X=SIGNALS, **options):
    return SpikingSparseCoder(dictionary, alpha=alpha, **options).fit_transform(X)


def net(l1=1.0, l2=1.0):
    return ElasticNet(l1, l2)


def wrong(error, name, *values, make=problem):
    """Return the cases in which one argument is wrong, each way of it."""
    return [(lambda value=value: make(**{name: value}), error, name) for value in values]


COMPLEX = sparse.csr_array(np.eye(2) + 0j)
FORMS = [
    *wrong(ValueError, "dictionary", [1.0, 2.0], np.zeros((0, 2)), ZERO),
    *wrong(ValueError, "dictionary", sparse.csr_array((2, 2)), sparse.csr_array((0, 2))),
    *wrong(ValueError, "dictionary", sparse.csr_array([[1.0, NAN]]), sparse.csr_array([[1e200, 0.0]])),
    *wrong(TypeError, "dictionary", None, np.eye(2) + 0j, [["a", "b"]], [[1.0], [1.0, 2.0]], COMPLEX),
    (lambda: problem([[1.0, NAN]]), ValueError, r"dictionary .*nan at \[0, 1\]"),
    (lambda: problem([[1e200, 0.0]]), ValueError, "dictionary .*atom 0"),
    (lambda: problem([[1.0, 0.0], [1e-150, 0.0]]), ValueError, "dictionary .*atom 1"),
    *wrong(ValueError, "signals", np.ones((3, 4)), malformed_rows()),
    *wrong(ValueError, "signals", sparse.csr_array((0, 2)), sparse.csr_array((1, 3))),
    *wrong(TypeError, "signals", "noise", COMPLEX, sparse.csc_array(ZERO)),
    (lambda: problem(signals=np.ma.masked_invalid([[NAN, 1.0]])), TypeError, "signals .*mask"),
    (lambda: problem(signals=SIGNALS[0]), ValueError, r"signals .*np.atleast_2d"),
    (lambda: problem(np.ones((2, 5)), np.ones((5, 1))), ValueError, r"signals .*signals\.T"),
    (lambda: problem(np.ones((5, 2)), np.ones(5)), ValueError, r"signals .*X\.T"),
    (lambda: problem(np.ones((5, 2)), np.ones((1, 5))), ValueError, r"signals .*X\.T"),
    (lambda: problem(signals=[[1.0, -INF]]), ValueError, "signals .*mask"),
    (lambda: problem(signals=[[0.0, 0.0], [1e-150, 0.0]]), ValueError, "signals .*signal 1"),
    (lambda: problem(signals=[[1e160, 0.0]]), ValueError, "signals .*signal 0"),
    (lambda: problem(signals=sparse.csr_array(np.eye(2)), mask=[True, False]), TypeError, "signals"),
    (lambda: problem(signals=sparse.csr_array([[0.0, 1.0], [0.0, NAN]])), ValueError, r"signals .*\[1, 1\]"),
    (lambda: problem(signals=sparse.csr_array([[1.0, 0.0], [0.0, 1e-150]])), ValueError, "signals .*1"),
    (lambda: LassoProblem(KERNELS, sparse.csr_array((1, 16)), 0.1), TypeError, r"signals .*toarray"),
    (lambda: LassoProblem(KERNELS, np.ones((1, 15)), 0.1), ValueError, "signals"),
    *wrong(ValueError, "penalty", -1e-300, NAN, [0.1] * 3),
    *wrong(TypeError, "penalty", True, "l1"),
    (lambda: problem(penalty=[0.1, -0.1]), ValueError, r"penalty .*\[1\]"),
    (lambda: problem(penalty=ElasticNet(np.ones((2, 2)))), ValueError, "l1"),
    (lambda: problem(penalty=ElasticNet(1.0, [1.0])), ValueError, "l2"),
    (lambda: problem(penalty=ElasticNet(1.0, [1.0, 1e-16])), ValueError, "l2 .*atom 1"),
    (lambda: LassoProblem(KERNELS, np.ones((1, 16)), 0.0), ValueError, "penalty"),
    *wrong(ValueError, "l1", -1.0, [1.0, NAN], [], make=net),
    (lambda: problem(penalty=[INF, 1.0]), ValueError, "penalty .*leave an atom out"),
    (lambda: problem(penalty=INF), ValueError, "penalty .*leave an atom out"),
    (lambda: net(l1=INF), ValueError, "l1 .*leave an atom out"),
    *wrong(ValueError, "l2", -0.5, [0.0, -1.0], INF, make=net),
    *wrong(TypeError, "l1", True, make=net),
    *wrong(TypeError, "l2", 1j, False, make=net),
    *wrong(TypeError, "positive", 1, [1, 0]),
    *wrong(ValueError, "positive", [True] * 3),
    *wrong(ValueError, "gram", np.eye(3), 2 * np.eye(2)),
    (lambda: problem(sparse.eye_array(2), gram=2 * np.eye(2)), ValueError, "gram"),
    (lambda: LassoProblem(KERNELS, np.ones((1, 16)), 0.1, gram=np.eye(4)), TypeError, "gram"),
    *wrong(TypeError, "mask", [1, 0], [[True], [True, False]], sparse.csr_array(np.eye(2, dtype=bool))),
    *wrong(ValueError, "mask", [True] * 3),
    (lambda: problem(mask=[True, False], feature_weights=[1.0, 0.0]), ValueError, "mask"),
    (lambda: problem(signals=[[NAN, 1.0]], mask=[True, False]), ValueError, r"signals .*\[0, 0\]"),
    (lambda: problem(signals=[[NAN, 1.0]], feature_weights=[1.0, 0.0]), ValueError, "signals"),
    *wrong(ValueError, "feature_weights", [1.0, -1.0], [1.0, NAN], [1.0, 1e61], 2.0),
    (lambda: problem(feature_weights=[True, False]), TypeError, "feature_weights .*mask"),
    (lambda: problem(LONG, feature_weights=[1.0, 1e60]), ValueError, "feature_weights .*atom 1"),
    (lambda: problem(LONG, feature_weights=[[1.0, 1.0], [1e60, 1.0]]), ValueError, "weights .*atom 0"),
    (lambda: problem(signals=[[1.0, 1e120]], feature_weights=[1.0, 1e60]), ValueError, "weights .*signal 0"),
    (lambda: LassoModel(LONG, 1.0, feature_weights=[1.0, 1e60]), ValueError, "feature_weights"),
    (lambda: LassoModel(DICTIONARY, 0.1, mask=[[True, False]]), ValueError, "mask"),
    (lambda: LassoModel(DICTIONARY, -1.0), ValueError, "penalty"),
    (lambda: LassoModel([[INF, 1.0]], 0.1), ValueError, "dictionary"),
    (lambda: LassoModel(DICTIONARY, 0.1, gram=ZERO), ValueError, "gram"),
    *wrong(TypeError, "signals", "text", make=PREPARED.with_signals),
    *wrong(
        ValueError, "signals", np.ones(2), np.ones((1, 3)), [[NAN, 0.0]], [[1e200, 0.0]], [[1e-200, 0.0]],
        make=PREPARED.with_signals,
    ),
    *wrong(ValueError, "kernels", np.ones((3, 3)), np.full((1, 2, 2), NAN), make=kernels),
    (lambda: kernels(np.ones((1, 2, 2, 2)), 5), ValueError, "kernels"),
    *wrong(TypeError, "kernels", ["a"], make=kernels),
    *wrong(ValueError, "image_shape", (5, 5, 3), make=kernels),
    *wrong(TypeError, "image_shape", 5.0, (5, 5.0), make=kernels),
    *wrong(ValueError, "stride", 0, make=kernels),
    *wrong(TypeError, "stride", 1.0, make=kernels),
    (lambda: kernels(np.ones((1, 6, 2))), ValueError, "6 rows"),
    (lambda: kernels(np.ones((1, 2, 6))), ValueError, "6 columns"),
    (lambda: kernels(image_shape=(5, 6), stride=2), ValueError, "stride .*rows"),
    (lambda: kernels(image_shape=(6, 5), stride=2), ValueError, "stride .*columns"),
    (lambda: LassoProblem(kernels([[[1e-200]]]), np.ones((1, 25)), 1.0), ValueError, "kernel 0"),
]  # fmt: skip
PARTS = [
    (lambda: FOUR.subset([0, 4]), ValueError, "which .*4"),
    (lambda: FOUR.subset([-5]), ValueError, "which .*-5"),
    (lambda: FOUR.subset([]), ValueError, "which .*one or more"),
    *wrong(ValueError, "which", [[0, 1]], 1, slice(0, 0), np.arange(0), [True, False], make=FOUR.subset),
    *wrong(TypeError, "which", [0.5], "first", make=FOUR.subset),
    *wrong(ValueError, "codes", np.ones((1, 2)), np.ones((1, 1, 3)), make=FOUR.reconstruct),
    (lambda: IMAGES.gram, TypeError, "array of atoms"),
    (lambda: problem(mask=np.eye(2, dtype=bool)).gram, TypeError, "one mask"),
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
    *wrong(ValueError, "max_iter", 0, make=partial(solve_fista, PROBLEM)),
    *wrong(TypeError, "max_iter", 10.0, make=partial(solve_fista, PROBLEM)),
    *wrong(ValueError, "max_iter", -1, make=CoordinateDescent),
    *wrong(ValueError, "max_rounds", 0, make=partial(solve_active_set, PROBLEM)),
    *wrong(TypeError, "max_rounds", 1.5, make=partial(solve_active_set, PROBLEM)),
    *wrong(ValueError, "max_duration", 0.0, make=Analog),
    *wrong(TypeError, "max_duration", "long", make=Analog),
    *wrong(ValueError, "max_duration", -1.0, INF, make=partial(solve_spiking, PROBLEM)),
    *wrong(ValueError, "time_step", 0.0, make=Clock),
    *wrong(TypeError, "time_step", "1/4", make=Clock),
    (lambda: Clock(0.25, 8), TypeError, "neuron"),
    (lambda: Clock(0.25, imperfections={}), TypeError, "imperfections"),
    (lambda: solve_spiking(PROBLEM, time=Clock(0.25, imperfections=Imperfections(delays=[1.0, 2.0]))),
     ValueError, "delays"),
    (lambda: Clock(0.25, imperfections=0.5), TypeError, "imperfections"),
    *wrong(TypeError, "time", 0.25, make=partial(solve_spiking, PROBLEM)),
    *wrong(TypeError, "time", 0.25, Clock(0.25), make=partial(solve_digital, PROBLEM)),
    (lambda: dependent(), ValueError, "penalty .*independent"),
    (lambda: dependent(mask=np.arange(24).reshape(3, 8) != 20), ValueError, "penalty .*signal"),
    (lambda: SparseCodingStream(np.eye(3), [1.0, 0.0, 1.0]), ValueError, "penalty .*atom 1"),
    (lambda: SparseCodingStream(DICTIONARY, 0.1).code([1.0, NAN], mask=[True, True]), ValueError, "frame"),
    (lambda: SparseCodingStream(DICTIONARY, 0.1).code([1.0, 1.0], mask=[[True, True]]), ValueError, "mask"),
    (lambda: held_out_score(PROBLEM, n_folds=0), ValueError, "n_folds"),
    (lambda: held_out_score(PROBLEM, fold_of=[0.0, 1.0]), TypeError, "fold_of"),
    (lambda: held_out_score(PROBLEM, fold_of=[0, 1, 0]), ValueError, "fold_of"),
    (lambda: solve(PROBLEM, "fista"), TypeError, "method"),
    *wrong(ValueError, "method", "x", make=partial(path, PROBLEM)),
    (lambda: path(problem(penalty=[0.0, 0.0])), ValueError, "multiples"),
    *wrong(ValueError, "methods", ["newton"], ["fista", "fista"], [], make=partial(compare, PROBLEM)),
    *wrong(TypeError, "methods", [solve_fista], "fista", {"mine": 3}, {3: solve_fista},
           make=partial(compare, PROBLEM)),
    (lambda: compare(PROBLEM, {"mine": lambda problem, tol: ZERO}), TypeError, "'mine'"),
    (lambda: compare(PROBLEM, ["fista"], tol=-1.0), ValueError, "tol"),
    (lambda: compare("problem", ["fista"]), TypeError, "problem"),
    (lambda: Comparison().plot(), ValueError, "records"),
    (lambda: Comparison(compare(PROBLEM, ["fista"])).plot(ax="here"), TypeError, "ax"),
    *wrong(ValueError, "alpha", -0.5, make=coder),
    *wrong(TypeError, "alpha", "small", make=coder),
    *wrong(ValueError, "dictionary", ZERO, [1.0, 2.0], make=coder),
    *wrong(TypeError, "positive", "no", make=coder),
    *wrong(ValueError, "tol", 0.0, make=coder),
    *wrong(ValueError, "X", np.ones((1, 3)), make=coder),
    *wrong(TypeError, "X", np.ma.masked_equal(SIGNALS, 3.0), make=coder),
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
    (np.ones((2, 2)) * 1j, TypeError),
    (sparse.csr_array(np.ones((2, 2)) * 1j), TypeError),
    (np.full((2, 2), NAN), ValueError),
    (sparse.csr_array(np.full((2, 2), NAN)), ValueError),
    (-np.eye(2), ValueError),
    ("zero", TypeError),
    (solve_fista(problem(signals=SIGNALS[:1])), ValueError),
]


@pytest.mark.parametrize(
    "method",
    [*METHODS.values(), solve_spiking, solve_digital],
    ids=[*METHODS, "solve_spiking", "solve_digital"],
)
def test_what_every_solver_refuses(method):
    with pytest.raises(TypeError, match="problem"):
        method(DICTIONARY)
    for options, error, name in ARGUMENTS:
        with pytest.raises(error, match=name):
            method(PROBLEM, **options)
    if not hasattr(method, "takes"):
        return
    for start, error in STARTS if "start" in method.takes else [(ZERO, ValueError)]:
        with pytest.raises(error, match="start"):
            method(POSITIVE, start=start)


def of_scaled(atoms, atom, factor):
    atoms[atom] *= factor
    return atoms @ atoms.T


WRONG_GRAMS = {
    "atoms in another order": lambda atoms: atoms[::-1] @ atoms[::-1].T,
    "one atom changed a little": lambda atoms: of_scaled(atoms, 500, 1.001),
    "the sign of an atom": lambda atoms: of_scaled(atoms, 700, -1.0),
    "other units": lambda atoms: 4.0 * atoms @ atoms.T,
    "not symmetric": lambda atoms: atoms @ atoms.T + 1e-3 * np.triu(np.ones((len(atoms),) * 2), 1),
    "single precision": lambda atoms: atoms.astype(np.float32) @ atoms.astype(np.float32).T,
    "another diagonal": lambda atoms: atoms @ atoms.T + 1e-3 * np.eye(len(atoms)),
    "a column that is not finite": lambda atoms: of_scaled(atoms, 600, NAN),
}


@pytest.mark.parametrize("wrong", WRONG_GRAMS.values(), ids=WRONG_GRAMS)
def test_a_wrong_gram_matrix_of_a_large_dictionary_is_refused(wrong):
    """In a Gram matrix of more than 511 atoms, not every row is checked."""
    atoms = np.random.default_rng(0).standard_normal((1100, 20))
    signals = np.ones((1, 20))
    assert LassoProblem(atoms, signals, 0.1, gram=atoms @ atoms.T).has_gram
    with pytest.raises(ValueError, match="gram"):
        LassoProblem(atoms, signals, 0.1, gram=wrong(atoms.copy()))


@pytest.mark.parametrize(("atom", "symmetric"), [(0, True), (4, False), (17, True)])
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("penalty", [[0.0, 0.1], 0.1])
@pytest.mark.parametrize("positive", [[True, False], False, True])
@pytest.mark.parametrize("start", [None, [[0.0, 1.0], [0.0, 0.0]]])
def test_methods_that_a_refusal_names_take_the_problem(penalty, positive, start):
    """A suggested method takes the penalty, the signs and the start together, not only one of them."""
    this = problem(np.eye(2) + 0.1, penalty=penalty, positive=positive)
    for method in METHODS.values():
        refusal = ""
        try:
            solve(this, method, start=start, tol=0.5)
        except (TypeError, ValueError) as error:
            refusal = str(error)
        *_, named = refusal.removesuffix(" it").removesuffix(" take").removesuffix(" takes").split(": ")
        assert bool(refusal) == bool(named)
        for name in filter(None, named.split(", ")):
            solve(this, METHODS[name.strip("'")], start=start, tol=0.5)
