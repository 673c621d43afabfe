"""Calls of SPAMS have the codes of their counterparts in docs/from_spams.md."""

import numpy as np
import pytest

from solvers import ElasticNet, LassoProblem, QuadraticProgram, solve_active_set

spams = pytest.importorskip("spams", reason="the peer spams-bin is not installed")

rng = np.random.default_rng(0)
D = rng.standard_normal((20, 40))
D, X = np.asfortranarray(D / np.linalg.norm(D, axis=0)), np.asfortranarray(rng.standard_normal((20, 5)))
KNOWN = np.asfortranarray(rng.random(X.shape) < 0.7)
W = np.asfortranarray(0.5 + rng.random((40, 5)))
Z = np.asfortranarray(rng.standard_normal((20, 8)))
HULL = {"equations": (np.ones((1, 8)), [1.0]), "bounds": (0.0, None)}
FREE = np.append(np.full(39, 0.3), 0.0)

OPTIONS = {"lambda1": 0.3, "numThreads": 1}
LARS = {"mode": 2} | OPTIONS
FISTA = {"loss": "square", "tol": 1e-12, "max_it": 100_000} | OPTIONS


def coded(penalty, signals=X.T, **more):
    return solve_active_set(LassoProblem(D.T, signals, penalty, **more)).codes


def signal_by_signal(penalties, masks=(None,) * 5):
    return [coded(penalties[k], X.T[[k]], mask=masks[k])[0] for k in range(5)]


def fista(**options):
    return spams.fistaFlat(X, D, np.zeros((40, 5), order="F"), regul="l1", **FISTA, **options)


CALLS = {
    "lasso": (lambda: spams.lasso(X, D, **LARS), lambda: coded(0.3)),
    "lasso, pos": (lambda: spams.lasso(X, D, pos=True, **LARS), lambda: coded(0.3, positive=True)),
    "lasso, lambda2": (lambda: spams.lasso(X, D, lambda2=0.1, **LARS), lambda: coded(ElasticNet(0.3, 0.1))),
    "lassoMask": (
        lambda: spams.lassoMask(X, D, KNOWN, **LARS),
        lambda: signal_by_signal(0.3 * KNOWN.mean(axis=0), KNOWN.T[:, np.newaxis]),
    ),
    "lassoWeighted": (lambda: spams.lassoWeighted(X, D, W, **LARS), lambda: signal_by_signal(0.3 * W.T)),
    "fistaFlat": (fista, lambda: coded(0.3)),
    "fistaFlat, intercept": (lambda: fista(intercept=True), lambda: coded(FREE)),
    "decompSimplex": (
        lambda: spams.decompSimplex(X, Z, numThreads=1),
        lambda: [QuadraticProgram(Z.T @ Z, -Z.T @ x, **HULL).solve().x for x in X.T],
    ),
}


@pytest.mark.parametrize(("theirs", "ours"), CALLS.values(), ids=CALLS)
def test_the_counterpart_of_a_call_has_its_codes(theirs, ours):
    codes = theirs()
    codes = codes.toarray() if hasattr(codes, "toarray") else codes
    np.testing.assert_allclose(codes.T, ours(), atol=1e-6)
