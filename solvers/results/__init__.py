"""The codes that solvers search for, return and start from."""
