"""Certificates: how far a code is from the optimum. They call no solver.

`optimality` is the definition, in NumPy, for any atoms.  `compiled` has the same figures for arrays of atoms,
`corrected` for penalties that are zero or tiny; `residuals` has the residuals from which all start.  Methods
call this package through `solvers.results.codes.BestCodes` (or its `code_of_kernel`, if one call of a kernel
solves a single signal), users through `solvers.certify`.
"""
