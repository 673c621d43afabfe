"""Peaks along time: ``python -m tests.benchmarks.banded``, a non-negative LASSO of 10,000 variables.

A thousand of 10,000 coefficients are positive, and each is seen as a Gaussian peak along 10,000 observations:
the atoms are the shifts of one kernel, so that no matrix is stored.  Other packages get the design as a
sparse matrix.  All codes are certified for the same problem.
"""

import resource
import sys
import time
import warnings

import numpy as np
from scipy import sparse

from solvers import ConvolutionalDictionary, LassoProblem, certify, penalty_max, solve_active_set
from tests.benchmarks.who_is_right import packages

WIDTH, NOISE = 2.0, 0.1  # the standard deviations of a peak (in observations) and of the noise
SHARES = (0.1, 0.01, 0.001)  # shares of the largest penalty


def drawn(n: int, *, seed: int = 0) -> tuple[LassoProblem, sparse.csc_array, np.ndarray]:
    """Return the problem at penalty 1, its design as a matrix, and the true coefficients."""
    rng, reach = np.random.default_rng(seed), round(4 * WIDTH)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / WIDTH) ** 2)
    kernel /= np.linalg.norm(kernel)
    truth = np.zeros(n)
    truth[rng.choice(n, n // 10, replace=False)] = rng.uniform(1.0, 10.0, n // 10)
    target = np.convolve(truth, kernel)
    target += NOISE * rng.standard_normal(len(target))
    peaks = ConvolutionalDictionary(kernel[np.newaxis, np.newaxis], (1, len(target)), 1)
    offsets = -np.arange(len(kernel))
    design = sparse.diags_array(kernel[:, np.newaxis] * np.ones(n), offsets=offsets, shape=(len(target), n))
    return LassoProblem(peaks, target[np.newaxis], 1.0, positive=True), sparse.csc_array(design), truth


def main(n: int = 10_000) -> int:
    """Print a row for each penalty and package."""
    warnings.simplefilter("ignore")
    problem, design, truth = drawn(n)
    target = problem.signals[0]
    solve_active_set(drawn(200)[0])  # compiles the kernels
    largest = penalty_max(problem.dictionary, problem.signals, positive=True)[0]
    for share in SHARES:
        given = problem.with_penalty(share * largest)
        begin = time.perf_counter()
        rows = {"active set": (solve_active_set(given), time.perf_counter() - begin)}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for name, estimator in packages(positive=True).items():
            penalty = share * largest / len(target)
            estimator(penalty).fit(design[:500, :400], target[:500])  # compiles the kernels
            begin = time.perf_counter()
            fit = estimator(penalty).fit(design, target)
            seconds = time.perf_counter() - begin
            rows[name] = certify(given, fit.coef_[np.newaxis]), seconds
        for name, (result, seconds) in rows.items():
            code = result.codes[0]
            found, n_used = np.count_nonzero(code[truth > 0.0]), np.count_nonzero(code)
            print(
                f"{share:6} of the largest penalty, {name:12} {seconds:6.2f} s, certified gap "
                f"{result.relative_gap[0]:.0e}; {found} of {n // 10} found, {n_used - found} false, "
                f"correlation {np.corrcoef(code, truth)[0, 1]:.3f}"
            )
        print(f"memory of all so far: {memory:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
