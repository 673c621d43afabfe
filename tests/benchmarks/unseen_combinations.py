"""Learned dictionaries and unseen combinations: ``python -m tests.benchmarks.unseen_combinations``.

The benchmark of arXiv:2603.28744 (https://github.com/shrutij01/compositional-sparse-ood), with the same
samples x = A z. The columns of A have unit norm and entries of either sign; z has ten nonzero entries (or
`--support`), uniform in [0, 1]. Training samples contain the first atom only together with atoms of the first
half. Test samples always contain the first atom, and otherwise only atoms of the second half. The score is
the mean absolute correlation of the true codes of an atom with the learned codes that are paired with them.
Unlearned atoms show the score without learning, and learning from the true atoms shows how much of them the
objective keeps.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from dictlearn import LearningSettings, learn_dictionary, normalise
from examples._baselines import learn_with_scikit_learn
from solvers import LassoProblem, solve_active_set
from tests.benchmarks.timing import machine, table

SUPPORT = 10
N_SAMPLES = 2_500
PENALTY = 0.1
BATCH = 32
# Published means of "mcc_ood" over seeds 0 to 2: first for 50,000 steps of FISTA and least squares in turn,
# then for FISTA with the true dictionary, if published. Keys: atoms, support, samples (half of them for
# learning).
PUBLISHED: dict[tuple[int, int, int], tuple[float, ...]] = {
    (50, 10, 5_000): (0.917, 0.971),
    (100, 10, 5_000): (0.945, 0.986),
    (500, 10, 5_000): (0.955, 0.992),
    (1_000, 10, 5_000): (0.475, 0.993),
    (5_000, 10, 5_000): (0.262, 0.992),
    (10_000, 10, 5_000): (0.338, 0.982),
    (1_000, 2, 5_000): (0.744, 0.977),
    (1_000, 5, 5_000): (0.583, 0.993),
    (1_000, 20, 5_000): (0.152, 0.992),
    (1_000, 50, 5_000): (0.134, 0.990),
    (1_000, 100, 5_000): (0.130, 0.986),
    (100, 10, 100): (0.485,),
    (100, 10, 500): (0.416,),
    (100, 10, 1_000): (0.895,),
    (100, 10, 10_000): (0.936,),
    (100, 10, 50_000): (0.947,),
    (100, 10, 100_000): (0.958,),
}


def normalised(atoms: np.ndarray) -> np.ndarray:
    """Return the atoms scaled to norm one; atoms of zeros stay zero."""
    return normalise(atoms)[0]


class Samples(NamedTuple):
    """Signals and the codes that generated them, one per row."""

    signals: np.ndarray
    codes: np.ndarray


class Data(NamedTuple):
    """Samples for learning, samples for the test, and the dictionary, whose rows have norm one."""

    seen: Samples
    unseen: Samples
    dictionary: np.ndarray


def generate(n_atoms: int, seed: int, n_samples: int = N_SAMPLES, support: int = SUPPORT) -> Data:
    """Return the published samples: drawn in the same order, by the same generator.

    The published code draws twice as many samples, and learns from and scores the second half.
    """
    rng = np.random.RandomState(seed)
    n_features = math.ceil(2 * support * math.log(n_atoms / support))
    atoms = rng.normal(0.0, 1.0, (n_features, n_atoms))
    atoms /= np.linalg.norm(atoms, axis=0)
    n_late = n_atoms // 2

    def with_first(low: int, high: int) -> np.ndarray:
        others = rng.choice(np.arange(low, high), support - 1, replace=False)
        return np.concatenate([[0], others])

    def code(atoms_of_code: np.ndarray) -> np.ndarray:
        values = np.zeros(n_atoms)
        values[atoms_of_code] = rng.uniform(0.0, 1.0, support)
        return values

    def seen() -> np.ndarray:
        if rng.binomial(n=1, p=0.5):
            return code(with_first(1, n_atoms - n_late))
        return code(rng.choice(np.arange(1, n_atoms), support, replace=False))

    codes = np.array([seen() for _ in range(2 * n_samples)])[n_samples:]
    others = np.array([code(with_first(n_atoms - n_late, n_atoms)) for _ in range(n_samples)])
    return Data(Samples(codes @ atoms.T, codes), Samples(others @ atoms.T, others), atoms.T.copy())


def mean_correlation(true: np.ndarray, found: np.ndarray) -> float:
    """Return the mean |correlation| of true code columns, each paired with a different learned column.

    Only columns that vary count: all true ones, and as many of the learned columns, those that vary most.
    """
    true = true[:, true.var(axis=0) > 1e-8]
    found = found[:, np.argsort(-found.var(axis=0))[: true.shape[1]]]
    correlation = np.abs(_standardised(true).T @ _standardised(found))
    return float(correlation[linear_sum_assignment(-correlation)].mean())


def _standardised(columns: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(axis=0)
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms < 1e-8, 1.0, norms)


class Score(NamedTuple):
    """Scores of a dictionary, with exact codes of the samples of unseen combinations."""

    correlation: float
    objective: float


def score(dictionary: np.ndarray, data: Data) -> Score:
    """Return the scores of exact codes in the normalised atoms."""
    found = solve_active_set(
        LassoProblem(normalised(dictionary), data.unseen.signals, PENALTY, positive=True)
    )
    return Score(mean_correlation(data.unseen.codes, found.codes), float(found.objective.mean()))


Learn = Callable[[Data, np.ndarray, int, int], np.ndarray]
"""(data, start, samples to be shown, seed) -> dictionary."""


def alternate(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Alternate exact codes of all samples and least squares, as the published method with exact codes."""
    del seed
    signals, dictionary = data.seen.signals, start
    for _ in range(n_samples // len(signals)):
        codes = solve_active_set(LassoProblem(dictionary, signals, PENALTY, positive=True)).codes
        gram = codes.T @ codes + 1e-6 * np.eye(len(dictionary))
        dictionary = np.linalg.solve(gram, codes.T @ signals)
        dictionary /= np.maximum(np.linalg.norm(dictionary, axis=1, keepdims=True), 1e-8)
        # An atom that no code uses has become zero: restart it.
        lost = np.flatnonzero(np.linalg.norm(dictionary, axis=1) < 0.5)
        dictionary[lost] = start[lost]
    return dictionary


def by_spams(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Learn with SPAMS."""
    from tests.reference.spams_dictionary import learn_with_spams

    return learn_with_spams(
        data.seen.signals, start=start, penalty=PENALTY, n_samples=n_samples, batch_size=BATCH, rng=seed,
        positive_atoms=False,
    ).dictionary  # fmt: skip


def by_scikit_learn(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Learn with `MiniBatchDictionaryLearning`."""
    return learn_with_scikit_learn(
        data.seen.signals, start=start, penalty=PENALTY, n_samples=n_samples, batch_size=BATCH, rng=seed,
        positive_atoms=False,
    ).dictionary  # fmt: skip


def by_network(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Learn with the two-phase network, its settings as they come."""
    settings = LearningSettings(penalty=PENALTY, positive_atoms=False, batch_size=BATCH)
    return learn_dictionary(
        data.seen.signals, start=start, settings=settings, n_samples=n_samples, rng=seed, n_jobs=1
    ).dictionary


def from_the_truth(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Learn from the true atoms with the two-phase network, to see how much of them the objective keeps."""
    return by_network(data, data.dictionary, n_samples, seed)


def unlearned(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Return random atoms."""
    return start


def samples_as_atoms(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Return samples, scaled to norm one, as atoms."""
    order = np.random.default_rng(seed).permutation(len(data.seen.signals))
    return normalised(np.resize(data.seen.signals[order], start.shape))


def the_truth(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Return the true atoms."""
    return data.dictionary


LEARNERS: dict[str, Learn] = {
    "the true dictionary": the_truth,
    "random atoms, nothing learned": unlearned,
    "samples as atoms, nothing learned": samples_as_atoms,
    "two-phase network": by_network,
    "two-phase network, from the true atoms": from_the_truth,
    "SPAMS, batches of 32": by_spams,
    "scikit-learn, batches of 32": by_scikit_learn,
    "exact codes and least squares in turn": alternate,
}


def measure(
    n_atoms: int, support: int, n_samples: int, seed: int, n_passes: int, learners: Sequence[str]
) -> dict[str, Score]:
    """Return the scores of each learner for one draw of samples; half of the samples are learned from."""
    data = generate(n_atoms, seed, n_samples // 2, support)
    start = normalised(np.random.default_rng(seed).standard_normal(data.dictionary.shape))
    scores = {}
    for name in learners:
        n_shown = n_passes * len(data.seen.signals)
        scores[name] = score(LEARNERS[name](data, start.copy(), n_shown, seed), data)
        print(n_atoms, support, n_samples, seed, name, scores[name], flush=True)
    return scores


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table: means of the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, nargs="+", default=[50, 100, 500])
    parser.add_argument("--support", type=int, nargs="+", default=[SUPPORT], help="entries of a true code")
    parser.add_argument("--samples", type=int, nargs="+", default=[2 * N_SAMPLES], help="half to learn from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=LEARNERS)
    options = parser.parse_args(arguments)
    rows = []
    for case in itertools.product(options.atoms, options.support, options.samples):
        draws = [measure(*case, seed, options.passes, options.learners) for seed in options.seeds]
        label = [f"{number:,}" for number in case]
        published = " ".join(f"{x:.3f}" for x in PUBLISHED.get(case, ()))
        rows.append([*label, "published: learned, true", published, ""])
        for name in draws[0]:
            correlation, objective = np.mean([draw[name] for draw in draws], axis=0)
            rows.append([*label, name, f"{correlation:.3f}", f"{objective:.3f}"])
    head = ["atoms", "support", "samples", "learner", "correlation", "objective"]
    print(machine(), table(head, rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
