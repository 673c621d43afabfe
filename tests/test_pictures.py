"""Every public result can draw itself, and every public object has a readable representation.

One of these tests fails if a new public class is missing here, or has neither picture nor table.
"""

import dataclasses
import enum
import importlib
import inspect
import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator

import dictlearn.pictures
import snn
import snn.digital
import snn.exchange
import solvers.pictures
from snn.base.describe import Described, Drawn, plot
from solvers.studies.compare import COLUMNS
from tests.reference.networks import golden_network

PACKAGES = ("snn", "snn.digital", "snn.exchange", "solvers", "dictlearn")


def public_classes():
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, type) and not issubclass(thing, (BaseException, enum.Enum, BaseEstimator)):
                yield thing


CLASSES = list(public_classes())


def random_problem():
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((30, 10))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    return solvers.LassoProblem(dictionary, rng.standard_normal((3, 10)), 0.3)


def make_things():
    """Return one object of each class that has a readable representation."""
    rng = np.random.default_rng(0)
    network = golden_network()
    run = snn.simulate(network, 20.0, record_spikes=True)
    clocked = snn.simulate(network, 20.0, snn.Clock(0.125))
    digital = snn.digital.DigitalNetwork.of(network, snn.digital.DigitalFormat(), time_step=0.25)
    in_integers = snn.simulate(network, 25.0, snn.Clock(0.25, digital))
    problem = random_problem()
    spiking = solvers.solve_spiking(problem)
    stream = solvers.SparseCodingStream(problem.dictionary, 0.3)

    two_phase = dictlearn.TwoPhaseNetwork.consistent(rng.uniform(size=(5, 8)))
    signals = rng.uniform(size=(4, 8))
    learner = dictlearn.learn_dictionary(
        rng.uniform(size=(40, 4)),
        3,
        settings=dictlearn.LearningSettings(penalty=0.1, time=snn.Clock(1 / 8)),
        n_samples=2000,
        rng=0,
    )
    image = rng.uniform(size=(12, 12))
    prepared = dictlearn.prepare_image(image, 3)
    two = prepared.dictionary(rng.standard_normal((2, 3, 3)))
    of_image = solvers.LassoProblem(two, prepared.signal, 0.2)
    coded = dictlearn.CodedImage(
        prepared=prepared, problem=of_image, result=solvers.solve_fista(of_image, tol=1e-2)
    )
    graph = snn.exchange.to_nir(network)
    program = solvers.QuadraticProgram(np.eye(2), [1.0, -1.0], bounds=([0.0, 0.0], [1.0, 1.0]))
    things = [
        network,
        run,
        clocked,
        run.spikes,
        run.state,
        run.operations,
        run.record,
        run.record.explain(-1),
        snn.Simulator(network),
        snn.simulate_trials(network, 20.0, drives=[network.soma_bias] * 3),
        snn.Stimulus(drive_times=[1.0], drive=network.soma_bias[np.newaxis]),
        *snn.weights.examples(),
        digital,
        in_integers,
        in_integers.registers,
        snn.NetworkState(
            membrane_potential=[0, 1], synaptic_current=[0, 0], pending=np.zeros((1, 2), dtype=int)
        ),
        snn.exchange.from_nir(graph),
        problem,
        spiking,
        solvers.solve_active_set(problem).vjp(np.zeros((3, 30))),
        solvers.solve_active_set(problem).vjp(np.zeros((3, 30)))._derivatives,
        spiking.operations,
        solvers.solve_active_set(problem),
        solvers.solve_fista(problem, tol=1e-2),
        solvers.solve_digital(problem, tol=0.1),
        stream,
        stream.code(problem.signals),
        solvers.path(problem, n_multiples=5),
        solvers.design_space(problem, [snn.digital.DigitalFormat()], [1 / 4], [1, 2]),
        solvers.compare(problem, ["active_set", "fista"]),
        solvers.LassoModel(problem.dictionary, 0.3),
        solvers.reweighted(problem),
        program,
        program.solve(),
        coded.problem.dictionary,
        two_phase,
        two_phase.run(signals, penalty=0.1, duration=5.0)[1],
        learner,
        prepared,
        coded,
        dictlearn.DenoisingResult(
            image=image, penalty=np.ones(3), n_patches=9, nonzeros_per_patch=2.0, relative_gap=1e-3
        ),
        dictlearn.DictionaryScore(objective=1.0, worst_gap=1e-12, nonzeros=3.0, usage=np.array([2, 1])),
        dictlearn.match_atoms(rng.standard_normal((6, 4)), rng.standard_normal((5, 4))),
        dictlearn.compare_sizes(
            rng.uniform(size=(9, 4)), [2, 3], held_out=np.eye(4), penalty=0.1, n_samples=9, n_seeds=2, rng=0
        ),
    ]
    return {type(thing): thing for thing in things}


