"""The scikit-learn transformer: common checks, and agreement with the solver for all options."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from solvers import (
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    IllPosedWarning,
    LassoProblem,
    SpikingSparseCoder,
    ZeroCodesWarning,
    estimator,
    held_out_score,
    memory_limit,
    solve,
    solve_active_set,
    solve_spiking,
)
from solvers.estimator import known_entries
from solvers.methods import Rates, Stages
from solvers.problem.matrix import MatrixAtoms
from tests.tiers import examples

# A coder's dictionary fixes the number of features, and scikit-learn's checks bring data of many
# widths.  WIDTHS says how wide the data of each check are; other checks get 10.
WIDTHS = {
    1: "fit2d_1feature",
    2: "estimators_fit_returns_self estimators_overwrite_params fit_check_is_fitted fit_idempotent "
    "n_features_in readonly_memmap_input",
    3: "dont_overwrite_parameters estimators_nan_inf estimators_pickle f_contiguous_array_estimator "
    "dict_unchanged estimator_sparse_array estimator_sparse_matrix estimator_sparse_tag fit2d_predict1d "
    "fit_score_takes_y methods_sample_order_invariance methods_subset_invariance pipeline_consistency "
    "transformer_data_not_an_array transformer_general transformer_preserve_dtypes",
    4: "n_features_in_after_fitting positive_only_tag_during_fit",
    5: "estimators_dtypes transformers_unfitted_stateless",
}
WIDTH_OF = {f"check_{name}": width for width, names in WIDTHS.items() for name in names.split()}
VARIANTS = {
    "plain": {},
    "missing_values": {"missing_values": np.nan},
    "spikes alone": {"method": "spiking", "tol": 1e-9},  # checks compare codes of equal signals
}


def _coder(n_features, **parameters):
    dictionary = np.random.default_rng(0).standard_normal((5, n_features))
    return SpikingSparseCoder(dictionary, alpha=0.5, **parameters)


def _checks():
    for variant, parameters in VARIANTS.items():
        for _, check in estimator_checks_generator(_coder(10, **parameters)):
            name = check.func.__name__
            flags = "-".join(f"{key}={value}" for key, value in check.keywords.items())
            yield pytest.param(check, WIDTH_OF.get(name, 10), parameters, id=f"{name}{flags}-{variant}")


@pytest.mark.parametrize(("check", "n_features", "parameters"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_common_checks(check, n_features, parameters):
    check(_coder(n_features, **parameters))


# -- the function, for every option --------------------------------------------------------------

DICTIONARY, SIGNALS = (np.random.default_rng(k).standard_normal((n, 6)) for k, n in ((1, 12), (2, 7)))
ALPHAS = (0.4, np.linspace(0.2, 0.9, 12), ElasticNet(0.4, 0.7), ElasticNet(np.linspace(0.2, 0.9, 12), 0.1))
MISSING = (None, np.nan, -99.0, 0.1, np.float32(0.1), 0, 1e300)


@pytest.mark.property
@examples(15)
@given(
    name=st.sampled_from(list(METHODS)),
    alpha=st.sampled_from(ALPHAS),
    positive=st.booleans(),
    tol=st.sampled_from((None, 0.05, 1e-3)),
    missing=st.sampled_from(MISSING),
    kind=st.sampled_from((np.float64, np.float32, np.int32, "sparse", "sparse float32")),
    seed=st.integers(0, 99),
)
def test_the_estimator_is_the_function(name, alpha, positive, tol, missing, kind, seed):
    method, rng = METHODS[name], np.random.default_rng(seed)
    as_sparse = kind in ("sparse", "sparse float32")
    dtype = np.dtype({"sparse": np.float64, "sparse float32": np.float32}.get(kind, kind))
    if as_sparse or "own_weights" not in method.takes:
        missing = None
    # The coarse methods are slow at fine tolerances.
    if tol is not None or method.usual_tol < method.finest_tol:
        tol = max(tol or 0.0, method.finest_tol)
    X = np.where(rng.random(SIGNALS.shape) < 0.8, np.rint(3.0 * SIGNALS), 0.0).astype(dtype)
    mask = None if missing is None else X != 0.0
    if missing is not None and (float(missing) == 1e300 or (dtype.kind == "i" and missing % 1.0 != 0.0)):
        mask = None  # float32 cannot hold 1e300, integers no fraction
    elif missing is not None:
        # The marker has the type of the signals: 0.1 in float64 is not 0.1 in float32.
        X = np.where(mask, X, np.asarray(missing, dtype=dtype))
    known = X if mask is None else np.where(mask, X, 0)
    problem = LassoProblem(DICTIONARY, known.astype(float), alpha, mask=mask, positive=positive)
    options = {"positive": positive, "method": name, "tol": tol, "missing_values": missing}
    coder = clone(SpikingSparseCoder(DICTIONARY, alpha=alpha, **options))
    X = sparse.csr_array(X) if as_sparse else X
    expected = solve(problem, method, tol=tol)
    encoded, codes = coder.encode(X), coder.fit(X).transform(X)
    assert (encoded.method, encoded.tol) == (name, method.usual_tol if tol is None else tol)
    assert encoded.converged
    if as_sparse:
        assert (np.abs(encoded.objective - expected.objective) <= encoded.tol * problem.energies).all()
    else:
        np.testing.assert_array_equal(encoded.codes, expected.codes)
        np.testing.assert_array_equal(encoded.duality_gap, expected.duality_gap)
    # Codes are rounded to the type of the signals; certificates are in float64, of codes in float64.
    assert {encoded.codes.dtype, encoded.duality_gap.dtype, encoded.objective.dtype} == {np.dtype(float)}
    rounded = np.float32 if dtype == np.float32 else np.float64
    assert codes.dtype == rounded
    np.testing.assert_array_equal(codes, encoded.codes.astype(rounded))
    rebuilt = coder.inverse_transform(codes)
    assert rebuilt.dtype == rounded
    np.testing.assert_allclose(rebuilt, codes @ DICTIONARY, rtol=1e-5, atol=1e-5)
    codes[0, 0] = 7.0  # the output of a transformer is writable


def test_convolutional_dictionaries_rebuild_images():
    rng = np.random.default_rng(5)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (7, 5), 2)
    coder = SpikingSparseCoder(dictionary, alpha=0.5)
    codes = make_pipeline(StandardScaler(), coder).fit_transform(rng.standard_normal((4, 35)))
    assert codes.any()
    assert list(coder.get_feature_names_out()) == [f"spikingsparsecoder{k}" for k in range(12)]
    np.testing.assert_allclose(coder.inverse_transform(codes), codes @ dictionary.toarray(), atol=1e-12)


HOLED = np.where(np.eye(7, 6) == 0.0, SIGNALS, np.nan)
MASKED = np.ma.masked_less(SIGNALS, 0.0)
REFUSED = [
    ({"alpha": [1.0, 2.0]}, SIGNALS, ValueError, "alpha"),
    ({"alpha": ElasticNet([1.0], 1.0)}, SIGNALS, ValueError, "l1"),
    ({"method": "best"}, SIGNALS, ValueError, "method"),
    ({"n_jobs": 0}, SIGNALS, ValueError, "n_jobs"),
    ({"missing_values": "NaN"}, SIGNALS, TypeError, "missing_values"),
    ({}, HOLED, ValueError, r"missing_values=np\.nan"),
    ({"missing_values": np.nan}, np.where(np.isnan(HOLED), np.inf, HOLED), ValueError, "X .*infinity"),
    ({"missing_values": 0}, sparse.csr_array(SIGNALS), TypeError, "X .*dense"),
    ({}, list(MASKED), TypeError, "X .*masked"),
]


@pytest.mark.parametrize(("parameters", "X", "error", "name"), REFUSED)
def test_nonsense_is_refused_by_every_method(parameters, X, error, name):
    coder = SpikingSparseCoder(DICTIONARY, **{"alpha": 1.0, **parameters})
    calls = [coder.fit, coder.transform, coder.encode]
    calls += [] if {"method", "n_jobs"} & set(parameters) else [coder.score, coder.problem]
    for call in calls:
        with pytest.raises(error, match=name):
            call(X)


def test_codes_of_another_width_or_with_a_mask_are_not_rebuilt():
    coder = SpikingSparseCoder(DICTIONARY, alpha=0.3)
    with pytest.raises(ValueError, match="X"):
        coder.inverse_transform(SIGNALS)
    with pytest.raises(TypeError, match="X"):
        coder.inverse_transform(np.ma.masked_less(coder.transform(SIGNALS), 0.0))


# -- the score -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    """Return a dictionary, and signals without and with noise."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((60, 40)) / np.sqrt(40)
    clean = (rng.standard_normal((80, 60)) * (rng.random((80, 60)) < 0.06)) @ dictionary
    return dictionary, clean, clean + 0.08 * rng.standard_normal(clean.shape)


