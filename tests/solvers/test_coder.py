"""The scikit-learn transformer: the common checks, and that it returns what the solver does."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from solvers import (
    L1,
    ConvolutionalDictionary,
    ElasticNet,
    IllPosedWarning,
    LassoProblem,
    SpikingSparseCoder,
    duality_gap,
    held_out_score,
    solve_active_set,
    solve_spiking,
)
from solvers.methods.spiking import Rates, Stages
from tests.reference.methods import methods

# A coder's dictionary fixes the number of features, and scikit-learn's checks bring data of many
# widths; this is what each of them brings (10 where it does not matter).
FEATURES = {
    "check_dont_overwrite_parameters": 3,
    "check_estimators_dtypes": 5,
    "check_estimators_fit_returns_self": 2,
    "check_estimators_nan_inf": 3,
    "check_estimators_overwrite_params": 2,
    "check_estimators_pickle": 3,
    "check_f_contiguous_array_estimator": 3,
    "check_dict_unchanged": 3,
    "check_estimator_sparse_array": 3,
    "check_estimator_sparse_matrix": 3,
    "check_estimator_sparse_tag": 3,
    "check_fit2d_1feature": 1,
    "check_fit2d_predict1d": 3,
    "check_fit_check_is_fitted": 2,
    "check_fit_idempotent": 2,
    "check_fit_score_takes_y": 3,
    "check_methods_sample_order_invariance": 3,
    "check_methods_subset_invariance": 3,
    "check_n_features_in": 2,
    "check_n_features_in_after_fitting": 4,
    "check_pipeline_consistency": 3,
    "check_positive_only_tag_during_fit": 4,
    "check_readonly_memmap_input": 2,
    "check_transformer_data_not_an_array": 3,
    "check_transformer_general": 3,
    "check_transformer_preserve_dtypes": 3,
    "check_transformers_unfitted_stateless": 5,
}


VARIANTS = {
    "plain": {},
    "missing_values": {"missing_values": np.nan},
    "spikes alone": {"method": "spiking", "tol": 1e-9},  # checks want the same codes of the same signals
}


def _coder(n_features, **parameters):
    dictionary = np.random.default_rng(0).standard_normal((5, n_features))
    return SpikingSparseCoder(dictionary, alpha=0.5, **parameters)


def _checks():
    for variant, parameters in VARIANTS.items():
        for _, check in estimator_checks_generator(_coder(10, **parameters)):
            name = check.func.__name__
            flags = "-".join(f"{key}={value}" for key, value in check.keywords.items())
            n_features = FEATURES.get(name, 10)
            yield pytest.param(check, n_features, parameters, id=f"{name}{flags}-{variant}")


@pytest.mark.parametrize(("check", "n_features", "parameters"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_common_checks(check, n_features, parameters):
    check(_coder(n_features, **parameters))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return rng.standard_normal((12, 6)), rng.standard_normal((7, 6))


def test_transform_is_the_solver_and_encode_its_certificates(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=0.4, positive=True)
    expected = solve_spiking(LassoProblem(dictionary, signals, 0.4, positive=True), tol=1e-6, polish=True)
    codes = coder.fit(signals).transform(signals)
    np.testing.assert_array_equal(codes, expected.codes)
    codes[0, 0] = 7.0  # a transformer's output is the caller's, not a read-only result
    np.testing.assert_array_equal(coder.encode(signals).duality_gap, expected.duality_gap)
    assert coder.score(signals) == held_out_score(LassoProblem(dictionary, signals, 0.4, positive=True))


def test_alpha_may_be_an_elastic_net(data):
    dictionary, signals = data
    l1, l2 = 0.4, 0.7
    coder = clone(SpikingSparseCoder(dictionary, alpha=ElasticNet(l1, l2)))
    codes = coder.fit(signals).transform(signals)
    # scikit-learn divides the objective by the number of features.
    theirs = SklearnElasticNet(alpha=(l1 + l2) / 6, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-12)
    expected = np.array([theirs.fit(dictionary.T, signal).coef_ for signal in signals])
    np.testing.assert_allclose(codes, expected, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(
        SpikingSparseCoder(dictionary, alpha=L1(l1)).transform(signals),
        SpikingSparseCoder(dictionary, alpha=l1).transform(signals),
    )


def test_inverse_transform_rebuilds_the_signals(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=1e-6)
    np.testing.assert_allclose(coder.inverse_transform(coder.transform(signals)), signals, atol=1e-5)
    with pytest.raises(ValueError, match=r"X must have one column for each of 12 atoms; got shape \(7, 6\)"):
        coder.inverse_transform(signals)


def test_names_of_the_outputs_and_pipelines(data):
    dictionary, signals = data
    pipeline = make_pipeline(StandardScaler(), SpikingSparseCoder(dictionary, alpha=0.4))
    assert clone(pipeline).fit_transform(signals).shape == (7, 12)
    names = pipeline.fit(signals).get_feature_names_out()
    assert list(names[:2]) == ["spikingsparsecoder0", "spikingsparsecoder1"]
    assert len(names) == 12


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"alpha": -0.5}, ValueError, "alpha must not be negative; got -0.5"),
        ({"alpha": "small"}, TypeError, "alpha must be .* real number.*; got "),
        ({"alpha": [1.0, 2.0]}, ValueError, r"alpha must have shape \(12,\), .*; got shape \(2,\)"),
        ({"alpha": ElasticNet([1.0], 1.0)}, ValueError, r"l1 must have shape \(12,\), .*; got shape \(1,\)"),
        ({"alpha": 1.0, "method": "best"}, ValueError, "method must be one of .*; got 'best'"),
        ({"alpha": 1.0, "positive": "yes"}, TypeError, "positive must be True or False; got 'yes'"),
        ({"alpha": 1.0, "tol": -1.0}, ValueError, "tol must be positive; got -1.0"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(data, parameters, error, message):
    dictionary, signals = data
    with pytest.raises(error, match=message):
        SpikingSparseCoder(dictionary, **parameters).transform(signals)
    with pytest.raises(error, match=message):
        SpikingSparseCoder(dictionary, **parameters).fit(signals)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"method": 1}, TypeError, "method must be one of 'spiking', .*; got int"),
        ({"n_jobs": "a"}, TypeError, "n_jobs must be an integer; got str"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
    ],
)
def test_fit_checks_how_the_network_runs(data, parameters, error, message):
    dictionary, signals = data
    with pytest.raises(error, match=message):
        SpikingSparseCoder(dictionary, alpha=1.0, **parameters).fit(signals)


def test_signals_of_another_width_are_refused(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=1.0)
    with pytest.raises(ValueError, match=r"Dictionary and X have different .*\(12, 6\), .*\(3, 4\)"):
        coder.fit(np.ones((3, 4)))
    # The fit that failed left no number of features behind.
    assert coder.transform(signals).shape == (7, 12)


def test_convolutional_dictionaries_rebuild_images():
    rng = np.random.default_rng(5)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (7, 5), 2)
    images = rng.standard_normal((4, 35))
    coder = SpikingSparseCoder(dictionary, alpha=0.5).fit(images)
    codes = coder.transform(images)
    assert codes.any()
    np.testing.assert_allclose(coder.inverse_transform(codes), codes @ dictionary.toarray(), atol=1e-12)
    assert len(coder.get_feature_names_out()) == codes.shape[1]
    assert coder.inverse_transform(codes.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="X must have one column for each of 12 atoms"):
        coder.inverse_transform(images)


# -- kinds of numbers ----------------------------------------------------------------------------


def test_float32_signals_have_float32_codes_and_certificates_in_float64(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=0.4)
    single = signals.astype(np.float32)
    codes, encoded = coder.transform(single), coder.encode(single)
    assert codes.dtype == np.float32
    assert {encoded.codes.dtype, encoded.duality_gap.dtype, encoded.objective.dtype} == {np.dtype(float)}
    # The certificate is of the problem of the signals as they are, and of the codes before rounding.
    problem = LassoProblem(dictionary, single.astype(float), 0.4)
    np.testing.assert_allclose(encoded.duality_gap, duality_gap(problem, encoded.codes), atol=1e-13)
    np.testing.assert_array_equal(codes, encoded.codes.astype(np.float32))
    assert coder.inverse_transform(codes).dtype == np.float32
    assert coder.transform(signals).dtype == coder.inverse_transform(encoded.codes).dtype == np.float64
    assert coder.transform(np.ones((2, 6), dtype=np.int32)).dtype == np.float64


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_signals_have_the_codes_of_dense_ones(data, kind):
    dictionary, signals = data
    rare = np.where(np.abs(signals) > 0.8, signals, 0.0)
    coder = SpikingSparseCoder(dictionary, alpha=0.3)
    np.testing.assert_allclose(coder.fit_transform(kind(rare)), coder.transform(rare), rtol=0, atol=1e-12)
    assert coder.transform(kind(rare.astype(np.float32))).dtype == np.float32
    assert coder.score(kind(rare)) == pytest.approx(coder.score(rare), abs=1e-12)


# -- missing values ------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [np.nan, -99.0, 0])
def test_missing_values_are_left_out_of_the_objective(data, missing):
    dictionary, signals = data
    known = np.random.default_rng(3).random(signals.shape) < 0.6
    coder = SpikingSparseCoder(dictionary, alpha=0.3, missing_values=missing)
    codes = coder.fit_transform(np.where(known, signals, missing))
    for code, signal, row in zip(codes, signals, known, strict=True):
        # For the known features alone.
        alone = LassoProblem(dictionary[:, row], signal[np.newaxis, row], 0.3)
        np.testing.assert_allclose(code, solve_active_set(alone).codes[0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(
        coder.transform(signals), SpikingSparseCoder(dictionary, alpha=0.3).transform(signals)
    )


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_missing_values_are_those_of_the_kind_of_the_signals(data, kind):
    """0.1 in double precision is not 0.1 in single precision, and 1e300 none at all."""
    dictionary, signals = data
    single = signals.astype(np.float32)
    known = np.random.default_rng(3).random(signals.shape) < 0.6
    coder = SpikingSparseCoder(dictionary, alpha=0.3)
    expected = clone(coder).set_params(missing_values=np.nan).transform(np.where(known, single, np.nan))
    holed = np.where(known, single, np.float32(0.1))
    coder.set_params(missing_values=kind(0.1))
    np.testing.assert_array_equal(coder.transform(holed), expected.astype(np.float32))
    with pytest.raises(TypeError, match="X must be a dense array where entries are missing"):
        coder.transform(sparse.csr_array(holed))
    large = clone(coder).set_params(missing_values=np.float64(1e300))
    plain = clone(coder).set_params(missing_values=None)
    np.testing.assert_array_equal(large.transform(single), plain.transform(single))


def test_missing_values_only_where_a_parameter_says_so(data):
    dictionary, signals = data
    holed = signals.copy()
    holed[0, 0] = np.nan
    with pytest.raises(
        ValueError, match=r"^Input X contains NaN: set missing_values=np\.nan if NaN means not known$"
    ):
        SpikingSparseCoder(dictionary, alpha=0.3).transform(holed)
    with pytest.raises(ValueError, match=r"set missing_values=np\.nan and pass X\.toarray\(\) if NaN means"):
        SpikingSparseCoder(dictionary, alpha=0.3).transform(sparse.csr_array(holed))
    coder = SpikingSparseCoder(dictionary, alpha=0.3, missing_values=np.nan)
    assert np.isfinite(coder.transform(holed)).all()
    holed[0, 0] = np.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):
        coder.transform(holed)
    with pytest.raises(
        TypeError, match=r"X must be a dense array where entries are missing; pass X\.toarray"
    ):
        coder.transform(sparse.csr_array(np.where(np.isinf(holed), np.nan, holed)))
    with pytest.raises(TypeError, match=r"X must be a dense array where entries are missing"):
        clone(coder).set_params(missing_values=0).transform(sparse.csr_array(signals))
    with pytest.raises(TypeError, match=r"missing_values must be None, np.nan or a number; got str"):
        clone(coder).set_params(missing_values="NaN").transform(signals)


def test_masked_arrays_are_refused_wherever_they_hide(data):
    dictionary, signals = data
    masked = np.ma.masked_less(signals, 0.0)
    coder = SpikingSparseCoder(dictionary, alpha=0.3)
    for X in (masked, list(masked)):
        for method in (coder.fit, coder.transform, coder.encode, coder.score, coder.problem):
            with pytest.raises(TypeError, match=r"X must not have masked entries; .* missing_values=np.nan"):
                method(X)
    codes = np.ma.masked_less(coder.transform(signals), 0.0)
    with pytest.raises(TypeError, match=r"X must not have masked entries; .* pass X\.filled\(0\.0\)"):
        coder.inverse_transform(codes)
    # A mask without entries masks nothing.
    np.testing.assert_array_equal(coder.transform(np.ma.array(signals)), coder.transform(signals))


# -- what to search ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    """A dictionary, codes, their signals, and the signals with noise."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((60, 40)) / np.sqrt(40)
    codes = rng.standard_normal((80, 60)) * (rng.random((80, 60)) < 0.06)
    clean = codes @ dictionary
    return dictionary, clean, clean + 0.08 * rng.standard_normal(clean.shape)


