"""Who is right? ``python -m tests.benchmarks.who_is_right``: certified gaps of the codes of several packages.

1,000 observations of 100 correlated variables, centred, and 30 penalties from the largest to a thousandth of
it. Each package gets the tolerance 1e-8, and `certify` measures how far each code is from the optimum.
"""

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.linear_model import Lasso

from solvers import LassoProblem, certify, path
from solvers.results.result import SparseCodingResult

TOL = 1e-8


def drawn(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return centred variables, neighbours of which correlate by a half, and a centred target."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((1000, 100))
    for k in range(1, 100):
        table[:, k] = 0.5 * table[:, k - 1] + np.sqrt(0.75) * table[:, k]
    target = table[:, ::7] @ rng.standard_normal(15) + 2.0 * rng.standard_normal(1000)
    return table - table.mean(axis=0), target - target.mean()


def packages(**options: Any) -> dict[str, Callable[[float], Any]]:
    """Return, for each installed package, a function that makes the package's estimator for a penalty."""
    options |= {"fit_intercept": False, "tol": TOL}
    found: dict[str, Callable] = {"scikit-learn": partial(Lasso, max_iter=10**6, **options)}
    for name in ("celer", "skglm"):
        with suppress(ImportError):
            found[name] = partial(import_module(name).Lasso, max_iter=1000, **options)
    return found


def judged() -> dict[str, list[SparseCodingResult]]:
    """Return the codes of each package at each penalty, with their certificates."""
    table, target = drawn()
    problem = LassoProblem(table.T, target[np.newaxis], 1.0)
    exact = path(problem, n_multiples=30)
    results = {"sparsespike": list(exact.results)}
    for name, estimator in packages().items():
        fits = [estimator(multiple / len(target)).fit(table, target) for multiple in exact.multiples]
        pairs = zip(fits, exact.results, strict=True)
        results[name] = [certify(result.problem, fit.coef_[np.newaxis]) for fit, result in pairs]
    return results


def main() -> int:
    """Print a row for each package."""
    warnings.simplefilter("ignore")
    results = judged()
    exact = results["sparsespike"]
    for name, codes in results.items():
        gaps = np.array([result.relative_gap[0] for result in codes])
        pairs = list(zip(codes, exact, strict=True))
        same = sum(np.array_equal(a.codes != 0.0, b.codes != 0.0) for a, b in pairs)
        away = max(np.linalg.norm(a.codes - b.codes) / max(np.linalg.norm(b.codes), 1e-300) for a, b in pairs)
        print(
            f"{name:13} certified gap: median {np.median(gaps):.0e}, worst {gaps.max():.0e}; "
            f"same support at {same} of 30; farthest from ours {away:.0e}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
