"""Samples of which most is missing: ``python -m tests.benchmarks.mostly_missing [SHARES KNOWN ...]``.

The data are 3,000 signals of 400 features, each with its own mask. The signals are made of 20 atoms by
non-negative codes, of which a tenth is not zero, with 5 % noise. The network learns in ten passes with graded
and with firing inputs, and is compared with alternating ridge regressions of codes and features. The error is
the norm of errors at hidden entries, as a share of the norm of the true entries.
"""

import sys
import time
from functools import partial

import numpy as np

from dictlearn import LearningSettings, learn_dictionary, random_dictionary
from solvers import LassoProblem, solve_active_set
from tests.benchmarks.timing import machine, table

N_SIGNALS, N_FEATURES, N_ATOMS = 3_000, 400, 20
RIDGE, N_ROUNDS = 0.3, 20  # 0.3 is the best of the ridges 0.03, 0.3, 1 and 3


def data(share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return true atoms, signals, and where they are known."""
    rng = np.random.default_rng(0)
    atoms = random_dictionary(N_ATOMS, N_FEATURES, positive=False, rng=rng)
    codes = rng.exponential(size=(N_SIGNALS, N_ATOMS)) * (rng.random((N_SIGNALS, N_ATOMS)) < 0.1)
    signals = codes @ atoms
    signals += 0.05 * signals.std() * rng.standard_normal(signals.shape)
    return atoms, signals, rng.random(signals.shape) < share


def by_network(signals: np.ndarray, known: np.ndarray, penalty: float, inputs: str) -> np.ndarray:
    """Return signals reconstructed with the atoms that a two-phase network learned."""
    settings = LearningSettings(penalty=penalty, positive_atoms=False, inputs=inputs)
    learner = learn_dictionary(signals, N_ATOMS, mask=known, settings=settings, rng=1, n_jobs=1)
    return by_atoms(signals, known, penalty, learner.dictionary)


def by_atoms(signals: np.ndarray, known: np.ndarray, penalty: float, atoms: np.ndarray) -> np.ndarray:
    """Return signals reconstructed with these atoms."""
    problem = LassoProblem(atoms, signals, penalty, mask=known, positive=True)
    return problem.reconstruct(solve_active_set(problem).codes)


def by_alternating(signals: np.ndarray, known: np.ndarray, penalty: float) -> np.ndarray:
    """Return reconstructions of low rank, by alternating ridge regressions."""
    atoms = random_dictionary(N_ATOMS, N_FEATURES, positive=False, rng=1)
    for _ in range(N_ROUNDS):
        codes = regressed(atoms.T, signals, known)
        atoms = regressed(codes, signals.T, known.T).T
    return codes @ atoms


def regressed(variables: np.ndarray, signals: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the coefficients of each signal."""
    ridge = RIDGE * np.eye(variables.shape[1])
    parts = [(variables[where], signal[where]) for signal, where in zip(signals, known, strict=True)]
    return np.array([np.linalg.solve(some.T @ some + ridge, some.T @ values) for some, values in parts])


def main(arguments: list[str]) -> int:
    """Print the table."""
    rows = []
    for share in map(float, arguments or ["0.1", "0.5"]):
        atoms, signals, known = data(share)
        ways = {
            "the true atoms": partial(by_atoms, atoms=atoms),
            "two-phase network": partial(by_network, inputs="graded"),
            "two-phase network, inputs fire": partial(by_network, inputs="spiking"),
            "alternating ridge regressions": by_alternating,
        }
        for name, fill in ways.items():
            fill(signals[:40], known[:40], 0.1 * share)  # compiles the kernels
            begin = time.perf_counter()
            error = fill(signals, known, 0.1 * share) - signals
            taken = time.perf_counter() - begin
            hidden = np.linalg.norm(error[~known]) / np.linalg.norm(signals[~known])
            rows.append([f"{100.0 * share:.0f} %", name, f"{taken:.1f} s", f"{hidden:.3f}"])
    print(machine(), table(["known", "way", "time", "error at hidden entries"], rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
