"""Several methods side by side: what is run, what is timed, what is told."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from solvers import METHODS, Comparison, LassoProblem, compare, comparison_table, solve_fista
from solvers.studies.compare import COLUMNS
from tests.reference.problems import random_problem


def test_every_method_by_name_finds_the_same_optimum():
    problem = random_problem(n_signals=2)
    records = compare(problem, list(METHODS), tol=1e-3)
    assert [record["method"] for record in records] == list(METHODS)
    for record in records:
        assert set(record) == {*COLUMNS, "bound"}
        assert record["n_signals"] == record["n_converged"] == 2
        assert record["largest_relative_gap"] <= 1e-3
        assert record["seconds"] > 0.0
    objectives = [record["objective"] for record in records]
    assert np.ptp(objectives) <= 1e-3 * problem.energies.sum()


def test_record_is_the_result_in_figures():
    problem = random_problem(n_signals=3)
    result = solve_fista(problem, tol=1e-5)
    (record,) = compare(problem, ["fista"], tol=1e-5)
    assert record["objective"] == pytest.approx(result.objective.sum(), rel=1e-12)
    assert record["mean_objective"] == pytest.approx(result.objective.mean(), rel=1e-12)
    assert record["mean_support"] == result.support_size.mean()
    assert record["n_steps"] == result.n_steps.sum()
    relative = (result.duality_gap / problem.energies).max()
    assert record["largest_relative_gap"] == pytest.approx(relative, rel=1e-6)


def test_method_is_warmed_up_on_one_signal_and_shares_nothing_with_the_next():
    problem = random_problem(n_signals=3)
    seen = []

    def recorded(given, *, tol):
        seen.append((given.n_signals, given.has_gram, tol))
        _ = given.gram
        return solve_fista(given, tol=tol)

    records = compare(problem, {"one": recorded, "two": recorded}, tol=0.01)
    assert [record["method"] for record in records] == ["one", "two"]
    assert seen == [(1, False, 0.01), (3, False, 0.01)] * 2
    assert not problem.has_gram


def test_a_problem_that_was_shown_or_solved_is_timed_as_one_that_was_not():
    problem, seen = random_problem(), []

    def solve(each, *, tol):
        seen.append("correlations" in vars(each))
        return solve_fista(each, tol=tol)

    repr(problem)
    problem._repr_html_()
    assert "correlations" not in vars(problem)
    solve_fista(problem)
    compare(problem, {"fista": solve})
    assert seen[-1] is False


def test_missed_tol_is_counted_and_warned_of_once():
    problem = random_problem(n_signals=3, share=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (record,) = compare(
            problem, {"short": lambda problem, tol: solve_fista(problem, tol=tol, max_iter=2)}, tol=1e-6
        )
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert record["n_converged"] == 0
    assert record["largest_relative_gap"] > 1e-6


def test_signal_of_zeros_has_no_gap():
    (record,) = compare(LassoProblem(np.eye(2), np.zeros((2, 2)), 1.0), ["fista"])
    assert record["largest_relative_gap"] == 0.0
    assert record["n_converged"] == 2


RECORD = {
    "method": "fista",
    "n_signals": 10,
    "n_converged": 9,
    "objective": 1.25,
    "mean_objective": 0.125,
    "largest_relative_gap": 2e-3,
    "mean_support": 3.5,
    "n_steps": 1234,
    "synaptic_operations": 0,
    "multiply_adds": 56789,
    "bound": "at most",
    "seconds": 0.25,
}


def test_table_is_markdown_with_aligned_columns():
    table = comparison_table([RECORD, {**RECORD, "method": "coordinate_descent"}])
    header, rule, first, second = table.splitlines()
    assert len({len(line) for line in (header, rule, first, second)}) == 1
    assert [cell.strip() for cell in header.strip("|").split("|")] == list(COLUMNS)
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    assert cells == [
        "fista",
        "10",
        "9",
        "1.25",
        "0.125",
        "2.0e-03",
        "3.5",
        "1234",
        "0",
        "<= 56,789",
        "0.2500",
    ]
    assert set(rule) == set("|:- ")
    assert second.startswith("| coordinate_descent |")


@pytest.mark.parametrize(
    "extra", [{"method": "mine"}, {}, {"method": "mine", "n_steps": 1.5, "multiply_adds": 3, "bound": []}, 3]
)
def test_whatever_was_appended_is_shown(extra):
    records = compare(random_problem(n_signals=1), ["fista"])
    known = str(records).splitlines()[2]
    records.append(extra)
    assert "fista" in repr(records)
    *_, first, last = str(records).splitlines()
    assert [cell.strip() for cell in first.split("|")] == [cell.strip() for cell in known.split("|")]
    cells = [cell.strip() for cell in last.strip("| ").split("|")]
    assert cells[0] == (extra["method"] if isinstance(extra, dict) and extra else "-")
    assert cells[-1] == "-"
    assert records._repr_html_().count("<tr>") == 3


def test_an_empty_comparison_is_a_table_without_rows():
    empty = Comparison()
    assert repr(empty) == "<Comparison>"
    assert len(str(empty).splitlines()) == 2
    assert "method" in empty._repr_html_()
    with pytest.raises(ValueError, match="records must not be empty"):
        empty.plot()


def test_plot_has_a_point_for_each_record():
    figure, ax = plt.subplots()
    exact = {**RECORD, "method": "lars", "largest_relative_gap": -1e-17}
    assert Comparison([RECORD, exact]).plot(ax=ax) is ax
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.get_lines()]
    assert points == [(2e-3, 0.25), (1e-16, 0.25)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["fista", "lars"]
    plt.close(figure)
