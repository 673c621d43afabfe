"""Which products of atoms an active-set method uses, by what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solvers.problem.lasso import LassoProblem, knows_atoms_alike


@dataclass(frozen=True)
class Costs:
    """Thresholds between kinds of products; times of one core by `python -m tests.benchmarks.products`."""

    # Atoms from which on the Gram matrix is not computed for a single signal.  The full matrix of fewer atoms
    # takes a millisecond or two.
    fewest_on_demand: int = 512
    # With at most one code for this number of atoms, codes one by one take less time than the matrix.
    atoms_per_code: int = 100
    # Signals from which on products of matrices pay, where they share them.
    fewest_sharing: int = 4
    # Atoms from which on signals may share products although the Gram matrix fits into memory.
    fewest_shared: int = 2048
    # Nanoseconds of an entry of the Gram matrix: to store it, and for each feature.
    ns_of_entry: float = 5.0
    ns_of_feature: float = 0.02
    # Nanoseconds by which a code takes longer from shared products, and those for each atom of its support.
    ns_of_code: float = 450_000.0
    ns_of_support: float = 20_000.0
    # The largest support of which shared products are considered.
    largest_support: int = 100

    def most_sharing(self, problem: LassoProblem, support: float) -> int:
        """Return the number of signals up to which shared products take less time than the Gram matrix."""
        if problem.n_atoms < self.fewest_shared:
            return 0
        of_entry = self.ns_of_entry + self.ns_of_feature * problem.atoms.features_of_atom
        return int(problem.n_atoms**2 * of_entry / (self.ns_of_code + self.ns_of_support * support))


COSTS = Costs()


def most_on_demand(n_atoms: int, costs: Costs = COSTS) -> int:
    """Return the number of codes up to which they are solved one by one, without a Gram matrix."""
    return max(n_atoms // costs.atoms_per_code, 1)


def uses_full_gram(
    problem: LassoProblem, most_signals: int = 1, n_codes: int = 0, costs: Costs = COSTS
) -> bool:
    """Return True if all of the Gram matrix of an array is used where parts of it might do."""
    n_codes = n_codes or problem.n_signals
    return n_codes > most_signals or problem.n_atoms < costs.fewest_on_demand or problem.has_gram


def shares_products(
    problem: LassoProblem,
    most_signals: int = 1,
    support_of: Callable[[LassoProblem], float] | None = None,
    costs: Costs = COSTS,
) -> bool:
    """Return True if signals share products of residuals, which take the place of the Gram matrix."""
    if problem.atoms.rows is None or problem.has_gram:
        return False
    # Screening counts in units of penalties, and of norms.
    if problem.penalty.has_zeros or not knows_atoms_alike(problem):
        return False
    n_signals = problem.n_signals
    if problem.gram_fits:
        # `support_of` tells the support of the codes, and is asked only where the choice depends on it.
        if support_of is None or not most_signals < n_signals <= costs.most_sharing(problem, 0.0):
            return False
        is_sure = n_signals <= costs.most_sharing(problem, costs.largest_support)
        return is_sure or n_signals <= costs.most_sharing(problem, support_of(problem))
    # Up to `most_signals` are solved one by one, unless they are enough to share products, or others follow.
    return n_signals > min(most_signals, costs.fewest_sharing - 1) or problem.is_prepared
