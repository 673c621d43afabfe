"""Sweeps over digital formats: figures against the exact solution, the knee, the plot."""

import gc
import weakref

import numpy as np
import pytest
from matplotlib.figure import Figure
from solvers.studies.digital_sweep import FIGURES, varied

from snn.digital import DigitalFormat, FixedPoint
from solvers import LassoProblem, solve_digital, sweep_digital
from solvers.certificate.optimality import duality_gap, objective
from solvers.studies import digital_sweep
from tests.reference.problems import optimal_codes, random_problem


@pytest.fixture(scope="module")
def problem():
    return random_problem(32, 64, n_signals=4)


@pytest.fixture(scope="module")
def sweep(problem):
    axes = {"weight_bits": (4, 6, 9, 12), "time_step": (0.5, 0.125)}
    return sweep_digital(problem, axes, duration=400.0)


@pytest.mark.filterwarnings("ignore:digital")
def test_a_point_is_what_the_solver_says(problem, sweep):
    assert sweep.relative_gap.shape == (8, 4)
    assert sweep.points[5] == {"weight_bits": 9, "time_step": 0.125}
    form = DigitalFormat(weights=FixedPoint(bits=9))
    alone = solve_digital(problem, form, tol=1e-14, time_step=0.125, max_duration=400.0, refine=False)
    np.testing.assert_allclose(sweep.relative_gap[5], duality_gap(problem, alone.codes) / problem.energies)
    optimal = optimal_codes(problem)
    best = objective(problem, optimal)
    np.testing.assert_allclose(
        sweep.relative_excess[5], objective(problem, alone.codes) / best - 1.0, atol=1e-9
    )
    for k in range(4):
        found, wanted = set(np.flatnonzero(alone.codes[k])), set(np.flatnonzero(np.abs(optimal[k]) > 1e-9))
        assert sweep.support_recall[5, k] == len(found & wanted) / len(wanted)
        assert sweep.support_precision[5, k] == len(found & wanted) / len(found)
    np.testing.assert_array_equal(sweep.n_spikes[5], alone.n_steps)


def test_more_bits_help_and_the_knee_is_where_they_are_enough(sweep):
    medians = np.median(sweep.relative_gap, axis=1).reshape(4, 2)
    assert (np.diff(medians, axis=0) < 0.0).all()
    for column, (rest, bits) in enumerate(sweep.needed("weight_bits", within=0.01)):
        assert rest == {"time_step": (0.5, 0.125)[column]}
        expected = [b for b, gap in zip((4, 6, 9, 12), medians[:, column], strict=True) if gap <= 0.01]
        assert bits == min(expected)
    assert [knee for _, knee in sweep.needed("weight_bits", within=1e-9)] == [None, None]
    # For a step: the longest that is still good.
    knees = sweep.needed("time_step", figure="relative_excess")
    steps = {rest["weight_bits"]: step for rest, step in knees}
    assert steps[12] in (0.5, 0.125)
    assert steps[4] is None


def test_rows_are_a_table(sweep):
    rows = sweep.rows()
    assert len(rows) == 8
    assert rows[5]["weight_bits"] == 9
    assert rows[5]["median_relative_gap"] == np.median(sweep.relative_gap[5])
    assert rows[5]["worst_relative_gap"] == sweep.relative_gap[5].max()
    assert rows[5]["worst_support_recall"] == sweep.support_recall[5].min()
    assert rows[0]["n_ran_away"] == sweep.ran_away[0].sum()


