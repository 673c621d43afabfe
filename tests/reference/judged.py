"""Problems at the limits of the number range, whose certificates exact arithmetic judges.

`python -m tests.reference.judged 50000 SEED` draws 50,000 problems, and counts gaps below the distance from
the optimum, gaps that are not numbers, and optimal codes that are reported as not converged.
"""

import itertools
import sys
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
from scipy import sparse
from tqdm import tqdm

from solvers import ElasticNet, LassoProblem, certify, duality_gap, solve_active_set
from tests.reference.problems import FILLS, filled
from tests.reference.rationals import ExactProblem, rational

KINDS = ("ends", "tails", "fills", "lines")
WEIGHTS = ("none", "mask", "own masks", "weights", "own weights")
TOL = 1e-6


def drawn(seed):
    """Return kind, arguments and options of a problem, the problem without hidden numbers, and codes."""
    rng = np.random.default_rng(seed)
    kind, weights = rng.choice(KINDS), rng.choice(WEIGHTS)
    n_atoms, n_features, n_signals = rng.integers(1, 6, 3)
    atoms, signals = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((n_signals, n_features))
    counts = np.ones((n_signals, n_features))
    own = weights.startswith("own")
    if weights != "none":
        given = (rng.random(counts.shape if own else n_features) < 0.6).astype(float)
        if "weights" in weights:
            most = rng.choice([0.5, 5.0, 59.0])
            given *= 10.0 ** rng.uniform(-most, most, given.shape)
        counts = np.broadcast_to(given, counts.shape)
    if kind == "ends":
        ends = rng.choice([(-300, 150), (-140, -120), (100, 152), (-5, 5)])
        atoms *= 10.0 ** rng.uniform(*ends, atoms.shape)
        signals *= 10.0 ** rng.uniform(*rng.choice([(-140, 150), (-5, 5)]), (n_signals, 1))
    elif kind == "tails":
        at = np.arange(n_features) * rng.choice([1.0, 5.0, 10.0, 30.0])
        atoms = np.exp(-0.5 * (at - rng.choice(at, n_atoms)[:, np.newaxis]) ** 2)
    elif kind == "lines":
        atoms = _with_lines(rng, atoms)
    with np.errstate(all="ignore"):
        reach = np.nan_to_num(np.abs(counts * signals @ atoms.T), nan=1e300, posinf=1e300).max()
    l1 = min(reach, 1e300) * 10.0 ** -rng.uniform(0.0, rng.choice([2.0, 6.0, 20.0]))
    l1 = l1 * (rng.uniform(0.5, 2.0, len(atoms)) if rng.random() < 0.5 else np.ones(len(atoms)))
    if kind == "lines":
        l1 = l1 * rng.choice([0.0, 0.0, 1e-9, 1.0]) * (rng.random(len(atoms)) < 0.3)
    elif rng.random() < 0.3:
        l1[rng.integers(len(l1))] = 0.0
    l2 = np.zeros(len(atoms))
    if kind != "lines" and rng.random() < 0.2:
        l2 = np.minimum(atoms**2, 1e290).sum(axis=1) * 10.0 ** rng.uniform(-6.0, 1.0, len(atoms))
        l2 *= rng.random(len(atoms)) < 0.7
    positive = True if kind == "lines" else rng.choice([True, False])
    if rng.random() < 0.2:
        positive = rng.random(len(atoms)) < (0.8 if kind == "lines" else 0.5)
    fill = rng.choice(FILLS)
    if kind == "fills":
        signals = np.where(counts > 0.0, signals, rng.choice(FILLS))
        if own and np.isfinite(fill) and rng.random() < 0.5:
            # Make one feature that some signals know as large as the numbers of hidden features.
            atoms = atoms.copy()
            atoms[:, rng.integers(n_features)] *= min(abs(fill), 1e100)
    form = filled(atoms, counts, fill) if kind == "fills" else atoms
    if rng.random() < 0.3:
        form = sparse.csr_array(form)
    options = {"positive": positive if np.ndim(positive) else bool(positive)}
    if weights != "none":
        given = given if "weights" in weights else given > 0.0
        options["feature_weights" if "weights" in weights else "mask"] = given
    arguments = form, signals, ElasticNet(l1, l2)
    return kind, arguments, options, (atoms, np.where(counts > 0.0, signals, 0.0), counts), rng


