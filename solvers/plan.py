"""Choices by cost: which products of atoms a problem uses, and how many signals are solved together."""

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
    """The thresholds of all choices.  `python -m tests.benchmarks.products` measures times on one core."""

    # With fewer atoms, the full Gram matrix is always computed, in one or two milliseconds.
    fewest_on_demand: int = 512
    # With fewer than one signal per `atoms_per_code` atoms, coding without the Gram matrix is faster than
    # computing the matrix.
    atoms_per_code: int = 100
    # Least number of signals for which sharing products of matrices saves time.
    fewest_sharing: int = 4
    # Least number of atoms for which signals share products although the Gram matrix fits into memory.
    fewest_shared: int = 2048
    # Time of an entry of the Gram matrix, in nanoseconds: a fixed time to store it, and a time per feature.
    ns_of_entry: float = 5.0
    ns_of_feature: float = 0.02
    # Additional time of a code from shared products, in nanoseconds: a fixed time, and a time per atom of its
    # support.
    ns_of_code: float = 450_000.0
    ns_of_support: float = 20_000.0
    # Supports are not measured if shared products would save time even with `largest_support` atoms in each.
    largest_support: int = 100
    # Number of signals in a batch that shares products.  `least_together` is the minimum, even beyond the
    # memory limit.  Batches of `most_together` signals have full speed.  `most_converting` is for atoms that
    # are converted for each batch, so that most of the time is not spent on conversion.
    least_together: int = 16
    most_together: int = 512
    most_converting: int = 4096
    # Limits on values (8 MB) and on signals of other batches, so that a batch stays in cache and Ctrl-C is
    # quick.  With fewer than 256 atoms, a batch has more signals: `python -m tests.benchmarks patches tiny`.
    values_per_batch: int = 1_000_000
    largest_batch: int = 256
    # Least number of batches per worker, so that workers end together: `python -m tests.benchmarks threads`.
    batches_per_worker: int = 2
    # Expected number of iterations of FISTA, in the choice between the Gram matrix and the dictionary.
    iterations: int = 100
    # Number of values in a batch of FISTA, whose seven buffers of 2 MB stay in cache.  A batch of FISTA has
    # at least `least_iterating` signals, because reading a large dictionary for fewer signals would cost more
    # than leaving the cache.
    values_of_iterates: int = 2**18
    least_iterating: int = 32
    # Number of values of codes that evaluation and denoising hold at a time (8 MB), without memory of
    # solvers.
    codes_held: int = 2**20
    # First capacity of a working set, in atoms.  Memory that is never touched costs nothing, whereas growing
    # the set costs as much as reading the atoms.
    working_set: int = 600
    # The excess of spikes at which the network of a signal is stopped.
    burst: BurstLimit = field(default_factory=BurstLimit)
    # Most signals of a path for which one product certifies the codes at all penalties.
    most_along: int = 16
    # Least number of atoms per feature, and per code along a path, for which the Gram matrix of atoms that
    # may be active takes less time than the whole matrix (100 to 1,000 features, 40 to 100 penalties).
    atoms_per_feature: int = 15
    atoms_per_code_along: int = 30
    # Least number of values of a dictionary (64 MB) for which a certificate reads only a part of the atoms.
    least_screened: int = 2**23
    # Largest support for which a kernel solves the equations of derivatives.  LAPACK solves larger supports.
    most_in_kernel: int = 96


COSTS = Costs()


