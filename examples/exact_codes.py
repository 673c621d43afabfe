"""Code signals in a given dictionary of many atoms, and see how far usual codes are from the best ones.

The dictionary stands for the decoder of a sparse autoencoder: 16,384 atoms in 512 dimensions, in groups
that resemble each other.  Signals are made of 40 atoms and noise, and codes must not be negative.  A greedy
pursuit adds the atom that correlates most with what is left, and fits all its atoms again.  An encoder takes
the atoms that correlate most with the signal itself, as one layer does.  Both are given the best values that
their atoms can have.  All codes are certified, and compared with the optimum.

    python -m examples.exact_codes [--output DIR] [--atoms NUMBER] [--signals NUMBER]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy import sparse
from scipy.optimize import nnls

from examples._common import BLUE, GREEN, ORANGE, figure, parser, save, table
from solvers import LassoProblem, SparseCodingResult, certify, solve_active_set

N_FEATURES, IN_GROUP = 512, 16
PLANTED, NOISE, PENALTY = 40, 0.02, 0.35
SIZES = (5, 10, 20, 30, 40, 60, 80)


def decoder(n_atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Return atoms of norm one; those of a group have inner products of about a half."""
    centres = rng.standard_normal((-(-n_atoms // IN_GROUP), N_FEATURES))
    atoms = centres.repeat(IN_GROUP, axis=0)[:n_atoms] + rng.standard_normal((n_atoms, N_FEATURES))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def made_signals(atoms: np.ndarray, n_signals: int, rng: np.random.Generator) -> np.ndarray:
    """Return sums of some atoms, with noise."""
    signals = NOISE * rng.standard_normal((n_signals, N_FEATURES))
    for signal in signals:
        chosen = rng.choice(len(atoms), PLANTED, replace=False)
        signal += rng.uniform(0.5, 1.5, PLANTED) @ atoms[chosen]
    return signals


def greedy(problem: LassoProblem) -> Iterator[tuple[int, sparse.csr_array]]:
    """Yield the codes of a greedy pursuit at some sizes: atom by atom, all fitted again each time."""
    atoms, signals = problem.dictionary, problem.signals
    residuals = signals.copy()
    chosen: list[list[int]] = [[] for _ in signals]
    for size in range(1, SIZES[-1] + 1):
        for k, atom in enumerate((residuals @ atoms.T).argmax(axis=1)):
            if atom not in chosen[k]:
                chosen[k].append(int(atom))
            values, _ = nnls(atoms[chosen[k]].T, signals[k])
            residuals[k] = signals[k] - values @ atoms[chosen[k]]
        if size in SIZES:
            yield size, best_among(problem, chosen)


def encoded(problem: LassoProblem) -> Iterator[tuple[int, sparse.csr_array]]:
    """Yield the codes of an encoder at some sizes: the atoms that correlate most with the signal."""
    order = np.argsort(-problem.correlations, axis=1)
    for size in SIZES:
        yield size, best_among(problem, order[:, :size].tolist())


def best_among(problem: LassoProblem, chosen: Sequence[Sequence[int]]) -> sparse.csr_array:
    """Return the best codes that have chosen atoms alone."""
    codes = sparse.lil_array((problem.n_signals, problem.n_atoms))
    for k, atoms in enumerate(chosen):
        among = LassoProblem(problem.dictionary[atoms], problem.signals[[k]], PENALTY, positive=True)
        codes[k, atoms] = solve_active_set(among).codes[0]
    return codes.tocsr()


def draw(best: SparseCodingResult, others: dict[str, list[SparseCodingResult]]) -> Figure:
    """Return what the best codes gain, and what certificates say of it without knowing them."""
    picture = figure(10.0, 4.2)
    gained, certified = picture.subplots(1, 2)
    for colour, (name, results) in zip((ORANGE, BLUE), others.items(), strict=True):
        sizes = [result.support_size.mean() for result in results]
        excess = [(result.objective / best.objective - 1.0).mean() for result in results]
        gaps = [result.relative_gap.mean() for result in results]
        gained.plot(sizes, 100.0 * np.array(excess), color=colour, marker="o", label=name)
        certified.plot(sizes, gaps, color=colour, marker="o", label=name)
    for ax, value in ((gained, 0.0), (certified, best.relative_gap.max())):
        ax.plot(best.support_size.mean(), value, "*", color=GREEN, markersize=14, label="active set")
        ax.set(xlabel="atoms in the code")
        ax.legend(frameon=False)
    gained.set(ylabel="objective above the optimum, %", title="How much better the best code is")
    certified.set(
        yscale="log", ylabel="certified gap, share of 1/2 ||signal||²", title="What a certificate says"
    )
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--atoms", type=int, default=16_384, help="number of atoms")
    options.add_argument("--signals", type=int, default=100, help="number of signals")
    chosen = options.parse_args(arguments)
    if chosen.atoms < SIZES[-1] or chosen.signals < 1:
        options.error(f"--atoms must be at least {SIZES[-1]}, --signals at least 1")

    rng = np.random.default_rng(0)
    atoms = decoder(chosen.atoms, rng)
    problem = LassoProblem(atoms, made_signals(atoms, chosen.signals, rng), PENALTY, positive=True)
    solve_active_set(problem.subset(slice(0, 4)))  # compiled before it is timed
    begin = time.process_time()
    best = solve_active_set(problem)
    seconds = time.process_time() - begin
    others = {
        "greedy pursuit": [certify(problem, codes) for _, codes in greedy(problem)],
        "encoder": [certify(problem, codes) for _, codes in encoded(problem)],
    }
    rows = [
        (
            name,
            f"{result.support_size.mean():.1f}",
            f"{result.objective.mean():.3f}",
            f"{100.0 * (result.objective / best.objective - 1.0).mean():.2f} %",
            f"{result.relative_gap.max():.1e}",
        )
        for name, results in ({"active set": [best]} | others).items()
        for result in results
    ]
    print(table(("codes", "atoms", "objective", "above the optimum", "largest certified gap"), rows))
    print(f"the best codes took {1e3 * seconds / chosen.signals:.1f} ms of a processor for each signal")
    save(draw(best, others), chosen.output, "exact_codes.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
