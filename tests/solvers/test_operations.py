"""Operations of solvers: by hand on small problems, by plain twins on others."""

import re

import numpy as np
import pytest
from scipy import sparse

from snn import OperationCounts, energy_estimate, simulate
from solvers import (
    ConvolutionalDictionary,
    LassoProblem,
    OperationLedger,
    SparseCodingStream,
    compare,
    comparison_table,
    lasso_network,
    path,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from solvers._kernels.factor import enter, leave
from solvers._kernels.grid_descent import GridProblem, sweep_all, sweep_support
from solvers.gram.convolutional_active_set import _kernel_grid, gram_part
from solvers.gram.nested_dissection import Factor
from solvers.results.operations import certificate_work
from solvers.studies.stream import _work_of_mixture
from tests.reference.coordinate_descent import descend
from tests.reference.networks import FIGURE_1_PENALTY, FIGURE_1_SIGNAL, UNIT_DICTIONARY
from tests.reference.problems import random_problem
from tests.solvers.test_factor import working_set


def golden_problem():
    """Figure 1 of Tang, Lin and Davies (2017): three atoms of three features, two of them in the code."""
    return LassoProblem(UNIT_DICTIONARY, FIGURE_1_SIGNAL[np.newaxis], FIGURE_1_PENALTY, positive=True)


def multiply_adds(result, part="method"):
    return int(result.operations[part].total().multiply_adds)


# -- by hand, three neurons or atoms -------------------------------------------------------------


def test_three_neurons_by_hand():
    """One stage, looked at once, at time 12: every neuron reaches the two others."""
    result = solve_spiking(golden_problem(), tol=0.05)
    assert result.n_stages[0] == 1
    assert result.duration[0] == 12.0
    counts = result.spike_counts[0]
    network = result.operations["network"].total()
    assert counts.sum() > 3
    assert network.spikes == counts.sum()
    assert network.synaptic_operations == 2 * counts.sum()
    assert network.membrane_updates == 3 * counts.sum()
    assert (network.neuron_updates, network.neuron_time) == (0, 36.0)
    assert network.on_clock(0.25).neuron_updates == 3 * 48
    # The drive: three atoms of three features.
    assert multiply_adds(result, "drive") == 9
    # The gap of the zero code: 5 products an atom.  The offset of the stage, which is zero: 3 products.  The
    # look: 3 products for the rate of each neuron, a row of three weights for each that fired, and the gap of
    # this code.
    n_fired = np.count_nonzero(counts)
    assert multiply_adds(result, "read-out") == 15 + 3 + 9 + 3 * n_fired + 15
    # One certificate: three products for each feature of an atom of the code, one for each of all atoms, and
    # two sums.
    assert multiply_adds(result, "certificate") == 9 * result.support_size[0] + 9 + 6


def test_three_orthogonal_atoms_by_hand():
    """The active set from nothing, two of three atoms in the code."""
    problem = LassoProblem(np.eye(3), [[2.0, 0.1, -1.5]], 0.5)
    result = solve_active_set(problem)
    np.testing.assert_allclose(result.codes, [[1.5, 0.0, -1.0]])
    # Two atoms enter: (0 + 1), and (1 for the column, 1 for what is left of the atom, 2 for the image).
    entering = 1 + 4
    # A triangle of two rows, 3; correlations of two members with two atoms, 4; of three atoms with two, 6.
    # Refinement: two triangles.
    assert multiply_adds(result) == entering + 3 + 4 + 6 + 6
    assert multiply_adds(result, "drive") == 9
    assert multiply_adds(result, "certificate") == (3 * 2 + 3) * 3 + 2 * 3
    assert "network" not in result.operations
    # By the other way, of several signals, it is the same for each.
    several = solve_active_set(LassoProblem(np.eye(3), [[2.0, 0.1, -1.5]] * 3, 0.5))
    for part in ("drive", "method", "certificate"):
        np.testing.assert_array_equal(
            several.operations[part].multiply_adds, [multiply_adds(result, part)] * 3
        )


def test_fista_on_orthogonal_atoms_by_hand():
    """L is 1, so that the first step is the solution, and five iterations follow before it is looked at."""
    result = solve_fista(LassoProblem(np.eye(3), [[2.0, 0.1, -1.5]], 0.5), tol=1e-9)
    assert result.n_steps[0] == 5
    # Each iteration: rows of three for two atoms, 3 products an atom besides.  Two looks of 4 products an
    # atom.
    assert multiply_adds(result) == 5 * (2 * 3 + 3 * 3) + 2 * 4 * 3
    # The certificate that lets it end, and that of the result.
    assert multiply_adds(result, "certificate") == 2 * ((3 * 2 + 3) * 3 + 6)


# -- by twins ------------------------------------------------------------------------------------


def plain_fista(problem, n_steps):
    """Return the non-zero entries of each iterate from the first, by the textbook."""
    gram, b = problem.gram, problem.correlations[0]
    largest = np.linalg.eigvalsh(gram).max()
    code = before = np.zeros(problem.n_atoms)
    t, counts = 1.0, []
    for _ in range(n_steps):
        next_t = 0.5 + np.sqrt(0.25 + t * t)
        extrapolated = code + (t - 1.0) / next_t * (code - before)
        stepped = extrapolated + (b - gram @ extrapolated) / largest
        new = np.sign(stepped) * np.maximum(np.abs(stepped) - problem.l1_weights / largest, 0.0)
        t = 1.0 if (extrapolated - new) @ (new - code) > 0.0 else next_t
        before, code = code, new
        counts.append(np.count_nonzero(code))
    return counts


@pytest.mark.parametrize("through_gram", [True, False])
def test_fista_against_a_plain_twin(through_gram):
    n_features, n_atoms = (30, 40) if through_gram else (4, 40)
    problem = random_problem(n_features, n_atoms, n_signals=1, seed=5)
    if through_gram:
        _ = problem.gram
    else:
        problem = LassoProblem(problem.dictionary, problem.signals, problem.l1_weights)
    result = solve_fista(problem, tol=1e-2)
    n_steps = int(result.n_steps[0])
    n_active = sum(plain_fista(problem, n_steps))
    n_looks = n_steps // 5 + 1
    assert 5 <= n_steps <= 60  # from then on, looks are further apart
    products = n_active * n_atoms if through_gram else (n_active + n_steps * n_atoms) * n_features
    assert multiply_adds(result) == products + 3 * n_atoms * n_steps + 4 * n_atoms * n_looks


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_coordinate_descent_is_bounded_by_its_counted_twin(positive, tol):
    """The twin does the sweeps of scikit-learn, and finds its code; it counts what scikit-learn hides."""
    problem = random_problem(30, 80, n_signals=1, positive=positive, seed=3)
    result = solve_coordinate_descent(problem, tol=tol)
    twin = descend(problem, tol)
    assert twin.n_sweeps == result.n_steps[0]
    np.testing.assert_allclose(twin.code, result.codes[0], atol=1e-10 * np.abs(twin.code).max())
    assert result.operations.bound == "at most"
    assert twin.n_multiply_adds <= multiply_adds(result) <= 30 * twin.n_multiply_adds


def test_lars_says_that_its_count_is_a_lower_bound():
    problem = random_problem(n_signals=2)
    result = solve_lars(problem)
    assert result.operations.bound == "at least"
    # Its design has a feature and an atom more, which end the path where it should.
    size = (problem.n_features + 1) * (problem.n_atoms + 1)
    np.testing.assert_array_equal(result.operations["method"].multiply_adds, (result.n_steps + 1) * size)


@pytest.mark.parametrize("n_block", [1, 3, 8, 20])
def test_atoms_that_enter_cost_the_same_in_any_blocks(n_block):
    """An atom beside s others: a triangle, an inner product for what is left of it, one for the image."""
    rng = np.random.default_rng(5)
    work = working_set(rng.standard_normal((20, 30)), rng.standard_normal(20), np.full(20, 0.1), np.zeros(20))
    size, places, signs = 0, rng.permutation(20), np.ones(20)
    for start in range(0, 20, n_block):
        stop = min(start + n_block, 20)
        size = enter(work, size, places[start:stop], signs[start:stop], stop - start)
    assert size == 20
    assert work.n_multiply_adds[0] == sum(s * (s + 1) // 2 + s + s + 1 for s in range(20))
    before = int(work.n_multiply_adds[0])
    leave(work, 20, 16)
    # Rows 17, 18 and 19 are rotated: 2, 1 and 0 pairs behind the diagonal, the image, and the radius.
    assert work.n_multiply_adds[0] - before == 4 * (2 + 1 + 0) + 3 * (4 + 2)


def test_analog_flow_counts_rows_of_active_neurons():
    result = solve_analog(LassoProblem(np.eye(3), [[2.0, 0.1, -1.5]], 0.5), tol=1e-2)
    # At most two of three neurons are active, and none at first.
    assert 0 < multiply_adds(result) < 2 * 3 * result.n_steps[0]


@pytest.mark.parametrize("positive", [True, False])
def test_network_against_the_dense_matrix(positive):
    problem = random_problem(n_signals=3, positive=positive)
    result = solve_spiking(problem, tol=1e-5)
    assert (result.n_stages > 1).any()
    degrees = np.count_nonzero(np.asarray(lasso_network(problem).weights), axis=1)
    network = result.operations["network"]
    n_neurons = len(degrees)
    np.testing.assert_array_equal(network.spikes, result.n_steps)
    np.testing.assert_array_equal(network.synaptic_operations, result.spike_counts @ degrees)
    np.testing.assert_array_equal(network.neuron_time, n_neurons * result.duration)


def test_network_of_one_stage_against_a_run():
    problem = random_problem(n_signals=2)
    result = solve_spiking(problem, tol=1e-2, readout="rate")
    for signal in range(2):
        network = lasso_network(problem, signal, scale=result.scale[signal])
        run = simulate(network, result.duration[signal]).operations
        for name in ("spikes", "synaptic_operations", "membrane_updates", "neuron_time", "synapse_time"):
            assert getattr(result.operations["network"], name)[signal] == getattr(run, name)


def test_network_on_a_clock_counts_the_steps_of_all_stages():
    problem = random_problem(n_signals=3)
    result = solve_spiking(problem, tol=1e-4, time_step=0.25)
    network = result.operations["network"]
    assert (result.n_stages > 1).any()
    np.testing.assert_array_equal(network.neuron_updates, 80 * result.n_clock_steps)
    np.testing.assert_array_equal(network.dense_synaptic_operations, 80 * 80 * result.n_clock_steps)
    # A look need not be at the end of a step.
    missing = result.duration - 0.25 * result.n_clock_steps
    assert (missing >= -1e-9).all()
    assert (missing < 0.25 * result.n_stages).all()


# -- attribution -----------------------------------------------------------------------------------


def test_polish_has_its_own_name():
    problem = random_problem(n_signals=3)
    result = solve_spiking(problem, polish=True)
    alone = solve_active_set(problem, start=result)
    assert set(result.operations) == {"drive", "gram", "network", "read-out", "polish", "certificate"}
    np.testing.assert_array_equal(
        result.operations["polish"].multiply_adds, alone.operations["method"].multiply_adds
    )
    assert result.operations["network"].multiply_adds == 0


def test_gram_matrix_is_counted_where_it_is_computed_for_one_signal():
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((600, 30))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    problem = LassoProblem(dictionary, dictionary[:3].sum(axis=0, keepdims=True), 0.3)
    spiking = solve_spiking(problem, tol=1e-2)
    n_fired = np.count_nonzero(spiking.spike_counts[0].reshape(2, -1).any(axis=0))
    n_rows = multiply_adds(spiking, "gram") / (600 * 30)
    assert n_fired <= n_rows < 300
    active_set = solve_active_set(problem)
    # At least the 80 members that join first, half of whose products may be mirrored.
    assert multiply_adds(active_set, "gram") >= 80 * 80 * 30
    assert multiply_adds(active_set, "gram") % 30 == 0
    given = LassoProblem(dictionary, problem.signals, 0.3, gram=dictionary @ dictionary.T)
    assert multiply_adds(solve_spiking(given, tol=1e-2), "gram") == 0


def test_counts_do_not_depend_on_batch_mates_or_workers():
    problem = random_problem(n_signals=5, seed=2)
    for solve in (solve_active_set, solve_spiking, solve_fista, solve_coordinate_descent):
        together = solve(problem, tol=1e-3).operations
        alone = [solve(problem.subset([k]), tol=1e-3).operations for k in range(5)]
        for part in together:
            for name in ("spikes", "synaptic_operations", "multiply_adds"):
                single = [np.sum(getattr(one[part], name)) if part in one else 0 for one in alone]
                np.testing.assert_array_equal(np.broadcast_to(getattr(together[part], name), 5), single)


def test_path_adds_up_and_computes_correlations_once():
    problem = random_problem(n_signals=2)
    result = path(problem, n_multiples=4, smallest=0.1)
    expected = sum(one.operations["method"].multiply_adds for one in result.results)
    np.testing.assert_array_equal(result.operations["method"].multiply_adds, expected)
    np.testing.assert_array_equal(
        result.operations["drive"].multiply_adds, [problem.n_atoms * problem.n_features] * 2
    )


def test_stream_counts_its_network_and_its_start():
    problem = random_problem(n_signals=1)
    stream = SparseCodingStream(problem.dictionary, 1.0)
    first = stream.code(problem.signals[0])
    assert "start" in first.operations
    assert multiply_adds(first, "start") == 0
    change = 0.1 * np.random.default_rng(0).standard_normal(problem.n_features)
    second = stream.code(problem.signals[0] + change)
    support, n_features = int(first.support_size[0]), problem.n_features
    # One earlier code: its fit, and its inner products with the signal and itself.
    assert multiply_adds(second, "start") == support * n_features + 2 * n_features
    assert second.operations["network"].total().spikes == second.n_steps[0]
    assert 0 < second.n_steps[0] < first.n_steps[0]


# -- convolutional ---------------------------------------------------------------------------------


def test_sweeps_by_hand():
    """Two kernels of four pixels at one position, far from the signal: each moves once, then none."""
    dictionary = ConvolutionalDictionary(np.array([[[1.0, 0], [0, 0]], [[0, 1.0], [0, 0]]]), (2, 2), 1)
    grid = _kernel_grid(dictionary)
    code, image, drift = np.zeros((1, 2)), np.array([[2.0, 3.0], [0.0, 0.0]]), np.zeros(1)
    problem = GridProblem(np.full((1, 2), 0.5), np.ones((1, 2)), True)
    assert sweep_all(grid, problem, False, code, image, drift) == 2
    np.testing.assert_allclose(code, [[1.5, 2.5]])
    # Correlations of two kernels; two passes over two coefficients; two moves, in correlations and pixels.
    assert grid.n_multiply_adds[0] == 2 * 4 + 2 * 2 + 2 * (2 + 4)
    before = int(grid.n_multiply_adds[0])
    drift[:] = 1.0
    assert sweep_support(grid, problem, 0.5, False, code, image, drift) == 0
    # One pass over two coefficients that stay: an inner product and a product each.
    assert grid.n_multiply_adds[0] - before == 2 * (4 + 1)


def test_factorisation_of_one_region_is_that_of_a_dense_matrix():
    rng = np.random.default_rng(1)
    dictionary = ConvolutionalDictionary(rng.standard_normal((5, 4, 4)), (6, 6), 2)
    members = np.arange(dictionary.shape[0])
    n = len(members)
    part = gram_part(dictionary, members, np.full(n, 0.1))
    factor = Factor(part, np.ones(n), 0.0)
    factor.solve(np.ones(n))
    # By the loops of the textbook.
    cholesky = sum((n - j) * (j + 1) for j in range(n))
    assert factor.n_multiply_adds == cholesky + n * (n + 1)


def test_divided_factorisation_takes_less_and_convolutional_solvers_count():
    rng = np.random.default_rng(1)
    dictionary = ConvolutionalDictionary(rng.standard_normal((4, 2, 2)), (24, 24), 1)
    signal = rng.standard_normal((1, 24 * 24))
    problem = LassoProblem(dictionary, signal, 1.0, positive=True)
    members = np.arange(dictionary.shape[0])
    n = len(members)
    factor = Factor(gram_part(dictionary, members, np.full(n, 0.1)), np.ones(n), 0.0)
    assert factor.n_multiply_adds < 0.1 * n**3 / 6
    results = [solve(problem, tol=1e-4) for solve in (solve_spiking, solve_fista, solve_active_set)]
    for result in results:
        assert multiply_adds(result, "drive") == n * 4
        assert multiply_adds(result, "certificate") >= n * 4
    spiking, fista, active_set = results
    assert multiply_adds(fista) >= fista.n_steps[0] * n * 4
    assert multiply_adds(active_set) > n * 4
    degrees = np.count_nonzero(np.asarray(lasso_network(problem).weights), axis=1)
    assert spiking.operations["network"].synaptic_operations[0] == spiking.spike_counts[0] @ degrees


def test_counts_beyond_32_bits():
    """Sparse codes have pointers of 32 bits; an atom of 65,536 features makes larger products of them."""
    dictionary = ConvolutionalDictionary(np.ones((1, 256, 256)), (512, 512), 1)
    n_atoms, n_covered = dictionary.shape[0], 256 * 256
    problem = LassoProblem(dictionary, np.ones((1, 512 * 512)), 1e6)
    code = sparse.csr_array(np.ones((1, n_atoms)))
    assert code.indptr.dtype == np.int32
    assert certificate_work(problem, np.diff(code.indptr))[0] == 4 * n_atoms * n_covered + 2 * 512 * 512
    assert _work_of_mixture(problem, [code])[0] == n_atoms * n_covered + 2 * 512 * 512


# -- the ledger itself -----------------------------------------------------------------------------


def test_parts_are_added_up():
    one, two = OperationCounts(multiply_adds=1), OperationCounts(multiply_adds=20, spikes=3)
    ledger = OperationLedger({"certificate": one, "network": two})
    assert list(ledger) == ["network", "certificate"]
    assert ledger.counts().multiply_adds == 21
    assert ledger.without("certificate").multiply_adds == 20
    assert ledger.counts("network", "polish").spikes == 3
    assert repr(ledger) == (
        "<OperationLedger; counts: exact; network: 3 spikes, 20 multiply-adds; certificate: 1 multiply-add>"
    )


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("parts must be of", lambda: OperationLedger({"magic": OperationCounts()})),
        ("bound must be one of", lambda: OperationLedger({}, bound="about")),
        ("names must be of", lambda: OperationLedger({}).counts("magic")),
        ("names must be of", lambda: OperationLedger({}).without("magic")),
    ],
)
def test_unknown_names(message, make):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_part_that_is_not_there_is_named_with_those_that_are():
    ledger = OperationLedger({"certificate": OperationCounts(), "network": OperationCounts()})
    with pytest.raises(KeyError, match="parts are 'network', 'certificate'; got 'networks'"):
        ledger["networks"]
    assert "networks" not in ledger
    assert ledger.get("networks") is None
    with pytest.raises(KeyError, match="parts are none; got 'network'"):
        OperationLedger({})["network"]


