"""Every solver finds the optimum that scikit-learn's Lasso finds, and behaves as the others do."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from solvers import LassoProblem, Status
from solvers.certificate.optimality import objective, penalty_max
from tests.reference.methods import each_method
from tests.reference.problems import optimal_codes, random_problem, require_certified

each_solver = each_method()
# Of two features and many atoms some are nearly the same, where spikes alone are slow.
each_solver_of_any = each_method(tols=dict.fromkeys(("spiking", "spiking_one_window", "spiking_clock"), 1e-2))
# Rates and average currents come near like 1 / t: 1e-8 lies beyond max_duration.
each_fine_solver = each_method("spiking_rate", "spiking_current", "spiking_one_window")
either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


def assert_optimal(problem, solve, tol):
    """Within tol of scikit-learn's objective, which is known to 2e-10 of the energies."""
    result = solve(problem, tol=tol)
    assert result.converged
    assert (result.status == Status.CONVERGED).all()
    excess = result.objective - objective(problem, optimal_codes(problem))
    assert (excess <= tol * problem.energies).all()
    assert (excess >= -2e-10 * problem.energies).all()
    require_certified(problem, result)
    assert (result.duality_gap <= tol * problem.energies).all()


# -- the optimum -----------------------------------------------------------------------------------


@each_fine_solver
def test_three_atoms_of_the_paper(solve, tol):
    """Tang, Lin and Davies (2017), Figure 1, its atoms scaled to norm one.

    Expected: the optimality equations of atoms 1 and 3, solved apart, to the digits given.
    """
    dictionary = np.array([[0.3313, 0.8835, 0.3313], [0.8148, 0.3621, 0.4527], [0.4364, 0.2182, 0.8729]])
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    problem = LassoProblem(dictionary, [[0.5, 1.0, 1.5]], 0.1, positive=True)
    result = solve(problem, tol=min(tol, 1e-8))
    np.testing.assert_allclose(result.objective, 0.2540535, rtol=0, atol=1e-8 * problem.energies[0] + 1e-7)
    # A gap of 1e-8 * 1.75 is at most 1.9e-4 of reconstruction, and atoms 1 and 3 have the product 0.63.
    np.testing.assert_allclose(result.codes, [[0.68306, 0.0, 1.21779]], rtol=0, atol=1e-3)


@each_solver
@either_sign
@pytest.mark.parametrize("share", [1e-2, 0.1, 0.5, 0.99])
def test_random_problems(solve, tol, positive, share):
    assert_optimal(random_problem(64, 128, positive=positive, share=share), solve, tol)


@pytest.mark.thorough
@each_solver
@either_sign
def test_hardly_any_penalty(solve, tol, positive):
    assert_optimal(random_problem(64, 128, n_signals=1, positive=positive, share=1e-3), solve, max(tol, 1e-6))


@pytest.mark.thorough
@each_solver
@pytest.mark.parametrize(("n_features", "n_atoms"), [(128, 256), (256, 1024), (300, 150)])
def test_other_sizes(solve, tol, n_features, n_atoms):
    assert_optimal(random_problem(n_features, n_atoms, n_signals=2), solve, tol)


# In steps of 1/4 atoms this coherent fire together: test_digital.py has them.
@pytest.mark.thorough
@each_method("digital", "spiking_clock")
@either_sign
def test_coherent_atoms(solve, tol, positive):
    problem = random_problem(64, 128, coherence=0.9, positive=positive, n_signals=2)
    assert 0.8 < problem.gram[0, 1:].mean() < 1.0
    assert_optimal(problem, solve, tol)


@each_solver
@either_sign
def test_penalties_and_norms_of_their_own(solve, tol, positive):
    penalty = np.random.default_rng(0).uniform(0.5, 2.0, 128)
    problem = random_problem(64, 128, positive=positive, penalty=penalty, unit_norm=False)
    assert_optimal(problem, solve, tol)


