"""Many signals and many atoms without a Gram matrix: the same codes, certificates by screening, the limit."""

import re
import tracemalloc

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse

from solvers import (
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    PreparedLasso,
    SpikingSparseCoder,
    certify,
    memory_limit,
    path,
    penalty_max,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers._kernels.largest import list_largest
from solvers.certificate import compiled
from solvers.certificate.optimality import measure
from solvers.gram import shared_products
from solvers.gram.gram import SharedProducts
from solvers.gram.shared_products import Members, Search
from solvers.methods.fista import ScaledAtoms, gradient_step
from solvers.problem import screening
from solvers.problem.dense_dictionary import DenseDictionary
from solvers.problem.screening import UnitAtoms, largest_ratios
from solvers.workers.transport import Shared, file_map, opened

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


@pytest.fixture(autouse=True)
def screened_certificates(monkeypatch):
    """As if every dictionary were large."""
    monkeypatch.setattr(compiled, "LEAST_SCREENED", 0)


def limited(*arguments, **options):
    with memory_limit(1):
        return LassoProblem(*arguments, **options)


def problem_of(seed, *, positive):
    """Return what a problem is made of: dictionaries, penalties and weights of many kinds."""
    rng = np.random.default_rng(seed)
    n_atoms, n_features, n_signals = (
        int(rng.integers(2, 700)),
        int(rng.integers(1, 60)),
        int(rng.integers(4, 9)),
    )
    dictionary = rng.standard_normal((n_atoms, n_features))
    kind = seed % 6
    if kind == 1:
        dictionary += 3.0 * rng.standard_normal(n_features)
    if kind == 2:
        dictionary[1::2] = dictionary[: n_atoms - n_atoms % 2 : 2][: len(dictionary[1::2])]
    if kind == 3:
        dictionary *= 10.0 ** rng.uniform(-6, 6, (n_atoms, 1))
    if kind == 4:
        dictionary[1 + np.flatnonzero(rng.random(n_atoms - 1) < 0.3)] = 0.0
    signals = rng.standard_normal((n_signals, n_features))
    signals[0] = 0.0
    norms = np.linalg.norm(dictionary, axis=1)
    penalty = (
        rng.choice([0.9, 0.3, 0.1, 0.03, 0.005]) * np.abs(signals @ dictionary.T).max() * np.ones(n_atoms)
    )
    if kind == 3:
        penalty *= norms / norms.max()
    if seed % 7 == 0:
        penalty *= rng.uniform(0.5, 2.0, n_atoms)
    if seed % 5 == 0:
        penalty = ElasticNet(penalty, norms**2 * float(rng.choice([1e-3, 0.3])))
    options = [
        {},
        {},
        {"mask": rng.random(n_features) < 0.7},
        {"mask": rng.random((n_signals, n_features)) < 0.7},
        {"feature_weights": rng.uniform(0.1, 3.0, n_features)},
        {"feature_weights": rng.uniform(0.1, 3.0, (n_signals, n_features))},
    ][seed % 11 % 6]
    return (dictionary, signals, penalty), {"positive": positive, **options}


def agrees(certificate, expected, problem):
    """As far as rounding goes; the figures are also those of poor codes."""
    for name in ("objective", "duality_gap"):
        np.testing.assert_allclose(
            getattr(certificate, name) / np.maximum(problem.energies, 1e-300),
            getattr(expected, name) / np.maximum(problem.energies, 1e-300),
            rtol=1e-9,
            atol=1e-13,
        )
    np.testing.assert_allclose(
        certificate.kkt_violation,
        expected.kkt_violation,
        rtol=1e-9,
        atol=1e-12 * np.abs(problem.correlations).max(),
    )


@SIGNS
@pytest.mark.parametrize("seed", range(24))
def test_codes_are_optimal_and_so_certified(seed, positive):
    arguments, options = problem_of(seed, positive=positive)
    problem, with_gram = limited(*arguments, **options), LassoProblem(*arguments, **options)
    start = None if seed % 3 else solve_fista(with_gram, tol=0.1)
    result = solve_active_set(problem, start=start)
    assert not problem.has_gram
    assert result.relative_gap.max() < 1e-10
    expected = solve_active_set(with_gram, start=start)
    np.testing.assert_allclose(result.objective, expected.objective, rtol=1e-10)
    np.testing.assert_array_equal(result.n_corrections >= 0, True)
    agrees(result, measure(problem, result.sparse_codes), problem)


@SIGNS
@pytest.mark.parametrize("seed", range(24))
def test_poor_codes_have_the_figures_that_all_atoms_give(seed, positive):
    arguments, options = problem_of(seed, positive=positive)
    problem = limited(*arguments, **options)
    rng = np.random.default_rng(seed)
    norms = np.where(problem.squared_norms > 0.0, np.sqrt(problem.squared_norms), 1.0)
    codes = rng.uniform(0.0, 0.3, (problem.n_signals, problem.n_atoms)) / norms
    codes[rng.random(codes.shape) < 0.95] = 0.0
    if not positive:
        codes *= rng.choice([-1.0, 1.0], codes.shape)
    codes = sparse.csr_array(codes)
    agrees(compiled.certify(problem, codes), measure(problem, codes), problem)


def test_most_codes_are_certified_by_few_atoms(monkeypatch):
    """Reading all atoms is for what a product in single precision cannot tell."""
    (dictionary, signals, penalty), _ = problem_of(6, positive=False)
    problem = limited(dictionary, signals, penalty)
    monkeypatch.setattr(compiled, "_figures_of", None)
    solve_active_set(problem)


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
    """All of them come as close to their conditions as an atom of the code, and a list of them never ends."""
    rng = np.random.default_rng(0)
    dictionary = np.repeat(rng.standard_normal((5, 20)), 400, axis=0)
    problem = limited(dictionary, rng.standard_normal((6, 20)), 0.1)
    assert solve_active_set(problem).relative_gap.max() < 1e-10


def test_a_working_set_may_outgrow_its_room(monkeypatch):
    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((600, 80)), rng.standard_normal((5, 80)), 0.05
    expected = solve_active_set(limited(*arguments))
    assert expected.support_size.min() > 60
    monkeypatch.setattr(shared_products, "CAPACITY", 3)
    np.testing.assert_array_equal(solve_active_set(limited(*arguments)).codes, expected.codes)


def test_what_is_left_out_cannot_violate(monkeypatch):
    """When a signal is done, no atom violates its condition."""
    advance = Search.advance
    done = []

    def checked(self, largest, k):
        is_done = advance(self, largest, k)
        if is_done:
            problem = self._members.problem
            reach = np.abs(problem.dictionary @ self.pull)
            assert (reach <= (1.0 + 1e-9) * problem.l1_weights).all()
            done.append(k)
        return is_done

    monkeypatch.setattr(Search, "advance", checked)
    rng = np.random.default_rng(0)
    for correlation in (0.0, 3.0):
        dictionary = rng.standard_normal((4000, 40)) + correlation * rng.standard_normal(40)
        solve_active_set(limited(dictionary, rng.standard_normal((10, 40)), 0.3))
    assert len(done) >= 20


def test_sparse_signals():
    rng = np.random.default_rng(0)
    signals = rng.standard_normal((5, 30)) * (rng.random((5, 30)) < 0.3)
    dictionary = rng.standard_normal((900, 30))
    result = solve_active_set(limited(dictionary, sparse.csr_array(signals), 0.2))
    np.testing.assert_array_equal(result.codes, solve_active_set(limited(dictionary, signals, 0.2)).codes)


@SIGNS
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_largest_ratios(positive, is_kept):
    rng = np.random.default_rng(1)
    dictionary = rng.standard_normal((5000, 17)) * 10.0 ** rng.uniform(-3, 3, (5000, 1))
    penalty = rng.uniform(0.1, 1.0, 5000) * np.linalg.norm(dictionary, axis=1)
    with memory_limit(1e9 if is_kept else 1.0):
        problem = LassoProblem(dictionary, rng.standard_normal((3, 17)), penalty, positive=positive)
    unit_atoms = UnitAtoms(problem.model)
    assert unit_atoms.is_kept == is_kept
    vectors = np.vstack([problem.signals, np.zeros((1, 17))])
    factors = np.sqrt(problem.squared_norms) / penalty
    largest = largest_ratios(unit_atoms, factors, vectors, 50, positive=positive)
    exact = vectors @ dictionary.T / penalty
    exact = exact if positive else np.abs(exact)
    for k in range(4):
        listed = largest.atoms[k, : largest.counts[k]]
        assert 50 <= len(listed) <= 75
        assert len(set(listed)) == len(listed)
        assert np.abs(largest.ratios[k, : len(listed)] - exact[k, listed]).max() <= largest.errors[k]
        assert np.delete(exact[k], listed).max() <= largest.others[k] + largest.errors[k]
        assert largest.errors[k] <= 1e-5 * factors.max() * max(np.linalg.norm(vectors[k]), 1e-9)


@SIGNS
def test_atoms_of_tiny_penalties_do_not_round_the_ratios_of_others(positive):
    rng = np.random.default_rng(1)
    dictionary = rng.standard_normal((5000, 17))
    penalty = np.ones(5000)
    strong = np.array([0, 17, 4999])
    penalty[strong] = [1e-3, 1e-6, 1e-4]
    problem = LassoProblem(dictionary, rng.standard_normal((3, 17)), penalty, positive=positive)
    factors = np.sqrt(problem.squared_norms) / penalty
    largest = largest_ratios(UnitAtoms(problem.model), factors, problem.signals, 50, positive=positive)
    exact = problem.signals @ dictionary.T / penalty
    exact = exact if positive else np.abs(exact)
    for k in range(3):
        listed = largest.atoms[k, : largest.counts[k]]
        assert len(set(listed)) == len(listed)
        assert set(strong) <= set(listed)
        assert np.abs(largest.ratios[k, : len(listed)] - exact[k, listed]).max() <= largest.errors[k]
        assert np.delete(exact[k], listed).max() <= largest.others[k] + largest.errors[k]
        assert largest.errors[k] <= 1e-3


@pytest.mark.filterwarnings("error")
def test_the_only_atoms_of_a_norm_may_have_tiny_penalties():
    dictionary = np.zeros((30, 4))
    dictionary[:3] = np.eye(3, 4)
    problem = limited(dictionary, np.ones((5, 4)), 0.25)
    np.testing.assert_allclose(solve_active_set(problem).codes[:, :4], [[0.75, 0.75, 0.75, 0.0]] * 5)


@SIGNS
def test_few_atoms_are_read_for_certificates_beside_a_tiny_penalty(monkeypatch, positive):
    """An intercept with a tiny penalty makes no signal read all atoms."""
    rng = np.random.default_rng(0)
    dictionary, signals = np.vstack([rng.standard_normal((900, 30)), np.ones((1, 30))]), rng.random((6, 30))
    penalty = np.append(np.full(900, 3.0), 1e-3)
    problem = limited(dictionary, signals, penalty, positive=positive)
    read = []
    monkeypatch.setattr(compiled, "_figures_of", lambda *arguments: read.append(1))
    result = solve_active_set(problem)
    assert result.converged
    assert not read
    monkeypatch.undo()
    expected = solve_active_set(LassoProblem(dictionary, signals, penalty, positive=positive))
    np.testing.assert_allclose(result.codes, expected.codes, atol=1e-10)


def test_lists_of_the_largest_by_parts():
    rng = np.random.default_rng(0)
    products = rng.integers(-50, 50, (4, 1000)).astype(np.float32)
    factors = rng.uniform(0.5, 1.0, 1000).astype(np.float32)
    counts, smallest = np.zeros(4, dtype=np.int64), np.full(4, -np.inf, dtype=np.float32)
    atoms, values = np.zeros((4, 30), dtype=np.int64), np.zeros((4, 30), dtype=np.float32)
    for first in range(0, 1000, 77):
        part = slice(first, first + 77)
        list_largest(
            np.ascontiguousarray(products[:, part]),
            factors[part],
            first,
            False,
            20,
            counts,
            smallest,
            atoms,
            values,
        )
    sizes = np.abs(products) * factors
    for k in range(4):
        listed = atoms[k, : counts[k]]
        np.testing.assert_array_equal(values[k, : counts[k]], sizes[k, listed])
        assert np.delete(sizes[k], listed).max() <= smallest[k] <= np.sort(sizes[k])[-20]


def test_prepared_without_a_gram_matrix():
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((2000, 30)), rng.standard_normal((5, 30))
    with memory_limit(2e6):
        prepared = PreparedLasso(dictionary, 0.5)
    assert not prepared.model.has_gram
    assert "none: 30.5 MiB exceed the memory limit of 1.91 MiB" in repr(prepared)
    expected = solve_active_set(limited(dictionary, signals, 0.5))
    for k in range(5):
        one = prepared.with_signals(signals[[k]])
        np.testing.assert_array_equal(solve_active_set(one).codes[0], expected.codes[k])
        assert one.model.once(UnitAtoms, whatever_penalty=True) is prepared.model.once(
            UnitAtoms, whatever_penalty=True
        )
    given = PreparedLasso(dictionary, 0.5, gram=dictionary @ dictionary.T)
    assert given.model.has_gram


def test_the_limit_holds_for_problems_made_within():
    arguments = np.eye(3), np.ones((1, 3)), 0.5
    before = LassoProblem(*arguments)
    with memory_limit(100):
        inside = LassoProblem(*arguments)
        with memory_limit(50):
            further_inside = LassoProblem(*arguments)
        assert LassoProblem(*arguments).model.gram_fits
    assert [problem.model.gram_fits for problem in (before, inside, further_inside)] == [True, True, False]
    assert LassoProblem(*arguments).model.memory == before.model.memory
    assert not further_inside.with_penalty(0.3).model.gram_fits
    assert not further_inside.subset([0]).model.gram_fits
    assert further_inside.with_signals(np.ones((2, 3))).model.memory.limit == 50
    with memory_limit(70) as limit:
        pass
    with limit:
        assert LassoProblem(*arguments).model.memory.limit == 70
    assert LassoProblem(*arguments).model.memory == before.model.memory


def test_a_matrix_beyond_the_limit_is_refused_and_not_formed():
    rng = np.random.default_rng(0)
    problem = limited(rng.standard_normal((600, 5)), rng.standard_normal((2, 5)), 0.5)
    sentence = "the Gram matrix of 600 atoms takes 2.75 MiB, and memory_limit allows 1 byte"
    with pytest.raises(MemoryError, match=re.escape(sentence)):
        _ = problem.gram
    given = LassoProblem(
        problem.dictionary, problem.signals, 0.5, gram=problem.dictionary @ problem.dictionary.T
    )
    assert given.gram.shape == (600, 600)


def test_a_network_has_rows_of_neurons_that_fire():
    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((600, 30)), rng.standard_normal((6, 30)), 2.0
    with memory_limit(600 * 8 * 599):
        problem = LassoProblem(*arguments)
    result = solve_spiking(problem, tol=1e-3)
    assert result.converged
    assert not problem.has_gram
    assert result.relative_gap.max() <= 1e-3


def test_who_shares_products():
    assert not SharedProducts.n_multiply_adds
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (8, 8), 1)
    result = solve_active_set(limited(dictionary, rng.standard_normal((4, 64)), 0.5))
    assert result.converged


