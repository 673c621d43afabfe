"""Sparse coding: the LASSO as a problem, several ways to solve it, one judge."""

from solvers.problem import LassoProblem
from solvers.result import SparseCodingResult, Status

__all__ = ["LassoProblem", "SparseCodingResult", "Status"]
