"""Concave penalties by spikes, on data like those of arXiv:2407.03930.

The problems have 700 features and 1,200 atoms; a fifth of the codes is not zero, and none is negative. The
penalty has the smallest BIC of the active set's codes, for which the truth is not needed; all rounds then use
spikes. Run: ``python -m tests.benchmarks.concave``
"""

import sys

import numpy as np

from solvers import LassoProblem, PathResult, path, reweighted

N_FEATURES, N_ATOMS = 700, 1200
PUBLISHED = {"lasso": -17.54, "log": -22.17, "exponential": -23.88}


def drawn(seed: int, noise: float, shape: tuple[int, int] = (N_ATOMS, N_FEATURES)) -> tuple:
    """Return unit atoms, a signal and its true code."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal(shape)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    code = np.zeros(shape[0])
    code[rng.choice(shape[0], shape[0] // 5, replace=False)] = np.abs(rng.standard_normal(shape[0] // 5))
    return atoms, code @ atoms + noise * rng.standard_normal(shape[1]), code


def decibels(code: np.ndarray, truth: np.ndarray) -> float:
    """Return the error of a code in decibels, relative to the true code."""
    return 20.0 * float(np.log10(np.linalg.norm(code - truth) / np.linalg.norm(truth)))


def chosen(problem: LassoProblem, penalty: str) -> float:
    """Return the multiple of the penalty with the least BIC."""
    multiples = path(problem, n_multiples=13).multiples
    rounds = [
        reweighted(problem.with_penalty(multiple), penalty, max_rounds=10).rounds[0] for multiple in multiples
    ]
    last = PathResult(multiples=multiples, results=tuple(results[-1] for results in rounds))
    return float(multiples[last.bic()[:, 0].argmin()])


def measure(seed: int, noise: float, penalty: str, tol: float = 1e-6, **options) -> dict:
    """Return three errors (true support, LASSO, last round), spikes, rounds and largest certified gap."""
    atoms, signal, truth = drawn(seed, noise, **options)
    problem = LassoProblem(atoms, signal[np.newaxis], 1.0, positive=True)
    problem = problem.with_penalty(chosen(problem, penalty))
    active = np.flatnonzero(truth)
    fit = np.zeros_like(truth)
    fit[active] = np.linalg.lstsq(atoms[active].T, signal, rcond=None)[0]
    (rounds,) = reweighted(problem, penalty, max_rounds=10, method="spiking", tol=tol).rounds
    return {
        "known support": decibels(fit, truth),
        "lasso": decibels(rounds[0].codes[0], truth),
        "concave": decibels(rounds[-1].codes[0], truth),
        "spikes": sum(int(result.n_steps[0]) for result in rounds),
        "rounds": len(rounds),
        "gap": max(float(result.relative_gap[0]) for result in rounds),
    }


def main() -> int:
    """Print the table."""
    for noise in (0.0, 0.02):
        for penalty in ("log", "exponential", "mcp"):
            row = measure(1, noise, penalty)
            print(
                f"noise {noise:4} {penalty:12} LASSO {row['lasso']:.1f} dB, concave {row['concave']:.1f} dB "
                f"(published {PUBLISHED.get(penalty, 'none')}), {row['spikes']:,} spikes, "
                f"{row['rounds']} rounds, gap {row['gap']:.1e}; least squares on the true support "
                f"{row['known support']:.1f} dB",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