@either_sign
@each_method("lars")
def test_atoms_that_are_the_same(solve, tol, positive):
    """The code is not unique, its objective is.  (LARS drops atoms here: test_reference.py.)"""
    assert_optimal(random_problem(64, 128, n_duplicates=30, positive=positive), solve, tol)


@each_solver
def test_fewer_atoms_than_two_and_fewer_features(solve, tol):
    for n_features, n_atoms in ((1, 1), (5, 1), (1, 5)):
        for positive in (True, False):
            assert_optimal(random_problem(n_features, n_atoms, positive=positive), solve, tol)


# -- what must hold for every input --------------------------------------------------------------------

small_problems = st.builds(
    random_problem,
    n_features=st.integers(2, 10),
    n_atoms=st.integers(1, 16),
    n_signals=st.integers(1, 3),
    share=st.floats(0.05, 0.99),
    positive=st.booleans(),
    unit_norm=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


@pytest.mark.filterwarnings("ignore:all codes are zero")
@each_solver_of_any
@settings(max_examples=20)
@given(problem=small_problems, excess=st.sampled_from([1.0, 1.5, 1e6]))
def test_zero_exactly_from_the_largest_penalty_on(solve, tol, problem, excess):
    largest = penalty_max(problem.dictionary, problem.signals, positive=problem.positive).max()
    result = solve(
        LassoProblem(problem.dictionary, problem.signals, excess * largest, positive=problem.positive),
        tol=tol,
    )
    assert not result.codes.any()
    np.testing.assert_allclose(result.objective, problem.energies, rtol=1e-14)
    np.testing.assert_array_equal(result.n_steps, 0)


@pytest.mark.thorough
@each_solver_of_any
@settings(max_examples=20)
@given(problem=small_problems, exponent=st.integers(-6, 3))
def test_signal_and_penalty_scale_together(solve, tol, problem, exponent):
    """E(c a) at c s and c lambda is c^2 E(a)."""
    factor = 2.0**exponent
    scaled = LassoProblem(
        problem.dictionary, problem.signals * factor, problem.l1_weights * factor, positive=problem.positive
    )
    expected, result = solve(problem, tol=tol), solve(scaled, tol=tol)
    difference = np.abs(result.objective / factor**2 - expected.objective)
    assert (difference <= tol * problem.energies).all()
    assert result.converged


@pytest.mark.thorough
@each_solver_of_any
@settings(max_examples=20)
@given(problem=small_problems, seed=st.integers(0, 2**32 - 1))
def test_order_of_the_atoms_does_not_matter(solve, tol, problem, seed):
    order = np.random.default_rng(seed).permutation(problem.n_atoms)
    shuffled = LassoProblem(
        problem.dictionary[order], problem.signals, problem.l1_weights[order], positive=problem.positive
    )
    expected, result = solve(problem, tol=tol), solve(shuffled, tol=tol)
    assert (np.abs(result.objective - expected.objective) <= tol * problem.energies).all()
    # The objective is strongly convex in the reconstruction: a gap of g is at most sqrt(2 g) away.
    difference = result.codes @ shuffled.dictionary - expected.codes @ problem.dictionary
    distance = np.linalg.norm(difference, axis=1)
    assert (distance <= 2 * np.sqrt(2 * tol * problem.energies)).all()


@pytest.mark.thorough
@each_solver_of_any
@settings(max_examples=20)
@given(problem=small_problems)
def test_sign_of_an_atom_is_the_sign_of_its_coefficient(solve, tol, problem):
    if problem.positive:
        problem = LassoProblem(problem.dictionary, problem.signals, problem.l1_weights)
    signs = np.where(np.arange(problem.n_atoms) % 2, -1.0, 1.0)
    turned = LassoProblem(problem.dictionary * signs[:, np.newaxis], problem.signals, problem.l1_weights)
    np.testing.assert_allclose(
        solve(turned, tol=tol).objective,
        solve(problem, tol=tol).objective,
        rtol=0,
        atol=tol * problem.energies.max(),
    )


@each_solver
@either_sign
def test_batch_mates_do_not_matter(solve, tol, positive):
    """Up to the rounding of products of matrices, which FISTA uses."""
    problem = random_problem(n_signals=6, positive=positive)
    together = solve(problem, tol=tol)
    for i in range(problem.n_signals):
        alone = solve(problem.subset(slice(i, i + 1)), tol=tol)
        np.testing.assert_allclose(alone.codes[0], together.codes[i], rtol=0, atol=1e-10)
        assert alone.n_steps[0] == together.n_steps[i]
    backwards = solve(problem.subset(slice(None, None, -1)), tol=tol)
    np.testing.assert_allclose(backwards.codes[::-1], together.codes, rtol=0, atol=1e-10)


@pytest.fixture(params=["fortran", "strided", "read-only", "memory map", "float32", "list"])
def in_other_form(request, tmp_path):
    """The same numbers, kept in another way; those given are numbers that float32 holds."""

    def convert(array):
        if request.param == "fortran":
            return np.asfortranarray(array)
        if request.param == "strided":
            return np.repeat(array, 2, axis=1)[:, ::2]
        if request.param == "read-only":
            copy = array.copy()
            copy.flags.writeable = False
            return copy
        if request.param == "memory map":
            path = tmp_path / f"{array.shape}.npy"
            np.save(path, array)
            return np.load(path, mmap_mode="r")
        return array.astype(np.float32) if request.param == "float32" else array.tolist()

    return convert


@each_solver
def test_form_of_the_input_does_not_matter(solve, tol, in_other_form):
    problem = random_problem()
    dictionary, signals = (
        array.astype(np.float32).astype(np.float64) for array in (problem.dictionary, problem.signals)
    )
    expected = solve(LassoProblem(dictionary, signals, 1.0), tol=tol)
    result = solve(LassoProblem(in_other_form(dictionary), in_other_form(signals), 1.0), tol=tol)
    np.testing.assert_array_equal(result.codes, expected.codes)
    np.testing.assert_array_equal(result.n_steps, expected.n_steps)


@each_solver
def test_two_runs_give_the_same_bits_and_leave_the_input_alone(solve, tol):
    problem = random_problem()
    before = {name: getattr(problem, name).copy() for name in ("dictionary", "signals", "gram")}
    first, second = solve(problem, tol=tol), solve(problem, tol=tol)
    np.testing.assert_array_equal(first.codes, second.codes)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(problem, name), value)