def test_a_search_finds_the_alpha_that_removes_the_noise(noisy):
    """The best alpha is computed from the signals without noise."""
    dictionary, clean, signals = noisy
    alphas = np.geomspace(1e-3, 1.0, 13)
    search = GridSearchCV(SpikingSparseCoder(dictionary, alpha=1.0), {"alpha": alphas}, cv=3).fit(signals)
    coders = [SpikingSparseCoder(dictionary, alpha=alpha) for alpha in alphas]
    errors = [np.square(c.inverse_transform(c.transform(signals)) - clean).sum() for c in coders]
    best = int(np.argmin(errors))
    assert 0 < best < len(alphas) - 1
    assert abs(search.best_index_ - best) <= 1
    assert errors[search.best_index_] < 1.1 * errors[best]


@pytest.mark.parametrize("holed", [False, True])
def test_the_score_is_the_energy_that_codes_of_other_features_predict(noisy, holed):
    dictionary, _, signals = noisy
    signals, fold_of = signals[:9], np.arange(40) % 4
    known = np.random.default_rng(1).random(signals.shape) < (0.7 if holed else 2.0)
    missed = 0.0
    for signal, row in zip(signals, known, strict=True):
        for fold in range(4):
            seen, hidden = row & (fold_of != fold), row & (fold_of == fold)
            part = LassoProblem(dictionary[:, seen], signal[np.newaxis, seen], 0.75 * 0.1)
            predicted = solve_active_set(part, tol=1e-10).codes[0] @ dictionary[:, hidden]
            missed += np.square(signal[hidden] - predicted).sum()
    problem = LassoProblem(dictionary, signals, 0.1, mask=known if holed else None)
    expected = 1.0 - missed / np.square(signals * known).sum()
    assert held_out_score(problem, fold_of=fold_of) == pytest.approx(expected, abs=1e-9)
    coder = SpikingSparseCoder(dictionary, alpha=0.1, missing_values=np.nan if holed else None)
    X = np.where(known, signals, np.nan)
    assert coder.score(X) == held_out_score(problem)
    assert held_out_score(problem.with_penalty(100.0)) == pytest.approx(0.0, abs=1e-12)
    assert held_out_score(LassoProblem(np.ones((2, 1)), np.ones((3, 1)), 0.1)) == 0.0
    # The score does not depend on the method and its tolerance.
    for parameters in ({"tol": 0.1}, {"method": "spiking_rate"}, {"method": Rates()}):
        assert clone(coder).set_params(**parameters).score(X) == coder.score(X)


