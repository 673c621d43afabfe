"""Which products of atoms serve a problem, for how many signals at a time, by what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from snn._kernels.run_state import BurstLimit
from solvers.problem.lasso import LassoProblem
from solvers.problem.parts import knows_atoms_alike


@dataclass(frozen=True)
class Costs:
    """Thresholds of all these choices; times are of one core by `python -m tests.benchmarks.products`."""

    # Fewer atoms always have the full Gram matrix, which takes a millisecond or two.
    fewest_on_demand: int = 512
    # Up to n_atoms / 100 codes are computed one by one in less time than the Gram matrix takes.
    atoms_per_code: int = 100
    # Sharing products of matrices pays from this number of signals on.
    fewest_sharing: int = 4
    # If the Gram matrix fits into memory, signals share products only with at least this number of atoms.
    fewest_shared: int = 2048
    # Time of an entry of the Gram matrix, in nanoseconds: to store it, and for each feature.
    ns_of_entry: float = 5.0
    ns_of_feature: float = 0.02
    # Additional time of a code from shared products, in nanoseconds: fixed, and for each atom of its support.
    ns_of_code: float = 450_000.0
    ns_of_support: float = 20_000.0
    # If sharing pays even at this support, the support of codes is not measured.
    largest_support: int = 100
    # Signals in a batch that shares products: the minimum, even beyond the memory limit; enough for full
    # speed; and enough that converting the atoms for each batch does not dominate.
    least_together: int = 16
    most_together: int = 512
    most_converting: int = 4096
    # All other batches: at most this number of values, 8 MB, and of signals (more if there are fewer than 256
    # atoms), so that a batch stays in cache, and Ctrl-C is quick: `python -m tests.benchmarks patches tiny`.
    values_per_batch: int = 1_000_000
    largest_batch: int = 256
    # Batches of each worker, at least, so that workers end together: `python -m tests.benchmarks threads`.
    batches_per_worker: int = 2
    # Iterations that FISTA is expected to take, in the choice between the Gram matrix and the dictionary.
    iterations: int = 100
    # Values in a batch of FISTA: seven buffers of 2 MB stay in cache.  Signals, at least: to read a large
    # dictionary costs more than to leave the cache.
    values_of_iterates: int = 2**18
    least_iterating: int = 32
    # Values of codes that evaluation and denoising hold together: 8 MB, and more for the solver.
    codes_held: int = 2**20
    # Members of a working set that there is room for at first.  Memory that is never touched costs nothing,
    # and to move it later costs as much as to read the atoms.
    working_set: int = 600
    # When the network of a signal is given up.
    burst: BurstLimit = field(default_factory=BurstLimit)
    # Signals of a path up to which the codes at all its penalties are certified in one product.
    most_along: int = 16
    # Atoms for each feature, and for each code along a path, from which on the Gram matrix of the atoms that
    # may be active takes less time than that of all (`path` with 100 to 1,000 features, 40 to 100 penalties).
    atoms_per_feature: int = 15
    atoms_per_code_along: int = 30
    # Values of the atoms, 64 MB, from which on few of the atoms are read for each certificate.
    least_screened: int = 2**23
    # Atoms of a support up to which a kernel solves for derivatives; LAPACK solves larger ones, one by one.
    most_in_kernel: int = 96


COSTS = Costs()


def most_on_demand(n_atoms: int) -> int:
    """Return the number of codes up to which they are solved one by one, without a Gram matrix."""
    return max(n_atoms // COSTS.atoms_per_code, 1)


def most_sharing(problem: LassoProblem, support: float) -> int:
    """Return the number of signals up to which shared products take less time than the Gram matrix."""
    if problem.n_atoms < COSTS.fewest_shared:
        return 0
    ns_of_entry = COSTS.ns_of_entry + COSTS.ns_of_feature * problem.atoms.features_of_atom
    return int(problem.n_atoms**2 * ns_of_entry / (COSTS.ns_of_code + COSTS.ns_of_support * support))


class Products(Enum):
    """Products of atoms that serve the active-set method, or the network of a problem."""

    FULL = auto()  # the Gram matrix
    ON_DEMAND = auto()  # as much of the Gram matrix as few signals need
    SHARED = auto()  # no Gram matrix: products of the residuals of many signals with all atoms
    OWN = auto()  # no Gram matrix: each signal has weights of features of its own
    GRID = auto()  # parts of the Gram matrix of a convolutional dictionary


def products_for(
    problem: LassoProblem,
    *,
    on_demand: bool = False,
    most_signals: int = 1,
    support_of: Callable[[LassoProblem], float] | None = None,
) -> Products:
    """Return which products of atoms serve a problem."""
    # Without `on_demand` all of them are there from the beginning.  Up to `most_signals` may be solved one by
    # one.  `support_of` measures the support of codes.
    if on_demand and problem.has_own_weights and problem.atoms.rows is not None:
        return Products.SHARED if shares_products(problem) else Products.OWN
    if on_demand and problem.has_own_weights:
        return Products.ON_DEMAND
    if not problem.seen_atoms.is_matrix:
        return Products.GRID
    if on_demand and shares_products(problem, most_signals, support_of):
        return Products.SHARED
    return Products.FULL if not on_demand or uses_full_gram(problem, most_signals) else Products.ON_DEMAND


def uses_full_gram(problem: LassoProblem, most_signals: int = 1, n_codes: int = 0) -> bool:
    """Return True for the full Gram matrix of an array of atoms, False for parts of it."""
    is_few = (n_codes or problem.n_signals) <= most_signals and problem.n_atoms >= COSTS.fewest_on_demand
    return problem.gram_fits and (problem.has_gram or not is_few)


def shares_products(
    problem: LassoProblem, most_signals: int = 1, support_of: Callable[[LassoProblem], float] | None = None
) -> bool:
    """Return True if signals share products of residuals, which take the place of the Gram matrix."""
    if problem.atoms.rows is None or problem.has_gram:
        return False
    # Screening counts in units of penalties, and of norms.
    if problem.penalty.has_zeros or not knows_atoms_alike(problem):
        return False
    n_signals = problem.n_signals
    if problem.gram_fits:
        # `support_of` measures the support of codes, and is called only if the choice depends on it.
        if support_of is None or not most_signals < n_signals <= most_sharing(problem, 0.0):
            return False
        is_sure = n_signals <= most_sharing(problem, COSTS.largest_support)
        return is_sure or n_signals <= most_sharing(problem, support_of(problem))
    # Up to `most_signals` are solved one by one, unless they are enough to share products, or others follow.
    return n_signals > min(most_signals, COSTS.fewest_sharing - 1) or problem.more_follow


def solves_alone(problem: LassoProblem) -> bool:
    """Return True if one call of a kernel solves a single signal, and certifies its code."""
    return (
        problem.n_signals == 1
        and problem.atoms.rows is not None
        and problem.feature_weights is None
        and not problem.penalty.has_zeros
        and uses_full_gram(problem)
    )


def solves_along(problem: LassoProblem, n_penalties: int) -> bool:
    """Return True if a path keeps one factor for each signal, and certifies all codes together."""
    n_codes = n_penalties * problem.n_signals
    return (
        problem.n_signals <= COSTS.most_along
        and problem.atoms.is_matrix
        and not problem.has_own_weights
        and uses_full_gram(problem, most_on_demand(problem.n_atoms), n_codes)
        and 32 * n_codes * max(problem.atoms.shape) <= problem.memory_limit
    )


def grows_along(problem: LassoProblem, n_codes: int) -> bool:
    """Return True if a path computes the Gram matrix of atoms that may be active, instead of all."""
    is_large = problem.n_atoms >= max(COSTS.fewest_on_demand, COSTS.atoms_per_feature * problem.n_features)
    is_ordinary = problem.atoms.rows is not None and problem.feature_weights is None and not problem.has_gram
    return is_large and is_ordinary and COSTS.atoms_per_code_along * n_codes <= problem.n_atoms


def iterates_with_gram(problem: LassoProblem, shape: tuple[int, int]) -> bool:
    """Return True if FISTA multiplies by the Gram matrix of atoms of this shape, not by the atoms twice."""
    n_products, (n_atoms, n_features) = COSTS.iterations * problem.n_signals, shape
    # Multiplications for an atom; half of a symmetric matrix has to be computed, unless it is at hand.
    by_gram = n_products * n_atoms + (0.0 if problem.has_gram else 0.5 * n_atoms * n_features)
    fits = problem.atoms.rows is not None and problem.gram_fits
    return fits and by_gram < n_products * 2.0 * n_features


def differentiates_with_gram(problem: LassoProblem, sizes: np.ndarray) -> bool:
    """Return True if the Gram matrix is there, or has fewer entries than those of supports of these sizes."""
    if not problem.atoms.is_matrix or problem.has_own_weights:
        return False
    return problem.has_gram or (problem.gram_fits and int(sizes @ sizes) > problem.n_atoms**2)


def screens_certificates(problem: LassoProblem) -> bool:
    """Return True if certificates read few of the atoms, of an array: those that matter to a code."""
    is_large = problem.atoms.array.size >= COSTS.least_screened and not problem.penalty.has_zeros
    return is_large and (problem.n_signals >= COSTS.fewest_sharing or problem.more_follow)


def batches_in_cache(problem: LassoProblem, n_workers: int) -> list[slice]:
    """Return batches of signals that fit into the cache."""
    n_atoms = problem.n_atoms
    size = min(COSTS.values_per_batch // n_atoms, COSTS.largest_batch * max(1, 256 // n_atoms))
    return _batches(problem.n_signals, size, n_workers * COSTS.batches_per_worker if n_workers > 1 else 1)


def batches_that_share(
    problem: LassoProblem, n_workers: int, bytes_per_signal: int, *, converts: bool
) -> list[slice]:
    """Return batches of signals that share products: as many as pay, and memory holds."""
    most = COSTS.most_converting if converts else COSTS.most_together
    size = min(most, problem.memory_limit // (8 * n_workers) // bytes_per_signal)
    return _batches(problem.n_signals, size, n_workers, least=COSTS.least_together)


def batches_of_iterates(problem: LassoProblem) -> list[slice]:
    """Return batches of signals that FISTA solves together, which do not depend on the workers."""
    size = max(COSTS.least_iterating, COSTS.values_of_iterates // problem.n_atoms)
    return _batches(problem.n_signals, size)


def _batches(n_signals: int, size: int, n_parts: int = 1, *, least: int = 1) -> list[slice]:
    size = max(min(size, -(-n_signals // n_parts)), least)
    return [slice(first, first + size) for first in range(0, n_signals, size)]