def test_members_are_of_one_signal_after_the_other():
    rng = np.random.default_rng(0)
    problem = limited(rng.standard_normal((50, 10)), rng.standard_normal((2, 10)), 0.5)
    members = Members(problem)
    assert not members.among(np.arange(50), np.array([], dtype=np.int64)).any()
    np.testing.assert_array_equal(members.among(np.array([4, 5, 6]), np.array([5, 9])), [False, True, False])
    assert not members.among(np.arange(50), np.array([], dtype=np.int64)).any()


def test_codes_of_anybody_are_certified():
    rng = np.random.default_rng(0)
    arguments, _ = problem_of(6, positive=False)
    problem = limited(*arguments)
    best = solve_active_set(problem)
    given = certify(problem, best.codes)
    assert given.method == "given"
    assert given.converged
    np.testing.assert_array_equal(given.sparse_codes.indices, best.sparse_codes.indices)
    np.testing.assert_allclose(given.objective, best.objective, rtol=1e-12)
    poor = certify(problem, sparse.csr_array(best.codes * rng.uniform(0.5, 1.5, best.codes.shape)))
    assert not poor.converged
    assert (poor.objective - best.objective <= poor.duality_gap).all()
    with pytest.raises(ValueError, match="codes must have shape"):
        certify(problem, best.codes[:, 1:])
    for form in ("csc", "coo", "lil", "dok"):
        other = certify(problem, sparse.csr_matrix(best.codes).asformat(form))
        np.testing.assert_array_equal(other.duality_gap, given.duality_gap)