ALPHAS = np.geomspace(1e-3, 1.0, 13)


def test_a_search_finds_the_alpha_that_removes_the_noise(noisy):
    """The oracle knows the signals without their noise."""
    dictionary, clean, signals = noisy
    search = GridSearchCV(SpikingSparseCoder(dictionary, alpha=1.0), {"alpha": ALPHAS}, cv=3).fit(signals)
    errors = []
    for alpha in ALPHAS:
        coder = SpikingSparseCoder(dictionary, alpha=alpha)
        errors.append(np.square(coder.inverse_transform(coder.transform(signals)) - clean).sum())
    best = int(np.argmin(errors))
    assert 0 < best < len(ALPHAS) - 1
    assert abs(search.best_index_ - best) <= 1
    assert errors[search.best_index_] < 1.1 * errors[best]


def test_the_score_is_the_energy_that_codes_of_other_features_predict(noisy):
    dictionary, _, signals = noisy
    fold_of = np.arange(40) % 4
    missed = 0.0
    for fold in range(4):
        seen = fold_of != fold
        part = LassoProblem(dictionary[:, seen], signals[:, seen], 0.75 * 0.1)
        predicted = solve_active_set(part).codes @ dictionary[:, ~seen]
        missed += np.square(signals[:, ~seen] - predicted).sum()
    problem = LassoProblem(dictionary, signals, 0.1)
    assert held_out_score(problem, fold_of=fold_of) == pytest.approx(1.0 - missed / np.square(signals).sum())
    # Weights of two are those features twice; a mask of ones is none.
    known = np.ones(40, dtype=bool)
    masked = LassoProblem(dictionary, signals, 0.1, mask=known)
    assert held_out_score(masked, fold_of=fold_of) == pytest.approx(held_out_score(problem, fold_of=fold_of))
    assert held_out_score(problem.with_penalty(100.0)) == pytest.approx(0.0, abs=1e-12)
    assert held_out_score(LassoProblem(np.ones((2, 1)), np.ones((3, 1)), 0.1)) == 0.0


