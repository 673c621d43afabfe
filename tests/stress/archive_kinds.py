"""The kinds of files that are written: how to make one, read it, compare what was read, and go on with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dictlearn import KernelLearner, KernelSettings, TwoPhaseLearner, learn_dictionary
from dictlearn.images.kernel_learning import learn_kernels
from dictlearn.resumable import Course
from dictlearn.two_phase.settings import LearningSettings
from snn import NetworkState, SpikingNetwork, simulate
from snn.digital import DigitalState
from tests.stress.kill_and_resume import state

N_SIGNALS, N_INPUTS, N_ATOMS = 40, 12, 8


class Kind(NamedTuple):
    """One kind of file."""

    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    content: Callable[[Any], dict[str, Any]]
    """All that was read: arrays and numbers by name, to compare bit by bit."""
    use: Callable[[Any], None]
    """Go on with what was read."""


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two contents have the same bits."""
    if one.keys() != other.keys():
        return False
    pairs = ((np.asarray(one[name]), np.asarray(other[name])) for name in one)
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


# -- states --------------------------------------------------------------------------------------


def _state(rng: np.random.Generator) -> NetworkState:
    return NetworkState(
        membrane_potential=rng.uniform(-2.0, 1.0, 5), synaptic_current=rng.standard_normal(5), time=7.25
    )


def _digital_state(rng: np.random.Generator) -> DigitalState:
    return DigitalState(
        membrane_potential=rng.integers(-100, 100, 5),
        synaptic_current=rng.integers(-100, 100, 5),
        pending=rng.integers(-100, 100, (3, 5)),
    )


def _continue_state(state: NetworkState) -> None:
    n = state.n_neurons
    simulate(SpikingNetwork(np.zeros((n, n)), np.ones(n)), 1.0, state=state, max_spikes=1000)


# -- learners ------------------------------------------------------------------------------------


def _signals() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform(size=(N_SIGNALS, N_INPUTS)) * (rng.uniform(size=(N_SIGNALS, N_INPUTS)) < 0.3) + 0.01


SIGNALS = _signals()
SIGNED_SIGNALS = np.random.default_rng(0).standard_normal((N_SIGNALS, N_INPUTS))
KNOWN = np.random.default_rng(1).uniform(size=SIGNED_SIGNALS.shape) < 0.8


def _learn(path: Path | None) -> TwoPhaseLearner:
    """Learn, or, where the checkpoint is of the end, read it."""
    settings = LearningSettings(penalty=0.1, batch_size=8)
    return learn_dictionary(SIGNALS, N_ATOMS, settings=settings, n_samples=1100, rng=1, checkpoint=path)


def _learn_signed(path: Path | None) -> TwoPhaseLearner:
    """Likewise, atoms of either sign, of which averages are saved too."""
    settings = LearningSettings(penalty=0.3, batch_size=8, positive_atoms=False)
    return learn_dictionary(
        SIGNED_SIGNALS, N_ATOMS, settings=settings, n_samples=1100, rng=1, checkpoint=path
    )


def _learn_masked(path: Path | None) -> TwoPhaseLearner:
    """Likewise, codes of either sign too, from signals of which some entries are missing."""
    settings = LearningSettings(penalty=0.3, batch_size=8, positive_atoms=False, positive_code=False)
    return learn_dictionary(
        SIGNED_SIGNALS, N_ATOMS, mask=KNOWN, settings=settings, n_samples=1100, rng=1, checkpoint=path
    )


def _learner_content(learner: TwoPhaseLearner) -> dict[str, Any]:
    return {
        **state(learner),
        "scale": learner.scale,
        "replace_dead": learner.replace_dead,
        "rounding_seed": learner.rounding_seed,
        "settings": learner.settings.as_text(),
    }


def _continue_learner(learner: TwoPhaseLearner) -> None:
    learner.learn(np.resize(SIGNALS[:4], (4, learner.n_inputs)))