@pytest.mark.parametrize("figure", list(FIGURES))
@pytest.mark.parametrize("axis", [None, "time_step"])
def test_plots_have_a_line_for_each_of_the_rest_and_mark_the_knee(sweep, figure, axis):
    ax = sweep.plot(axis=axis, figure=figure, ax=Figure().subplots())
    is_marked = figure in ("relative_gap", "relative_excess")
    n_lines = (2 if axis is None else 4) + is_marked
    labels = [line.get_label() for line in ax.lines if not line.get_label().startswith("_")]
    assert len(labels) == n_lines
    knees = sum(knee is not None for _, knee in sweep.needed(axis, figure=figure)) if "rel" in figure else 0
    rings = [line for line in ax.lines if line.get_markersize() == 10]
    assert len(rings) == knees
    assert ax.get_ylabel() == FIGURES[figure]


def test_every_axis_reaches_the_format():
    form = DigitalFormat()
    for name, value in [
        ("potential_bits", 20),
        ("current_bits", 21),
        ("decay_bits", 10),
        ("message_bits", 3),
        ("delay", 2),
    ]:
        assert getattr(varied(form, {name: value}), name) == value
    assert varied(form, {"weight_bits": 5}).weights.bits == 5
    assert varied(form, {"bias_bits": 9}).bias.bits == 9
    registers = varied(form, {"register_bits": 17})
    assert (registers.potential_bits, registers.current_bits) == (17, 17)


def test_networks_of_points_are_not_kept(problem, monkeypatch):
    living, before = weakref.WeakSet(), []

    def watched(*arguments, **options):
        before.append(len(living))
        result = solve_digital(*arguments, **options)
        living.add(result.network)
        return result

    monkeypatch.setattr(digital_sweep, "solve_digital", watched)
    gc.disable()
    try:
        sweep_digital(problem, {"weight_bits": (4, 6, 9)}, duration=10.0)
    finally:
        gc.enable()
    assert before == [0, 0, 0]


def test_a_signal_of_zeros_has_no_gap():
    problem = LassoProblem(np.eye(3), [[0.0, 0.0, 0.0], [1.0, 2.0, 0.0]], 0.1)
    sweep = sweep_digital(problem, {"weight_bits": (8,)}, duration=50.0)
    assert sweep.relative_gap[0, 0] == 0.0
    assert sweep.relative_excess[0, 0] == 0.0
    assert np.isfinite(sweep.relative_gap).all()


@pytest.mark.parametrize(
    ("axes", "options", "error", "message"),
    [
        ([8], {}, TypeError, "axes must be a mapping"),
        ({}, {}, ValueError, "axes must name at least one"),
        ({"bits": (8,)}, {}, ValueError, "a name in axes must be one of"),
        ({"weight_bits": 8}, {}, TypeError, r"axes\['weight_bits'\] must be a sequence"),
        ({"weight_bits": ()}, {}, ValueError, r"axes\['weight_bits'\] must not be empty"),
        ({"weight_bits": (8, 8)}, {}, ValueError, "must not repeat"),
        ({"weight_bits": (8.5,)}, {}, TypeError, "must be an integer"),
        ({"time_step": (0.0,)}, {}, ValueError, "must be positive"),
        ({"register_bits": (8,), "current_bits": (8,)}, {}, ValueError, "must not vary register_bits"),
        ({"weight_bits": (8, 99)}, {}, ValueError, r"with weight_bits=99: bits must lie in \[2, 52\]"),
        ({"weight_bits": (8,)}, {"duration": 0.0}, ValueError, "duration must be positive"),
        ({"weight_bits": (8,)}, {"format": 3}, TypeError, "format must be a DigitalFormat"),
        ({"weight_bits": (8,)}, {"readout": "raw"}, ValueError, "readout must be one of"),
    ],
)
def test_bad_arguments(problem, axes, options, error, message):
    with pytest.raises(error, match=message):
        sweep_digital(problem, axes, **options)


def test_bad_questions(sweep):
    with pytest.raises(ValueError, match="axis must be one of"):
        sweep.needed("delay")
    with pytest.raises(ValueError, match="figure must be one of"):
        sweep.needed(figure="n_spikes")
    with pytest.raises(ValueError, match="within must be positive"):
        sweep.needed(within=0.0)
