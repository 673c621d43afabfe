"""Low memory limits: problems without a Gram matrix, memory maps, groups of masks, and no second copies."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from joblib import parallel_config
from scipy import sparse

from solvers import METHODS, LassoProblem, memory_limit, penalty_max, solve_active_set
from solvers._kernels.largest import list_largest
from solvers.certificate import compiled
from solvers.certificate.optimality import measure
from solvers.problem.largest import largest_ratios
from solvers.problem.lasso import unit_atoms_of, zero_code_multiples
from solvers.workers.shared import Shared
from solvers.workers.spread import spread
from tests.reference.costs import costs
from tests.reference.solved import METHODS as SHORTENED
from tests.reference.solved import problems_for, solved
from tests.tiers import examples

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
FIGURES = ("objective", "duality_gap", "kkt_violation")


@pytest.fixture(autouse=True)
def screened_certificates():
    """Screen certificates as for large dictionaries, with working sets that soon outgrow their memory."""
    with costs(least_screened=0, working_set=3):
        yield


def limited(*arguments, **options):
    with memory_limit(1):
        return LassoProblem(*arguments, **options)


@pytest.mark.property
@examples(6)
@given(this=problems_for("active_set", limited=True, most=400))
def test_codes_of_many_atoms_are_those_of_the_matrix(this):
    """Atoms may be similar; the figures of poor codes equal the figures that use all atoms."""
    result = solved(SHORTENED["active_set"], this, tol=1e-9)
    assert result.converged
    expected = solved(SHORTENED["active_set"], this, this.dense(), tol=1e-9)
    difference = np.abs(result.objective - expected.objective)
    assert (difference <= 1e-9 * this.energies).all()
    scale = np.abs(result.problem.correlations).max()
    for codes in (result.sparse_codes, sparse.csr_array(this.codes(density=0.05))):
        found, plain = compiled.certificates_of(result.problem, codes), measure(result.problem, codes)
        units = plain.objective + this.energies + 1e-300
        for name, unit in zip(FIGURES, (units, units, plain.kkt_violation + scale), strict=True):
            assert (np.abs(getattr(found, name) - getattr(plain, name)) <= 1e-11 * unit).all(), name


@SIGNS
def test_a_code_has_the_same_bits_whatever_is_solved_with_it(positive):
    rng = np.random.default_rng(0)
    problem = limited(rng.standard_normal((3000, 64)), rng.standard_normal((40, 64)), 2.0, positive=positive)
    together = solve_active_set(problem)
    assert together.support_size.min() > 5
    np.testing.assert_array_equal(solve_active_set(problem, n_jobs=2).codes, together.codes)
    for part in (slice(0, 7), slice(13, 40)):
        np.testing.assert_array_equal(solve_active_set(problem.subset(part)).codes, together.codes[part])


def test_many_copies_of_an_atom_end():
    """All copies are as close to a violation as the active atom, so a list of close atoms would never end."""
    rng = np.random.default_rng(0)
    dictionary = np.repeat(rng.standard_normal((5, 20)), 400, axis=0)
    problem = limited(dictionary, rng.standard_normal((6, 20)), 0.1)
    assert solve_active_set(problem).relative_gap.max() < 1e-10


@SIGNS
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_largest_ratios(positive, is_kept):
    rng = np.random.default_rng(1)
    dictionary = rng.standard_normal((5000, 17)) * 10.0 ** rng.uniform(-3, 3, (5000, 1))
    penalty = rng.uniform(0.1, 1.0, 5000) * np.linalg.norm(dictionary, axis=1)
    with memory_limit(1e9 if is_kept else 1.0):
        problem = LassoProblem(dictionary, rng.standard_normal((3, 17)), penalty, positive=positive)
    unit_atoms = unit_atoms_of(problem.model)
    assert unit_atoms.is_kept == is_kept
    vectors = np.vstack([problem.signals, np.zeros((1, 17))])
    factors = np.sqrt(problem.atoms.squared_norms) / penalty
    largest = largest_ratios(unit_atoms, factors, vectors, 50, positive=problem.positive)
    exact = vectors @ dictionary.T / penalty
    exact = exact if positive else np.abs(exact)
    for k in range(4):
        listed = largest.atoms[k, : largest.counts[k]]
        assert 50 <= len(listed) <= 75
        assert len(set(listed)) == len(listed)
        assert np.abs(largest.ratios[k, : len(listed)] - exact[k, listed]).max() <= largest.errors[k]
        assert np.delete(exact[k], listed).max() <= largest.others[k] + largest.errors[k]
        assert largest.errors[k] <= 1e-5 * factors.max() * max(np.linalg.norm(vectors[k]), 1e-9)


@pytest.mark.filterwarnings("error")
def test_the_only_atoms_of_a_norm_may_have_tiny_penalties():
    dictionary = np.zeros((30, 4))
    dictionary[:3] = np.eye(3, 4)
    problem = limited(dictionary, np.ones((5, 4)), 0.25)
    np.testing.assert_allclose(solve_active_set(problem).codes[:, :4], [[0.75, 0.75, 0.75, 0.0]] * 5)


def test_lists_of_the_largest_by_parts():
    rng = np.random.default_rng(0)
    products = rng.integers(-50, 50, (4, 1000)).astype(np.float32)
    factors = rng.uniform(0.5, 1.0, 1000).astype(np.float32)
    counts, smallest = np.zeros(4, dtype=np.int64), np.full(4, -np.inf, dtype=np.float32)
    atoms, values = np.zeros((4, 30), dtype=np.int64), np.zeros((4, 30), dtype=np.float32)
    for first in range(0, 1000, 77):
        part = slice(first, first + 77)
        list_largest(np.abs(products[:, part]), factors[part], first, 20, counts, smallest, atoms, values)
    sizes = np.abs(products) * factors
    for k in range(4):
        listed = atoms[k, : counts[k]]
        np.testing.assert_array_equal(values[k, : counts[k]], sizes[k, listed])
        assert np.delete(sizes[k], listed).max() <= smallest[k] <= np.sort(sizes[k])[-20]


def test_the_limit_holds_for_problems_made_within():
    arguments = np.eye(3), np.ones((1, 3)), 0.5
    before = LassoProblem(*arguments)
    with memory_limit(100):
        inside = LassoProblem(*arguments)
        with memory_limit(50):
            further_inside = LassoProblem(*arguments)
        assert LassoProblem(*arguments).gram_fits
    assert [problem.gram_fits for problem in (before, inside, further_inside)] == [True, True, False]
    assert LassoProblem(*arguments).memory_limit == before.memory_limit
    assert not further_inside.with_penalty(0.3).gram_fits
    assert not further_inside.subset([0]).gram_fits
    assert further_inside.with_signals(np.ones((2, 3))).memory_limit == 50
    with memory_limit(70) as limit:
        pass
    with limit:
        assert LassoProblem(*arguments).memory_limit == 70
    assert LassoProblem(*arguments).memory_limit == before.memory_limit
    with memory_limit(70):  # the same number of bytes as another limit object
        with limit:
            pass
        assert LassoProblem(*arguments).memory_limit == 70
    assert LassoProblem(*arguments).memory_limit == before.memory_limit


def test_a_memory_map_is_read_and_not_copied(tmp_path):
    """Single-precision blocks of 8 MB, and products with blocks, are small compared with 48 MB of atoms."""
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((150_000, 40)), rng.standard_normal((6, 40))
    np.save(tmp_path / "atoms.npy", dictionary)
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    problem = limited(mapped, signals, 0.5)
    assert np.shares_memory(problem.dictionary, mapped)
    expected = solve_active_set(limited(dictionary, signals, 0.5))
    tracemalloc.start()
    result = solve_active_set(limited(mapped, signals, 0.5))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.6 * dictionary.nbytes
    np.testing.assert_array_equal(result.codes, expected.codes)
    solve_active_set(problem)
    assert not problem.cached(unit_atoms_of, any_penalty=True).is_kept


def test_processes_map_the_file_themselves(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "atoms.npy", rng.standard_normal((3000, 40)))
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    problem = limited(mapped, rng.standard_normal((40, 40)), 5.0)
    expected = solve_active_set(problem)
    with parallel_config(backend="loky", n_jobs=2):
        found = solve_active_set(problem)
        found_files = dict(spread(file_of_atoms, [problem, problem], None, 2))
        assert found_files == dict.fromkeys(range(2), mapped.filename)
    np.testing.assert_array_equal(found.codes, expected.codes)


def file_of_atoms(problem):
    array = problem.dictionary
    while array.base is not None and not isinstance(array, np.memmap):
        array = array.base
    return array.filename


def test_other_machines_are_sent_the_numbers_once():
    rng = np.random.default_rng(0)
    problem = LassoProblem(rng.standard_normal((300, 40)), rng.standard_normal((4, 40)), 5.0)
    shared = Shared.of(problem.model)
    part = shared.without(problem.subset([1]))
    shared = pickle.loads(pickle.dumps(shared))
    assert len(part[0]) < problem.dictionary.nbytes / 10
    received = shared.whole(*part)
    assert np.shares_memory(received.dictionary, shared.content.atoms.array)
    np.testing.assert_array_equal(received.dictionary, problem.dictionary)
    assert not received.dictionary.flags.writeable


@SIGNS
def test_rows_of_a_network_have_the_limit(positive):
    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((600, 30)), rng.standard_normal((6, 30)), 2.0
    with memory_limit(600 * 8 * 599):
        enough = LassoProblem(*arguments, positive=positive)
    with memory_limit(600 * 8 * 2):
        too_little = LassoProblem(*arguments, positive=positive)
    for method in (METHODS["spiking"], METHODS["active_set_from_spikes"]):
        assert method(enough, tol=1e-3).converged
        assert method(enough.subset([1, 2]), tol=1e-3).converged
        with pytest.raises(MemoryError, match="rows of the Gram matrix of 600 atoms"):
            method(too_little, tol=1e-3)
    assert not enough.has_gram


@SIGNS
def test_largest_penalties_are_the_same_in_little_room(positive):
    """With little memory, the largest penalties are computed for a few signals at a time."""
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((300, 20)), rng.standard_normal((10, 20))
    reach = signals @ dictionary.T
    with memory_limit(3 * 16 * 300):
        found = penalty_max(dictionary, signals, positive=positive)
        problem = LassoProblem(dictionary, signals, 1.0, positive=positive)
    np.testing.assert_allclose(found, (reach if positive else np.abs(reach)).max(axis=1), rtol=1e-13)
    np.testing.assert_array_equal(zero_code_multiples(problem), found)
    l1 = rng.uniform(0.5, 2.0, 300)
    expected = (reach / l1 if positive else np.abs(reach / l1)).max(axis=1)
    np.testing.assert_allclose(zero_code_multiples(problem.with_penalty(l1)), expected, rtol=1e-13)


def test_large_sparse_signals_are_not_made_dense_at_once(monkeypatch):
    """A dense array of 3,000 x 50,000 numbers would take 1.2 GB."""
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    rows = sparse.random(3_000, 50_000, density=2e-4, format="csr", random_state=rng)
    problem = LassoProblem(rng.standard_normal((4, 50_000)), rows, 5.0)
    tracemalloc.start()
    with costs(least_screened=2**23):
        result = solve_active_set(problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.converged
    assert peak < 150e6
