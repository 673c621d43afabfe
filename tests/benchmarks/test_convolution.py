"""The growth of time and memory of large photographs is measured, at a small size."""

from tests.benchmarks.convolution import QUICK_GROWTH, code_raw, raw_problem


def test_photographs_with_their_slow_changes():
    side, n_kernels = QUICK_GROWTH[0]
    found = code_raw(side, n_kernels)
    problem = raw_problem(side, n_kernels)
    assert found["n_unknowns"] == problem.n_atoms
    assert found["support"] > 0
    assert found["gap"] <= 1e-6
    assert 0.0 < found["peak_memory"] < 2.0
    # As they are: the image has its mean, the kernels have none.
    assert abs(problem.signals.mean()) > 1e-3
    assert abs(problem.dictionary.kernels.mean(axis=(1, 2))).max() < 1e-12