def _with_lines(rng, atoms):
    """Return atoms, some of which cancel each other exactly or up to rounding."""
    how = rng.choice(["opposite", "integers", "scaled", "sums"])
    if how == "integers":
        return rng.integers(-2, 3, (int(rng.integers(2, 7)), atoms.shape[1])).astype(float)
    if how == "opposite":
        return np.vstack([atoms, -atoms[: rng.integers(1, len(atoms) + 1)]])
    if how == "scaled":
        return np.vstack([atoms, rng.choice([-2.0, -0.5, -0.7, -3.0]) * atoms[:1]])
    parts = rng.integers(1, 4, len(atoms)) if rng.random() < 0.5 else rng.uniform(0.5, 2.0, len(atoms))
    return np.vstack([atoms, -(parts @ atoms)])


def least_objective(problem, near):
    """Return the smallest objective, also if atoms depend on each other."""
    found = problem.optimum(near)
    if found is not None:
        return found
    signs = [(0, 1) if positive else (0, 1, -1) for positive in problem.positive]
    best = problem.objective([Fraction(0)] * len(near))
    for chosen in itertools.product(*signs):
        support = {i: sign for i, sign in enumerate(chosen) if sign}
        solution = problem._on(sorted(support), support) if support else None
        if solution is not None and all(solution[i] * sign >= 0 for i, sign in support.items()):
            code = [solution.get(i, Fraction(0)) for i in range(len(near))]
            best = min(best, problem.objective(code))
    return best


def judged(seed):
    """Return the faults of the certificates of a problem, and the kind of the problem."""
    kind, arguments, options, (atoms, signals, counts), rng = drawn(seed)
    wrong = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            problem = LassoProblem(*arguments, **options)
            result = solve_active_set(problem, tol=TOL)
        except (ValueError, TypeError):
            return kind, Counter(refused=1)
        found = [(result.codes, result.duality_gap)]
        best = result.codes
        scale = 10.0 ** rng.uniform(*rng.choice([(-200, 200), (-3, 3)]), best.shape)
        for codes in (0.0 * best, best * (1.0 + 1e-9 * rng.standard_normal(best.shape)), scale):
            for gaps in (duality_gap(problem, codes), certify(problem, codes).duality_gap):
                found.append((codes, gaps))
    l1, l2 = arguments[2].l1, arguments[2].l2
    known = np.where(counts.any(axis=0), atoms, 0.0)
    for k in range(len(signals)):
        exact = ExactProblem.of(known, signals[k], counts[k], l1, l2, positive=problem.positive)
        least = least_objective(exact, best[k])
        for number, (codes, gaps) in enumerate(found):
            wrong["certificates"] += 1
            if not np.isfinite(gaps[k]):
                wrong["NaN"] += np.isnan(gaps[k])
                continue
            distance = exact.objective(rational(codes[k])) - least
            wrong["false"] += Fraction(float(gaps[k])) < distance
            if number == 0 and distance <= Fraction(TOL) * Fraction(float(problem.energies[k])):
                wrong["optimal"] += 1
                wrong["optimal, not converged"] += not result.reached[k]
    return kind, wrong


def main():
    size, first = (int(number) for number in [*sys.argv[1:], "0"][:2])
    counts = {kind: Counter() for kind in KINDS}
    for seed in tqdm(range(first, first + size), disable=None):
        kind, wrong = judged(seed)
        counts[kind] += wrong
        if wrong["false"] or wrong["NaN"] or (kind == "lines" and wrong["optimal, not converged"]):
            print(seed, kind, dict(wrong), flush=True)
    for kind, wrong in counts.items():
        print(kind, dict(wrong))


if __name__ == "__main__":
    main()