def test_a_score_with_missing_values_is_that_of_the_known_features(noisy):
    dictionary, _, signals = noisy
    some = slice(0, 6)
    known = np.random.default_rng(1).random(signals[some].shape) < 0.7
    whole = held_out_score(
        LassoProblem(dictionary, signals[some], 0.1, mask=known), fold_of=np.arange(40) % 2
    )
    missed = energy = 0.0
    for signal, row in zip(signals[some], known, strict=True):
        energy += np.square(signal[row]).sum()
        for fold in range(2):
            seen, hidden = row & (np.arange(40) % 2 != fold), row & (np.arange(40) % 2 == fold)
            part = LassoProblem(dictionary[:, seen], signal[np.newaxis, seen], 0.05)
            missed += np.square(
                signal[hidden] - solve_active_set(part).codes[0] @ dictionary[:, hidden]
            ).sum()
    assert whole == pytest.approx(1.0 - missed / energy, abs=1e-9)


# -- defaults, and warnings with a remedy --------------------------------------------------------


@pytest.mark.parametrize("method", methods().values(), ids=methods())
def test_methods_converge_at_their_default_tolerance(data, method):
    dictionary, signals = data
    encoded = SpikingSparseCoder(dictionary, alpha=0.4, method=method).encode(signals)
    assert encoded.converged
    assert encoded.tol == method.usual_tol
    assert (encoded.tol == solve_active_set.__kwdefaults__["tol"]) == method.name.startswith("active_set")


