"""Kernels that are best for given codes: block coordinate descent over kernels of norm at most one."""

from __future__ import annotations

import numpy as np

from dictlearn.images.kernel_statistics import KernelStatistics

# Eigenvalues of a kernel's own block below this share of its largest count as zero.
ROUNDING = 1e-12
# Newton's steps to the multiplier; six are usual.
MOST_STEPS = 50


def improve_kernels(statistics: KernelStatistics, kernels: np.ndarray, n_sweeps: int) -> None:
    """Minimise over one kernel after the other, each exactly, the others fixed.

    Each minimises the data term of `KernelStatistics` over all kernels of norm at most one; one that no code
    uses, or that nothing pulls at, stays as it is.
    """
    usage = statistics.usage
    product = statistics.product(kernels)
    for _ in range(n_sweeps):
        for kernel in np.flatnonzero(usage > 0.0).tolist():
            block = statistics.own_block(kernel)
            old = kernels[kernel]
            wanted = statistics.correlations[kernel] - product[kernel] + block @ old
            if not wanted.any():
                continue
            new = minimised(block, wanted)
            statistics.add_change(product, kernel, new - old)
            kernels[kernel] = new


def minimised(block: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the d of norm at most one that minimises ``1/2 <d, block d> - <d, wanted>``.

    In the basis of the block's eigenvectors it is wanted / (eigenvalue + m); the multiplier m is zero, or it
    makes the norm one.  The unit that both have does not matter.

    Shapes: block (n_pixels, n_pixels); wanted (n_pixels, n_channels).

    References
    ----------
    More and Sorensen (1983), SIAM J. Sci. Stat. Comput. 4: Newton's method for 1 / ||d||.
    """
    # Divided by a power of two, which rounds nothing: cubes of very large or small numbers leave the range
    # of floats.
    unit = -int(np.frexp(max(np.abs(block).max(), np.abs(wanted).max()))[1])
    block, wanted = np.ldexp(block, unit), np.ldexp(wanted, unit)
    eigenvalues, vectors = np.linalg.eigh(block)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    wanted = vectors.T @ wanted
    squares = np.einsum("ij,ij->i", wanted, wanted)
    floor = ROUNDING * eigenvalues[-1]
    usable = eigenvalues > floor
    free = np.where(usable[:, np.newaxis], wanted / np.where(usable, eigenvalues, 1.0)[:, np.newaxis], 0.0)
    outside = squares[~usable].sum() > (ROUNDING**2) * squares.sum()
    if not outside and np.vdot(free, free) <= 1.0:
        return vectors @ free
    # 1 / ||d|| is nearly linear in the multiplier.
    multiplier = max(np.sqrt(squares.sum()) - eigenvalues[-1], floor)
    for _ in range(MOST_STEPS):
        shifted = eigenvalues + multiplier
        norm = np.sqrt((squares / shifted**2).sum())
        slope = (squares / shifted**3).sum() / norm**2
        step = (norm - 1.0) / slope
        multiplier = max(multiplier + step, floor)
        if abs(step) <= 1e-12 * (multiplier + eigenvalues[-1]):
            break
    solution = vectors @ (wanted / (eigenvalues + multiplier)[:, np.newaxis])
    return solution / max(1.0, np.linalg.norm(solution))
