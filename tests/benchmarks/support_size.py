"""What does a spike cost as the support grows, and the dictionary does not?"""

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, figure
from tests.benchmarks.dictionary_size import (
    cost_of_spikes,
    microseconds,
    part_names,
    planted_signal,
    points_table,
)
from tests.benchmarks.problems import random_dictionary
from tests.benchmarks.report import Target

TITLE = "Cost of a spike against the support"
N_FEATURES, N_ATOMS, PLANTED = 1024, 4096, (5, 10, 25, 50, 100, 200)
QUICK_N_FEATURES, QUICK_N_ATOMS, QUICK_PLANTED = 32, 64, (1, 3)


def run(*, quick: bool) -> dict:
    n_features, n_atoms, many = (
        (QUICK_N_FEATURES, QUICK_N_ATOMS, QUICK_PLANTED) if quick else (N_FEATURES, N_ATOMS, PLANTED)
    )
    atoms = random_dictionary(n_features, n_atoms)
    points = []
    for planted in many:
        signal, penalty = planted_signal(atoms, planted)
        points.append({"planted": planted, **cost_of_spikes(atoms, signal, penalty, quick=quick)})
    return {"n_features": n_features, "n_atoms": n_atoms, "points": points}


def targets(data: dict) -> list[Target]:
    return []


def markdown(data: dict) -> str:
    return (
        f"Random CLASSO, {data['n_features']} features, {data['n_atoms']:,} atoms, signals made of more "
        f"and more "
        f"of them; penalty a tenth of its maximum.\n\n{points_table(data['points'])}"
    )


def plot(data: dict) -> Figure | None:
    picture = figure(6.5, 4.0)
    ax = picture.subplots()
    supports = np.array([point["support"] for point in data["points"]], dtype=float)
    for part, (colour, words) in enumerate(zip((BLUE, ORANGE, GREEN), part_names(), strict=True)):
        costs = [microseconds(point, part) for point in data["points"]]
        ax.plot(supports, costs, color=colour, marker="o", label=words)
    last = microseconds(data["points"][-1], -1)
    ax.plot(supports, last * supports / supports[-1], ":", color=GREY, label="in proportion to the support")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="atoms in the optimal code",
        ylabel="microseconds a spike",
        title=f"{data['n_features']} features, {data['n_atoms']:,} atoms",
    )
    ax.legend(frameon=False, fontsize="small")
    return picture