def test_a_method_may_be_named(data):
    dictionary, signals = data
    encoded = SpikingSparseCoder(dictionary, alpha=0.4, method="spiking").encode(signals)
    assert (encoded.method, encoded.tol) == ("spiking", 1e-3)


def test_max_duration_limits_the_network(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=0.1, method=Stages(max_duration=1.0))
    with pytest.warns(ConvergenceWarning, match="did not reach .* within max_duration=1;"):
        assert coder.encode(signals).duration.max() <= 1.0


def test_warnings_point_at_the_line_that_called(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=100.0)
    short = SpikingSparseCoder(dictionary, alpha=0.1, method=Stages(max_duration=1.0))
    problem = LassoProblem(dictionary, signals, 0.1)
    masked = LassoProblem(dictionary, signals, 0.1, mask=np.eye(7, 6) == 0.0)
    for call in (
        lambda: coder.transform(signals),
        lambda: coder.encode(signals),
        lambda: make_pipeline(coder).fit_transform(signals),
        lambda: short.transform(signals),
        lambda: solve_spiking(problem, max_duration=1.0),
        lambda: solve_spiking(masked, max_duration=1.0),
    ):
        with pytest.warns((IllPosedWarning, ConvergenceWarning)) as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_a_search_over_how_codes_are_found_sees_equal_scores(noisy):
    dictionary, _, signals = noisy
    coder = SpikingSparseCoder(dictionary, alpha=0.1)
    score = coder.score(signals)
    for parameters in ({"tol": 0.1}, {"method": "spiking_rate"}, {"method": Rates()}):
        assert clone(coder).set_params(**parameters).score(signals) == score
    with pytest.raises(ValueError, match=r"tol must be positive; got -1\.0"):
        coder.set_params(tol=-1.0).score(signals)