def _continue_masked(learner: TwoPhaseLearner) -> None:
    shape = (4, learner.n_inputs)
    learner.learn(np.resize(SIGNED_SIGNALS[:4], shape), mask=np.resize(KNOWN[:4], shape))


# -- kernels -------------------------------------------------------------------------------------


def _images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((12, 13)), rng.standard_normal((9, 12))]


IMAGES = _images()


def _learn_kernels(path: Path | None) -> KernelLearner:
    start = np.random.default_rng(0).standard_normal((3, 3, 3))
    learner = KernelLearner(start, KernelSettings(penalty=0.5))
    course = Course(checkpoint=path)
    learn_kernels(learner, IMAGES, n_passes=2, crop_size=(8, 8), batch_size=2, seed=1, course=course)
    return learner


def _kernel_content(learner: KernelLearner) -> dict[str, Any]:
    statistics = learner._statistics
    return {
        "kernels": learner.kernels,
        "settings": repr(learner.settings),
        "lags": statistics.lags,
        "correlations": statistics.correlations,
        "sums": [statistics.energy, statistics.penalty, statistics.weight],
        "counters": [learner.n_samples, learner.n_batches, learner.n_replaced],
        "last_used": learner.last_used,
        **{f"history, {name}": values for name, values in learner.history.items()},
    }


def _continue_kernels(learner: KernelLearner) -> None:
    shape = [3 * side for side in learner.kernel_size]
    learner.learn(np.resize(IMAGES[0], (1, *shape, *learner.kernels.shape[3:])))


# -- networks in NIR -----------------------------------------------------------------------------


def _write_nir(path: Path) -> None:
    import nir

    from snn.exchange import to_nir

    rng = np.random.default_rng(0)
    weights = rng.uniform(-0.5, 0.1, (4, 4)) * (1.0 - np.eye(4))
    nir.write(path, to_nir(SpikingNetwork(weights, rng.uniform(0.1, 1.0, 4), rng.uniform(1.0, 2.0, 4))))


class ForeignError(Exception):
    """An error of the package that reads NIR files, which is not ours."""


def _read_nir(path: Path) -> SpikingNetwork:
    import nir

    from snn.exchange import from_nir

    try:
        graph = nir.read(path)
    except Exception as error:
        raise ForeignError from error
    return from_nir(graph).network


def _network_content(network: SpikingNetwork) -> dict[str, Any]:
    return {
        "weights": network.weights.toarray(),
        "soma_bias": network.soma_bias,
        "firing_threshold": network.firing_threshold,
    }


def _run_network(network: SpikingNetwork) -> None:
    simulate(network, 1e-3, max_spikes=1000)


KINDS = {
    "network state": Kind(
        lambda path: _state(np.random.default_rng(0)).save(path), NetworkState.load, vars, _continue_state
    ),
    "digital state": Kind(
        lambda path: _digital_state(np.random.default_rng(0)).save(path),
        DigitalState.load,
        vars,
        lambda state: None,
    ),
    "learner": Kind(
        lambda path: _learn(None).save(path), TwoPhaseLearner.load, _learner_content, _continue_learner
    ),
    "checkpoint of a learner": Kind(_learn, _learn, _learner_content, _continue_learner),
    "learner, atoms of either sign": Kind(
        lambda path: _learn_signed(None).save(path), TwoPhaseLearner.load, _learner_content, _continue_learner
    ),
    "checkpoint, codes of either sign": Kind(
        _learn_masked, _learn_masked, _learner_content, _continue_masked
    ),
    "kernel learner": Kind(
        lambda path: _learn_kernels(None).save(path), KernelLearner.load, _kernel_content, _continue_kernels
    ),
    "checkpoint of kernels": Kind(_learn_kernels, _learn_kernels, _kernel_content, _continue_kernels),
    "network in NIR": Kind(_write_nir, _read_nir, _network_content, _run_network),
}
