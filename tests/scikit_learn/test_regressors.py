"""Regressors pass the common checks of scikit-learn, and agree with the regressors of scikit-learn."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import ElasticNet, ElasticNetCV, Lasso, LassoCV
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from solvers import LassoRegressor, LassoRegressorCV
from solvers.regressor import Statistics

EXACT = {"tol": 1e-12, "max_iter": 10**6}
X, Y = load_diabetes(return_X_y=True)
WEIGHTS = np.random.default_rng(0).integers(0, 4, len(Y)).astype(float)


def _checks():
    for estimator in (LassoRegressor(0.01), LassoRegressorCV(cv=3, alphas=10)):
        for _, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            flags = "-".join(f"{key}={value}" for key, value in check.keywords.items())
            yield pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name}{flags}")


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_common_checks(estimator, check):
    check(clone(estimator))


def assert_alike(ours, theirs, rtol=1e-6):
    scale = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=rtol * scale)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=rtol * scale)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("options", [{}, {"positive": True}, {"fit_intercept": False}, {"l1_ratio": 0.3}])
def test_coefficients_are_those_of_scikit_learn(form, weights, options):
    table = X + 0.1
    theirs = ElasticNet(alpha=0.1, **{"l1_ratio": 1.0, **EXACT, **options}).fit(table, Y, weights)
    ours = LassoRegressor(alpha=0.1, **options).fit(form(table), Y, weights)
    assert_alike(ours, theirs)
    np.testing.assert_allclose(ours.predict(form(table)), theirs.predict(table), rtol=1e-6)
    assert 0.0 <= ours.duality_gap_ < 1e-6 * np.var(Y)


def test_several_targets_are_fitted_one_by_one():
    targets = np.column_stack([Y, X[:, 0] - Y, np.full(len(Y), 3.0)])
    ours = LassoRegressor(0.1).fit(X, targets)
    for k, target in enumerate(targets.T):
        np.testing.assert_allclose(ours.coef_[k], LassoRegressor(0.1).fit(X, target).coef_, atol=1e-9)
    assert ours.predict(X).shape == targets.shape
    assert ours.duality_gap_.shape == ours.intercept_.shape == (3,)
    np.testing.assert_array_equal(ours.coef_[2], 0.0)


def test_signs_and_factors_of_each_variable():
    signs = np.arange(X.shape[1]) % 2 == 0
    ours = LassoRegressor(0.1, positive=signs).fit(X, Y)
    assert ours.coef_[signs].min() >= 0.0 > ours.coef_.min()
    factors = np.linspace(0.5, 2.0, X.shape[1])
    theirs = Lasso(0.1, **EXACT).fit(X / factors, Y)
    ours = LassoRegressor(0.1, penalty_factors=factors).fit(X, Y)
    np.testing.assert_allclose(ours.coef_ * factors, theirs.coef_, atol=1e-6)
    assert LassoRegressor(1e6, penalty_factors=signs * 1.0).fit(X, Y).coef_[~signs].all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_constant_and_equal_columns(form):
    table = np.column_stack([np.full(len(Y), 0.1), X, X[:, 2], np.zeros(len(Y))])
    theirs = Lasso(0.1, **EXACT).fit(X, Y)
    ours = LassoRegressor(0.1).fit(form(table), Y)
    both = ours.coef_[1:-2].copy()
    both[2] += ours.coef_[-2]
    np.testing.assert_allclose(both, theirs.coef_, atol=1e-5)
    assert ours.coef_[0] == ours.coef_[-1] == 0.0
    assert LassoRegressor(0.1).fit(np.ones((5, 2)), np.arange(5.0)).intercept_ == 2.0


@pytest.mark.parametrize("offset", [0.0, 1.0, -1e3, 1e6])
@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5])
def test_offsets_of_sparse_variables_cost_no_digits(offset, share, weights):
    """All entries of some variables, or only some entries, are far from zero."""
    rng = np.random.default_rng(0)
    table = np.where(rng.random(X.shape) < share, X * 20.0 + offset, 0.0)
    table[:, ::3] = X[:, ::3]
    table[:, 3] = 20.0 * X[:, 3] - 10.0 * offset
    table = np.column_stack([table, np.full(len(Y), offset)])
    dense = LassoRegressor(0.1).fit(table, Y, weights)
    thin = LassoRegressor(0.1).fit(sparse.csr_array(table), Y, weights)
    contributions = table.std(axis=0) * (thin.coef_ - dense.coef_)
    assert np.abs(contributions).max() < 1e-8 * Y.std()
    np.testing.assert_allclose(thin.predict(table), dense.predict(table), rtol=1e-7)
    assert thin.duality_gap_ < 1e-9 * np.var(Y)
    if weights is None:
        errors = [
            LassoRegressorCV([1.0, 0.1]).fit(form(table), Y).mse_path_
            for form in (np.asarray, sparse.csr_array)
        ]
        np.testing.assert_allclose(*errors, rtol=1e-6)


def test_a_penalty_of_zero_is_least_squares_if_that_is_unique():
    table = np.column_stack([X, np.ones(len(Y))])
    ours = LassoRegressor(0.0).fit(table, Y)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(len(Y))]), Y, rcond=None)[0]
    np.testing.assert_allclose([*ours.coef_[:-1], ours.intercept_], expected, rtol=1e-8)
    with pytest.raises(ValueError, match=r"^alpha must be positive, or .* linearly independent"):
        LassoRegressor(0.0).fit(X[:8], Y[:8])


@pytest.mark.parametrize(
    "options", [{}, {"positive": True}, {"fit_intercept": False}, {"l1_ratio": 0.5}, {"cv": KFold(4)}]
)
@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5])
@pytest.mark.parametrize("n_observations", [len(Y), 18])
@pytest.mark.filterwarnings("ignore:Objective did not converge")  # of scikit-learn, near its precision
def test_cross_validation_is_that_of_scikit_learn(options, weights, n_observations):
    table, target = X[:n_observations] + 0.1, Y[:n_observations]
    weights = None if weights is None else weights[:n_observations]
    theirs = ElasticNetCV(**{"l1_ratio": 1.0, **EXACT, **options}).fit(table, target, sample_weight=weights)
    alphas = theirs.alphas_
    for form in (np.asarray, sparse.csr_array):
        ours = LassoRegressorCV(alphas, **options).fit(form(table), target, weights)
        np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-6)
        assert ours.alpha_ == theirs.alpha_
        assert_alike(ours, theirs)
        assert ours.duality_gap_ < 1e-6 * np.var(target)
    if weights is None:
        np.testing.assert_allclose(LassoRegressorCV(**options).fit(table, target).alphas_, alphas, rtol=1e-9)


def test_statistics_that_lose_digits_give_way_to_data():
    """One variable varies in only one fold; the folds of `TimeSeriesSplit` do not cover all samples."""
    table, target = X.copy(), Y.copy()
    table[:, 0], table[:40, 0] = 1.0, np.arange(40.0)
    for cv in (None, TimeSeriesSplit(4)):
        alphas = np.geomspace(2.0, 0.01, 20)
        theirs = LassoCV(cv=cv, alphas=alphas, **EXACT).fit(table, target)
        ours = LassoRegressorCV(alphas, cv=cv).fit(table, target)
        np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_coefficients_that_are_zero_at_every_penalty_are_no_error(form):
    steps = np.arange(30.0)[:, np.newaxis]
    for target, options in ((np.full(30, 2.0), {}), (-steps[:, 0], {"positive": True})):
        model = LassoRegressorCV(**options).fit(form(steps), target)
        assert model.coef_[0] == 0.0
        np.testing.assert_allclose(model.intercept_, target.mean())


def test_statistics_of_folds_are_as_good_as_their_data(monkeypatch):
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((40, 6)) * 10.0 ** rng.uniform(-4, 4, 6) for _ in range(6)]
    tables[1][:, 0] = 3.0 * tables[1][:, 1]
    tables[2][:, 2] = tables[2][:, 1] + 1e-10 * tables[2][:, 3]
    tables[3] += 1e5
    tables[4][:, -1] = np.arange(40) < 2
    tables[5] /= tables[5].std(axis=0)
    tables[5][3, 0] = 3e7
    targets = [
        table @ rng.standard_normal(6) + (k % 2) * rng.standard_normal(40) for k, table in enumerate(tables)
    ]
    # The outlier raises the largest penalty so far that folds without the outlier have zero codes there.
    models = [LassoRegressorCV([0.1, 0.01] if k == 5 else 20) for k in range(6)]
    found = [model.fit(*data).mse_path_ for model, *data in zip(models, tables, targets, strict=True)]
    monkeypatch.setattr(Statistics, "design", lambda *folds: None)
    for errors, model, *data in zip(found, models, tables, targets, strict=True):
        np.testing.assert_allclose(
            errors, model.fit(*data).mse_path_, rtol=1e-6, atol=1e-12 * np.var(data[1])
        )


def test_one_standard_error_is_a_larger_penalty():
    least, larger = (LassoRegressorCV(one_standard_error=one).fit(X, Y) for one in (False, True))
    means = least.mse_path_.mean(axis=1)
    best = int(means.argmin())
    bound = means[best] + least.mse_path_[best].std(ddof=1) / np.sqrt(5)
    np.testing.assert_array_equal(larger.mse_path_, least.mse_path_)
    assert larger.alpha_ == least.alphas_[means <= bound].max() > least.alpha_


def test_frames_pipelines_searches_and_pickles():
    pandas = pytest.importorskip("pandas")
    frame, series = pandas.DataFrame(X, columns=[f"v{k}" for k in range(10)]), pandas.Series(Y, name="y")
    pipe = make_pipeline(StandardScaler(), LassoRegressor()).set_output(transform="pandas").fit(frame, series)
    assert list(pipe[-1].feature_names_in_) == list(frame.columns)
    search = GridSearchCV(LassoRegressor(), {"alpha": [0.01, 0.1, 1.0]}).fit(frame, series)
    theirs = GridSearchCV(Lasso(**EXACT), {"alpha": [0.01, 0.1, 1.0]}).fit(frame, series)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-6
    )
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(frame), search.predict(frame))


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LassoRegressor(-1.0), "alpha must not be negative"),
        (LassoRegressor(l1_ratio=1.5), "l1_ratio must be from 0, ridge regression, to 1"),
        (LassoRegressor(penalty_factors=np.ones(3)), "penalty_factors must have shape"),
        (LassoRegressor(positive=np.ones(3, bool)), "positive must have shape"),
        (LassoRegressorCV([1.0, -1.0]), "alphas must"),
        (LassoRegressorCV(0), "alphas must"),
        (LassoRegressorCV(eps=2.0), "eps must be less than 1"),
        (LassoRegressorCV(l1_ratio=0.0), r"alphas must be an array of penalties .*; got the number 100$"),
        (LassoRegressorCV(penalty_factors=np.zeros(10)), "alphas must be an array of penalties"),
        (
            LassoRegressor(penalty_factors=[np.inf] + 9 * [1.0]),
            r"penalty_factors .*: to leave a variable out",
        ),
        (LassoRegressor(positive=np.ones(3, bool)), r"positive .*, a bool for each variable;"),
    ],
)
def test_wrong_parameters_are_named(estimator, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        estimator.fit(X, Y)


@pytest.mark.parametrize("kind", [LassoRegressor, LassoRegressorCV])
@pytest.mark.parametrize("method", ["coordinate_descent", "analog", "spiking"])
def test_methods_that_need_a_dense_table_say_so(kind, method):
    with pytest.raises(ValueError, match=rf"^X must be dense for {method} .*: pass X\.toarray\(\)$"):
        kind(method=method).fit(sparse.csr_array(X), Y)
    with pytest.raises(TypeError, match=r"^X must have .* pass X\.toarray\(\)"):
        kind(method="coordinate_descent", fit_intercept=False).fit(sparse.csr_array(X), Y)


def test_errors_of_folds_speak_of_regressions_and_name_the_fold():
    factors = np.arange(10) > 7
    with pytest.raises(ValueError, match=r"8 variables of penalty 0 in 8 observations.*; in fold 0 of cv$"):
        LassoRegressorCV([1.0], penalty_factors=factors * 1.0, cv=3).fit(X[:12], Y[:12])
    with pytest.raises(ValueError, match=r"^X must have columns .* for variable 0"):
        LassoRegressor().fit(X * 1e200, Y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_cross_validation_without_variables_that_vary_is_the_mean(form, constant):
    model = LassoRegressorCV().fit(form(np.full((20, 3), constant)), np.arange(20.0))
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert model.intercept_ == 9.5
    assert model.alphas_.shape == (100,)


def test_a_target_of_one_column_is_a_target():
    ours, theirs = (model.fit(X, Y[:, np.newaxis]) for model in (LassoRegressor(0.1), Lasso(0.1, **EXACT)))
    assert_alike(ours, theirs)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6, strict=True)


@pytest.mark.parametrize(
    ("cv", "weights"),
    [([], None), ([([0, 1], [])], None), (None, np.arange(len(Y)) >= 100), (None, np.arange(len(Y)) < 12)],
)
def test_folds_without_observations_are_named(cv, weights):
    with pytest.raises(ValueError, match=r"^cv must have folds, each with observations"):
        LassoRegressorCV(cv=cv).fit(X, Y, weights)
