"""Operations of solvers, counted by hand on small problems and by plain implementations on others."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import linear_model

from snn import OperationCounts, energy_estimate
from solvers import (
    METHODS,
    LassoProblem,
    OperationLedger,
    SparseCodingStream,
    solve,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from tests.reference.networks import FIGURE_1_PENALTY, FIGURE_1_SIGNAL, UNIT_DICTIONARY
from tests.reference.problems import CONVOLUTIONAL, problems, random_problem
from tests.tiers import examples


def golden_problem():
    """Figure 1 of Tang, Lin and Davies (2017): three atoms of three features, two of them in the code."""
    return LassoProblem(UNIT_DICTIONARY, FIGURE_1_SIGNAL[np.newaxis], FIGURE_1_PENALTY, positive=True)


def multiply_adds(result, part="method"):
    return int(result.operations[part].total().multiply_adds)


# -- by hand, three neurons or atoms -------------------------------------------------------------


def test_three_neurons_by_hand():
    """One stage is read once, at time 12; every neuron reaches the two others."""
    result = solve_spiking(golden_problem(), tol=0.05)
    assert result.info["n_stages"][0] == 1
    assert result.info["duration"][0] == 12.0
    counts = result.spike_counts[0]
    network = result.operations["network"].total()
    assert counts.sum() > 3
    assert network.spikes == counts.sum()
    assert network.synaptic_operations == 2 * counts.sum()
    assert (network.neuron_updates, network.neuron_time) == (0, 36.0)
    assert network.on_clock(0.25).neuron_updates == 3 * 48
    # The drive: three atoms of three features.
    assert multiply_adds(result, "drive") == 9
    # Zero code: 5 products per atom for its gap.  Stage: 3 products for its offset, which is zero.  Look: 3
    # products per neuron for its rate, three weights per neuron that fired, and the gap of the new code.
    n_fired = np.count_nonzero(counts)
    assert multiply_adds(result, "read-out") == 15 + 3 + 9 + 3 * n_fired + 15
    # One certificate: three products per feature of each atom in the code, a product per feature of every
    # atom, and two sums.
    assert multiply_adds(result, "certificate") == 9 * result.support_size[0] + 9 + 6


def test_three_orthogonal_atoms_by_hand():
    """The active set starts from zero, and the code has two of three atoms."""
    problem = LassoProblem(np.eye(3), [[2.0, 0.1, -1.5]], 0.5)
    result = solve_active_set(problem)
    np.testing.assert_allclose(result.codes, [[1.5, 0.0, -1.0]])
    # Two atoms enter.  The first costs 1; the second 1 for its column, 1 for its remainder, 2 for its image.
    entering = 1 + 4
    # A triangle of two rows: 3.  Correlations with two active atoms: of themselves 4, of all three atoms 6.
    # Refinement: two triangles.
    assert multiply_adds(result) == entering + 3 + 4 + 6 + 6
    assert multiply_adds(result, "drive") == 9
    assert multiply_adds(result, "certificate") == (3 * 2 + 3) * 3 + 2 * 3
    assert "network" not in result.operations


def test_fista_on_orthogonal_atoms_by_hand():
    """L is 1, so the first step is the solution, but the method looks at gaps only every five iterations."""
    result = solve_fista(LassoProblem(np.eye(3), [[2.0, 0.1, -1.5]], 0.5), tol=1e-9)
    assert result.n_steps[0] == 5
    # Iteration: a row of three for each of two atoms, and 3 products per atom.  Two looks: 4 per atom.
    assert multiply_adds(result) == 5 * (2 * 3 + 3 * 3) + 2 * 4 * 3
    # One certificate ends the run.
    assert multiply_adds(result, "certificate") == (3 * 2 + 3) * 3 + 6


# -- by twins ------------------------------------------------------------------------------------


def plain_fista(problem, n_steps):
    """Return the number of nonzero entries of every iterate of the FISTA of textbooks."""
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


def test_coordinate_descent_counts_the_most_that_scikit_learn_can_have_done(monkeypatch):
    """Per sweep, every coefficient may change and cost a row of the Gram matrix; every fit adds products."""
    sweeps = []

    class Counted(linear_model.Lasso):
        def fit(self, X, y, **options):
            fitted = super().fit(X, y, **options)
            sweeps.append(self.n_iter_)
            return fitted

    monkeypatch.setattr(linear_model, "Lasso", Counted)
    result = METHODS["coordinate_descent"](random_problem(30, 80, n_signals=1, share=0.01), tol=1e-9)
    assert sum(sweeps) == result.n_steps[0]
    gap = 3 * 80
    of_sweeps = sum(sweeps) * (80 * 81 + gap)
    assert multiply_adds(result) == of_sweeps + len(sweeps) * (80 * (30 + 2 * 80) + gap)
    assert result.operations.bound == "at most"


# -- every method ----------------------------------------------------------------------------------

COUNTED = ("active_set", "fista", "spiking", "spiking_one_window", "active_set_from_spikes")


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(25)
@given(
    name=st.sampled_from(COUNTED),
    drawn=problems(
        dictionary=("random", "copies", "integers", *CONVOLUTIONAL),
        signals=("noise", "mixture", "zero among them"),
        weights=("none", "one mask", "weights"),
        penalty=("number", "vector", "elastic net"),
        positive=(False, True),
        limited=False,
    ),
)
def test_counts_are_those_of_each_signal_alone_and_of_its_parts(name, drawn):
    assume(drawn.kind[2] == "none" or drawn.kind[0] not in CONVOLUTIONAL)
    problem, method = drawn.problem(), METHODS[name]
    result = solve(problem, method, tol=0.01)
    together = result.operations
    # Number of features of an atom, without those that are cut out, or of pixels of a kernel.
    covered = problem.n_features
    if drawn.kind[0] in CONVOLUTIONAL:
        covered = drawn.dictionary.kernels[0].size
    np.testing.assert_array_equal(
        together["drive"].multiply_adds, [problem.n_atoms * covered] * len(drawn.values)
    )
    once = (3 * result.support_size + problem.n_atoms) * covered + 2 * problem.n_features
    assert (together["certificate"].multiply_adds >= once).all()
    for k in range(problem.n_signals):
        alone = solve(problem.subset([k]), method, tol=0.01).operations
        for part in {*together, *alone} - {"gram", "certificate"}:
            for counted in ("spikes", "synaptic_operations", "multiply_adds"):
                both = [
                    np.broadcast_to(getattr(of[part], counted), n)
                    for of, n in ((together, problem.n_signals), (alone, 1))
                ]
                assert both[0][k] == both[1][0], (part, counted)
    total = together.without().total()
    assert total.multiply_adds == sum(counts.total().multiply_adds for counts in together.values())
    rest = together.without("drive", "certificate").total().multiply_adds
    expected = total.multiply_adds - sum(together[p].total().multiply_adds for p in ("drive", "certificate"))
    assert rest == expected


def test_stream_counts_its_network_and_its_start():
    problem = random_problem(n_signals=1)
    stream = SparseCodingStream(problem.dictionary, 1.0)
    first = stream.code(problem.signals[0])
    assert "start" in first.operations
    assert multiply_adds(first, "start") == 0
    change = 0.1 * np.random.default_rng(0).standard_normal(problem.n_features)
    second = stream.code(problem.signals[0] + change)
    support, n_features = int(first.support_size[0]), problem.n_features
    # A start from one code costs its reconstruction, and two inner products: with the signal and itself.
    assert multiply_adds(second, "start") == support * n_features + 2 * n_features
    network, n_neurons = second.operations["network"].total(), 2 * problem.n_atoms
    assert network.spikes == second.n_steps[0]
    assert network.synaptic_operations == (n_neurons - 1) * network.spikes
    assert 0 < second.n_steps[0] < first.n_steps[0]


def test_active_set_counts_rows_of_the_gram_matrix_that_it_computes():
    dictionary = random_problem(30, 600).dictionary
    problem = LassoProblem(dictionary, dictionary[:3].sum(axis=0, keepdims=True), 0.3)
    active_set = solve_active_set(problem)
    # At least the 60 members that join first, half of whose products may be mirrored.
    assert multiply_adds(active_set, "gram") >= 60 * 60 * 30
    given_gram = LassoProblem(dictionary, problem.signals, 0.3, gram=dictionary @ dictionary.T)
    assert multiply_adds(solve_spiking(given_gram, tol=1e-2), "gram") == 0


# -- the ledger itself -----------------------------------------------------------------------------


def test_parts_are_added_up():
    one, two = OperationCounts(multiply_adds=1), OperationCounts(multiply_adds=20, spikes=3)
    ledger = OperationLedger({"certificate": one, "network": two})
    assert list(ledger) == ["network", "certificate"]
    assert ledger.without().multiply_adds == 21
    assert ledger.without("certificate").multiply_adds == 20
    assert ledger.without("certificate", "network").multiply_adds == 0


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: OperationLedger({}).without("magic"), ValueError, "name"),
        (lambda: OperationLedger({})["network"], KeyError, ".*network|.*none"),
        (lambda: energy_estimate(OperationLedger({})), TypeError, "counts"),
    ],
)
def test_nonsense_is_refused(call, error, name):
    with pytest.raises(error, match=f"^{name}"):
        call()
