"""Quadratic programs by spikes: gap and spikes against the condition of the rows that are active.

Each program has H = I, 40 variables, 20 rows of norm one that are active at the solution with multipliers of
0.5 to 1.5, and 60 inactive rows. Run: ``python -m tests.benchmarks.conditions --output docs/figures``
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from examples._pictures import save_picture
from solvers import QuadraticProgram

N_VARIABLES, N_ACTIVE, N_OTHERS = 40, 20, 60
CONDITIONS = np.geomspace(2.0, 1000.0, 10)
TOLS = {1e-3: "tab:orange", 1e-8: "tab:blue"}


def program_of(condition: float, seed: int) -> tuple[QuadraticProgram, float]:
    """Return a program, and the condition of its active rows of norm one, which is near `condition`."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, N_ACTIVE)))[0] for n in (N_ACTIVE, N_VARIABLES))
    active = left * np.geomspace(condition, 1.0, N_ACTIVE) @ right.T
    active /= np.linalg.norm(active, axis=1, keepdims=True)
    others = rng.standard_normal((N_OTHERS, N_VARIABLES)) / N_VARIABLES**0.5
    x = rng.standard_normal(N_VARIABLES)
    limits = np.append(active @ x, others @ x + rng.uniform(0.5, 1.5, N_OTHERS))
    linear = -x - rng.uniform(0.5, 1.5, N_ACTIVE) @ active
    rows = np.vstack([active, others])
    program = QuadraticProgram(np.eye(N_VARIABLES), linear, inequalities=(rows, limits))
    return program, float(np.linalg.cond(active))


def measured(condition: float, seed: int, tol: float) -> tuple[float, int, float]:
    """Return the condition, spikes, and the certified gap as a share of max(1, |f|)."""
    program, condition = program_of(condition, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gaps above tol are expected, and are drawn
        result = program.solve(method="spiking", tol=tol)
    return condition, result.n_steps, result.gap / max(1.0, abs(result.upper_bound))


def main(arguments: list[str] | None = None) -> int:
    """Print and draw the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path())
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    picture = Figure(figsize=(8.0, 3.2), layout="constrained")
    of_gap, of_spikes = picture.subplots(1, 2)
    for tol, colour in TOLS.items():
        rows = [measured(one, seed, tol) for one in CONDITIONS for seed in range(options.seeds)]
        for condition, spikes, gap in rows:
            print(f"tol {tol:g}: condition {condition:.0f}, {spikes:,} spikes, gap {gap:.0e}", flush=True)
        conditions, counts, gaps = np.array(rows).T
        of_gap.loglog(conditions, gaps, ".", color=colour)
        of_gap.axhline(tol, color=colour, linestyle="--", linewidth=0.8)
        of_spikes.loglog(conditions, counts, ".", color=colour, label=f"tol={tol:g}")
    of_gap.set(xlabel="condition of the active rows", ylabel="certified gap")
    of_spikes.set(xlabel="condition of the active rows", ylabel="spikes")
    of_spikes.legend()
    save_picture(picture, options.output / "programs_by_spikes.png", dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
