"""Problems of sparse coding for tests, and a strategy for problems of every kind."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Lasso

from solvers import ConvolutionalDictionary, ElasticNet, LassoProblem, memory_limit
from solvers.certificate.optimality import measure, penalty_max


def random_problem(
    n_features=20,
    n_atoms=40,
    *,
    n_signals=3,
    share=0.1,
    positive=False,
    coherence=0.0,
    penalty=1.0,
    unit_norm=True,
    seed=0,
):
    """Return the problem of coding sparse combinations of atoms plus noise.

    Atoms have inner products near `coherence`.  Signals are scaled so that a penalty of 1 is `share` of the
    smallest penalty at which the code of a signal is zero.
    """
    rng = np.random.default_rng(seed)
    dictionary = np.sqrt(1.0 - coherence) * rng.standard_normal((n_atoms, n_features))
    dictionary += np.sqrt(coherence) * rng.standard_normal(n_features)
    if unit_norm:
        dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    else:
        dictionary *= rng.uniform(0.3, 3.0, (n_atoms, 1))
    codes = rng.standard_normal((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 0.1)
    if positive:
        codes = np.abs(codes)
    signals = codes @ dictionary + 0.01 * rng.standard_normal((n_signals, n_features))
    largest = penalty_max(dictionary, signals, positive=positive)
    # If no atom has a positive product with a signal, some atom has one with the negative signal.
    signals[largest == 0.0] *= -1.0
    largest = penalty_max(dictionary, signals, positive=positive)
    signals /= share * largest[:, np.newaxis]
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def random_codes(problem, *, density=0.2, scale=1.0, seed=0):
    """Return arbitrary feasible codes."""
    rng = np.random.default_rng(seed)
    codes = scale * rng.standard_normal((problem.n_signals, problem.n_atoms))
    codes *= rng.random(codes.shape) < density
    return np.abs(codes) if problem.penalty.is_positive else codes


def require_certified(problem, result):
    """Require that the figures of a result equal those of `solvers.certificate.optimality` up to rounding."""
    figures = measure(problem, result.sparse_codes)
    atol = 1e-13 * (problem.energies + figures.objective)
    assert (np.abs(result.objective - figures.objective) <= atol).all()
    assert (np.abs(result.duality_gap - figures.duality_gap) <= atol).all()


def optimal_codes(problem):
    """Return the codes of scikit-learn's Lasso at its finest tolerance.

    Different penalties become equal if each atom is divided by its penalty.
    """
    atoms = problem.dictionary / problem.l1_weights[:, np.newaxis]
    model = Lasso(
        alpha=1.0 / problem.n_features,
        fit_intercept=False,
        positive=problem.penalty.is_positive,
        tol=1e-10,
        max_iter=1_000_000,
    )
    solutions = [model.fit(atoms.T, signal).coef_ for signal in problem.signals]
    return np.array(solutions) / problem.l1_weights


# -- problems of every kind ----------------------------------------------------------------------

# Values for entries of atoms and signals that a mask or zero weights hide from every signal.
FILLS = (-9999.0, 1e8, 9.97e36, 1e100, -1e200, 1.7e308, np.nan, np.inf)

DICTIONARIES = (
    *("random", "coherent", "copies", "scaled", "zero atoms", "integers", "sparse", "one atom"),
    *("images", "colour", "one dimension"),
)
CONVOLUTIONAL = ("images", "colour", "one dimension")
SIGNALS = ("noise", "mixture", "zero among them", "sparse", "scaled", "beyond the atoms")
WEIGHTS = ("none", "one mask", "own masks", "weights", "own weights")
PENALTIES = ("number", "vector", "elastic net", "by norms", "some zeros", "weak")
SIGNS = (False, True, "mixed")


@dataclass(frozen=True, eq=False)
class Case:
    """The arguments of a problem, and dense arrays of the same numbers."""

    kind: tuple[str, str, str, str]
    """Units of the dictionary, the signals, the weights and the penalty."""
    dictionary: Any
    signals: Any
    penalty: Any
    options: dict[str, Any]
    """The arguments `positive`, and `mask` or `feature_weights`."""
    limited: bool
    """Whether the memory limit leaves no room for a Gram matrix."""
    atoms: np.ndarray
    values: np.ndarray
    """The signals as an array; zero where a feature is missing."""
    l1: np.ndarray
    l2: np.ndarray
    weights: np.ndarray
    """Mask of features, shape (n_signals, n_features)."""
    seed: int

    @property
    def positive(self) -> np.ndarray:
        return np.broadcast_to(self.options["positive"], len(self.atoms))

    @property
    def is_mixed(self) -> bool:
        return self.positive.any() and not self.positive.all()

    @property
    def energies(self) -> np.ndarray:
        return 0.5 * (self.weights * self.values**2).sum(axis=1)

    def with_room(self):
        """Return the context, perhaps with a memory limit, in which the problem is made and solved."""
        return memory_limit(1.0) if self.limited else nullcontext()

    def problem(self, *, cls=LassoProblem, **changes) -> LassoProblem:
        """Return the problem, with some arguments changed."""
        arguments = {"dictionary": self.dictionary, "signals": self.signals, "penalty": self.penalty}
        with self.with_room():
            return cls(**(arguments | self.options | changes))

    def with_all_known(self):
        """Return the dictionary with its true numbers in the features that no signal knows."""
        if isinstance(self.dictionary, ConvolutionalDictionary):
            return self.dictionary
        return sparse.csr_array(self.atoms) if sparse.issparse(self.dictionary) else self.atoms

    def dense(self, **changes) -> LassoProblem:
        """Return the problem of the same numbers as dense arrays, without a memory limit."""
        given = {"dictionary": self.atoms, "signals": self.values}
        return LassoProblem(**(given | {"penalty": self.penalty} | self.options | changes))

    def codes(self, *, density=0.4, seed=0) -> np.ndarray:
        """Return feasible codes; coefficients are of the size of norm(signal) / norm(atom)."""
        rng = np.random.default_rng([self.seed, seed])
        norms = np.sqrt((self.atoms**2).sum(axis=1))
        sizes = np.sqrt(2.0 * self.energies + (self.energies == 0.0))[:, np.newaxis] / np.where(
            norms > 0.0, norms, np.inf
        )
        codes = sizes * rng.standard_normal(sizes.shape) * (rng.random(sizes.shape) < density)
        return np.where(self.positive, np.abs(codes), codes)


def problems(
    *, dictionary=None, signals=None, weights=None, penalty=None, positive=None, limited=None, most=24
) -> st.SearchStrategy[Case]:
    """Return a strategy for problems of one kind, of several kinds, or of all kinds if None."""

    def drawn(chosen, every):
        given = (chosen,) if isinstance(chosen, (str, bool)) else tuple(chosen or every)
        assert set(given) <= set(every)
        return st.sampled_from(given)

    return st.builds(
        case,
        drawn(dictionary, DICTIONARIES),
        drawn(signals, SIGNALS),
        drawn(weights, WEIGHTS),
        drawn(penalty, PENALTIES),
        drawn(positive, SIGNS),
        drawn(limited, (False, True)),
        st.integers(2, most),
        st.integers(0, 2**20),
    )


def case(dictionary, signals, weights, penalty, positive, limited, about, seed) -> Case:
    """Return one problem of the given kinds with about `about` atoms."""
    rng = np.random.default_rng([seed, about])
    form, atoms = _atoms(rng, dictionary, about)
    if positive == "mixed":
        positive = np.arange(len(atoms)) % 2 == seed % 2
    n_signals = int(rng.integers(1, 5))
    if signals == "zero among them":
        n_signals += 1
    values = _values(rng, signals, n_signals, atoms, positive)
    counts, options = _weights(rng, weights, values.shape)
    norms = np.sqrt((atoms**2).sum(axis=1))
    reach = (counts * values) @ atoms.T / np.where(norms > 0.0, norms, np.inf)
    largest = np.where(positive, reach, np.abs(reach)).max()
    largest = largest if largest > 0.0 else 1.0
    share = rng.choice([0.9, 0.3, 0.1, 0.03])
    if penalty == "weak":
        share = 10.0 ** rng.uniform(-5.0, -2.0)
    l1 = np.full(len(atoms), share * largest)
    # Penalties of atoms are proportional to norms; a single penalty is proportional to the largest norm.
    l1 = l1 * (norms.max() if penalty in ("number", "weak") else np.where(norms > 0.0, norms, 1.0))
    l2 = np.zeros(len(atoms))
    if penalty in ("vector", "elastic net"):
        l1 = l1 * rng.uniform(0.5, 2.0, len(atoms))
    if penalty == "elastic net":
        l2 = norms**2 * 10.0 ** rng.uniform(-6.0, 1.0, len(atoms)) * (rng.random(len(atoms)) < 0.7)
    if penalty == "some zeros" and dictionary not in CONVOLUTIONAL:
        l1[rng.integers(0, len(atoms), 1 + (atoms.shape[1] > 4 and len(atoms) > 4))] = 0.0
    given = float(l1[0]) if penalty in ("number", "weak") else l1
    if penalty == "elastic net":
        given = ElasticNet(l1, l2)
    passed = values
    if "mask" in options:
        passed = np.where(counts > 0.0, values, np.nan)
    elif signals == "sparse" and weights == "none" and dictionary not in CONVOLUTIONAL:
        passed = sparse.csr_array(values)
    return Case(
        kind=(dictionary, signals, weights, penalty),
        dictionary=filled(form, counts, FILLS[seed % len(FILLS)]),
        signals=passed,
        penalty=given,
        options={"positive": positive, **options},
        limited=limited,
        atoms=atoms,
        values=np.where(counts > 0.0, values, 0.0),
        l1=l1,
        l2=l2,
        weights=counts,
        seed=seed,
    )


def filled(form, counts, fill):
    """Return a dictionary with the number `fill` in all features that no signal knows."""
    hidden = ~counts.any(axis=0)
    if isinstance(form, ConvolutionalDictionary) or not hidden.any():
        return form
    if sparse.issparse(form):
        return sparse.csr_array(filled(form.toarray(), counts, fill))
    return np.where(hidden, fill, form)


def _atoms(rng, kind, about):
    """Return a dictionary in the form that is passed, and as a dense array."""
    if kind in CONVOLUTIONAL:
        return _kernels(rng, kind, about)
    n_atoms, n_features = (1 if kind == "one atom" else about), int(rng.integers(1, about + 1))
    atoms = rng.standard_normal((n_atoms, n_features))
    if kind == "coherent":
        atoms += 2.0 * rng.standard_normal(n_features)
    elif kind == "copies":
        atoms[1::2] = rng.choice([-1.0, 1.0, 2.0]) * atoms[: 2 * (n_atoms // 2) : 2]
    elif kind == "scaled":
        atoms *= 10.0 ** rng.uniform(-5.0, 5.0, (n_atoms, 1))
    elif kind == "zero atoms":
        atoms[1 + np.flatnonzero(rng.random(n_atoms - 1) < 0.4)] = 0.0
    elif kind == "integers":
        atoms = rng.integers(-2, 3, (n_atoms, n_features)).astype(float)
        atoms[0, 0] = 1.0
    elif kind == "sparse":
        atoms *= rng.random((n_atoms, n_features)) < 0.3
        atoms[np.arange(n_atoms), rng.integers(0, n_features, n_atoms)] += 1.0
        return sparse.csr_array(atoms), atoms
    return atoms, atoms


def _kernels(rng, kind, about):
    n_kernels, stride = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    side = int(rng.integers(1, 4))
    room = max(int(np.sqrt(about / n_kernels)), 1)
    if kind == "one dimension":
        n_positions = max(about // n_kernels, 1)
        kernels = rng.standard_normal((n_kernels, side + 1))
        length = side + 1 + stride * (n_positions - 1)
        return ConvolutionalDictionary(kernels, length, stride), placed(
            kernels[:, np.newaxis], (1, length), stride
        )
    shape = (n_kernels, side, int(rng.integers(1, 4)), *((2,) if kind == "colour" else ()))
    kernels = rng.standard_normal(shape)
    image = shape[1] + stride * (room - 1), shape[2] + stride * (room - 1)
    return ConvolutionalDictionary(kernels, image, stride), placed(kernels, image, stride)


def _values(rng, kind, n_signals, atoms, positive):
    n_atoms, n_features = atoms.shape
    values = rng.standard_normal((n_signals, n_features))
    norms = np.sqrt((atoms**2).sum(axis=1))
    units = atoms / np.where(norms > 0.0, norms, 1.0)[:, np.newaxis]
    if kind == "mixture":
        codes = rng.standard_normal((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 0.3)
        values = np.where(positive, np.abs(codes), codes) @ units + 0.01 * values
    elif kind == "zero among them":
        values[rng.integers(n_signals)] = 0.0
    elif kind == "sparse":
        values *= rng.random(values.shape) < 0.4
    elif kind == "scaled":
        values *= 10.0 ** rng.uniform(-100.0, 100.0)
    elif kind == "beyond the atoms":
        values *= 10.0 ** rng.uniform(-2.0, 2.0, (n_signals, 1))
        values -= 0.9 * values @ np.linalg.pinv(units) @ units
    return values


def _weights(rng, kind, shape):
    """Return the weight of each feature of each signal, and the arguments that pass these weights."""
    own = kind.startswith("own")
    if kind == "none":
        return np.ones(shape), {}
    given = rng.random(shape if own else shape[1]) < 0.7
    if own and shape[0] > 1:
        given[-1] = given[0]
    if "mask" in kind:
        given.flat[0] = True
        return np.broadcast_to(given, shape).astype(float), {"mask": given}
    given = rng.uniform(0.1, 3.0, given.shape) * (given | (rng.random(given.shape) < 0.5))
    return np.broadcast_to(given, shape).copy(), {"feature_weights": given}


def placed(kernels: np.ndarray, image_shape: tuple[int, int], stride: int) -> np.ndarray:
    """Return every kernel at every position of an image, shape (n_positions * n_kernels, n_features)."""
    height, width = kernels.shape[1:3]
    atoms = []
    for row in range(0, image_shape[0] - height + 1, stride):
        for column in range(0, image_shape[1] - width + 1, stride):
            for kernel in kernels:
                image = np.zeros((*image_shape, *kernels.shape[3:]))
                image[row : row + height, column : column + width] = kernel
                atoms.append(image.ravel())
    return np.array(atoms)
