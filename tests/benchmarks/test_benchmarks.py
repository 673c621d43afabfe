"""Every case of the benchmarks runs at a small size, and only right answers are timed."""

import json

import numpy as np
import pytest

from solvers import LassoProblem, solve_active_set
from tests.benchmarks import concave, conditions, peers, replacement, unseen_combinations, who_is_right
from tests.benchmarks.__main__ import against, main, measure
from tests.benchmarks.cases import CASES, GATES, ROOT, coding
from tests.benchmarks.page import TABLES
from tests.benchmarks.peers import Peer, calibrated
from tests.benchmarks.problems import planted_problems, random_dictionary
from tests.benchmarks.timing import WrongAnswerError, in_rows, largest_gap, timed, verify

pytestmark = pytest.mark.thorough
# Of several cases that differ only in a number, one is run.
ONCE = [
    name
    for name in CASES
    if not name.endswith((", 0.001", ", 0.0001", "penalty 0.1"))
    and not name.startswith(
        ("one signal, 256", "one signal, 1024", "hard design, patches", "hard design, random")
    )
    and not name.startswith(("operations, image", "operations, patches", "operations, random, 256"))
    and not name.endswith("empty cache")  # with small data, an empty cache is not quicker
    and "512" not in name
]


@pytest.fixture(scope="module")
def problem():
    return planted_problems(random_dictionary(16, 32), support=3, n_signals=1)[0]


@pytest.mark.parametrize("name", ONCE)
def test_cases_run(name):
    rows = measure(name, small=True, seconds=0.0)
    assert rows[0]["ratio"] == 1.0
    assert all(row["seconds"] > 0.0 for row in rows)


def test_gates_are_cases():
    assert set(GATES) <= set(CASES)


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: peer.name)
def test_peers_solve_the_same_problem(peer, problem):
    if not peer.installed:
        pytest.skip(f"{peer.package} is not installed")
    call, _ = calibrated(peer, problem, 1e-6)
    assert largest_gap(problem, call()) <= 1e-6
    np.testing.assert_allclose(in_rows(problem, call())[0], solve_active_set(problem).codes[0], atol=1e-3)


def test_a_wrong_answer_is_not_timed(problem):
    liar = Peer(name="liar", ask=lambda problem: lambda tol: np.zeros((1, problem.n_atoms)))
    with pytest.raises(WrongAnswerError, match="liar"):
        coding(problem, [liar], 1e-6)
    assert "liar" not in coding(problem, [peers.ACTIVE_SET, liar], 1e-6).calls
    with pytest.raises(WrongAnswerError, match="codes"):
        verify(problem, np.zeros((1, problem.n_atoms)), 1e-6, "codes")


def test_calls_take_turns():
    order = []
    times = timed({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0.0)
    assert order == ["a", "b"] * 4
    assert times["a"].rounds == 3


def test_beside_another_checkout():
    """Both checkouts are the same one, so neither is much faster than the other."""
    row = against("import solvers, full cache", ROOT, small=True, rounds=5)
    assert 0.1 < row["at least"] <= row["ratio"] < 10.0
    assert 0.1 < row["control"] < 10.0


def test_a_run_is_written(tmp_path, capsys):
    assert main(["64 x 256, 1e-06", "--small", "--output", str(tmp_path / "out.json")]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert {"spikes alone", "active set", "FISTA, lean", "control"} <= {row["method"] for row in rows}
    assert "spikes alone" in capsys.readouterr().out


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_a_page_is_under_its_name(name):
    assert f"<!-- table: {name} -->\n|" in (ROOT / TABLES[name][0]).read_text(encoding="utf-8")


def test_the_outside_benchmark_scores_what_was_learned():
    data = unseen_combinations.generate(50, 0, n_samples=200)
    assert unseen_combinations.score(data.dictionary, data).correlation > 0.9
    shuffled = data.dictionary[np.random.default_rng(0).permutation(50)]
    assert unseen_combinations.score(shuffled, data) == pytest.approx(
        unseen_combinations.score(data.dictionary, data), rel=1e-9
    )
    random = np.random.default_rng(0).standard_normal(data.dictionary.shape)
    assert unseen_combinations.score(random, data).correlation < 0.8
    codes = solve_active_set(LassoProblem(data.dictionary, data.unseen.signals, 1e-3, positive=True)).codes
    assert unseen_combinations.mean_correlation(data.unseen.codes, codes) > 0.95


def test_replacement_is_measured(capsys):
    assert replacement.main(["--samples", "600", "--old", "64", "--new", "640", "--seeds", "0"]) == 0
    assert "changed slowly" in capsys.readouterr().out


@pytest.mark.parametrize("condition", [3.0, 30.0])
def test_programs_of_a_condition_have_the_solution_that_they_are_made_for(condition):
    program, measured = conditions.program_of(condition, 0)
    assert condition / 2 < measured < 2 * condition
    result = program.solve()
    np.testing.assert_array_equal(result.active, np.arange(conditions.N_ACTIVE))
    assert (result.inequality_multipliers[result.active] > 0.49).all()
    assert conditions.measured(condition, 0, 1e-3)[2] <= 1e-3


@pytest.mark.parametrize("penalty", ["log", "exponential", "mcp"])
@pytest.mark.filterwarnings("ignore:reweighted")
def test_a_concave_penalty_by_rule_is_nearer_to_the_truth(penalty):
    row = concave.measure(0, 0.0, penalty, shape=(60, 40))
    assert row["concave"] < min(row["lasso"], -35.0)
    assert row["gap"] <= 1e-6


def test_packages_are_judged_by_their_gaps():
    for name, codes in who_is_right.judged().items():
        worst = max(result.relative_gap[0] for result in codes)
        assert worst <= (1e-10 if name == "sparsespike" else 1e-6)