def test_a_memory_map_is_read_and_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(screening, "VALUES_PER_BLOCK", 2**14)
    monkeypatch.setattr(screening, "PRODUCTS_PER_BLOCK", 2**12)
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((30000, 40)), rng.standard_normal((6, 40))
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
    assert not problem.model.once(UnitAtoms, whatever_penalty=True).is_kept


@pytest.mark.parametrize("n_atoms", [20, 600])
@pytest.mark.parametrize("n_signals", [1, 2, 6])
def test_no_number_of_atoms_or_signals_needs_the_matrix(n_atoms, n_signals):
    """Of `solve_active_set` and `solve_fista`, which the sentence of the limit names."""
    rng = np.random.default_rng(0)
    problem = limited(rng.standard_normal((n_atoms, 15)), rng.standard_normal((n_signals, 15)), 0.5)
    assert solve_active_set(problem).converged
    assert solve_fista(problem, tol=1e-4).converged
    assert not problem.has_gram


def test_processes_map_the_file_themselves(tmp_path):
    """Other machines may not have it: they are sent the numbers."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "atoms.npy", rng.standard_normal((3000, 40)))
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    problem = limited(mapped, rng.standard_normal((40, 40)), 5.0)
    for name, least, most in ((True, 0, 0.1), (False, 1.0, 1.1)):
        shared = Shared((None, problem.model), maps_by_name=name)
        assert least * mapped.nbytes <= shared.packed.nbytes <= most * mapped.nbytes
        _, model = opened(shared.key, shared.packed).content
        np.testing.assert_array_equal(model.atoms.array, mapped)
        assert not model.atoms.array.flags.writeable
    expected = solve_active_set(problem)
    with parallel_config(backend="loky", n_jobs=2):
        found = solve_active_set(problem)
    np.testing.assert_array_equal(found.codes, expected.codes)


def test_only_what_a_file_says_is_known_by_its_name(tmp_path):
    np.save(tmp_path / "atoms.npy", np.arange(24.0).reshape(6, 4))
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r+")
    for part in (mapped, mapped[2:], np.asarray(mapped)[1:3], mapped.reshape(4, 6), mapped[0]):
        found = file_map(part)
        np.testing.assert_array_equal(found.array(), part)
        assert type(found.array()) is np.ndarray
    private = np.load(tmp_path / "atoms.npy", mmap_mode="c")
    for part in (mapped[:, 1:], mapped.T, mapped + 1.0, private, np.arange(3.0)):
        assert file_map(part) is None


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
        with pytest.raises(MemoryError, match="rows of the Gram matrix, of 600 atoms"):
            method(too_little, tol=1e-3)
    assert not enough.has_gram


def test_a_network_with_a_shared_mask_has_masked_rows():
    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((600, 30)), rng.standard_normal((6, 30)), 2.0
    mask = rng.random(30) < 0.7
    with memory_limit(600 * 8 * 599):
        result = solve_spiking(LassoProblem(*arguments, mask=mask), tol=1e-3)
    assert result.converged


@pytest.mark.parametrize("weights", [None, "shared", "own"])
def test_fista_does_not_copy_a_dictionary_beyond_the_limit(weights):
    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((200, 20)), rng.standard_normal((6, 20)), 0.5
    options = {}
    if weights is not None:
        options["feature_weights"] = rng.uniform(0.5, 2.0, (20,) if weights == "shared" else (6, 20))
    problem = limited(*arguments, **options)
    assert isinstance(gradient_step(problem).atoms, ScaledAtoms)
    result = solve_fista(problem, tol=1e-6)
    assert result.converged
    expected = solve_fista(LassoProblem(*arguments, **options), tol=1e-6)
    np.testing.assert_allclose(result.codes, expected.codes, atol=1e-9)


def test_along_a_path_atoms_are_converted_once(monkeypatch):
    made = []
    make = UnitAtoms.__init__
    monkeypatch.setattr(UnitAtoms, "__init__", lambda self, model: (made.append(1), make(self, model))[1])
    rng = np.random.default_rng(0)
    problem = limited(rng.standard_normal((600, 30)), rng.standard_normal((6, 30)), 1.0)
    result = path(problem, n_multiples=8, smallest=0.05)
    assert result.converged
    assert len(made) == 1


def test_along_a_path_one_signal_shares_them_too(monkeypatch):
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((600, 30)), rng.standard_normal((2, 30))
    made = []
    monkeypatch.setattr(UnitAtoms, "__init__", counted(made, UnitAtoms.__init__))
    one = limited(dictionary, signals[1:2], 1.0)
    result = path(one, n_multiples=6, smallest=0.05)
    assert len(made) == 1
    expected = path(LassoProblem(dictionary, signals[1:2], 1.0), result.multiples)
    np.testing.assert_allclose(result.objective, expected.objective, rtol=1e-10)
    assert result.converged
    # A single penalty is not worth it; nor is the problem of the caller changed.
    path(limited(dictionary, signals[1:2], 1.0), result.multiples[-1:])
    assert len(made) == 1
    assert not one.model.is_prepared


def counted(calls, function):
    def note(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return note


@pytest.mark.parametrize("positive", [True, False])
def test_largest_penalties_are_computed_for_as_many_signals_as_memory_allows(monkeypatch, positive):
    """They are the same numbers, and correlations of all signals are never there together."""
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((300, 20)), rng.standard_normal((10, 20))
    expected = penalty_max(dictionary, signals, positive=positive)
    reach = signals @ dictionary.T
    np.testing.assert_allclose(expected, (reach if positive else np.abs(reach)).max(axis=1), rtol=1e-13)
    rows = []
    correlate = DenseDictionary.correlate
    monkeypatch.setattr(
        DenseDictionary, "correlate", lambda self, s: (rows.append(len(s)), correlate(self, s))[1]
    )
    with memory_limit(3 * 16 * 300):
        found = penalty_max(dictionary, signals, positive=positive)
        problem = LassoProblem(dictionary, signals, 1.0, positive=positive)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(problem.zero_code_multiples(), expected)
    assert max(rows) == 3
    assert "correlations" not in vars(problem)


def test_a_coder_takes_many_atoms():
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((600, 30)), rng.standard_normal((6, 30))
    with memory_limit(1):
        codes = SpikingSparseCoder(dictionary, alpha=0.5, method="active_set").transform(signals)
    np.testing.assert_array_equal(codes, solve_active_set(limited(dictionary, signals, 0.5)).codes)
