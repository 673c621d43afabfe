"""Certificates, which say how far a code is from the optimum, and call no solver.

`optimality` defines the figures of merit, in NumPy, for any atoms.  `compiled` computes the same figures for
arrays of atoms.  `corrected` has the gaps for penalties that are zero or tiny.  `residuals` has the residuals
from which all these modules start.  Methods call this package through `solvers.results.codes.BestCodes` (or
its `code_of_kernel`, if one call of a kernel solves a single signal).  Users call this package through
`solvers.certify`.
"""
