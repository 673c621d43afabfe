"""Record the runs that docs/interactive.md shows, in a minute.

Networks of spiking neurons code pieces of photographs at many penalties, as `solve_spiking` does, with atoms
that another network has learned.  One file of JavaScript has every spike, the codes at many times and their
certified gaps; a browser opens this file without a server.

    python -m examples.record_runs [--output docs/_static]
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np

from examples._common import at_least, parser
from examples._history import CodeHistory, code_history
from examples._small_patches import N_SAMPLES, PIECES, SIDE, learned_atoms, network_problem, piece
from solvers import LassoProblem

FILE, CONSTANT = "recorded_runs.js", "RECORDED_RUNS"
# Penalties of the runs, in units of the smallest penalty at which no neuron fires.
SHARES = np.round(np.geomspace(0.08, 0.8, 25), 3)
TOL = 1e-4
N_TIMES = 64
N_ROWS = 16
# Smallest log10 of a gap in the file, which stores numbers from LEAST_POWER to 0 in 16 bits.
LEAST_POWER = -8.0


def problem_of(atoms: np.ndarray, pixels: np.ndarray, share: float) -> LassoProblem:
    """Return the problem of a piece at `share` times its largest penalty, from the integers in the file."""
    atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    return network_problem(atoms, pixels / 255.0, share)


def history_of(atoms: np.ndarray, pixels: np.ndarray, share: float) -> CodeHistory:
    """Return the run to record, from the arguments of `problem_of`."""
    return code_history(problem_of(atoms, pixels, share), tol=TOL, n_times=N_TIMES)


def recorded(history: CodeHistory) -> dict:
    """Return a run as the file stores it: with numbers, and with arrays as text."""
    spikes, duration = history.spikes, float(history.times[-1])
    atoms = np.flatnonzero(history.codes.any(axis=0) | (history.optimum != 0.0))
    codes = np.concatenate([history.codes, history.optimum[np.newaxis]])[:, atoms]
    largest = float(codes.max())
    gaps = np.log10(np.maximum(history.relative_gap, 10.0**LEAST_POWER))
    return {
        "duration": duration,
        "stages": [[stage.start, stage.scale, len(stage.spikes)] for stage in history.stages],
        "times": text_of(np.round(65535 * spikes.times / duration), "<u2"),
        "neurons": text_of(spikes.neurons, "u1"),
        "atoms": atoms.tolist(),
        "largest": largest,
        # A nonzero entry of a code must not be rounded to zero.
        "codes": text_of(np.maximum(np.round(255 * codes / largest), codes > 0.0), "u1"),
        "gaps": text_of(np.round(65535 * (1.0 - np.minimum(gaps, 0.0) / LEAST_POWER)), "<u2"),
    }


def text_of(values: np.ndarray, kind: str) -> str:
    """Return an array of small integers as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def rows_of(histories: Sequence[CodeHistory]) -> list[int]:
    """Return the atoms that get a row on the page: their optimal entries, at any penalty, are largest."""
    largest = np.max([history.optimum for history in histories], axis=0)
    return np.argsort(-largest, kind="stable")[:N_ROWS].tolist()


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--samples", type=at_least(1000), default=N_SAMPLES, help="to learn atoms from")
    command.add_argument("--penalties", type=at_least(1, len(SHARES)), default=len(SHARES))
    options = command.parse_args(arguments)
    learned = learned_atoms(options.samples)
    atoms = np.round(127 * learned / np.abs(learned).max(axis=1, keepdims=True)).astype(np.int8)
    pieces = {}
    for name in PIECES:
        pixels = np.round(255 * piece(name)).astype(np.uint8).ravel()
        histories = [history_of(atoms, pixels, share) for share in SHARES[: options.penalties]]
        pieces[name] = {
            "pixels": text_of(pixels, "u1"),
            "rows": rows_of(histories),
            "runs": [recorded(history) for history in histories],
        }
        print(f"{name}: {sum(len(history.spikes) for history in histories):,} spikes")
    runs = {
        "side": SIDE,
        "n_times": N_TIMES,
        "least_power": LEAST_POWER,
        "shares": SHARES[: options.penalties].tolist(),
        "n_atoms": len(atoms),
        "atoms": text_of(atoms, "i1"),
        "pieces": pieces,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / FILE
    path.write_text(f"const {CONSTANT} = {json.dumps(runs, separators=(',', ':'))};\n", encoding="utf-8")
    print(f"runs: {path}, {path.stat().st_size / 1024:,.0f} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