@pytest.fixture(scope="module")
def things():
    return make_things()


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def cells_of(page):
    """Return the texts of the cells of a table; the table must be one well-formed element."""
    cells = [cell for cell in ElementTree.fromstring(page).iter() if cell.tag in ("th", "td")]
    return ["".join(cell.itertext()) for cell in cells]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_class_is_settings_or_says_what_it_is(kind, things):
    if not issubclass(kind, Described):
        # Dataclasses show their parameters; tuples are arguments or results of methods.
        assert dataclasses.is_dataclass(kind) or issubclass(kind, tuple) or "__repr__" in dir(kind)
        assert not kind.__name__.endswith("Result")
        return
    if inspect.isabstract(kind) or kind.__name__ == "Brian2Model":  # tested in tests/snn/exchange
        return
    assert kind in things, f"{kind.__name__} needs an object in `make_things`"
    assert not kind.__name__.endswith("Result") or issubclass(kind, Drawn), "docs/pictures.md"
    if issubclass(kind, Drawn):
        drawing = plot.dispatch(kind)
        assert drawing is not plot.dispatch(object), f"{kind.__name__} needs a drawing: see docs/pictures.md"
        _, *options = inspect.signature(drawing).parameters.values()
        assert all(option.kind in (option.KEYWORD_ONLY, option.VAR_KEYWORD) for option in options)
        assert {option.name: option.default for option in options}["ax"] is None


def test_line_and_table_have_the_same_facts(things):
    for thing in things.values():
        line, html = repr(thing), thing._repr_html_()
        assert re.fullmatch(rf"<{type(thing).__name__}; .*>", line)
        assert len(line) < 600
        assert len(html) < 8000
        cells = cells_of(html)
        if isinstance(thing, solvers.Comparison):
            continue  # the line has one number for each method, the table has all numbers
        assert (
            line
            == f"<{type(thing).__name__}; "
            + "; ".join(f"{name}: {fact}" for name, fact in zip(cells[::2], cells[1::2], strict=True))
            + ">"
        )


def test_results_draw_themselves(things):
    drawn = [thing for thing in things.values() if isinstance(thing, Drawn)]
    assert len(drawn) >= 15
    for thing in drawn:
        ax = Figure(layout="constrained").subplots()
        assert thing.plot(ax=ax) is ax
        ax.figure.draw_without_rendering()
        assert ax.get_title(), thing
        if ax.axison:
            assert ax.get_xlabel(), thing
            # The axis of bars has names of bars instead of a label.
            assert ax.get_ylabel() or any(tick.get_text() for tick in ax.get_yticklabels()), thing
        with pytest.raises(TypeError, match="ax must be of type Axes"):
            thing.plot(ax=3)
        # Without given axes, a picture makes a new figure.
        plt.sca(current := plt.figure().subplots())
        assert thing.plot().figure is not current.figure
        plt.close("all")


def test_what_is_drawn_of_runs_and_codes_is_what_they_have(ax):
    network = golden_network()
    recorded, counted = (snn.simulate(network, 20.0, record_spikes=record) for record in (True, False))
    (marks,) = recorded.plot(ax=ax).collections
    assert len(marks.get_offsets()) == recorded.n_spikes
    ax.clear()
    counted.plot(neurons=[0, 2], ax=ax)
    np.testing.assert_array_equal(ax.collections[1].get_offsets()[:, 1], counted.spike_rate[[0, 2]])
    with pytest.raises(ValueError, match="neurons"):
        counted.plot(neurons=[3], ax=ax)
    ax.clear()
    result = solvers.solve_active_set(random_problem())
    result.plot(signal=1, ax=ax)
    offsets = np.asarray(ax.collections[1].get_offsets())
    np.testing.assert_array_equal(offsets[:, 0], np.flatnonzero(result.codes[1]))
    np.testing.assert_array_equal(offsets[:, 1], result.codes[1][result.codes[1] != 0.0])
    assert f"{result.relative_gap[1]:.1e}" in ax.get_title()
    with pytest.raises(ValueError, match="signal"):
        result.plot(signal=3, ax=ax)


def test_text_of_callers_is_escaped_and_cut():
    problem = random_problem()
    label = "<script>alert('&')</script>" + "x" * 500
    records = solvers.compare(problem, {label: solvers.solve_fista})
    page = records._repr_html_()
    assert "<script" not in page
    assert cells_of(page)[len(COLUMNS)].startswith("<script>alert('&')")
    assert len(page) < 3000


def test_a_description_reads_no_weights_and_computes_no_products(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a description must be cheap")

    network = snn.SpikingNetwork(snn.DenseRows.on_demand(10**6, refuse), np.zeros(10**6))
    dictionary = solvers.ConvolutionalDictionary(np.ones((4, 8, 8)), (1000, 1000), 1)
    problem = solvers.LassoProblem(dictionary, np.ones((1, 10**6)), 1.0)
    for name in ("correlate", "take", "toarray"):
        monkeypatch.setattr(type(problem.atoms), name, refuse)
    assert "1,000,000" in repr(network)
    assert "3,944,196" in repr(problem)
