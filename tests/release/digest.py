"""One SHA-256 for the bits of each kind of result: run it before a change and after, and compare with diff.

Bits depend on the processor, NumPy's BLAS and the versions installed, so there are no numbers to
compare with: both runs are made on one machine, in one environment.

    python -m tests.release.digest > before.txt
    python -m tests.release.digest > after.txt
    diff before.txt after.txt
    python -m tests.release.digest learn    # only lines whose name has this in it
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

import snn
import solvers
from dictlearn import (
    ConvolutionalDictionaryLearning,
    LearningSettings,
    SpikingDictionaryLearning,
    TwoPhaseNetwork,
    continue_learning,
    learn_dictionary,
    rules,
)
from snn.digital import DigitalFormat, DigitalNetwork, FixedPoint, simulate_digital
from solvers import ConvolutionalDictionary, LassoProblem
from tests.reference.networks import golden_network
from tests.reference.weight_forms import FORMS, random_matrix, random_state, sparse_coding, stored

Digested = Iterator[tuple[str, tuple]]


def digest(*arrays) -> str:
    """Return the SHA-256 of the arrays: types, shapes and bits."""
    result = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array.toarray() if sparse.issparse(array) else array)
        result.update(f"{array.dtype.str} {array.shape} ".encode())
        result.update(array.tobytes())
    return result.hexdigest()


def of_run(run) -> tuple:
    """Return what a run of a network says in floats or integers."""
    state = run.state
    return (
        run.spikes.times,
        run.spikes.neurons,
        run.spike_counts,
        run.average_soma_current,
        run.window_moments,
        state.membrane_potential,
        state.synaptic_current,
    )


def of_result(result) -> tuple:
    """Return what a solver says of its codes."""
    counts = getattr(result, "spike_counts", np.zeros(0))
    return (result.codes, result.duality_gap, result.objective, result.n_steps, result.status, counts)


def networks() -> Iterator[tuple[str, snn.SpikingNetwork, snn.NetworkState]]:
    """Yield networks in every form: every neuron fires in the first, few of many in the second."""
    for name in FORMS:
        rng = np.random.default_rng(20)
        weights = random_matrix(name, rng, 12)
        network = stored(
            name, weights, rng.uniform(-0.5, 1.5, len(weights)), rng.uniform(1.0, 2.0, len(weights))
        )
        yield f"{name}, all fire", network, random_state(rng, network)
        network = stored(name, *sparse_coding(name, rng, 240, 60, 8))
        yield f"{name}, few fire", network, snn.NetworkState.at_rest(network.n_neurons)


def simulations() -> Digested:
    yield "golden case", of_run(snn.simulate(golden_network(), 1000.0, record_spikes=True))
    for name, network, state in networks():
        run = snn.simulate(network, 40.0, state=state, record_spikes=True)
        yield f"simulate, {name}", of_run(run)
        for time_step, integration, reset in (
            (0.125, "exact", "subtract"),
            (0.125, "exact", "zero"),
            (0.03125, "euler", "subtract"),
        ):
            run = snn.simulate_clocked(
                network,
                20.0,
                time_step=time_step,
                integration=integration,
                reset=reset,
                state=state,
                record_spikes=True,
            )
            yield f"simulate_clocked, {integration}, {reset}, {name}", of_run(run)
    _, network, state = next(networks())
    simulator = snn.Simulator(network, state)
    spikes = [simulator.step() for _ in range(20)]
    simulator.soma_bias = network.soma_bias + 0.25
    simulator.advance(simulator.time + 7.0)
    yield (
        "Simulator",
        ([repr(spike) for spike in spikes], simulator.spike_counts, simulator.membrane_potential),
    )
    flow = snn.simulate_analog(
        network.weights.toarray(), network.soma_bias, activation_threshold=0.2, duration=20.0
    )
    yield "simulate_analog", (flow.potentials, flow.activities)


def digital_simulations() -> Digested:
    for name, options in {
        "subtract": {},
        "zero": {"reset": "zero"},
        "wrap": {"potential_overflow": "wrap", "potential_bits": 10},
        "graded": {"graded": True, "message_bits": 8},
        "delayed": {"delay": 2, "message_bits": 4},
        "few bits": {"weights": FixedPoint(bits=4, rounding="stochastic")},
    }.items():
        for form, network, _ in networks():
            if not form.startswith(("dense", "sparse")):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                digital = DigitalNetwork.of(
                    network, DigitalFormat(**options), time_step=0.25, rng=np.random.default_rng(0)
                )
            run = simulate_digital(digital, 200, record_spikes=True)
            yield (
                f"simulate_digital, {name}, {form}",
                (
                    run.spikes.times,
                    run.spikes.neurons,
                    run.messages,
                    run.membrane_potential,
                    run.synaptic_current,
                    run.window_moments,
                ),
            )


def problems() -> Iterator[tuple[str, LassoProblem]]:
    rng = np.random.default_rng(7)
    atoms = rng.standard_normal((80, 32))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = rng.standard_normal((5, 80)) * (rng.random((5, 80)) < 0.08)
    signals = codes @ atoms + 0.01 * rng.standard_normal((5, 32))
    yield "signed", LassoProblem(atoms, signals, 0.1)
    yield "positive", LassoProblem(np.abs(atoms), np.abs(signals), 0.1, positive=True)
    yield "elastic net", LassoProblem(atoms, signals, solvers.ElasticNet(0.1, 0.05))
    yield "a penalty for each atom", LassoProblem(atoms, signals, rng.uniform(0.05, 0.2, 80))
    yield "masked", LassoProblem(atoms, signals, 0.1, mask=rng.random(signals.shape) < 0.8)
    yield "feature weights", LassoProblem(atoms, signals, 0.1, feature_weights=rng.uniform(0.5, 2.0, 32))
    yield (
        "sparse signals",
        LassoProblem(np.abs(atoms), sparse.csr_array(np.maximum(signals - 0.3, 0.0)), 0.05),
    )


def convolutional_problem() -> LassoProblem:
    rng = np.random.default_rng(3)
    kernels = rng.standard_normal((4, 5, 5))
    kernels /= np.linalg.norm(kernels.reshape(4, -1), axis=1)[:, np.newaxis, np.newaxis]
    dictionary = ConvolutionalDictionary(kernels, (21, 19), 2)
    codes = rng.standard_normal((2, dictionary.shape[0])) * (rng.random((2, dictionary.shape[0])) < 0.05)
    return LassoProblem(dictionary, dictionary.reconstruct(codes), 0.1)


SOLVERS: dict[str, Callable[[LassoProblem], object]] = {
    "spikes": lambda p: solvers.solve_spiking(p, tol=1e-6),
    "spikes, not refined": lambda p: solvers.solve_spiking(p, tol=1e-2, refine=False),
    "spikes, polished": lambda p: solvers.solve_spiking(p, tol=1e-6, polish=True),
    "spikes, rate": lambda p: solvers.solve_spiking(p, tol=0.02, readout="rate", refine=False),
    "spikes, current": lambda p: solvers.solve_spiking(p, tol=0.02, readout="current", refine=False),
    "spikes, clock": lambda p: solvers.solve_spiking(p, tol=1e-4, time_step=0.25),
    "spikes, clock, not refined": lambda p: solvers.solve_spiking(p, tol=0.02, time_step=0.25, refine=False),
    "digital": lambda p: solvers.solve_digital(p, tol=0.01, rng=0, max_duration=500.0),
    "active set": solvers.solve_active_set,
    "active set, from FISTA": lambda p: solvers.solve_active_set(p, start=solvers.solve_fista(p, tol=0.01)),
    "FISTA": lambda p: solvers.solve_fista(p, tol=1e-6),
    "analog": lambda p: solvers.solve_analog(p, tol=1e-3),
    "coordinate descent": lambda p: solvers.solve_coordinate_descent(p, tol=1e-6),
    "LARS": lambda p: solvers.solve_lars(p, tol=1e-6),
}


def solved(name: str, problem: LassoProblem) -> Digested:
    for solver, solve in SOLVERS.items():
        try:
            result = of_result(solve(problem))
        except (TypeError, ValueError) as refusal:
            result = (np.frombuffer(type(refusal).__name__.encode(), np.uint8),)
        yield f"{solver}, {name}", result


def codes() -> Digested:
    for name, problem in problems():
        yield from solved(name, problem)
    yield from solved("convolution", convolutional_problem())
    problem = next(problems())[1]
    along = solvers.path(problem, n_multiples=12)
    yield "path", (along.codes,)
    prepared = solvers.PreparedLasso(problem.dictionary, 0.1)
    for row in range(problem.n_signals):
        one = prepared.with_signals(problem.signals[row : row + 1])
        yield f"prepared, signal {row}", of_result(solvers.solve_spiking(one, tol=1e-6))
    stream = solvers.SparseCodingStream(problem.dictionary, 0.1)
    yield "stream", tuple(stream.code(signal).codes for signal in problem.signals)
    run = snn.simulate(solvers.lasso_network(problem, 1), 200.0, record_spikes=True)
    yield "lasso_network", of_run(run)
    coder = solvers.SpikingSparseCoder(problem.dictionary, alpha=0.1)
    yield "SpikingSparseCoder", (coder.transform(problem.signals),)


def of_learner(learner) -> tuple:
    network = learner.network
    return (
        learner.dictionary,
        network.feedforward,
        network.feedback,
        network.lateral,
        learner.usage,
        learner.n_spikes,
    )


def learned_weights() -> Digested:
    rng = np.random.default_rng(5)
    signals = np.abs(rng.standard_normal((96, 24)))
    mask = rng.random(signals.shape) < 0.8
    for name, options in {
        "plain": {"penalty": 0.3},
        "masked": {"penalty": 0.3, "mask": mask},
        "replaced": {"penalty": 0.3, "replace_dead": True},
        "exact": {"settings": LearningSettings(penalty=0.3, time_step=None)},
        "signed": {"settings": LearningSettings(penalty=0.3, positive_atoms=False, positive_code=False)},
        "rates": {"settings": LearningSettings(penalty=0.3, readout=rules.READOUTS[0])},
        "a penalty for each atom": {"settings": LearningSettings(penalty=np.linspace(0.2, 0.4, 16))},
        "quantised": {"settings": LearningSettings(penalty=0.3, weight_format=FixedPoint(bits=6))},
    }.items():
        learner = learn_dictionary(signals, 16, n_samples=256, rng=0, **options)
        yield f"learn_dictionary, {name}", of_learner(learner)
    continue_learning(learner, signals, n_samples=352, rng=1)
    yield "continue_learning", of_learner(learner)
    phases = TwoPhaseNetwork.run(learner.network, signals[:4], penalty=0.3)
    yield "TwoPhaseNetwork.run", tuple(p.coding_rate for p in phases) + tuple(p.coding_trace for p in phases)
    estimator = SpikingDictionaryLearning(
        n_components=12,
        alpha=0.3,
        max_iter=2,
        split_channels=True,
        positive_code=True,
        random_state=0,
    )
    codes = estimator.fit(signals - signals.mean()).transform(signals)
    yield "SpikingDictionaryLearning", (estimator.components_, codes)
    estimator = SpikingDictionaryLearning(
        n_components=12,
        alpha=0.3,
        max_iter=1,
        positive_dict=True,
        positive_code=True,
        random_state=0,
    )
    yield (
        "SpikingDictionaryLearning, one channel",
        (estimator.fit(signals).components_, estimator.transform(signals)),
    )
    images = [rng.standard_normal((30, 26)) for _ in range(4)]
    for name, options in {
        "plain": {},
        "stride": {"stride": 2, "positive": True, "replace_dead": True},
    }.items():
        kernels = ConvolutionalDictionaryLearning(
            5, kernel_size=5, alpha=0.2, crop_size=20, batch_size=2, random_state=0, **options
        ).fit(images)
        coded = kernels.encode(images)
        yield (
            f"ConvolutionalDictionaryLearning, {name}",
            (kernels.components_, *(one.result.codes for one in coded)),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="", help="only lines whose name has this in it")
    part = parser.parse_args().part
    warnings.simplefilter("ignore")
    for made in (simulations, digital_simulations, codes, learned_weights):
        for name, arrays in made():
            if part in name:
                print(f"{digest(*arrays)}  {name}", flush=True)


if __name__ == "__main__":
    main()
