"""The choice of products for a problem; codes do not depend on it."""

import numpy as np
import pytest

from solvers import LassoProblem, memory_limit
from solvers.gram.atom_products import FullGram, GramOnDemand, OwnWeights, SharedProducts
from solvers.methods.active_set import ActiveSet
from solvers.plan import most_sharing, shares_products, uses_full_gram
from tests.reference.costs import costs


def problem_of(n_signals, n_active=3, n_atoms=2048, **options):
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((n_atoms, 32))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    signals = (rng.random((n_signals, n_atoms)) < n_active / n_atoms) @ dictionary
    return LassoProblem(dictionary, signals, 0.3, **options)


@pytest.mark.parametrize(
    ("n_signals", "kind"), [(1, GramOnDemand), (20, GramOnDemand), (21, SharedProducts), (200, FullGram)]
)
def test_the_number_of_signals_decides(n_signals, kind):
    problem = problem_of(n_signals)
    assert type(ActiveSet().prepare(problem)) is kind
    _ = problem.gram
    assert type(ActiveSet().prepare(problem)) is FullGram


def test_the_support_is_asked_where_the_choice_depends_on_it():
    problem = problem_of(40)
    asked, supports = [], []

    def support_of(asked_of):
        asked.append(asked_of.n_signals)
        return supports[-1]

    with costs(ns_of_code=1e5, ns_of_support=1e4, largest_support=100):
        assert most_sharing(problem, 100) < 40 < most_sharing(problem, 0)
        for support, shares in ((0.0, True), (100.0, False)):
            supports.append(support)
            assert shares_products(problem, 1, support_of) is shares
        free = LassoProblem(problem.dictionary, problem.signals, np.zeros(2048), positive=True)
        assert not shares_products(free, 1, support_of)
    with costs(ns_of_code=1.0, ns_of_support=0.0):
        assert shares_products(problem, 1, support_of)
    with costs(fewest_shared=4096):
        assert not shares_products(problem, 1, support_of)
    assert asked == [40, 40]


def test_a_matrix_that_does_not_fit_is_never_used():
    with memory_limit(1e6):
        for n_signals, kind in ((1, GramOnDemand), (4, SharedProducts), (200, SharedProducts)):
            assert type(ActiveSet().prepare(problem_of(n_signals))) is kind


def test_signals_with_masks_of_their_own_have_products_of_their_own():
    mask = np.random.default_rng(1).random((3, 32)) < 0.5
    assert type(ActiveSet().prepare(problem_of(3, n_atoms=40, mask=mask))) is OwnWeights
    with memory_limit(1e3):  # the Gram matrix of no signal fits
        assert type(ActiveSet().prepare(problem_of(3, n_atoms=40, mask=mask))) is SharedProducts


def test_thresholds_may_be_others():
    problem = problem_of(1)
    assert not uses_full_gram(problem)
    with costs(fewest_on_demand=4096):
        assert uses_full_gram(problem)
    assert uses_full_gram(problem, n_codes=2)