def test_codes_that_are_all_zero_are_named(data):
    dictionary, signals = data
    coder = SpikingSparseCoder(dictionary, alpha=100.0)
    holed = np.where(signals > -1.0, signals, np.nan)
    for X, missing in ((signals, None), (sparse.csr_array(signals), None), (holed, np.nan)):
        coder.set_params(missing_values=missing)
        with pytest.warns(
            IllPosedWarning, match=r"all codes are zero at this alpha; some are not below 0\.\d+ times it$"
        ):
            coder.transform(X)
    factor = np.abs(signals @ dictionary.T).max() / 100.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert coder.set_params(alpha=99.9 * factor).transform(signals).any()
        coder.set_params(alpha=100.0).transform(signals[:1])  # one signal may well be zero
        coder.transform(np.zeros((3, 6)))
    negative = SpikingSparseCoder(np.abs(dictionary), alpha=0.1, positive=True)
    with pytest.warns(
        IllPosedWarning, match="no correlation of a signal with an atom is positive, which pos"
    ):
        negative.transform(-np.abs(signals))


def test_a_transposed_dictionary_is_named():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((8, 8))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    signals = rng.standard_normal((3, 8))
    with pytest.warns(
        IllPosedWarning, match=r"columns have one norm, .* norms from 0\.\d+ to 1\.\d+: .* pass dictionary\.T"
    ):
        SpikingSparseCoder(atoms.T, alpha=0.1).transform(signals)
    orthonormal = np.linalg.qr(atoms)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dictionary in (atoms, orthonormal, orthonormal.T, rng.standard_normal((8, 8)), atoms.T[:, :7]):
            SpikingSparseCoder(dictionary, alpha=0.1).transform(signals[:, : dictionary.shape[1]])