# -- warnings ------------------------------------------------------------------------------------


def test_warnings_point_at_the_line_that_called():
    coder = SpikingSparseCoder(DICTIONARY, alpha=100.0)
    short = SpikingSparseCoder(DICTIONARY, alpha=0.1, method=Stages(max_duration=1.0))
    problem = LassoProblem(DICTIONARY, SIGNALS, 0.1)
    masked = LassoProblem(DICTIONARY, SIGNALS, 0.1, mask=np.eye(7, 6) == 0.0)
    for call in (
        lambda: coder.transform(SIGNALS),
        lambda: coder.encode(SIGNALS),
        lambda: make_pipeline(coder).fit_transform(SIGNALS),
        lambda: short.transform(SIGNALS),
        lambda: solve_spiking(problem, max_duration=1.0),
        lambda: solve_spiking(masked, max_duration=1.0),
    ):
        with pytest.warns((IllPosedWarning, ConvergenceWarning)) as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_a_pickle_of_another_version_is_named(monkeypatch):
    coder = SpikingSparseCoder(DICTIONARY, alpha=0.1)
    for version, words in (("0.9", "0.9"), (None, "of an earlier version")):
        with monkeypatch.context() as patched:
            patched.setattr(estimator, "__version__", version or estimator.__version__)
            if version is None:
                patched.setattr(estimator.Versioned, "__getstate__", lambda self: dict(vars(self)))
            pickled = pickle.dumps(coder)
        with pytest.warns(UserWarning, match=f"^SpikingSparseCoder was pickled by sparsespike {words}"):
            again = pickle.loads(pickled)
        np.testing.assert_array_equal(again.transform(SIGNALS), coder.transform(SIGNALS))
    assert vars(pickle.loads(pickle.dumps(coder))).keys() == vars(coder).keys()


def test_codes_that_are_all_zero_are_named():
    coder = SpikingSparseCoder(DICTIONARY, alpha=100.0)
    for X in (sparse.csr_array(SIGNALS), SIGNALS):
        with pytest.warns(ZeroCodesWarning, match="all codes are zero: .*penalty_max"):
            coder.transform(X)
    largest = np.abs(SIGNALS @ DICTIONARY.T).max()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coder.transform(np.zeros((3, 6)))
        coder.transform(SIGNALS[:1])
        assert coder.set_params(alpha=0.999 * largest).transform(SIGNALS).any()
    negative = SpikingSparseCoder(np.abs(DICTIONARY), alpha=0.1, positive=True)
    with pytest.warns(IllPosedWarning, match="positive"):
        negative.transform(-np.abs(SIGNALS))


# -- what is kept between calls ----------------------------------------------------------------------


CHANGES = (
    "entry", "sign", "dictionary", "sparse", "float32", "columns", "alpha", "vector", "net", "positive",
    "missing", "limit",
)  # fmt: skip


