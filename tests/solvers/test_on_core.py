"""solve_on_core: a core that obeys commands has the spikes and codes of solve_digital in every stage."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")

from snn import Clock, Imperfections
from snn.digital import Action, DigitalFormat, DigitalNetwork
from snn.hardware import Capacity, SimulatedCore
from snn.hardware.layout import CoreLayout
from solvers import LassoProblem, core_network, solve_digital, solve_on_core
from tests.interrupting import interrupted, n_places, nothing_left
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
    """Return a function that gives commands to a core in Python's integers, for solve_on_core."""
    core = EmulatedCore(CoreLayout(core_network(problem, time)))
    return lambda commands: [spike for command in commands for spike in core.do(*command)]


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


def test_gates_solve_with_other_dictionaries_that_are_written_to_them(small):
    """The gates were made for more atoms, and different ones.  Atoms that do not overlap have no weights."""
    held = core_network(random_problem(6, 8))
    exponents = sorted([core_network(small).rules.exponent, held.rules.exponent])
    capacity = Capacity(least_exponent=exponents[0], largest_exponent=exponents[1])
    core = SimulatedCore(held, lanes=4, capacity=capacity)
    for problem in small, LassoProblem(np.eye(5)[:4], small.signals, 0.1):
        core(core.layout.commands(core_network(problem)))
        require_equal(solve_on_core(problem, core, tol=1e-3), solve_digital(problem, tol=1e-3))


def test_a_core_of_the_default_format_takes_the_networks_of_problems(small):
    """The format of the problem's network raises low drives, which has no effect on gates."""
    network = core_network(small)
    assert network.format != DigitalFormat()
    held = DigitalNetwork.of(network.network, DigitalFormat(), time_step=network.time_step)
    exponent = network.rules.exponent
    capacity = Capacity(least_exponent=exponent, largest_exponent=exponent)
    core = SimulatedCore(held, lanes=4, capacity=capacity)
    core(core.layout.commands(network))
    require_equal(solve_on_core(small, core, tol=1e-3), solve_digital(small, tol=1e-3))


def test_after_ctrl_c_a_simulated_core_is_as_before_or_refused(small):
    """Otherwise the next RUN would return spikes of the interrupted RUN."""
    network, n_refused = core_network(small), 0
    commands = [(Action.REST, 0, 0), *((Action.DRIVE, i, 2**18) for i in range(3)), (Action.RUN, 0, 8)]
    spikes, counted = SimulatedCore(network)(commands), SimulatedCore(network)
    n = n_places(lambda: counted(commands))
    for number in np.unique(np.random.default_rng(0).integers(1, n + 1, 6)):
        core = SimulatedCore(network)
        with nothing_left():
            interrupted(lambda core=core: core(commands), number)
        if core._is_stopped:
            n_refused += 1
            with pytest.raises(RuntimeError, match=r"^the core was stopped within a list of commands"):
                solve_on_core(small, core)
        else:
            assert core(commands) == spikes
    assert n_refused > 0


@pytest.mark.filterwarnings("error")
def test_commands_that_do_not_fit_into_a_payload_are_refused_and_nothing_is_done(small):
    core = simulated(small, Clock(0.25, DigitalFormat()))
    for kind, match, command in [
        (ValueError, r"neuron must lie in \[0, 15\]", (Action.DRIVE, 16, 0)),
        (ValueError, r"action must lie in \[0, 15\]", (99, 0, 0)),
        (ValueError, "value must lie in", (Action.RUN, 0, 2**31)),
        (TypeError, "value must be an integer", (Action.DRIVE, 0, 1.5)),
    ]:
        with pytest.raises(kind, match=match):
            core([(Action.RUN, 0, 5), command])
    assert core.cycles <= 1
    del core  # one that was never used causes no warning


def test_stages_correct_a_core_that_loses_spikes(small):
    """Every fifth spike is lost: codes change, but their certificates are true."""
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
