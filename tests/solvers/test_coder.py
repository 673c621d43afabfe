"""The scikit-learn transformer: the common checks, and that it returns what the solver does."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from solvers import L1, ElasticNet, LassoProblem, SpikingSparseCoder, held_out_score, solve_spiking

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


def _coder(n_features):
    dictionary = np.random.default_rng(0).standard_normal((5, n_features))
    return SpikingSparseCoder(dictionary, alpha=0.5)


def _checks():
    for _, check in estimator_checks_generator(_coder(10)):
        name = check.func.__name__
        flags = "-".join(f"{key}={value}" for key, value in check.keywords.items())
        yield pytest.param(check, FEATURES.get(name, 10), id=f"{name}{flags}")


@pytest.mark.parametrize(("check", "n_features"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_common_checks(check, n_features):
    check(_coder(n_features))


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
        ({"alpha": 0.0}, ValueError, "alpha must be positive; got 0.0"),
        ({"alpha": "small"}, TypeError, "alpha must be .* real number.*; got "),
        ({"alpha": [1.0, 2.0]}, ValueError, r"alpha must have shape \(12,\), .*; got shape \(2,\)"),
        ({"alpha": ElasticNet([1.0], 1.0)}, ValueError, r"l1 must have shape \(12,\), .*; got shape \(1,\)"),
        ({"alpha": 1.0, "readout": "best"}, ValueError, "readout must be one of .*; got 'best'"),
        ({"alpha": 1.0, "positive": "yes"}, TypeError, "positive must be True or False; got 'yes'"),
        ({"alpha": 1.0, "tol": -1.0}, ValueError, "tol must be positive; got -1.0"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(data, parameters, error, message):
    dictionary, signals = data
    with pytest.raises(error, match=message):
        SpikingSparseCoder(dictionary, **parameters).transform(signals)


def test_signals_of_another_width_are_refused(data):
    dictionary, _ = data
    with pytest.raises(ValueError, match=r"Dictionary and X have different .*\(12, 6\), .*\(3, 4\)"):
        SpikingSparseCoder(dictionary, alpha=1.0).fit(np.ones((3, 4)))
