"""Faults of a chip that stages repair: dead synapses, flipped bits, silent neurons. A few seconds.

The problem has 256 random atoms in 64 dimensions, signals of 6 atoms, and weights of 8 bits.  Every code has
a certified gap for the dictionary without faults.

    python -m examples.faults [--output DIR] [--signals N] [--duration T]
"""

from __future__ import annotations

import warnings

import numpy as np

from examples._common import BLUE, ORANGE, at_least, figure, parser, save, table
from snn import Clock
from snn.digital import DigitalFormat, DigitalNetwork
from solvers import LassoProblem, lasso_network, solve
from solvers.methods import DigitalOneWindow, Stages

N_ATOMS, N_FEATURES, N_ACTIVE, PENALTY, STEP, TOL = 256, 64, 6, 0.1, 0.25, 1e-3
SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
KINDS = ("dead_synapses", "flipped_bits", "silent_neurons")


def random_problem(n_signals: int) -> LassoProblem:
    """Return the problem of coding sums of a few random atoms."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((N_ATOMS, N_FEATURES))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    chosen = [rng.choice(N_ATOMS, N_ACTIVE) for _ in range(n_signals)]
    signals = np.stack([rng.uniform(0.5, 1.5, N_ACTIVE) @ atoms[atoms_of] for atoms_of in chosen])
    return LassoProblem(atoms, signals, PENALTY, positive=True)


def measure(problem: LassoProblem, network: DigitalNetwork, duration: float) -> tuple[float, float, float]:
    """Return the median gap of one run and of stages, and the share of signals certified by stages."""
    clock = Clock(STEP, network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codes that miss TOL are drawn too
        once = solve(problem, DigitalOneWindow(time=clock, max_duration=duration), tol=TOL)
        stages = solve(problem, Stages(time=clock, max_duration=duration), tol=TOL)
    return np.median(once.relative_gap), np.median(stages.relative_gap), stages.reached.mean()


def main() -> None:
    """Measure gaps for all faults, print a table, and draw the gaps."""
    command = parser(__doc__)
    command.add_argument("--signals", type=at_least(1), default=20)
    command.add_argument("--duration", type=at_least(10, kind=float), default=500.0)
    options = command.parse_args()
    problem = random_problem(options.signals)
    whole = DigitalNetwork.of(lasso_network(problem), DigitalFormat(lowest_drive=4.0), time_step=STEP)
    picture, rows = figure(11.0, 3.6), []
    panels = picture.subplots(1, len(KINDS), sharey=True)
    for panel, kind in zip(panels, KINDS, strict=True):
        gaps = np.array(
            [measure(problem, whole.with_faults(**{kind: share}), options.duration) for share in SHARES]
        )
        name = kind.replace("_", " ")
        panel.loglog(SHARES, gaps[:, 0], "o-", color=ORANGE, label="one run")
        panel.loglog(SHARES, gaps[:, 1], "o-", color=BLUE, label="stages")
        panel.axhline(TOL, color="0.6", lw=0.8, ls="--")
        panel.set(title=name, xlabel="share that is faulty")
        rows += [
            [name, f"{share:g}", f"{single:.1e}", f"{staged:.1e}", f"{reached:.0%}"]
            for share, (single, staged, reached) in zip(SHARES, gaps, strict=True)
        ]
    panels[0].set_ylabel("certified gap / (½‖signal‖²)")
    panels[0].legend(fontsize="small")
    print(table(["fault", "share", "one run", "stages", "certified"], rows))
    save(picture, options.output, "faults.png")


if __name__ == "__main__":
    main()