def test_an_energy_is_that_of_one_part():
    ledger = OperationLedger({"drive": OperationCounts(), "network": OperationCounts()})
    sentence = "counts must be an OperationCounts; got OperationLedger: pass one part, such as ledger"
    with pytest.raises(TypeError, match=re.escape(f'{sentence}["network"]')):
        energy_estimate(ledger)


def test_compare_shows_operations_and_bounds():
    problem = random_problem(n_signals=2)
    methods = ["spiking", "active_set_from_fista", "coordinate_descent", "lars"]
    records = compare(problem, methods, tol=1e-3)
    assert [record["bound"] for record in records] == ["exact", "exact", "at most", "at least"]
    spiking = solve_spiking(problem, tol=1e-3).operations
    assert records[0]["synaptic_operations"] == spiking["network"].total().synaptic_operations
    assert records[0]["multiply_adds"] == spiking["read-out"].total().multiply_adds
    # What FISTA took to make the start counts.
    assert (
        records[1]["multiply_adds"] > solve_active_set(problem).operations["method"].total().multiply_adds / 2
    )
    cells = [line.split("|") for line in comparison_table(records).splitlines()[2:]]
    assert "<=" in cells[2][-3]
    assert ">=" in cells[3][-3]


def test_compare_takes_solvers_that_do_not_count():
    problem = random_problem(n_signals=2)

    def uncounted(given, *, tol):
        from dataclasses import replace

        return replace(solve_fista(given, tol=tol), work=None)

    (record,) = compare(problem, {"uncounted": uncounted})
    assert record["multiply_adds"] is record["synaptic_operations"] is None
    assert "| - |" in " ".join(comparison_table([record]).split())
