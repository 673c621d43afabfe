"""Sparse coding: the LASSO as a problem, several ways to solve it, one judge."""

from solvers.coder import SpikingSparseCoder
from solvers.problem import LassoProblem
from solvers.result import SparseCodingResult, Status
from solvers.spiking import SpikingCodingResult, lasso_network, solve_spiking

__all__ = [
    "LassoProblem",
    "SparseCodingResult",
    "SpikingCodingResult",
    "SpikingSparseCoder",
    "Status",
    "lasso_network",
    "solve_spiking",
]
