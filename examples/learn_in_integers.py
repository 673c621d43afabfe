"""A dictionary learned in integers, by the two phases of a network of digital neurons. Half a minute.

The signals are handwritten digits of 8 x 8 pixels.  Weights F, B and H are integers of 8 bits, and every
step, spike count and change of a weight is an integer.  For each sample, the network runs at gamma = 0
and then, from its final state, at gamma = 3/4.  Potentials never saturate here, so that the accumulated soma
current of a phase is the threshold times the number of spikes, plus the increase of the potential.  A weight
changes by the product of a current of 10 bits and a spike count, shifted to the right.  The table shows the
consistency of H, which is 1 - ||H - F B|| / ||H||.  If the consistency is below 1, atoms inhibit each other
by more or less than their overlap, and their codes are not exactly those of the LASSO.

    python -m examples.learn_in_integers [--output DIR] [--samples N] [--atoms N]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from dictlearn import TwoPhaseNetwork, learn_dictionary, mean_objective, normalise, random_dictionary
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, GREEN, GREY, ORANGE, at_least, figure, parser, save, table
from examples._data import held_out
from snn import Clock, simulate
from snn.digital import DigitalFormat, FixedPoint

PENALTY, SCALE, DURATION, STEP = 0.1, 4.0, 16.0, 1 / 8
KAPPA = 0.75  # strength of the feedback: 1 - kappa is a shift by two bits
F_SHIFT, H_SHIFT, DECAY_SHIFT = 11, 6, 13
ONE = 128  # integer of a weight of 1; the largest weight is 127
# Integer of a threshold of 1.  A current loses 481 / 4096 of its value in a step of 1/8.  69760 * 481 / 4096
# is nearly 64 * 128, so that the weight of a synapse on the chip is the learned integer times 2^6.
THRESHOLD = 69760
CHIP = DigitalFormat(
    weights=FixedPoint(bits=8, exponent=6), potential_bits=26, current_bits=26, threshold=THRESHOLD
)
COLOURS = {
    "integers, by chance": BLUE,
    "integers, to the nearest": ORANGE,
    "integers, spike counts only": GREY,
}


class IntegerWeights:
    """The weights F, B and H of a two-phase network in integers, and their changes by a sample."""

    def __init__(self, dictionary: np.ndarray, *, nearest: bool, counts_only: bool) -> None:
        atoms = np.rint(ONE * dictionary).astype(np.int64)
        lateral = np.minimum((atoms @ atoms.T + ONE // 2) // ONE, ONE - 1)
        self.feedforward, self.feedback, self.lateral = atoms, atoms.T.copy(), lateral
        self.nearest, self.counts_only, self.random = nearest, counts_only, np.random.default_rng(0)

    def network(self) -> TwoPhaseNetwork:
        """Return the network with the weights as floats."""
        return TwoPhaseNetwork(self.feedforward / ONE, self.feedback / ONE, self.lateral / ONE)

    def learn(self, signal: np.ndarray, halvings: int) -> int:
        """Run both phases, change the weights, and return the number of spikes."""
        n_inputs, network = len(signal), self.network()
        reweighting = np.diagonal(network.lateral)
        state, before, phases = None, 0, []
        for gamma in (0.0, KAPPA):
            phase = network.spiking_network(
                SCALE * signal, penalty=SCALE * PENALTY, gamma=gamma, reweighting=reweighting
            )
            run = simulate(phase, DURATION, Clock(STEP, CHIP), state=state)
            state, potential = run.state, run.registers.membrane_potential
            phases.append((run.spike_counts, potential - before))
            before = potential
        (first, risen), (second, raised) = phases
        if self.counts_only:
            risen = raised = np.zeros_like(risen)
        # Accumulated soma currents of the second phase minus the currents of the first phase.
        gained = THRESHOLD * (second - first) + raised - risen
        g_d = self.register(gained[:n_inputs], 12)
        fired, code = (second - first)[n_inputs:], second[n_inputs:]
        # g_h is four times (1 - kappa) H (a_0 - a_kappa) + (1 - kappa) e_0 - e_kappa, with the spikes a and
        # the gains e of potentials in the two phases.
        g_h = -(self.lateral @ fired) * (THRESHOLD // ONE) + risen[n_inputs:] - 4 * raised[n_inputs:]
        g_h = self.register(g_h, 14)
        for weights, change, bits in (
            (self.feedforward, np.outer(code, g_d), F_SHIFT),
            (self.feedback, np.outer(g_d, code), F_SHIFT),
            (self.lateral, np.outer(g_h, code), H_SHIFT),
        ):
            decay = weights << (1 if weights is self.lateral else 0)
            weights -= self.shifted(change, bits + halvings) + self.shifted(decay, DECAY_SHIFT + halvings)
            np.clip(weights, 0, ONE - 1, out=weights)
        np.fill_diagonal(self.lateral, np.maximum(np.diagonal(self.lateral), ONE // 8))
        return int(first.sum() + second.sum())

    @staticmethod
    def register(values: np.ndarray, bits: int) -> np.ndarray:
        """Return the upper 10 bits of an accumulator, rounded to the nearest integer."""
        return np.clip((values + 2 ** (bits - 1)) >> bits, -512, 511)

    def shifted(self, change: np.ndarray, bits: int) -> np.ndarray:
        """Return a change divided by 2^bits, rounded by chance with the right mean, or to the nearest."""
        added = 2 ** (bits - 1) if self.nearest else self.random.integers(0, 2**bits, change.shape)
        return (change + added) >> bits


def learned(signals: np.ndarray, tested: np.ndarray, start: np.ndarray, **how: bool) -> tuple:
    """Return the network after learning, held-out objectives during learning, and the spikes per sample."""
    weights, curve, n_spikes = IntegerWeights(start, **how), [], 0
    for k, signal in enumerate(signals):
        if k % max(len(signals) // 10, 1) == 0:
            curve.append((k, objective(weights.feedback.T / ONE, tested)))
        n_spikes += weights.learn(signal, halvings=int(2 * k >= len(signals)))
    curve.append((len(signals), objective(weights.feedback.T / ONE, tested)))
    return weights.network(), np.array(curve), n_spikes / len(signals)


def objective(dictionary: np.ndarray, tested: np.ndarray) -> float:
    """Return the mean objective of unit-norm atoms with exact codes."""
    return mean_objective(dictionary, tested, penalty=PENALTY, n_jobs=1).objective


def draw(curves: dict[str, np.ndarray], exact: float, atoms: dict[str, np.ndarray]) -> Figure:
    picture = figure(10.0, 3.6)
    axes = picture.subplots(1, 1 + len(atoms), width_ratios=[1.4, *[1.0] * len(atoms)])
    for name, curve in curves.items():
        axes[0].plot(*curve.T, "o-", markersize=3, color=COLOURS[name], label=name)
    axes[0].axhline(exact, color=GREEN, linestyle=":", label="floats")
    axes[0].set(xlabel="samples", ylabel="mean objective on held-out digits")
    axes[0].legend(fontsize="small")
    for ax, (name, dictionary) in zip(axes[1:], atoms.items(), strict=True):
        plot_atoms(dictionary, 8, ax=ax).set_title(name)
    return picture


def main(arguments: Sequence[str] | None = None) -> None:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=at_least(1), default=2_000)
    command.add_argument("--atoms", type=at_least(2, 512), default=32)
    options = command.parse_args(arguments)
    digits, _ = normalise(load_digits().data)
    digits, tested = held_out(digits)
    rng = np.random.default_rng(0)
    signals = digits[rng.integers(len(digits), size=options.samples)]
    start = random_dictionary(options.atoms, digits.shape[1], rng=0)
    floats = learn_dictionary(
        digits, start=start, penalty=PENALTY, n_samples=options.samples, rng=0, n_jobs=1
    )
    exact = objective(floats.dictionary, tested)
    curves, atoms, rows = {}, {}, [["floats", f"{exact:.4f}", f"{floats.network.consistency:.2f}", ""]]
    for name in COLOURS:
        how = {"nearest": "nearest" in name, "counts_only": "counts" in name}
        network, curves[name], n_spikes = learned(signals, tested, start, **how)
        atoms[name] = network.feedback.T
        rows.append([name, f"{curves[name][-1, 1]:.4f}", f"{network.consistency:.2f}", f"{n_spikes:.0f}"])
        print(f"{name}: {curves[name][-1, 1]:.4f}", flush=True)
    first = next(iter(COLOURS))
    rows.insert(0, ["start", f"{curves[first][0, 1]:.4f}", "", ""])
    print(table(["weights", "objective", "consistency", "spikes a sample"], rows))
    shown = {"learned in floats": floats.dictionary, "learned in integers": atoms[first]}
    save(draw(curves, exact, shown), options.output, "learned_in_integers.png")


if __name__ == "__main__":
    main()
