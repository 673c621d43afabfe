"""Random small problems that are hard on arithmetic, on conditions, or on what is accepted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from solvers import L1, ConvolutionalDictionary, ElasticNet
from tests.stress.exact_judge import placed

MOST_ATOMS, MOST_FEATURES, MOST_SIGNALS = 20, 14, 3
# Decades by which scales of atoms, signals and penalties differ.
WIDEST = 12.0
# The tag of problems that are made, and solved, with almost no memory for a Gram matrix.
LIMITED = "memory limit"
LARGEST_PENALTY_RATIO = 10.0


@dataclass(eq=False)
class NastyProblem:
    """The arguments of a problem, and what they mean."""

    dictionary: Any
    signals: Any
    penalty: Any
    arguments: dict[str, Any]
    """positive, mask, feature_weights, gram."""
    tags: list[str]
    """What is nasty about it."""
    atoms: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    """The signals as an array."""
    l1: np.ndarray = field(repr=False)
    l2: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    """Of features, shape (n_signals, n_features)."""

    @property
    def positive(self) -> bool:
        return self.arguments["positive"]

    @property
    def is_broken(self) -> bool:
        """True if it breaks a rule and has to be refused."""
        return "broken" in self.tags


def nasty_problem(rng: np.random.Generator) -> NastyProblem:
    """Return a random problem."""
    tags: list[str] = []

    def happens(name: str, probability: float) -> bool:
        answer = bool(rng.random() < probability)
        if answer:
            tags.append(name)
        return answer

    n_signals = int(rng.integers(2, MOST_SIGNALS + 1)) if happens("batch", 0.3) else 1
    if happens(LIMITED, 0.15) and n_signals > 1:
        n_signals += int(rng.integers(0, 4))
    is_convolutional = happens("convolution", 0.1)
    if is_convolutional:
        dictionary, atoms = _kernels(rng, happens)
    else:
        atoms = _atoms(rng, happens)
        dictionary = atoms
    n_features = atoms.shape[1]
    values = _signals(rng, atoms, n_signals, happens)
    if n_signals > 1 and happens("one nasty row", 0.4):
        values[rng.integers(n_signals)] *= 10.0 ** rng.choice([-100.0, -12.0, 12.0, 100.0])
    if not is_convolutional and happens("float32", 0.05):
        with np.errstate(over="ignore", under="ignore"):
            dictionary, values = atoms.astype(np.float32), values.astype(np.float32)
        atoms, values = dictionary.astype(np.float64), values.astype(np.float64)

    arguments: dict[str, Any] = {"positive": bool(rng.random() < 0.5)}
    weights = np.ones((n_signals, n_features))
    if happens("mask", 0.1):
        shape = (n_signals, n_features) if happens("own masks", 0.5) else (n_features,)
        known = rng.random(shape) < rng.choice([0.2, 0.8, 1.0])
        arguments["mask"] = known
        weights = weights * known
    elif happens("feature weights", 0.1):
        shape = (n_signals, n_features) if happens("own weights", 0.5) else (n_features,)
        spread = rng.choice([1.0, 6.0, 50.0])
        arguments["feature_weights"] = np.where(
            rng.random(shape) < 0.8, 10.0 ** rng.uniform(-spread, spread, shape), 0.0
        )
        weights = weights * arguments["feature_weights"]
    l1, l2, penalty = _penalty(rng, atoms, values, weights, happens)
    signals: Any = values
    if "mask" in arguments and happens("unknown is NaN", 0.5):
        signals = np.where(weights != 0, values, np.nan)
    elif weights.all() and not is_convolutional and happens("CSR", 0.08):
        signals = sparse.csr_array(values)
    elif dictionary is atoms:
        dictionary, signals = _in_another_form(rng, dictionary, values, happens)
    if not is_convolutional and happens("Gram matrix given", 0.05):
        with np.errstate(over="ignore", under="ignore"):
            arguments["gram"] = atoms @ atoms.T
    problem = NastyProblem(dictionary, signals, penalty, arguments, tags, atoms, values, l1, l2, weights)
    if happens("broken", 0.03):
        _break(rng, problem)
    return problem


def _spread(rng: np.random.Generator, size: Any) -> np.ndarray:
    width = rng.choice([0.0, 0.0, 0.0, 2.0, 6.0, WIDEST])
    return 10.0 ** rng.uniform(-width, width, size)


def _atoms(rng: np.random.Generator, happens: Any) -> np.ndarray:
    n_atoms = 1 if happens("one atom", 0.04) else int(rng.integers(2, MOST_ATOMS + 1))
    n_features = 1 if happens("one feature", 0.04) else int(rng.integers(2, MOST_FEATURES + 1))
    shape = (n_atoms, n_features)
    kind = rng.choice(["random", "coherent", "integers", "low rank", "sparse", "non-negative", "orthogonal"])
    if kind != "random":
        happens(str(kind), 1.0)
    atoms = rng.standard_normal(shape)
    if kind == "coherent":
        atoms = rng.standard_normal(n_features) + atoms * 10.0 ** rng.uniform(-14.0, -0.3)
    elif kind == "integers":
        atoms = rng.integers(-2, 3, shape).astype(float)
    elif kind == "low rank":
        rank = int(rng.integers(1, 4))
        atoms = rng.standard_normal((n_atoms, rank)) @ rng.standard_normal((rank, n_features))
    elif kind == "sparse":
        atoms *= rng.random(shape) < 0.3
    elif kind == "non-negative":
        atoms = np.abs(atoms)
    elif kind == "orthogonal":
        atoms = np.eye(n_atoms, n_features) * rng.choice([-1.0, 1.0], (n_atoms, 1))
    if n_atoms > 1 and happens("copies", 0.15):
        which = rng.integers(n_atoms, size=(2, int(rng.integers(1, 4))))
        atoms[which[0]] = atoms[which[1]]
    if n_atoms > 1 and happens("opposites", 0.1):
        which = rng.integers(n_atoms, size=(2, int(rng.integers(1, 4))))
        atoms[which[0]] = -atoms[which[1]]
    if n_atoms > 1 and happens("multiples", 0.1):
        which = rng.integers(n_atoms, size=2)
        atoms[which[0]] = atoms[which[1]] * 10.0 ** rng.uniform(-6, 6)
    if happens("scales of atoms", 0.4):
        atoms = atoms * _spread(rng, (n_atoms, 1))
    if happens("scale of all atoms", 0.3):
        atoms = atoms * 10.0 ** rng.uniform(-WIDEST, WIDEST)
    if n_atoms > 1 and happens("zero atoms", 0.08):
        atoms[rng.integers(n_atoms, size=int(rng.integers(1, 4)))] = 0.0
    return atoms


def _kernels(rng: np.random.Generator, happens: Any) -> tuple[ConvolutionalDictionary, np.ndarray]:
    stride = int(rng.integers(1, 3))
    n_kernels, height, width = (int(n) for n in rng.integers(1, 4, size=3))
    more = (int(rng.integers(1, 3)),) if happens("colour", 0.2) else ()
    is_signal = happens("one dimension", 0.3)
    height = 1 if is_signal else height
    kernels = rng.standard_normal((n_kernels, height, width, *more))
    if happens("integers", 0.2):
        kernels = rng.integers(-2, 3, kernels.shape).astype(float)
    if happens("scales of atoms", 0.3):
        kernels = (kernels.T * _spread(rng, n_kernels)).T
    if n_kernels > 1 and happens("copies", 0.1):
        kernels[0] = kernels[-1]
    if n_kernels > 1 and happens("zero atoms", 0.05):
        kernels[0] = 0.0
    if not kernels.any():
        kernels[:] = 1.0
    image_shape = tuple(
        int(side + stride * n) for side, n in zip((height, width), rng.integers(0, 4, 2), strict=True)
    )
    if is_signal:
        image_shape = 1, image_shape[1]
        dictionary = ConvolutionalDictionary(kernels[:, 0], image_shape[1], stride)
    else:
        dictionary = ConvolutionalDictionary(kernels, image_shape, stride)
    return dictionary, placed(kernels, image_shape, stride)


def _signals(rng: np.random.Generator, atoms: np.ndarray, n_signals: int, happens: Any) -> np.ndarray:
    n_atoms, n_features = atoms.shape
    kind = rng.choice(["noise", "mixture", "one atom's", "integer signal", "orthogonal signal"])
    if kind != "noise":
        happens(str(kind), 1.0)
    signals = rng.standard_normal((n_signals, n_features))
    largest = np.abs(atoms).max() or 1.0
    if kind == "mixture":
        codes = rng.standard_normal((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 0.3)
        signals = codes @ (atoms / largest) + signals * 10.0 ** rng.uniform(-16, 0)
    elif kind == "one atom's":
        signals = (atoms / largest)[rng.integers(n_atoms, size=n_signals)]
    elif kind == "integer signal":
        signals = rng.integers(-3, 4, signals.shape).astype(float)
    elif kind == "orthogonal signal":
        signals -= signals @ np.linalg.pinv(atoms / largest) @ (atoms / largest)
    if happens("scale of signals", 0.4):
        signals = signals * 10.0 ** rng.uniform(-WIDEST, WIDEST)
    if happens("zero signal", 0.03):
        signals[rng.integers(n_signals)] = 0.0
    return signals


def _penalty(
    rng: np.random.Generator, atoms: np.ndarray, values: np.ndarray, weights: np.ndarray, happens: Any
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return l1, l2 and what is passed as the penalty."""
    n_atoms = len(atoms)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        reach = np.abs((weights * values) @ atoms.T)
        norms = np.sqrt(np.einsum("ij,ij->i", atoms, atoms))
    reach = reach[rng.integers(len(reach))]
    largest = reach.max() if np.isfinite(reach).all() and reach.max() > 0 else 1.0
    share = 10.0 ** rng.uniform(-6.0, 0.3)
    if share > 1.0:
        happens("penalty above the maximum", 1.0)
    elif share < 1e-4:
        happens("small penalty", 1.0)
    l1 = np.full(n_atoms, max(share * largest, 1e-300))
    if happens("penalties by norms", 0.2):
        l1 = l1 * np.where(norms > 0, norms / (norms.max() or 1.0), 1.0)
    if happens("penalties of atoms", 0.3):
        ratio = rng.uniform(0.0, LARGEST_PENALTY_RATIO)
        l1 = l1 * 10.0 ** rng.uniform(-ratio, 0.0, n_atoms)
    if happens("penalties of zero", 0.04):
        l1 = np.where(rng.random(n_atoms) < rng.choice([0.3, 1.0]), 0.0, l1)
    l2 = np.zeros(n_atoms)
    is_one_number = bool((l1 == l1[0]).all()) and rng.random() < 0.7
    penalty: Any = float(l1[0]) if is_one_number else l1
    if happens("elastic net", 0.2):
        l2 = norms**2 * 10.0 ** rng.uniform(-15.5 if rng.random() < 0.05 else -14.9, 3.0, n_atoms)
        l2[rng.random(n_atoms) < rng.choice([0.0, 0.5])] = 0.0
        penalty = ElasticNet(penalty, l2)
    elif rng.random() < 0.1:
        penalty = L1(penalty)
    return l1, l2, penalty


