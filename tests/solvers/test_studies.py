"""Paths of penalties, and several methods side by side."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoLarsIC, enet_path

from snn import Clock
from snn.digital import DigitalFormat, FixedPoint
from solvers import (
    METHODS,
    Comparison,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    compare,
    core_network,
    design_space,
    path,
    solve,
    solve_active_set,
    solve_digital,
    solve_fista,
    solve_on_core,
)
from solvers.certificate.optimality import measure
from solvers.methods.active_set import ActiveSet
from solvers.problem.matrix import MatrixAtoms
from solvers.studies import design_space as of_designs
from tests.reference.costs import costs
from tests.reference.methods import TOLS, methods
from tests.reference.problems import random_problem
from tests.tiers import examples

# -- paths -----------------------------------------------------------------------------------------

# Methods that multiply matrices; the rounding of BLAS depends on the sizes of the matrices.
PRODUCTS = ("fista", "analog")


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("ratio", [1.0, 0.7])
def test_default_penalties_and_codes_are_those_of_scikit_learn(positive, ratio):
    problem = random_problem(30, 20, n_signals=1, positive=positive)
    penalty = 1.0 if ratio == 1.0 else ElasticNet(ratio, 1.0 - ratio)
    problem = LassoProblem(problem.dictionary, problem.signals, penalty, positive=positive)
    result = path(problem, n_multiples=30)
    # Scikit-learn's default: from the smallest alpha with a zero code to 1e-3 of it, even in the logarithm.
    reach = problem.dictionary @ problem.signals[0]
    largest = (reach if positive else np.abs(reach)).max() / problem.n_features / ratio
    alphas, coefs, _ = enet_path(
        np.asfortranarray(problem.dictionary.T),
        problem.signals[0],
        l1_ratio=ratio,
        alphas=np.logspace(np.log10(largest), np.log10(1e-3 * largest), 30),
        positive=positive,
        tol=1e-12,
        max_iter=100_000,
    )
    np.testing.assert_allclose(result.multiples, alphas * problem.n_features, rtol=1e-12)
    # Fewer atoms than features: the codes are unique.
    np.testing.assert_allclose(result.codes[:, 0], coefs.T, rtol=0, atol=1e-6 * np.abs(coefs).max())
    assert result.converged
    assert result.results[0].method == "active_set"


@pytest.mark.property
@examples(20)
@given(
    seed=st.integers(0, 2**20),
    n_free=st.integers(1, 3),
    positive=st.booleans(),
    weighted=st.sampled_from(["", "mask", "masks", "feature_weights"]),
    stored=st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_a_path_with_atoms_without_a_penalty_begins_where_they_alone_fit(
    seed, n_free, positive, weighted, stored
):
    """The first codes are (nonnegative) least squares; just below this penalty, other atoms are active."""
    rng = np.random.default_rng(seed)
    d, signals = rng.standard_normal((9, 12)), rng.standard_normal((2, 12)) + 2.0
    d[0] = 1.0  # an intercept
    w, known = np.ones((2, 12)), {}
    if weighted:
        w = rng.random((2, 12) if weighted == "masks" else 12)
        w = w if weighted == "feature_weights" else w < 0.8
        known = {weighted.rstrip("s") if weighted == "masks" else weighted: w}
    l1 = np.where(np.arange(9) < n_free, 0.0, rng.uniform(0.5, 2.0, 9))
    problem = LassoProblem(stored(d), signals, l1, positive=positive, **known)
    result = path(problem, n_multiples=20, smallest=0.9)
    for i, (signal, weights) in enumerate(zip(signals, np.broadcast_to(w, (2, 12)), strict=True)):
        root = np.sqrt(weights)
        fit = nnls if positive else lambda *system: np.linalg.lstsq(*system, rcond=None)
        codes = fit((root * d[:n_free]).T, root * signal)[0]
        np.testing.assert_allclose(result.codes[0, i], np.append(codes, np.zeros(9 - n_free)), atol=1e-9)
    assert result.converged
    assert (np.abs(result.codes[1, :, n_free:]) > 1e-9).any()


@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_criteria_are_those_of_scikit_learn(criterion):
    table, target = load_diabetes(return_X_y=True)
    table, target = table - table.mean(axis=0), target - target.mean()
    theirs = LassoLarsIC(criterion).fit(table, target)
    knots = theirs.alphas_ > 0.0
    multiples = theirs.alphas_[knots] * len(target) * (1.0 + 1e-9)  # just before a variable enters
    found = path(LassoProblem(table.T, target[np.newaxis], 1.0), multiples)
    ours = getattr(found, criterion)(theirs.noise_variance_)
    # At one knot a variable leaves; just before the knot our criterion still counts this variable.
    assert np.isclose(ours[:, 0], theirs.criterion_[knots], rtol=1e-8).sum() >= len(multiples) - 1
    assert ours[:, 0].argmin() == theirs.criterion_.argmin()
    # The criterion with an estimated variance equals the criterion to which this variance is passed.
    estimated = getattr(found, criterion)()
    k = int(estimated[:, 0].argmin())
    squares = np.square(target - found.codes[k, 0] @ table.T).mean()
    np.testing.assert_allclose(getattr(found, criterion)(squares)[k], estimated[k], rtol=1e-10)


def test_degrees_of_freedom_of_an_elastic_net_are_the_trace_of_its_fit():
    rng = np.random.default_rng(0)
    atoms, signals, mask = rng.standard_normal((8, 20)), rng.standard_normal((2, 20)), np.arange(20) % 3 > 0
    for masks in (mask, np.stack([mask, ~mask])):
        found = path(LassoProblem(atoms, signals, ElasticNet(1e-9, 1.0), mask=masks), [3.0, 1.0])
        for k, known in enumerate(np.broadcast_to(masks, signals.shape)):
            seen = atoms[:, known]
            for row, multiple in zip(found.degrees_of_freedom, found.multiples, strict=True):
                trace = np.trace(np.linalg.solve(seen @ seen.T + multiple * np.eye(8), seen @ seen.T))
                np.testing.assert_allclose(row[k], trace, rtol=1e-6)


def test_degrees_of_freedom_count_atoms_that_are_equal_once():
    found = path(
        LassoProblem(np.eye(3)[[0, 0, 1]], [[3.0, 2.0, 1.0]], ElasticNet(0.1, [0.0, 0.0, 0.5])),
        [1.0],
        method="fista",
    )
    np.testing.assert_allclose(found.degrees_of_freedom, 1.0 + 1.0 / 1.5)


def test_a_path_with_an_intercept_is_that_of_centred_variables():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = X @ [1.0, -2.0, 0.0] + 2.0 + 0.1 * rng.standard_normal(50)
    result = path(LassoProblem(np.vstack([X.T, np.ones(50)]), y[np.newaxis], [1.0, 1.0, 1.0, 0.0]))
    centred = path(LassoProblem((X - X.mean(axis=0)).T, (y - y.mean())[np.newaxis], 1.0))
    np.testing.assert_allclose(result.multiples, centred.multiples, rtol=1e-12)
    np.testing.assert_allclose(result.codes[:, :, :3], centred.codes, atol=1e-9)


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(20)
@given(
    name=st.sampled_from(list(methods(start=True))),
    positive=st.booleans(),
    is_curved=st.booleans(),
    masked=st.sampled_from((None, "one", "own", "weights")),
    seed=st.integers(0, 99),
)
def test_every_code_of_a_path_is_that_of_a_problem_alone(name, positive, is_curved, masked, seed):
    method, rng = methods(start=True)[name], np.random.default_rng(seed)
    assume(masked != "own" or "own_weights" in method.takes)
    tol = {**TOLS, "spiking": 1e-4}.get(name, method.finest_tol)
    problem = random_problem(n_signals=3, positive=positive, unit_norm=False, seed=seed)
    l1, l2 = rng.uniform(1.0, 2.0, 40), rng.uniform(0.1, 1.0, 40)
    known = rng.random((20,) if masked == "one" else (3, 20)) < 0.8
    options = {"positive": positive}
    if masked is not None:
        options |= {"feature_weights": rng.uniform(0.5, 2.0, 20)} if masked == "weights" else {"mask": known}
    penalty = ElasticNet(l1, l2) if is_curved else l1
    problem = LassoProblem(problem.dictionary, problem.signals, penalty, **options)
    multiples = [4.0, 2.0, 1.0]
    result = path(problem, multiples, method=method, tol=tol)
    assert result.converged
    assert result.multiples.tolist() == multiples
    for k, multiple in enumerate(multiples):
        other = ElasticNet(multiple * l1, multiple * l2) if is_curved else multiple * l1
        at = LassoProblem(problem.dictionary, problem.signals, other, **options)
        excess = result.objective[k] - solve_active_set(at, tol=1e-11).objective
        assert (np.abs(excess) <= (tol + 1e-10) * problem.energies).all()
        one = result.results[k]
        assert (one.method, one.tol) == (method.name, tol)
        figures = measure(at, one.sparse_codes)
        atol = 1e-13 * problem.energies.max()
        np.testing.assert_allclose(one.duality_gap, figures.duality_gap, rtol=0, atol=atol)
        np.testing.assert_allclose(one.kkt_violation, figures.kkt_violation, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(result.codes[k], one.sparse_codes.toarray())
        np.testing.assert_allclose(one.problem.l1_weights, multiple * l1, rtol=1e-15)
        np.testing.assert_array_equal(one.problem.signals, problem.signals)
        # The weights are read-only, as in other problems: writable arrays would need kernels of their own.
        assert not one.problem.l1_weights.flags.writeable
        start = result.results[k - 1] if k else None
        separate = solve(at, method, start=start, tol=tol)
        np.testing.assert_allclose(one.codes, separate.codes, rtol=0, atol=1e-6 * np.abs(l1).max())
    if method.name not in PRODUCTS:
        alone = path(problem.subset([1]), multiples, method=method, tol=tol)
        np.testing.assert_array_equal(alone.codes[:, 0], result.codes[:, 1])


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(20)
@given(
    shape=st.sampled_from([(20, 40), (12, 200), (40, 30)]),
    positive=st.booleans(),
    curvature=st.sampled_from([0.0, 0.3]),
    n_free=st.sampled_from([0, 3]),
    n_equal=st.sampled_from([0, 5]),
    unit=st.sampled_from([1.0, 1e-100]),
    seed=st.integers(0, 99),
)
def test_a_path_of_atoms_that_may_be_active_is_that_of_all(
    shape, positive, curvature, n_free, n_equal, unit, seed
):
    problem = random_problem(*shape, n_signals=2, positive=positive, unit_norm=False, seed=seed)
    atoms, signals = problem.dictionary.copy(), problem.signals * (np.arange(2) + unit)[:, np.newaxis]
    atoms[:n_equal] = atoms[n_equal : 2 * n_equal]
    l1 = np.full(shape[1], 0.5)
    l1[shape[1] - n_free :] = 0.0
    is_positive = np.arange(shape[1]) % 2 == 0 if positive else False
    penalty = ElasticNet(l1, curvature)
    grown, whole = (LassoProblem(atoms, signals, penalty, positive=is_positive) for _ in range(2))
    _ = whole.gram
    multiples = np.geomspace(10.0, 0.1, 12)
    with costs(fewest_on_demand=1, atoms_per_feature=0, atoms_per_code_along=0, atoms_per_code=10**9):
        result = path(grown, multiples, tol=1e-9)
    assert not grown.has_gram
    assert result.converged
    scale = 1e-9 * whole.energies.max()
    np.testing.assert_allclose(result.objective, path(whole, multiples, tol=1e-9).objective, atol=scale)
    for one in result.results:
        assert (one.relative_gap < 1e-11).all()


@pytest.mark.parametrize("method", list(methods(start=True)))
@pytest.mark.parametrize("n_signals", [1, 20])
def test_a_path_computes_the_gram_matrix_once(method, n_signals, monkeypatch):
    counts, gram_rows = [], MatrixAtoms.gram_rows

    def counted(self, atoms):
        counts.append(len(range(len(self.squared_norms))[atoms]) if isinstance(atoms, slice) else len(atoms))
        return gram_rows(self, atoms)

    monkeypatch.setattr(MatrixAtoms, "gram_rows", counted)
    problem = random_problem(n_signals=n_signals)
    weighted = {"mask": np.arange(20) > 1}, {"feature_weights": np.linspace(0.5, 1.5, 20)}
    for options in ({}, *weighted, {"positive": True}, {"penalty": ElasticNet(1.0, 0.2)}):
        counts.clear()
        asked = LassoProblem(problem.dictionary, problem.signals, options.pop("penalty", 1.0), **options)
        path(asked, n_multiples=6, smallest=0.1, method=methods(start=True)[method], tol=1e-2)
        assert sum(counts) <= problem.n_atoms


@pytest.mark.parametrize("shape", [(300, 40), (40, 2200), (30, 12)])
@pytest.mark.parametrize("n_signals", [1, 4])
def test_figures_of_codes_that_are_certified_together_are_those_of_each(shape, n_signals):
    problem = random_problem(*shape, n_signals=n_signals)
    for penalty in (problem.penalty.l1[0], ElasticNet(problem.penalty.l1[0], 0.1)):
        result = path(problem.with_penalty(penalty), np.geomspace(2.0, 0.02, 12))
        for one in result.results:
            figures = measure(one.problem, one.sparse_codes)
            energies = one.problem.energies
            np.testing.assert_allclose(one.objective, figures.objective, rtol=1e-12)
            np.testing.assert_allclose(one.duality_gap / energies, figures.duality_gap / energies, atol=1e-11)
            np.testing.assert_allclose(one.kkt_violation, figures.kkt_violation, rtol=1e-6, atol=1e-11)
            assert (one.duality_gap >= 0.0).all()


@pytest.mark.parametrize("positive", [True, False])
def test_atoms_without_penalty_are_certified_together_as_alone(positive):
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((20, 12)), rng.standard_normal((3, 12))
    penalties = np.where(np.arange(20) < 3, 0.0, 1.0)
    if positive:  # these atoms form lines, on which dual points are zero
        dictionary[1], dictionary[2] = -2.0 * dictionary[0], dictionary[0] + dictionary[3]
    problem = LassoProblem(dictionary, signals, penalties, positive=positive)
    for one in path(problem, np.geomspace(2.0, 1e-3, 12)).results:
        figures = measure(one.problem, one.sparse_codes)
        np.testing.assert_allclose(
            one.duality_gap / problem.energies, figures.duality_gap / problem.energies, atol=1e-11
        )
        assert one.converged


def test_codes_that_the_kernel_of_a_path_misses_are_solved_alone():
    problem = random_problem(n_signals=2)
    few = path(problem, n_multiples=5, smallest=0.01, method=ActiveSet(max_rounds=3), tol=1e-2)
    assert few.converged
    with pytest.warns(ConvergenceWarning, match="^path: "):
        path(problem, n_multiples=5, smallest=0.01, method=ActiveSet(max_rounds=1))


def test_convolutional_dictionaries():
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((3, 4, 4)), (10, 10), 2)
    image = rng.standard_normal((1, 100))
    result, expected = (
        path(LassoProblem(d, image, 1.0), n_multiples=8, smallest=0.05)
        for d in (dictionary, dictionary.toarray())
    )
    np.testing.assert_allclose(result.multiples, expected.multiples, rtol=1e-12)
    np.testing.assert_allclose(result.objective, expected.objective, rtol=1e-7)
    assert result.converged


def test_codes_that_miss_tol_are_told_once():
    with pytest.warns(ConvergenceWarning, match="^path: ") as caught:
        result = path(random_problem(), [2.0, 1.0], tol=1e-25)
    assert len(caught) == 1
    assert not result.converged


SILENT = LassoProblem(np.eye(2), np.zeros((1, 2)), 1.0)


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"multiples": [1.0, 2.0]}, ValueError, "multiples .*1.0 before 2.0"),
        ({"multiples": [2.0, 2.0]}, ValueError, "multiples"),
        ({"multiples": [1.0, 0.0]}, ValueError, "multiples"),
        ({"multiples": [1.0, np.nan]}, ValueError, "multiples"),
        ({"multiples": []}, ValueError, "multiples"),
        ({"multiples": 1.0}, ValueError, "multiples"),
        ({"problem": SILENT}, ValueError, "multiples"),
        ({"problem": SILENT.with_penalty(0.0)}, ValueError, "multiples .* no atom has an l1 penalty"),
        ({"problem": SILENT.with_penalty(ElasticNet([0.0, 1.0], 1.0))}, ValueError, "multiples .*l2"),
        ({"n_multiples": 0}, ValueError, "n_multiples"),
        ({"smallest": 1.0}, ValueError, "smallest"),
        ({"method": METHODS["spiking_rate"]}, ValueError, "method must take a start"),
        ({"tol": 0.0}, ValueError, "tol"),
    ],
)
def test_nonsense_is_refused(options, error, name):
    with pytest.raises(error, match=f"^{name}"):
        path(**{"problem": random_problem(), **options})


# -- comparisons -------------------------------------------------------------------------------------


def test_records_are_the_results_in_figures():
    problem = random_problem(n_signals=3)
    records = compare(problem, list(METHODS), tol=1e-3)
    assert [record["method"] for record in records] == list(METHODS)
    for record, method in zip(records, METHODS.values(), strict=True):
        result = solve(problem, method, tol=1e-3)
        counts = result.operations.without("drive", "certificate").total()
        expected = {
            "n_signals": 3,
            "n_converged": 3,
            "objective": result.objective.sum(),
            "mean_objective": result.objective.mean(),
            "largest_relative_gap": (result.duality_gap / problem.energies).max(),
            "mean_support": result.support_size.mean(),
            "n_steps": result.n_steps.sum(),
            "synaptic_operations": counts.synaptic_operations,
            "multiply_adds": counts.multiply_adds,
        }
        assert record["bound"] == method.bound
        assert record["seconds"] > 0.0
        if method.name not in PRODUCTS:
            found = {name: record[name] for name in expected}
            assert found == pytest.approx(expected, rel=1e-12)
        assert set(record) == {*expected, "method", "bound", "seconds"}
    assert np.ptp([record["objective"] for record in records]) <= 1e-3 * problem.energies.sum()


def test_names_methods_and_functions_may_be_mixed():
    problem = random_problem(n_signals=2)
    fista = METHODS["fista"]
    (one, two) = compare(problem, ["active_set", fista])
    assert [one["method"], two["method"]] == ["active_set", "fista"]
    labelled = compare(problem, {"a": "active_set", "b": fista, "c": solve_fista})
    assert [record["n_steps"] for record in labelled] == [one["n_steps"], two["n_steps"], two["n_steps"]]


def test_a_method_is_warmed_up_on_one_signal_and_shares_nothing_with_the_next():
    problem, seen = random_problem(n_signals=3), []

    def recorded(given, *, tol):
        seen.append((given.n_signals, given.has_gram, "correlations" in vars(given), tol))
        _ = given.gram
        return solve_fista(given, tol=tol)

    repr(problem)
    solve_fista(problem)
    records = compare(problem, {"one": recorded, "two": recorded}, tol=0.01)
    assert [record["method"] for record in records] == ["one", "two"]
    # That a problem was shown or solved before does not change its measured times.
    assert [one[1:] for one in seen[1::2]] == [(problem.has_gram, False, 0.01)] * 2
    assert [one[0] for one in seen] == [1, 3, 1, 3]


def test_missed_tol_is_counted_and_warned_of_once():
    problem = random_problem(n_signals=3, share=0.01)
    with pytest.warns(ConvergenceWarning) as caught:
        (record,) = compare(problem, {"short": lambda p, tol: solve_fista(p, tol=tol, max_iter=2)}, tol=1e-6)
    assert len(caught) == 1
    assert record["n_converged"] == 0
    assert record["largest_relative_gap"] > 1e-6
    (zero,) = compare(LassoProblem(np.eye(2), np.zeros((2, 2)), 1.0), ["fista"])
    assert (zero["largest_relative_gap"], zero["n_converged"]) == (0.0, 2)


RECORD = {
    "method": "fista",
    "n_signals": 10,
    "n_converged": 9,
    "objective": 1.25,
    "mean_objective": 0.125,
    "largest_relative_gap": 2e-3,
    "mean_support": 3.5,
    "n_steps": 1234,
    "synaptic_operations": 12,
    "multiply_adds": 56789,
    "bound": "at most",
    "seconds": 0.25,
}


def test_a_table_and_a_plot_show_every_record():
    exact = {**RECORD, "method": "exact", "largest_relative_gap": -1e-17, "bound": "exact"}
    header, _, *rows = (line.split() for line in str(Comparison([RECORD, exact])).splitlines())
    assert [name for name in header if name != "|"] == [name for name in RECORD if name != "bound"]
    cells = " ".join(cell for cell in rows[0] if cell != "|")
    assert cells == "fista 10 9 1.25 0.125 2.0e-03 3.5 1234 12 <= 56,789 0.2500"
    assert "<=" not in rows[1]
    assert "fista" in repr(Comparison([RECORD]))
    _, ax = plt.subplots()
    assert Comparison([RECORD, exact]).plot(ax=ax) is ax
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.get_lines()]
    assert points == [(2e-3, 0.25), (1e-16, 0.25)]


def test_a_design_space_has_the_gaps_of_single_runs_and_a_front_that_nothing_beats():
    pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")
    problem = random_problem(8, 12, positive=True)
    formats = [DigitalFormat(weights=FixedPoint(bits=bits), current_bits=18) for bits in (3, 8)]
    space = design_space(problem, formats, [1 / 8, 1 / 4], [1, 4], tol=1e-2)
    table = space.table
    assert len(table) == 8
    for row in table:
        clock = Clock(row["time_step"], formats[row["format"]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = solve_digital(problem, time=clock, tol=1e-2, max_duration=500.0)
        assert row["gap"] == result.relative_gap.max()
        assert row["converged"] == result.converged
        assert row["multipliers"] == row["lanes"]
    names = ("gap", "cycles", "memory_bits", "multipliers", "energy")
    costs = np.column_stack([table[name].astype(float) for name in names])
    beaten = [any((a <= b).all() and (a < b).any() for a in costs) for b in costs]
    assert set(space.front) == set(np.flatnonzero(~np.array(beaten)))
    assert (np.diff(table["gap"][space.front]) >= 0).all()
    # Bits cost energy; lanes take fewer cycles.
    assert (table["cycles"][1::2] < table["cycles"][::2]).all()
    space.plot()
    plt.close("all")


def test_costs_of_a_bit_agree_with_published_ones_of_other_widths():
    """Horowitz (2014): a sum of 8 bits takes 0.03 pJ, a product 0.2 pJ, 64 bits of memory 10 pJ."""
    costs_of_widths = [8 * of_designs.SUM_BIT, 8**2 * of_designs.PRODUCT_BIT, 64 * of_designs.MEMORY_BIT]
    np.testing.assert_allclose(costs_of_widths, [0.03, 0.2, 10.0], rtol=0.2)


@pytest.mark.parametrize("positive", [False, True])
def test_cycles_of_a_design_are_not_less_than_those_of_the_gates(positive):
    """Each stage is one RUN; a signal of zero has no stages."""
    pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")
    from snn.hardware import SimulatedCore  # Amaranth is an extra

    problem, runs = random_problem(5, 6, positive=positive, n_signals=1), []
    core = SimulatedCore(core_network(problem))

    def count(commands):
        spikes = core(commands)
        steps, neurons, _ = np.array(spikes, dtype=np.int64).reshape(-1, 3).T
        runs.append(core.layout.cycles(commands[-1][2], neurons, steps))
        return spikes

    solve_on_core(problem, count, tol=1e-2, max_duration=500.0)
    space = design_space(problem, [DigitalFormat()], np.array([1 / 4]), np.array([1]))
    assert sum(runs) <= space.table["cycles"][0] <= 1.1 * sum(runs)
    zero = problem.with_signals(0.0 * problem.signals)
    assert design_space(zero, [DigitalFormat()], [1 / 4], [1]).table["cycles"][0] == 0.0
    signals = np.concatenate([zero.signals, problem.signals])
    table = design_space(problem.with_signals(signals), [DigitalFormat()], [1 / 4], [1]).table
    assert table["largest_cycles"][0] == space.table["cycles"][0] == 2 * table["cycles"][0]


def test_a_design_space_refuses_what_it_cannot_count():
    pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")
    problem = random_problem(3, 4)
    with pytest.raises(ValueError, match="lanes must be a sequence"):
        design_space(problem, [DigitalFormat()], [1 / 4], [])
    with pytest.raises(ValueError, match="formats must not be graded"):
        design_space(problem, [DigitalFormat(graded=True, message_bits=8)], [1 / 4], [1])
