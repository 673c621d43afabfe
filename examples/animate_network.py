"""A spiking network that finds a sparse code, animated.

A piece of a photograph, 12 x 12 pixels, drives a network of 144 neurons, one for each of the atoms that
another network has learned from photographs.  Neurons fire, and inhibit those whose atoms resemble theirs.
Spikes become a code, the code a picture, and a certificate says at every moment how far the code is from the
optimum at most.  Every spike is one of the solver's own run.

    python -m examples.animate_network [--output DIR] [--piece NAME] [--penalty SHARE] [--tol TOL]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from examples._animation import save_animation
from examples._common import parser
from examples._history import CodeHistory, code_history
from examples._small_patches import N_SAMPLES, PIECES, SIDE, learned_atoms, piece
from examples.history_picture import FIGURE_SIZE, HistoryPicture
from solvers import LassoProblem

# A share of the smallest penalty at which no neuron fires.
PENALTY = 0.1
TOL = 1e-4
N_FRAMES = 96


def network_problem(atoms: np.ndarray, pixels: np.ndarray, share: float) -> LassoProblem:
    """Return the problem of coding a piece, without its mean, at a share of the largest penalty."""
    signal = (pixels - pixels.mean()).ravel()
    return LassoProblem(atoms, signal[np.newaxis], share * float((atoms @ signal).max()), positive=True)


def picture_of(history: CodeHistory) -> HistoryPicture:
    """Return the picture of a run, with a headline."""
    return HistoryPicture(
        history,
        image_shape=(SIDE, SIDE),
        title="A spiking network codes a piece of a photograph",
        figure=Figure(figsize=FIGURE_SIZE),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--piece", choices=list(PIECES), default="smile", help="of a photograph")
    command.add_argument("--penalty", type=float, default=PENALTY, help="share of the largest, in (0, 1)")
    command.add_argument("--tol", type=float, default=TOL, help="certified gap at which the run ends")
    command.add_argument("--frames", type=int, default=N_FRAMES, help="pictures, 12 a second")
    command.add_argument("--samples", type=int, default=N_SAMPLES, help="that atoms are learned from")
    options = command.parse_args(arguments)
    if not 0.0 < options.penalty < 1.0:
        command.error(f"--penalty must be in (0, 1); got {options.penalty:g}")
    if options.frames < 2 or options.samples < 1000:
        command.error("--frames must be at least 2, --samples at least 1000")

    atoms = learned_atoms(options.samples)
    problem = network_problem(atoms, piece(options.piece), options.penalty)
    history = code_history(problem, tol=options.tol, n_times=options.frames)
    print("A spiking network that finds a sparse code")
    print(
        f"{len(history.spikes)} spikes in {history.times[-1]:.0f} time constants and {len(history.stages)} "
        f"stages; {np.count_nonzero(history.codes[-1])} atoms; certified gap {history.relative_gap[-1]:.1e}"
    )
    picture = picture_of(history)
    save_animation(picture.figure, picture.draw, options.frames, options.output, "network.webp")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
