"""solve_on_core: a core that does its commands has the spikes and codes of solve_digital, stage by stage."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")

from amaranth.sim import Simulator

from snn import Clock, Imperfections
from snn.digital import DigitalFormat
from snn.hardware import SimulatedCore
from snn.hardware.layout import CoreLayout
from solvers import core_network, solve_digital, solve_on_core
from tests.reference.core import EmulatedCore
from tests.reference.problems import random_problem, require_certified
from tests.tiers import examples

FORMATS = (
    DigitalFormat(),
    DigitalFormat(delay=1),
    DigitalFormat(message_bits=4),
    DigitalFormat(graded=True, message_bits=16),
)


def emulated(problem, time):
    """A core in Python's integers, as solve_on_core calls it."""
    core = EmulatedCore(CoreLayout(core_network(problem, time)))
    return lambda commands: [spike for command in commands for spike in core.do(*command) or []]


def simulated(problem, time):
    return SimulatedCore(core_network(problem, time), lanes=2)


def require_equal(result, expected):
    np.testing.assert_array_equal(result.codes, expected.codes)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    np.testing.assert_array_equal(result.info["n_stages"], expected.info["n_stages"])
    np.testing.assert_array_equal(result.info["n_clock_steps"], expected.info["n_clock_steps"])
    require_certified(result.problem, result)


@pytest.mark.property
@examples(12)
@given(
    form=st.sampled_from(FORMATS),
    step=st.sampled_from((0.125, 0.25, 0.3)),
    positive=st.booleans(),
    tol=st.sampled_from((1e-2, 1e-4)),
    seed=st.integers(0, 2**32),
)
def test_spikes_and_codes_of_a_core_are_those_of_solve_digital(form, step, positive, tol, seed):
    problem = random_problem(8, 12, positive=positive, n_signals=2, seed=seed)
    time = Clock(step, form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        options = {"tol": tol, "max_duration": 300.0, "time": time}
        require_equal(
            solve_on_core(problem, emulated(problem, time), **options), solve_digital(problem, **options)
        )


@pytest.fixture
def small():
    """A problem of twelve neurons that takes several stages."""
    return random_problem(5, 6, n_signals=1)


def test_gates_run_the_stages(small):
    time = Clock(0.25, DigitalFormat())
    result = solve_on_core(small, simulated(small, time), tol=1e-3)
    require_equal(result, solve_digital(small, tol=1e-3))
    assert result.info["n_stages"] > 1


@pytest.mark.parametrize("n_before", [3, 60, 300])
def test_a_simulated_core_ends_what_was_interrupted(small, n_before, monkeypatch):
    """Else the spikes of the interrupted RUN would be taken for those of the next."""
    core, advance, calls = simulated(small, Clock(0.25, DigitalFormat())), Simulator.advance, []

    def interrupted(simulator):
        calls.append(None)
        if len(calls) == n_before:
            raise KeyboardInterrupt
        return advance(simulator)

    monkeypatch.setattr(Simulator, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve_on_core(small, core, tol=1e-3)
    require_equal(solve_on_core(small, core, tol=1e-3), solve_digital(small, tol=1e-3))


def test_stages_correct_a_core_that_loses_spikes(small):
    """Every fifth spike is not heard: other codes, and true certificates."""
    core = emulated(small, Clock(0.25, DigitalFormat()))
    result = solve_on_core(
        small, lambda commands: [spike for n, spike in enumerate(core(commands)) if n % 5], tol=1e-3
    )
    require_certified(small, result)
    assert result.converged
    assert (result.codes != solve_digital(small, tol=1e-3).codes).any()


@pytest.mark.parametrize(
    "spikes",
    [
        *([(0, 0, 1)], [(1, 12, 1)], [(1, -1, 1)], [(1, 0, 0)], [(10_000, 0, 1)]),
        *([(1, 0, 2)], [(1, 0, 1), (2, 0, 1), (1, 0, 1)], [(1.7, 0, 1)]),
    ],
    ids=str,
)
def test_spikes_that_no_core_sends_are_refused(small, spikes):
    with pytest.raises(ValueError, match=r"core must return rows \(step, neuron, message\).*; got \["):
        solve_on_core(small, lambda commands: spikes)


@pytest.mark.parametrize(
    "spikes", [None, 5, [1, 0, 1, 2, 0, 1], [(1, 0)], [(1, 0, 1), (2, 0)], np.ones((3, 4)), [("1", "0", "1")]]
)
def test_spikes_that_are_no_rows_of_numbers_are_refused(small, spikes):
    with pytest.raises((TypeError, ValueError), match=r"^core's spikes must "):
        solve_on_core(small, lambda commands: spikes)


@pytest.mark.filterwarnings("ignore:time_step is 2 synaptic time constants")
def test_bad_arguments_are_refused(small):
    with pytest.raises(TypeError, match="core must be a callable that takes commands; got int"):
        solve_on_core(small, 3)
    with pytest.raises(TypeError, match="time must be a Clock with a DigitalFormat"):
        core_network(small, Clock(0.25))
    with pytest.raises(ValueError, match="time must have no imperfections"):
        core_network(small, Clock(0.25, DigitalFormat(), imperfections=Imperfections(leak=0.1)))
    wide = Clock(2.0, DigitalFormat(potential_bits=10, threshold=511))
    with pytest.raises(ValueError, match="drives of core must fit into the 10 bits of the potential"):
        solve_on_core(small, lambda commands: [], time=wide)
