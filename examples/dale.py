"""Dale's law: coding neurons excite, interneurons inhibit, and the network still solves the LASSO.

Coding neuron i excites interneuron m by D_im, interneuron m inhibits coding neuron i by D_im, and there are
no other synapses.  The network never stops.  After each round, the last rate of each coding neuron is added
to the drive of this neuron: this is a proximal point method.  The example compares this network with one
that starts from rest in each round, and with the network of Tang, Lin and Davies (2017), whose coding neurons
inhibit each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dictlearn import LearningSettings, learn_dictionary
from examples._common import BLUE, GREY, ORANGE, at_least, figure, parser, save, table
from examples._data import photographs, split_patches
from snn import Simulator, SpikingNetwork
from solvers import LassoProblem, certify, lasso_network

PENALTY, THRESHOLD = 0.1, 0.3
ROUND, GROWTH = 100.0, 1.03  # length of the first round, in time constants, and growth factor of rounds
GAP = 1e-3


class Course(NamedTuple):
    """Spikes so far, and the certified gap over half the squared norm of the signal, after each round."""

    spikes: np.ndarray
    gaps: np.ndarray

    def spikes_to(self, gap: float) -> str:
        reached = self.gaps <= gap
        return f"{self.spikes[reached.argmax()]:,.0f}" if reached.any() else "not reached"


def network_of(problem: LassoProblem) -> SpikingNetwork:
    """Return the network: coding neurons first, then one interneuron for each feature."""
    atoms = problem.dictionary
    n_atoms, n_features = atoms.shape
    weights = np.zeros((n_atoms + n_features,) * 2)
    weights[:n_atoms, n_atoms:], weights[n_atoms:, :n_atoms] = atoms, -atoms.T
    drive = np.concatenate([atoms @ problem.signals[0] - PENALTY, np.zeros(n_features)])
    return SpikingNetwork(weights, drive, np.repeat([THRESHOLD, 1.0], [n_atoms, n_features]))


def run_dale(problem: LassoProblem, n_rounds: int, *, from_rest: bool = False) -> Course:
    """Run the network in rounds, and add the last rate of each coding neuron to its drive."""
    network, n_atoms = network_of(problem), problem.n_atoms
    simulator = Simulator(network)
    code, spikes, gaps = np.zeros(n_atoms), [], []
    for length in ROUND * GROWTH ** np.arange(n_rounds):
        if from_rest:
            simulator.membrane_potential = simulator.synaptic_current = np.zeros(network.n_neurons)
        drive = network.soma_bias.copy()
        drive[:n_atoms] += THRESHOLD * code
        simulator.soma_bias = drive
        code = np.maximum(simulator.advance(simulator.time + length).smooth_rate[:n_atoms], 0.0)
        spikes.append(simulator.spike_counts.sum())
        gaps.append(certify(problem, code[np.newaxis]).relative_gap[0])
    return Course(np.array(spikes), np.array(gaps))


def run_lateral(problem: LassoProblem, n_rounds: int) -> Course:
    """Run the network of lateral inhibition for longer and longer times, and read the rates."""
    simulator = Simulator(lasso_network(problem))
    spikes, gaps = [], []
    for stop in ROUND / 4.0 * np.arange(1, n_rounds + 1):
        simulator = Simulator(simulator.network)
        code = simulator.advance(stop).smooth_rate
        spikes.append(simulator.spike_counts.sum())
        gaps.append(certify(problem, np.maximum(code, 0.0)[np.newaxis]).relative_gap[0])
    return Course(np.array(spikes), np.array(gaps))


def random_problem(n_features: int, n_atoms: int) -> LassoProblem:
    """Return the problem of a noisy mixture of five random atoms, which are sparse and non-negative."""
    rng = np.random.default_rng(0)
    atoms = rng.random((n_atoms, n_features)) * (rng.random((n_atoms, n_features)) < 0.3)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    signal = rng.uniform(0.5, 1.5, (1, 5)) @ atoms[rng.choice(n_atoms, 5, replace=False)]
    return LassoProblem(atoms, signal + 0.02 * rng.standard_normal(n_features), PENALTY, positive=True)


def photograph_problem(n_samples: int) -> LassoProblem:
    """Return the problem of a held-out patch, with atoms learned from photographs in two channels."""
    signals, tested = split_patches(photographs(), 8, n_samples, 1, contrast=0.1)
    learner = learn_dictionary(
        signals, 256, settings=LearningSettings(penalty=PENALTY), n_samples=n_samples, rng=0
    )
    return LassoProblem(learner.dictionary, tested, PENALTY, positive=True)


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--rounds", type=at_least(2), default=60)
    command.add_argument("--samples", type=at_least(100), default=20_000, help="patches to learn atoms from")
    options = command.parse_args(arguments)
    problems = {
        "random atoms, 64 x 256": random_problem(64, 256),
        "atoms of photographs, 128 x 256": photograph_problem(options.samples),
    }
    picture, rows = figure(9.0, 3.8), []
    for axes, (name, problem) in zip(picture.subplots(1, 2, sharey=True), problems.items(), strict=True):
        courses = {
            "Dale, never stops": (run_dale(problem, options.rounds), BLUE),
            "Dale, each round from rest": (run_dale(problem, options.rounds, from_rest=True), GREY),
            "lateral inhibition": (run_lateral(problem, options.rounds), ORANGE),
        }
        for kind, (course, colour) in courses.items():
            axes.loglog(course.spikes, course.gaps, color=colour, label=kind)
            rows.append(
                (f"{name}: {kind}", course.spikes_to(1e-2), course.spikes_to(GAP), f"{course.gaps.min():.1e}")
            )
        axes.axhline(GAP, color="black", linestyle="--", linewidth=0.8)
        axes.set(title=name, xlabel="spikes of all neurons")
    axes.legend(fontsize="small")
    picture.axes[0].set_ylabel("certified gap")
    print(table(["", "spikes to 1e-2", "to 1e-3", "least gap"], rows))
    save(picture, options.output, "dale.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