@pytest.mark.property
@examples(30)
@given(changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=6), seed=st.integers(0, 2**20))
def test_a_coder_never_codes_with_numbers_of_an_earlier_call(changes, seed):
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((12, 8))
    coder = SpikingSparseCoder(dictionary, alpha=0.3, method="active_set", missing_values=np.nan)
    X, vector = rng.standard_normal((3, 8)), np.full(12, 0.3)
    for change in ("nothing", *changes):
        if isinstance(coder.dictionary, np.ndarray) and change in ("entry", "sign"):
            place = rng.integers(12), rng.integers(8)
            coder.dictionary[place] = -coder.dictionary[place] + (0.5 if change == "entry" else 0.0)
        new = rng.standard_normal((12, 8))
        if change == "vector":
            coder.alpha = vector
            vector[rng.integers(12)] += 0.2
        parameters = {
            "dictionary": {"dictionary": new},
            "sparse": {"dictionary": sparse.csr_array(new * (rng.random((12, 8)) < 0.5))},
            "float32": {"dictionary": new.astype(np.float32)},
            "columns": {"dictionary": np.asfortranarray(new)},
            "alpha": {"alpha": float(rng.uniform(0.1, 0.5))},
            "net": {"alpha": ElasticNet(0.3, float(rng.uniform(0.1, 0.5)))},
            "positive": {"positive": not coder.positive},
        }
        coder.set_params(**parameters.get(change, {}))
        if change == "missing":
            X[rng.integers(3), rng.integers(7)] = np.nan
        with memory_limit(100 if change == "limit" else 2**30):
            codes = [coder.transform(x[np.newaxis])[0] for x in X]
            dictionary, options = copy.deepcopy(coder.dictionary), {"positive": coder.positive}
            problem = LassoProblem(dictionary, X, coder.alpha, mask=known_entries(X, np.nan), **options)
            np.testing.assert_allclose(codes, solve_active_set(problem).codes, rtol=0, atol=1e-9)
            assert coder.problem(X).memory_limit == problem.memory_limit


def test_a_coder_computes_the_gram_matrix_once_for_signals_that_come_one_by_one(monkeypatch):
    shapes, gram_rows = [], MatrixAtoms.gram_rows

    def counted(self, atoms):
        shapes.append(self.shape)
        return gram_rows(self, atoms)

    monkeypatch.setattr(MatrixAtoms, "gram_rows", counted)
    rng = np.random.default_rng(0)
    for n_atoms in (30, 600):
        shapes.clear()
        coder = SpikingSparseCoder(rng.standard_normal((n_atoms, 20)), alpha=5.0, method="active_set")
        before = pickle.dumps(coder)
        for x in rng.standard_normal((12, 1, 20)):
            coder.transform(x)
            coder.set_params(alpha=coder.alpha + 0.01)
        assert shapes == [(n_atoms, 20)]
        coder.set_params(alpha=5.0)
        assert len(pickle.dumps(coder)) <= len(before) + 60  # 60 bytes: the number of features
        clone(coder).transform(x)
        assert shapes == [(n_atoms, 20)] * (2 if n_atoms < 512 else 1)


def test_features_that_no_signal_of_an_earlier_call_knew():
    rng = np.random.default_rng(0)
    dictionary, X = rng.standard_normal((12, 8)), rng.standard_normal((3, 8))
    dictionary[2, 3] = np.nan
    coder = SpikingSparseCoder(dictionary, alpha=0.3, missing_values=np.nan)
    masked = np.where(np.arange(8) == 3, np.nan, X)
    codes = coder.transform(masked)
    with pytest.raises(ValueError, match="dictionary must be finite"):
        coder.transform(X)
    np.testing.assert_array_equal(coder.transform(masked), codes)
    dictionary[2, 3] = 1.0
    for signals in (X, masked, X):
        fresh = SpikingSparseCoder(dictionary, alpha=0.3, missing_values=np.nan).transform(signals)
        np.testing.assert_allclose(coder.transform(signals), fresh, rtol=0, atol=1e-9)


def test_threads_may_share_a_coder_whose_dictionary_changes():
    rng = np.random.default_rng(0)
    dictionaries, X = rng.standard_normal((2, 12, 8)), rng.standard_normal((1, 8))
    coder = SpikingSparseCoder(dictionaries[0], alpha=0.3, method="active_set")
    expected = [SpikingSparseCoder(d, alpha=0.3, method="active_set").transform(X) for d in dictionaries]

    def code(k):
        coder.dictionary = dictionaries[k % 2]
        return coder.transform(X)

    with ThreadPoolExecutor(4) as pool:
        for codes in pool.map(code, range(200)):
            assert any(np.abs(codes - one).max() < 1e-9 for one in expected)