def most_on_demand(n_atoms: int) -> int:
    """Return the maximum number of codes that are computed one by one, without a Gram matrix."""
    return max(n_atoms // COSTS.atoms_per_code, 1)


def most_sharing(problem: LassoProblem, support: float) -> int:
    """Return the most signals for which shared products take less time than the Gram matrix."""
    if problem.n_atoms < COSTS.fewest_shared:
        return 0
    ns_of_entry = COSTS.ns_of_entry + COSTS.ns_of_feature * problem.atoms.features_of_atom
    return int(problem.n_atoms**2 * ns_of_entry / (COSTS.ns_of_code + COSTS.ns_of_support * support))


class Products(Enum):
    """Kinds of products of atoms, for the active-set method or the network of a problem."""

    FULL = auto()  # the Gram matrix
    ON_DEMAND = auto()  # the rows of the Gram matrix that a few signals need
    SHARED = auto()  # no Gram matrix: the residuals of many signals are multiplied by all atoms
    OWN = auto()  # no Gram matrix, because each signal has its own feature weights
    GRID = auto()  # parts of the Gram matrix of a convolutional dictionary


def products_for(
    problem: LassoProblem,
    *,
    on_demand: bool = False,
    most_signals: int = 1,
    support_of: Callable[[LassoProblem], float] | None = None,
) -> Products:
    """Return the kind of products of atoms that a problem uses."""
    # Without `on_demand`, all products are computed at the beginning.  Up to `most_signals` signals may be
    # solved one by one.  `support_of` returns the mean support of some codes.
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
    """Return True if the full Gram matrix of an array of atoms is used, False if parts are used."""
    is_few = (n_codes or problem.n_signals) <= most_signals and problem.n_atoms >= COSTS.fewest_on_demand
    return problem.gram_fits and (problem.has_gram or not is_few)


def shares_products(
    problem: LassoProblem, most_signals: int = 1, support_of: Callable[[LassoProblem], float] | None = None
) -> bool:
    """Return True if signals share products of residuals instead of a Gram matrix."""
    if problem.atoms.rows is None or problem.has_gram:
        return False
    # Screening divides correlations by penalties, and atoms by norms.
    if problem.penalty.has_zeros or not knows_atoms_alike(problem):
        return False
    n_signals = problem.n_signals
    if problem.gram_fits:
        # Calling `support_of` takes long, so that it is called only if the choice depends on the support.
        if support_of is None or not most_signals < n_signals <= most_sharing(problem, 0.0):
            return False
        is_sure = n_signals <= most_sharing(problem, COSTS.largest_support)
        return is_sure or n_signals <= most_sharing(problem, support_of(problem))
    # Up to `most_signals` signals are solved one by one, unless there are enough to share products, or more
    # problems with this dictionary follow.
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
    """Return True if a path computes the Gram matrix only of atoms that may be active."""
    is_large = problem.n_atoms >= max(COSTS.fewest_on_demand, COSTS.atoms_per_feature * problem.n_features)
    is_ordinary = problem.atoms.rows is not None and problem.feature_weights is None and not problem.has_gram
    return is_large and is_ordinary and COSTS.atoms_per_code_along * n_codes <= problem.n_atoms


def iterates_with_gram(problem: LassoProblem, shape: tuple[int, int]) -> bool:
    """Return True if FISTA multiplies by the Gram matrix of atoms of this shape, not by the atoms twice."""
    n_products, (n_atoms, n_features) = COSTS.iterations * problem.n_signals, shape
    # Number of multiplications per atom.  If the Gram matrix is not known, half of its entries are computed,
    # because it is symmetric.
    by_gram = n_products * n_atoms + (0.0 if problem.has_gram else 0.5 * n_atoms * n_features)
    fits = problem.atoms.rows is not None and problem.gram_fits
    return fits and by_gram < n_products * 2.0 * n_features


def differentiates_with_gram(problem: LassoProblem, sizes: np.ndarray) -> bool:
    """Return True if the Gram matrix is known, or smaller than the matrices of all supports together."""
    if not problem.atoms.is_matrix or problem.has_own_weights:
        return False
    return problem.has_gram or (problem.gram_fits and int(sizes @ sizes) > problem.n_atoms**2)


def screens_certificates(problem: LassoProblem) -> bool:
    """Return True if certificates read only atoms that can violate the optimality conditions."""
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
    """Return batches of signals that share products, limited by speed and by memory."""
    most = COSTS.most_converting if converts else COSTS.most_together
    size = min(most, problem.memory_limit // (8 * n_workers) // bytes_per_signal)
    return _batches(problem.n_signals, size, n_workers, least=COSTS.least_together)


def batches_of_iterates(problem: LassoProblem) -> list[slice]:
    """Return batches of signals that FISTA solves together; they do not depend on the number of workers."""
    size = max(COSTS.least_iterating, COSTS.values_of_iterates // problem.n_atoms)
    return _batches(problem.n_signals, size)


def _batches(n_signals: int, size: int, n_parts: int = 1, *, least: int = 1) -> list[slice]:
    size = max(min(size, -(-n_signals // n_parts)), least)
    return [slice(first, first + size) for first in range(0, n_signals, size)]
