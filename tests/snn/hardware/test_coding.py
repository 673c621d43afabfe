"""`solve_digital` by a core: the numbers of its own integers, stages too, certified."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra: pip install 'sparsespike[hardware]'")

from snn import Clock, Imperfections
from snn.digital import DigitalFormat, FixedPoint
from snn.hardware.layout import CoreLayout
from snn.run.on_core import Action
from solvers import solve_digital
from tests.reference.core import EmulatedCore, SimulatedCore
from tests.reference.problems import random_problem, require_certified
from tests.tiers import examples

FORMATS = (
    DigitalFormat(),
    DigitalFormat(weights=FixedPoint(bits=5)),
    DigitalFormat(graded=True, message_bits=16),
    DigitalFormat(message_bits=4),
    DigitalFormat(delay=1),
)


def quietly(problem, form, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # its tolerance may be missed
        return solve_digital(problem, time=Clock(0.25, form), max_duration=300.0, **options)


def emulated(layout):
    """A core as `solve_digital` takes it, and the commands that it gets."""
    emulator, calls = EmulatedCore(layout), []

    def core(commands):
        calls.append(commands)
        *_, spikes = (emulator.do(*command) for command in commands.tolist())
        return spikes

    return core, calls


def require_equal(result, expected):
    np.testing.assert_array_equal(result.codes, expected.codes)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    for name in ("n_stages", "duration", "scale"):
        np.testing.assert_array_equal(result.info[name], expected.info[name])
    require_certified(result.problem, result)


@pytest.mark.property
@examples(10)
@given(
    form=st.sampled_from(FORMATS),
    positive=st.booleans(),
    tol=st.sampled_from((1e-1, 1e-3)),
    lanes=st.sampled_from((1, 4)),
    seed=st.integers(0, 2**32),
)
def test_a_core_codes_as_solve_digital(form, positive, tol, lanes, seed):
    """Several signals in turn, single stages and many."""
    problem = random_problem(8, 12, n_signals=3, positive=positive, seed=seed)
    expected = quietly(problem, form, tol=tol)
    core, calls = emulated(CoreLayout(expected.info["network"], lanes=lanes))
    require_equal(quietly(problem, form, tol=tol, core=core), expected)
    actions = [command[0] for commands in calls for command in commands.tolist()]
    assert actions.count(Action.REST) == expected.info["n_stages"].sum()


def test_gates_code_as_solve_digital():
    problem = random_problem(8, 12, n_signals=1, seed=3)
    expected = solve_digital(problem, tol=1e-3)
    assert expected.info["n_stages"][0] > 1
    gates = SimulatedCore(CoreLayout(expected.info["network"], lanes=4))

    def core(commands):
        *loads, (_, _, n_steps) = commands.tolist()
        gates.do(*loads)
        return gates.run(n_steps)[1]

    require_equal(solve_digital(problem, tol=1e-3, core=core), expected)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([[1, 0]], "rows of three integers"),
        ([[1.0, 0.0, 1.0]], "rows of three integers"),
        ([[0, 0, 1]], "steps from 1"),
        ([[10**6, 0, 1]], "steps from 1"),
        ([[1, 24, 1]], "neurons from 0 to 23"),
        ([[1, 0, 0]], "messages from 1 to 1"),
    ],
)
def test_what_a_core_cannot_have_sent_is_refused(returned, words):
    with pytest.raises(ValueError, match=f"^core must return .*{words}"):
        solve_digital(random_problem(8, 12, n_signals=1), core=lambda commands: returned)


def test_wrong_spikes_are_certified_as_what_they_are():
    """A core that lies about its spikes gets a larger gap, not a wrong one."""
    problem = random_problem(8, 12, n_signals=1, seed=3)
    result = quietly(problem, FORMATS[0], tol=1e-3, core=lambda commands: [])
    require_certified(result.problem, result)
    assert not result.converged


def test_bad_arguments_are_refused():
    problem = random_problem(8, 12)
    with pytest.raises(TypeError, match=r"^core must be a function"):
        solve_digital(problem, core=3)
    noisy = Clock(0.25, DigitalFormat(), imperfections=Imperfections(lost_spikes=0.1))
    with pytest.raises(ValueError, match=r"^time must have no imperfections"):
        solve_digital(problem, time=noisy, core=lambda commands: [])