@each_solver
def test_results_are_read_only_and_complete(solve, tol):
    problem = random_problem()
    result = solve(problem, tol=tol)
    assert result.tol == tol
    assert result.codes.shape == (problem.n_signals, problem.n_atoms)
    for name in ("objective", "duality_gap", "kkt_violation", "status", "n_steps", "support_size"):
        assert getattr(result, name).shape == (problem.n_signals,)
    assert result.codes.dtype == result.duality_gap.dtype == np.float64
    assert result.n_steps.dtype.kind == "i"
    assert not result.codes.flags.writeable


@pytest.mark.parametrize("scale", [1e-140, 1e-50, 1e50, 1e150])
@each_solver
def test_units_do_not_matter(solve, tol, scale):
    """As far as squares can be held at all."""
    problem = random_problem(n_signals=1)
    expected = solve(problem, tol=tol)
    for result in (
        solve(LassoProblem(problem.dictionary, problem.signals * scale, scale), tol=tol),
        solve(LassoProblem(problem.dictionary * scale, problem.signals, scale), tol=tol),
    ):
        assert result.converged
        relative = result.objective / result.objective[0] * expected.objective[0]
        np.testing.assert_allclose(relative, expected.objective, rtol=1e-9)
        np.testing.assert_array_equal(result.support_size, expected.support_size)


@each_solver
def test_warning_is_told_once_and_only_where_deserved(solve, tol):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(random_problem(), tol=tol)
    assert not [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
