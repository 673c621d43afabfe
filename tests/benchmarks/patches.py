"""Many small signals, one dictionary: patches of a photograph with learned atoms."""

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREY, figure
from solvers import solve_spiking
from tests.benchmarks import peers
from tests.benchmarks.contest import contest, contest_table, faster
from tests.benchmarks.problems import PATCH_PENALTY, patch_problem
from tests.benchmarks.report import Target, at_least

TITLE = "10,000 patches of a photograph"
GAP = 1e-6
ENTRANTS = (peers.OURS, *peers.SPAMS, *peers.SKLEARN_BATCH)
DESCENT = peers.SKLEARN_BATCH[0].name


def run(*, quick: bool) -> dict:
    problem = patch_problem(200, 32, 500) if quick else patch_problem(10_000)
    codes = solve_spiking(problem, tol=GAP, polish=True)
    return {
        "n_patches": problem.n_signals,
        "n_atoms": problem.n_atoms,
        "n_nonzero": float(codes.support_size.mean()),
        "n_spikes": float(codes.n_steps.mean()),
        "n_corrections": float(codes.n_corrections.mean()),
        "contest": contest([problem], ENTRANTS, GAP, quick=quick, required=(peers.OURS,)),
    }


def targets(data: dict) -> list[Target]:
    work = f"{data['n_patches']:,} patches, every code certified to {GAP:g}"
    spams = [peer.name for peer in peers.SPAMS]
    outcome = data["contest"]
    return [
        at_least(work, 1.0, faster(outcome, peers.OURS.name, spams), ">= 1x SPAMS, a core"),
        at_least(work, 5.0, faster(outcome, peers.OURS.name, [DESCENT]), f">= 5x {DESCENT}"),
    ]


def throughput(data: dict) -> dict[str, float]:
    """Return patches a second of each peer."""
    return {
        name: data["n_patches"] / entry["seconds"][0]
        for name, entry in data["contest"]["peers"].items()
        if entry["seconds"][0] is not None and np.isfinite(entry["seconds"][0])
    }


def markdown(data: dict) -> str:
    rates = ", ".join(
        f"{name} {rate:,.0f}" for name, rate in sorted(throughput(data).items(), key=lambda pair: -pair[1])
    )
    return (
        f"{data['n_patches']:,} patches of 8 x 8 pixels of china.jpg, without their means, at norm one; "
        f"{data['n_atoms']} atoms learned from such patches; codes not negative, penalty {PATCH_PENALTY:g}: "
        f"{data['n_nonzero']:.1f} non-zeros a patch.  The network takes {data['n_spikes']:.0f} spikes a "
        f"patch, "
        f"and the active-set method {data['n_corrections']:.1f} corrections.\n\n"
        f"{contest_table(data['contest'], peers.OURS.name)}\n\nPatches a second, one core: {rates}."
    )


def plot(data: dict) -> Figure | None:
    picture = figure(7.0, 2.8)
    ax = picture.subplots()
    rates = throughput(data)
    names = sorted(rates, key=rates.get)
    bars = ax.barh(
        names, [rates[name] for name in names], color=[BLUE if "spikes" in name else GREY for name in names]
    )
    ax.bar_label(bars, [f"{rates[name]:,.0f}" for name in names], padding=3, fontsize="small")
    ax.set(xscale="log", xlabel="patches a second, one core", title=f"Codes certified to {GAP:g}")
    ax.margins(x=0.15)
    return picture
