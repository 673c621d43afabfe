"""Compiled code of `solvers`.

The rules of `snn._kernels` hold: the caller allocates contiguous arrays, and kernels check nothing and raise
no errors.
"""
