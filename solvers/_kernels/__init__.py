"""Compiled code of `solvers`.

As in `snn._kernels`: contiguous arrays that the caller allocated, no checks, no errors.
"""
