"""Public classes refuse misspelt attributes, which would have no effect, unless a foreign base sets them."""

import copy
import pickle
from enum import Enum
from inspect import isabstract, isclass

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from dictlearn import LearningSettings, TwoPhaseLearner, TwoPhaseNetwork, random_dictionary
from dictlearn.images.kernels import KernelLearner, KernelSettings
from snn import Simulator, SpikingNetwork
from solvers import LassoProblem, SparseCodingStream, solve_active_set
from tests.test_project import PUBLIC, module_of

# Bases that allow new attributes: scikit-learn sets attributes, errors carry notes, Amaranth owns `Core`.
OF_OTHERS = (BaseEstimator, Exception, tuple, Enum)
CLASSES = sorted(
    {
        kind
        for kind in (getattr(module_of(module), name) for module, name in PUBLIC)
        if isclass(kind)
        and not issubclass(kind, OF_OTHERS)
        and not isabstract(kind)
        and kind.__name__ != "Core"
    }
    | {KernelLearner},
    key=lambda kind: kind.__name__,
)


def simulator():
    return Simulator(SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, 0.7]))


def learner():
    network = TwoPhaseNetwork.consistent(random_dictionary(4, 9, rng=0))
    return TwoPhaseLearner(network, LearningSettings(penalty=0.1), scale=1.0)


MAKE = {
    "simulator": simulator,
    "stream": lambda: SparseCodingStream(np.eye(3), 0.5),
    "learner": learner,
    "kernels": lambda: KernelLearner(np.ones((1, 2, 2)), KernelSettings(penalty=0.1)),
    "result": lambda: solve_active_set(LassoProblem(np.eye(3), [[1.0, 0.0, 2.0]], 0.5)),
    "derivatives": lambda: solve_active_set(LassoProblem(np.eye(3), [[1.0, 0.0, 2.0]], 0.5)).derivatives,
    "ledger": lambda: solve_active_set(LassoProblem(np.eye(3), [[1.0, 0.0, 2.0]], 0.5)).operations,
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_class_refuses_a_misspelt_attribute(kind):
    thing = kind.__new__(kind)
    with pytest.raises(AttributeError, match="misspelt"):
        thing.misspelt = 1
    assert not hasattr(thing, "misspelt")


@pytest.mark.parametrize("name", MAKE)
def test_objects_refuse_what_they_do_not_have_also_when_copied(name):
    for thing in (MAKE[name](), copy.deepcopy(MAKE[name]()), pickle.loads(pickle.dumps(MAKE[name]()))):
        before = set(vars(thing))
        with pytest.raises(AttributeError, match="misspelt"):
            thing.misspelt = 1
        assert set(vars(thing)) == before


def test_the_message_says_what_can_be_set():
    names = "firing_threshold, membrane_potential, soma_bias, synaptic_current, weights"
    with pytest.raises(AttributeError, match=f"of a Simulator cannot be set; what can be set: {names}"):
        simulator().firing_treshold = 1.0
    with pytest.raises(AttributeError, match="time of a Simulator cannot be set"):
        simulator().time = 3.0
    with pytest.raises(AttributeError, match=r"n_frames .*; what can be set: penalty"):
        SparseCodingStream(np.eye(3), 0.5).n_frames = 0


@pytest.mark.parametrize("name", MAKE)
def test_what_can_be_set_is_set(name):
    thing = MAKE[name]()
    for attribute in type(thing)._assignable:
        value = getattr(thing, attribute)
        setattr(thing, attribute, value)
        assert getattr(thing, attribute) is value


class Tracked(Simulator):
    """A user's simulator with additional fields."""

    def __init__(self, network):
        self.gain = 2.0
        super().__init__(network)
        self.n_steps = 0

    def step(self):
        self.n_steps += 1
        return super().step()


class Slotted(SparseCodingStream):
    __slots__ = ("note",)


def test_a_subclass_of_a_user_has_attributes_of_its_own():
    mine = Tracked(SpikingNetwork([[0.0]], [1.0]))
    mine.step()
    mine.target = 0.1
    mine.firing_threshold = 2.0
    assert (mine.gain, mine.n_steps, mine.target, mine.firing_threshold) == (2.0, 1, 0.1, 2.0)
    again = pickle.loads(pickle.dumps(mine))
    assert again.n_steps == 1
    stream = Slotted(np.eye(2), 0.5)
    stream.note = "here"
    assert stream.note == "here"
