"""Ctrl-C stops learning within a second or so, in one thread and in several; huge amplitudes are refused."""

import os

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    SpikingDictionaryLearning,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    random_dictionary,
)
from tests.processes import at_most, interrupted

pytestmark = pytest.mark.thorough

PROGRAM = """
import sys
import numpy as np
from dictlearn import (
    LearningSettings, SpikingDictionaryLearning, TwoPhaseLearner, TwoPhaseNetwork, random_dictionary
)

X = np.random.default_rng(0).standard_normal((64, 64))
n_jobs, loudness = int(sys.argv[1]), float(sys.argv[2])
{prepare}
try:
    ready()
    {run}
except KeyboardInterrupt:
    print("interrupted", {seen})
"""
LEARNING = PROGRAM.format(
    prepare="""
learning = SpikingDictionaryLearning(time_step=None, n_jobs=n_jobs, random_state=0).partial_fit(X)
""",
    run="learning.partial_fit(loudness * X)",
    seen="learning.n_samples_seen_",
)
CLOCKED = PROGRAM.format(
    prepare="""
network = TwoPhaseNetwork.consistent(random_dictionary(96, 64, rng=0))
options = {"penalty": 1.0, "time_step": 1 / 32, "n_jobs": n_jobs}
network.run(np.abs(X), duration=1.0, **options)
""",
    run="network.run(np.abs(X), duration=1e4 * loudness, **options)",
    seen="64",
)
# Seconds of the processor, of two threads for a second and a little; where threads ended after their last
# spike only, they took more than a minute.
PATIENCE = 8.0


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("program", "loudness"), [(LEARNING, 3e3), (CLOCKED, 1.0)], ids=["learning", "on a clock"]
)
def test_ctrl_c_stops_learning_soon(program, loudness, n_jobs):
    """Nor is anything changed of what was learned before."""
    printed, seconds = interrupted(program, n_jobs, loudness, after=1.0)
    assert printed == "interrupted 64\n"
    assert seconds < PATIENCE


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("loudness", [1e6, 1e300])
def test_huge_amplitudes_are_refused_at_once(n_jobs, loudness):
    signals = np.random.default_rng(0).standard_normal((32, 5))
    learning = SpikingDictionaryLearning(8, n_jobs=n_jobs, random_state=0).partial_fit(signals)
    before = learning.components_
    refusal = (
        r"signals must be small enough for at most 10,000,000 spikes of one signal in a phase; got one that "
        r"would cause about .*, signal \d+ of this batch: divide the signals, or start learning anew"
    )
    with at_most(2.0), pytest.raises(ValueError, match=refusal):
        learning.partial_fit(loudness * signals)
    np.testing.assert_array_equal(learning.components_, before)
    assert learning.n_samples_seen_ == 32
    learning.partial_fit(signals)
    assert learning.n_samples_seen_ == 64


def test_one_signal_that_is_too_large_is_named():
    network = TwoPhaseNetwork.consistent(random_dictionary(6, 4, rng=0))
    signals = np.ones((5, 4))
    signals[3] = 1e8
    with pytest.raises(ValueError, match=r"about [0-9.e+]+, signal 3 of this batch"):
        network.run(signals, penalty=0.1)
    learner = TwoPhaseLearner(network, LearningSettings(penalty=0.1), scale=1e150)
    with pytest.raises(ValueError, match=r"about [0-9.e+inf]+, signal 0 of this batch"):
        learner.learn(signals[:2] * 1e200)
    assert learner.n_samples == 0
    # As workers do it, a few rows at a time.
    signals = np.ones((9, 4))
    signals[5] = 1e8
    learner = TwoPhaseLearner(network, LearningSettings(penalty=0.1), scale=1.0)
    plan = learner.plan(9)
    with pytest.raises(ValueError, match=r"about [0-9.e+]+, signal 5 of this batch"):
        plan.run(learner.synapses, signals[4:8], start=4, stop=8)
    signals[7] = 1e9
    with pytest.raises(ValueError, match=r"about [0-9.e+]+, signal 5 of this batch"):
        learner.learn(signals)
