"""The problems of the benchmarks, each with its Gram matrix at hand."""

import hashlib
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning

from dictlearn import extract_patches, remove_mean
from examples._common import photograph
from examples.photograph import HEIGHT, WIDTH, coding_problem
from solvers import LassoProblem
from solvers.certificate.optimality import penalty_max

PATCH_SIZE = 8
# About nine non-zeros a patch of norm one.
PATCH_PENALTY = 0.175


def random_dictionary(n_features: int, n_atoms: int, *, seed: int = 0) -> np.ndarray:
    """Return independent Gaussian atoms of norm one."""
    return _normalised(np.random.default_rng(seed).standard_normal((n_atoms, n_features)))


def correlated_dictionary(n_features: int, n_atoms: int, *, rho: float = 0.9, seed: int = 0) -> np.ndarray:
    """Return atoms each of which correlates with the one before, x_j = rho x_j-1 + sqrt(1 - rho^2) noise."""
    atoms = np.random.default_rng(seed).standard_normal((n_atoms, n_features))
    for j in range(1, n_atoms):
        atoms[j] = rho * atoms[j - 1] + np.sqrt(1.0 - rho**2) * atoms[j]
    return _normalised(atoms)


def planted_problems(
    dictionary: np.ndarray, *, support: int, n_signals: int, penalty: float = 0.1, seed: int = 1
) -> list[LassoProblem]:
    """Return CLASSOs of one signal each, at so much of the largest penalty that gives a code at all."""
    signals = planted_signals(dictionary, support=support, n_signals=n_signals, seed=seed)
    return single_problems(dictionary, signals, penalty, positive=True)


def planted_signals(dictionary: np.ndarray, *, support: int, n_signals: int, seed: int = 1) -> np.ndarray:
    """Return signals of a planted sparse code and a little noise."""
    rng = np.random.default_rng(seed)
    n_atoms, n_features = dictionary.shape
    signals = np.empty((n_signals, n_features))
    for signal in signals:
        code = np.zeros(n_atoms)
        code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.5, 1.5, support)
        signal[:] = code @ dictionary + 0.01 * rng.standard_normal(n_features)
    return signals


def single_problems(
    dictionary: np.ndarray, signals: np.ndarray, penalty: float, *, positive: bool
) -> list[LassoProblem]:
    """Return a problem for each signal, at so much of its own largest penalty; they share one Gram."""
    gram = dictionary @ dictionary.T
    largest = penalty_max(dictionary, signals, positive=positive)
    return [
        LassoProblem(dictionary, signals[k : k + 1], penalty * largest[k], positive=positive, gram=gram)
        for k in range(len(signals))
    ]


def again(problem: LassoProblem) -> LassoProblem:
    """Return the problem as if nothing but its Gram had been computed of it."""
    fresh = problem.subset(slice(None))
    fresh.__dict__.pop("correlations", None)
    return fresh


@cache
def photograph_patches(n_patches: int, *, seed: int = 0) -> np.ndarray:
    """Return patches of china.jpg of norm one, without their means; those that are flat are left out."""
    patches, _ = remove_mean(extract_patches(photograph(424, 640), PATCH_SIZE, stride=2))
    norms = np.linalg.norm(patches, axis=1)
    patches = patches[norms > 0.1] / norms[norms > 0.1, np.newaxis]
    chosen = np.random.default_rng(seed).permutation(len(patches))[:n_patches]
    return np.ascontiguousarray(patches[chosen])


@cache
def learned_dictionary(n_atoms: int, n_training: int) -> np.ndarray:
    """Return atoms of norm one, learned by scikit-learn's online learning; kept in a temporary folder."""
    key = hashlib.sha256(f"{n_atoms} {n_training} {PATCH_SIZE} {PATCH_PENALTY}".encode()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"sparsespike-benchmark-atoms-{key}.npy"
    if kept.exists():
        return np.load(kept)
    learner = MiniBatchDictionaryLearning(
        n_components=n_atoms,
        alpha=PATCH_PENALTY,
        batch_size=256,
        max_iter=max(1, n_training // 10_000),
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        positive_code=True,
        random_state=0,
    )
    with warnings.catch_warnings():
        # Codes on the way need not be exact.
        warnings.simplefilter("ignore", ConvergenceWarning)
        atoms = _normalised(learner.fit(photograph_patches(n_training, seed=1)).components_)
    np.save(kept, atoms)
    return atoms


def patch_problem(n_patches: int, n_atoms: int = 256, n_training: int = 10_000) -> LassoProblem:
    """Return one CLASSO of many patches with learned atoms."""
    dictionary = learned_dictionary(n_atoms, n_training)
    return LassoProblem(
        dictionary,
        photograph_patches(n_patches),
        PATCH_PENALTY,
        positive=True,
        gram=dictionary @ dictionary.T,
    )


def demo_problem(small: bool) -> LassoProblem:
    """Return the patches of `make demo`, codes of either sign in cosine atoms."""
    problem, _ = coding_problem(photograph(64, 96) if small else photograph(HEIGHT, WIDTH))
    return LassoProblem(problem.dictionary, problem.signals, problem.l1_weights, gram=problem.gram)


def _normalised(atoms: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.ascontiguousarray(atoms / norms)
