"""Every result draws itself: one sheet with the picture of each kind.

Three neurons and the patches of a photograph go through the packages, and each result is drawn by its own
``plot()``: runs, codes, paths, operations, chips, images, and learning.

    python -m examples.pictures [--output DIR]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dictlearn import (
    ConvolutionalDictionaryLearning,
    LearningSettings,
    TwoPhaseLearner,
    denoise,
    extract_patches,
    learn_dictionary,
    match_atoms,
    overcomplete_dct,
    remove_mean,
    split_channels,
)
from dictlearn.pictures import plot_atoms
from examples._common import parser, photograph, save
from examples.three_neurons import three_neuron_network
from snn import simulate, simulate_analog
from solvers import LassoProblem, compare, path, solve_spiking

PATCH_SIDE = 8
N_ATOMS = 144
PENALTY = 0.1
N_PATCHES = 12
NOISE = 0.1
SEED = 0
COLUMNS = 3

Panels = dict[str, Callable[[Axes], object]]


def runs() -> Panels:
    """Return the pictures of the three neurons of `examples.three_neurons`."""
    network, _ = three_neuron_network()
    recorded = simulate(network, 15.0, record_spikes=True)
    explanation = recorded.record.explain(-1)
    weights = np.asarray(network.weights)
    flow = simulate_analog(weights, network.soma_bias + PENALTY, activation_threshold=PENALTY, duration=10.0)
    counted = simulate(network, 1000.0)
    return {
        "SimulationResult.plot()": lambda ax: recorded.plot(ax=ax),
        "SimulationResult.plot(), not recorded": lambda ax: counted.plot(ax=ax),
        "SpikeExplanation.plot()": lambda ax: explanation.plot(ax=ax),
        "AnalogResult.plot()": lambda ax: flow.plot(ax=ax),
    }


def codes() -> Panels:
    """Return the pictures of codes of patches of a photograph."""
    patches, _ = remove_mean(extract_patches(photograph(256, 256), PATCH_SIDE, stride=PATCH_SIDE))
    rng = np.random.default_rng(SEED)
    signals = patches[np.argsort(-np.linalg.norm(patches, axis=1))[:200]]
    problem = LassoProblem(
        overcomplete_dct(PATCH_SIDE, N_ATOMS), signals[rng.choice(200, N_PATCHES)], PENALTY, positive=False
    )
    result = solve_spiking(problem, tol=1e-3)
    network = result.operations["network"].total().on_clock(1 / 8)
    records = compare(problem, ["spiking", "active_set", "fista", "coordinate_descent"], tol=1e-4)
    return {
        "SparseCodingResult.plot()": lambda ax: result.plot(ax=ax),
        "Comparison.plot()": lambda ax: records.plot(ax=ax),
        "PathResult.plot()": lambda ax: path(problem.subset([0]), n_multiples=60).plot(ax=ax),
        "OperationCounts.plot()": lambda ax: network.plot(ax=ax),
        "OperationLedger.plot()": lambda ax: result.operations.plot(ax=ax),
    }


def images() -> Panels:
    """Return the pictures of images."""
    image = photograph(128, 192)
    noisy = image + NOISE * np.random.default_rng(SEED).standard_normal(image.shape)
    clean = denoise(
        noisy, overcomplete_dct(PATCH_SIDE, N_ATOMS), patch_size=PATCH_SIDE, noise_level=NOISE, stride=4
    )
    learning = ConvolutionalDictionaryLearning(16, kernel_size=8, alpha=0.1, random_state=SEED, crop_size=64)
    learning.fit(image[np.newaxis])
    (coded,) = learning.encode(image[np.newaxis])
    return {
        "DenoisingResult.plot()": lambda ax: clean.plot(ax=ax),
        "CodedImage.plot()": lambda ax: coded.plot(ax=ax),
        "PreparedImage.plot()": lambda ax: coded.prepared.plot(ax=ax),
        "plot_atoms(estimator.components_)": lambda ax: plot_atoms(learning.components_, ax=ax),
    }


def learning() -> Panels:
    """Return the pictures of a two-phase network that learns."""
    learner, signals = learned()
    phase = learner.network.run(
        learner.scale * signals[:1], penalty=learner.scale * PENALTY / 4, initial_potential=0.5
    )[1]
    match = match_atoms(learner.dictionary, learned(seed=1)[0].dictionary)
    return {
        "TwoPhaseLearner.plot()": lambda ax: learner.plot(ax=ax),
        "Phase.plot()": lambda ax: phase.plot(ax=ax),
        "AtomMatch.plot()": lambda ax: match.plot(ax=ax),
    }


def learned(seed: int = SEED) -> tuple[TwoPhaseLearner, np.ndarray]:
    """Return a learner after some thousand patches, and these in two channels."""
    patches, _ = remove_mean(extract_patches(photograph(256, 256), PATCH_SIDE, stride=2))
    norms = np.linalg.norm(patches, axis=1)
    signals = split_channels(patches[norms > 0.4] / norms[norms > 0.4, np.newaxis])
    signals = signals[np.random.default_rng(0).permutation(len(signals))]
    settings = LearningSettings(penalty=PENALTY)
    return learn_dictionary(signals, 32, settings=settings, n_samples=6000, rng=seed), signals


def draw(panels: Panels) -> Figure:
    n_rows = -(-len(panels) // COLUMNS)
    # A layout of its own for each panel, or names of bars would take room from others.
    picture = Figure(figsize=(4.8 * COLUMNS, 3.5 * n_rows), layout="constrained")
    parts = picture.subfigures(n_rows, COLUMNS).ravel()
    for part, (name, plot) in zip(parts, panels.items(), strict=False):
        ax = part.subplots()
        plot(ax)
        ax.set_title(f"{name}\n{ax.get_title()}", fontsize="medium")
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser("Every result draws itself: one sheet with the picture of each kind.")
    chosen = options.parse_args(arguments)
    panels = {**runs(), **codes(), **images(), **learning()}
    save(draw(panels), chosen.output, "pictures.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
