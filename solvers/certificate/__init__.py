"""Certificates: how far a code is from the optimum. They call no solver.

`optimality` is the definition, in NumPy, for any atoms; `compiled` has the same figures for arrays of atoms,
`corrected` for penalties that are zero or tiny, and `residuals` what all of them start from.  Methods come
here through `solvers.results.codes.BestCodes`, those that solve a single signal within one call of a kernel
through its `code_of_kernel`, users through `solvers.certify`.
"""