def _in_another_form(
    rng: np.random.Generator, dictionary: np.ndarray, signals: np.ndarray, happens: Any
) -> tuple[Any, Any]:
    """Return the same numbers, in another order of memory, read-only, or as lists."""
    forms = ["as they are", "Fortran order", "strides", "read-only", "lists", "sparse atoms"]
    form = rng.choice(forms, p=[0.5, *[0.1] * 5])
    if form == "as they are":
        return dictionary.copy(), signals.copy()
    happens(str(form), 1.0)
    if form == "sparse atoms":
        matrix = sparse.csr_array(dictionary)
        return matrix.tocsc() if rng.random() < 0.5 else matrix, signals.copy()
    if form == "Fortran order":
        return np.asfortranarray(dictionary), np.asfortranarray(signals)
    if form == "strides":
        wide = [np.repeat(array, 2, axis=1) for array in (dictionary, signals)]
        return wide[0][:, ::2], wide[1][:, ::2]
    if form == "lists":
        return dictionary.tolist(), signals.tolist()
    copies = dictionary.copy(), signals.copy()
    for array in copies:
        array.flags.writeable = False
    return copies


def _break(rng: np.random.Generator, problem: NastyProblem) -> None:
    """Break one rule of what is accepted."""
    known = np.argwhere(problem.weights != 0)
    ways = ["negative penalty", "shape", "too many penalties", "text", "complex", "mask of numbers"]
    if len(known) and not sparse.issparse(problem.signals):
        ways += ["NaN", "huge"]
    way = str(rng.choice(ways))
    problem.tags.append(way)
    if way in ("NaN", "huge"):
        signals = np.array(problem.signals, dtype=np.float64)
        signals[tuple(known[rng.integers(len(known))])] = np.nan if way == "NaN" else 1e200
        problem.signals = signals
        problem.arguments.pop("feature_weights", None)
    elif way == "negative penalty":
        problem.penalty = float(rng.choice([-1e-300, -1.0, np.nan, np.inf]))
    elif way == "shape":
        problem.signals = np.ones((1, problem.atoms.shape[1] + 1))
    elif way == "too many penalties":
        problem.penalty = np.ones(len(problem.atoms) + 1)
    elif way == "text":
        problem.signals = "signals"
    elif way == "complex":
        problem.signals = np.ones((1, problem.atoms.shape[1])) * 1j
    else:
        problem.arguments.pop("feature_weights", None)
        problem.arguments["mask"] = np.ones(problem.atoms.shape[1])
