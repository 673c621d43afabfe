"""The problems of the benchmarks, each with its Gram matrix at hand."""

import hashlib
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PolynomialFeatures, scale

from dictlearn import extract_patches, overcomplete_dct, remove_mean
from examples._common import photograph
from examples.photograph import HEIGHT, WIDTH, coding_problem
from solvers import LassoProblem
from solvers.certificate.optimality import penalty_max

PATCH_SIZE = 8
# Penalty at which the code of a patch of norm one has about nine nonzero entries.
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
    """Return one CLASSO per signal, with a penalty that is a share of the largest with a nonzero code."""
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
    """Return a problem for each signal, at a share of its largest penalty; they share one Gram matrix."""
    gram = dictionary @ dictionary.T
    largest = penalty_max(dictionary, signals, positive=positive)
    return [
        LassoProblem(dictionary, signals[k : k + 1], penalty * largest[k], positive=positive, gram=gram)
        for k in range(len(signals))
    ]


def again(problem: LassoProblem) -> LassoProblem:
    """Return the problem anew, with only its Gram matrix computed."""
    fresh = problem.subset(slice(None))
    fresh.__dict__.pop("correlations", None)
    return fresh


@cache
def photograph_patches(n_patches: int, *, seed: int = 0) -> np.ndarray:
    """Return patches of china.jpg without their means and of norm one, except flat patches."""
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
        # Intermediate codes need not be exact.
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


def masked_patches(n_patches: int) -> LassoProblem:
    """Return the problem of patches in cosine waves, with half of the pixels known, less their means."""
    rng = np.random.default_rng(0)
    patches = extract_patches(photograph(128, 192), PATCH_SIZE)
    patches = patches[rng.choice(len(patches), n_patches, replace=False)]
    mask = rng.random(patches.shape) < 0.5
    means = np.sum(patches * mask, axis=1, keepdims=True) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return LassoProblem(overcomplete_dct(PATCH_SIZE, 256)[1:], patches - means, 0.02, mask=mask)


def wide_regression(design: str, share: float, *, small: bool) -> LassoProblem:
    """Return one target, of thousands of columns, at a share of the largest penalty; no Gram matrix."""
    rng = np.random.default_rng(0)
    if design.startswith("neighbours"):
        n_samples, n_columns = (30, 600) if small else (400, 4_000)
        columns, rng = correlated_dictionary(n_samples, n_columns, rho=0.5), np.random.default_rng(1)
        weights = rng.standard_normal(n_samples // 20)
        target = weights @ columns[rng.choice(n_columns, len(weights), replace=False)]
        noise = rng.standard_normal(n_samples)
        target += noise * np.linalg.norm(target) / (3.0 * np.linalg.norm(noise))
    elif design.startswith("like gene expression"):
        # A gene belongs to some of thirty modules, and two of the modules define the two classes.
        n_samples, n_columns = (16, 600) if small else (64, 6_800)
        modules = rng.standard_normal((30, n_samples))
        loadings = rng.standard_normal((n_columns, 30)) * (rng.random((n_columns, 30)) < 0.1)
        columns = scale(loadings @ modules + 0.7 * rng.standard_normal((n_columns, n_samples)), axis=1)
        target = np.sign(modules[0] + modules[1] + 0.5 * rng.standard_normal(n_samples))
    else:
        measured, target = load_diabetes(return_X_y=True)
        products = PolynomialFeatures(2 if small else 4, include_bias=False).fit_transform(scale(measured))
        columns = scale(products).T
    columns, target = np.ascontiguousarray(columns), target - target.mean()
    return LassoProblem(columns, target[np.newaxis], share * float(np.abs(columns @ target).max()))


def _normalised(atoms: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.ascontiguousarray(atoms / norms)
