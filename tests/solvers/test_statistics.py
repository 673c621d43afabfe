"""Problems from statistics have the codes, objectives and gaps of the dictionary behind them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import ElasticNet, LassoProblem, path, solve_active_set


def statistics(dictionary, signals):
    return dictionary @ dictionary.T, signals @ dictionary.T, np.square(signals).sum(axis=1)


def drawn(seed, n_atoms, n_features, n_signals=2, *, decades=0.0, n_copies=0):
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features)) * 10.0 ** (decades * rng.random((n_atoms, 1)))
    dictionary[:n_copies] = -2.0 * dictionary[n_atoms - n_copies :]
    return dictionary, rng.standard_normal((n_signals, n_features))


@pytest.mark.filterwarnings("ignore:all codes are zero")
@given(
    seed=st.integers(0, 2**31),
    n_atoms=st.integers(2, 12),
    n_features=st.integers(1, 20),
    decades=st.floats(0.0, 6.0),
    n_copies=st.integers(0, 1),
    positive=st.booleans(),
    l2=st.sampled_from([0.0, 0.1]),
)
@settings(deadline=None)
def test_codes_objectives_and_gaps_are_those_of_the_dictionary(
    seed, n_atoms, n_features, decades, n_copies, positive, l2
):
    dictionary, signals = drawn(seed, n_atoms, n_features, decades=decades, n_copies=n_copies)
    l1 = 0.1 * np.linalg.norm(dictionary, axis=1)
    options = {"penalty": ElasticNet(l1, l2 * l1**2), "positive": positive}
    expected = solve_active_set(LassoProblem(dictionary, signals, **options))
    made = LassoProblem.from_statistics(*statistics(dictionary, signals), **options)
    result = solve_active_set(made)
    np.testing.assert_allclose(made.energies, expected.problem.energies, rtol=1e-9)
    np.testing.assert_allclose(result.objective, expected.objective, rtol=1e-7)
    np.testing.assert_allclose(
        result.codes @ dictionary, expected.codes @ dictionary, atol=2e-4 * np.abs(signals).max()
    )
    assert (result.relative_gap < 1e-9).all()


def test_parts_that_are_added_up_are_the_whole():
    dictionary, signals = drawn(0, 30, 200, 1)
    parts = [statistics(dictionary[:, k::4], signals[:, k::4]) for k in range(4)]
    made = LassoProblem.from_statistics(*map(sum, zip(*parts, strict=True)), 5.0)
    expected = path(LassoProblem(dictionary, signals, 5.0))
    result = path(made)
    np.testing.assert_allclose(result.multiples, expected.multiples, rtol=1e-12)
    np.testing.assert_allclose(result.codes, expected.codes, atol=1e-10)


def test_a_bounded_quadratic_program():
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((8, 12))
    hessian, linear = matrix @ matrix.T, rng.standard_normal(8)
    problem = LassoProblem.from_statistics(hessian, linear, None, 0.0, positive=True)
    result = solve_active_set(problem)
    x, slope = result.codes[0], hessian @ result.codes[0] - linear
    assert min(x.min(), slope.min()) > -1e-10
    assert abs(x @ slope) < 1e-10
    value = 0.5 * x @ hessian @ x - linear @ x
    np.testing.assert_allclose(result.objective - problem.energies, value, rtol=1e-9)


def test_what_the_factor_differs_by_is_said_and_kept():
    dictionary, signals = drawn(1, 20, 6, 1)
    problem = LassoProblem.from_statistics(*statistics(dictionary, signals), 1.0)
    assert "a factor of rank 6, off by" in str(problem)
    for kept in (problem.subset([0]), problem.with_penalty(2.0), pickle.loads(pickle.dumps(problem))):
        assert "a factor of rank 6" in str(kept)
    assert "factor" not in str(LassoProblem(dictionary, signals, 1.0))
    single = statistics(dictionary.astype(np.float32), signals.astype(np.float32))
    assert "a factor of rank 6" in str(LassoProblem.from_statistics(*single, 1.0))


def test_wrong_statistics_are_refused_in_one_sentence():
    dictionary, signals = drawn(2, 5, 3)
    gram, correlations, energies = statistics(dictionary, signals)
    asymmetric, indefinite = gram.copy(), gram - 0.1 * np.eye(5)
    asymmetric[0, 1] += 1.0
    for arguments, words in [
        ((gram, correlations, 0.1 * energies), "energy must be at least what correlations imply"),
        ((gram, correlations + np.eye(5)[0], 10 * energies), "correlations must lie in the range of gram"),
        ((indefinite, correlations, energies), "gram must be positive semidefinite"),
        ((asymmetric, correlations, energies), "gram must be symmetric"),
        ((-gram, correlations, energies), "gram must have squared norms on its diagonal"),
        ((gram[:3], correlations, energies), "gram must be square"),
        ((gram, correlations[:, :3], energies), "correlations must have shape"),
        ((gram, correlations, energies[:1]), "energy must have shape"),
        ((gram, correlations, -energies), "energy must not be negative"),
    ]:
        with pytest.raises(ValueError, match=f"^{words}"):
            LassoProblem.from_statistics(*arguments, 1.0)


@pytest.mark.parametrize("noise", [1e-8, 1e-6, 1e-3])
def test_noisy_statistics_are_taken_as_the_error_says(noise):
    dictionary, signals = drawn(3, 12, 5, 1, decades=3.0)
    gram, correlations, energies = statistics(dictionary, signals)
    norms = np.sqrt(gram.diagonal())
    noisy = gram + noise * np.outer(norms, norms) * np.random.default_rng(0).standard_normal((12, 12))
    for rule in ("symmetric", "positive semidefinite"):
        with pytest.raises(ValueError, match=rf"^gram must be {rule}.*noisy, ") as refused:
            LassoProblem.from_statistics(noisy, correlations, energies, 1.0)
        noisy = eval(str(refused.value).rpartition(", ")[2].removeprefix("pass "), {"gram": noisy, "np": np})
    result = solve_active_set(LassoProblem.from_statistics(noisy, correlations, energies, 1.0))
    exact = solve_active_set(LassoProblem(dictionary, signals, 1.0))
    np.testing.assert_allclose(result.objective, exact.objective, atol=20.0 * noise * energies[0])


def test_statistics_in_place_of_a_dictionary_are_named():
    gram, correlations, _ = statistics(*drawn(4, 4, 9, 1))
    with pytest.raises(ValueError, match=r"with correlations call LassoProblem\.from_statistics"):
        LassoProblem(gram, correlations[0], 1.0)


def test_criteria_of_a_path_need_the_number_of_observations():
    dictionary, signals = drawn(5, 6, 200, 1)
    signals += 3.0 * np.random.default_rng(6).standard_normal(signals.shape)
    counts = np.random.default_rng(7).integers(0, 3, 200)
    copies = np.repeat(np.arange(200), counts)
    multiples = np.geomspace(100.0, 1.0, 8)
    whole = path(LassoProblem(dictionary[:, copies], signals[:, copies], 1.0), multiples)
    weighted = LassoProblem(dictionary, signals, 1.0, feature_weights=counts.astype(float))
    summed = LassoProblem.from_statistics(*statistics(dictionary[:, copies], signals[:, copies]), 1.0)
    for criterion in ("aic", "bic"):
        for variance in (None, 9.0):
            for problem in (weighted, summed):
                found = getattr(path(problem, multiples), criterion)(variance, n_observations=len(copies))
                np.testing.assert_allclose(found, getattr(whole, criterion)(variance), rtol=1e-9)
        with pytest.raises(ValueError, match=r"^n_observations must be given for a problem from statistics"):
            getattr(path(summed, multiples), criterion)()
    with pytest.raises(ValueError, match=r"^n_observations must be positive"):
        whole.bic(n_observations=0)
