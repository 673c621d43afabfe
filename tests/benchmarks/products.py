"""Seconds of the active set by each kind of products: ``python -m tests.benchmarks.products``."""

import time
from itertools import product

import numpy as np

from solvers import LassoProblem, solve_active_set
from solvers.methods.active_set import ActiveSet
from solvers.plan import most_sharing


def seconds(dictionary: np.ndarray, signals: np.ndarray, penalty: float, *, with_gram: bool) -> float:
    """Return the process time of a call."""
    begin = time.process_time()
    problem = LassoProblem(dictionary, signals, penalty)
    if with_gram:
        _ = problem.gram
    solve_active_set(problem)
    return time.process_time() - begin


def main() -> None:
    """Print a row for each size, with the number of signals up to which products are expected to pay."""
    rng = np.random.default_rng(0)
    for n_atoms, n_features in product((1024, 2048, 4096), (64, 256, 1024)):
        dictionary = rng.standard_normal((n_atoms, n_features))
        dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
        for n_signals, n_active in product((20, 60, 200, 600), (3, 30)):
            signals = (rng.random((n_signals, n_atoms)) < n_active / n_atoms) @ dictionary
            signals /= np.linalg.norm(signals, axis=1, keepdims=True) + 1e-12
            penalty = 0.3 / n_active**0.5
            problem = LassoProblem(dictionary, signals, penalty)
            support = solve_active_set(problem).support_size.mean()
            kind = type(ActiveSet().prepare(LassoProblem(dictionary, signals, penalty))).__name__
            planned, gram = (
                1e3 * min(seconds(dictionary, signals, penalty, with_gram=one) for _ in range(2))
                for one in (False, True)
            )
            print(
                f"{n_atoms} x {n_features}, {n_signals} signals, support {support:.0f}: "
                f"{kind} {planned:.0f} ms, "
                f"Gram matrix {gram:.0f} ms; up to {most_sharing(problem, support)} signals share",
                flush=True,
            )


if __name__ == "__main__":
    main()
