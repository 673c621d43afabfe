"""Many small signals, one dictionary: patches of a photograph with learned atoms."""

import numpy as np
from matplotlib.figure import Figure

from examples._common import figure, photograph
from examples.photograph import HEIGHT, WIDTH, coding_problem
from solvers import LassoProblem, solve_spiking
from tests.benchmarks import peers
from tests.benchmarks.contest import contest, contest_table, faster
from tests.benchmarks.problems import PATCH_PENALTY, again, patch_problem
from tests.benchmarks.random_designs import colour_of
from tests.benchmarks.report import Target, at_least

TITLE = "Many patches of a photograph"
GAP = 1e-6
ENTRANTS = (peers.SPIKES, *peers.ACTIVE_SETS, *peers.SPAMS, *peers.SKLEARN_BATCH)
DESCENT = peers.SKLEARN_BATCH[0].name
# The photograph of `make demo`.
DEMO_GAP = 1e-3
# One patch of the demo needs a little more than the time that a solver is given by default.
DEMO_DURATION = 30_000.0
DEMO_SPIKES = peers.spikes_for("spikes alone", max_duration=DEMO_DURATION)
DEMO_CLOCK = peers.spikes_for("spikes alone, clock of 1/4", max_duration=DEMO_DURATION, time_step=0.25)
DEMO_ENTRANTS = (DEMO_SPIKES, DEMO_CLOCK, peers.ONE_WINDOW, *peers.ACTIVE_SETS, peers.FISTA)


def run(*, quick: bool) -> dict:
    problem = patch_problem(200, 32, 500) if quick else patch_problem(10_000)
    codes = solve_spiking(again(problem), tol=GAP)
    height, width = (64, 96) if quick else (HEIGHT, WIDTH)
    demo, _ = coding_problem(photograph(height, width))
    demo = LassoProblem(demo.dictionary, demo.signals, demo.l1_weights, gram=demo.gram)
    demo_codes = solve_spiking(again(demo), tol=DEMO_GAP, max_duration=DEMO_DURATION)
    return {
        "n_patches": problem.n_signals,
        "n_atoms": problem.n_atoms,
        "n_nonzero": float(codes.support_size.mean()),
        "n_spikes": float(codes.n_steps.mean()),
        "contest": contest([problem], ENTRANTS, GAP, quick=quick, required=(DEMO_SPIKES,)),
        "demo": {
            "n_patches": demo.n_signals,
            "n_nonzero": float(demo_codes.support_size.mean()),
            "n_spikes": float(demo_codes.n_steps.mean()),
            "contest": contest([demo], DEMO_ENTRANTS, DEMO_GAP, quick=quick, required=(DEMO_SPIKES,)),
        },
    }


def targets(data: dict) -> list[Target]:
    work = f"{data['n_patches']:,} patches, every code certified to {GAP:g}, active set"
    spams = [peer.name for peer in peers.SPAMS]
    outcome, demo = data["contest"], data["demo"]
    return [
        at_least(
            f"{demo['n_patches']:,} patches of the demo to {DEMO_GAP:g}, {way.name}",
            1.0,
            faster(demo["contest"], way.name, [peers.FISTA.name]),
            ">= 1x FISTA",
        )
        for way in (DEMO_SPIKES, DEMO_CLOCK)
    ] + [
        at_least(work, 1.0, faster(outcome, peers.ACTIVE_SET.name, spams), ">= 1x SPAMS, a core"),
        at_least(work, 5.0, faster(outcome, peers.ACTIVE_SET.name, [DESCENT]), f">= 5x {DESCENT}"),
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
    demo = data["demo"]
    return "\n\n".join(
        [
            f"**The patches of `make demo`**, {demo['n_patches']:,} of 8 x 8 pixels of china.jpg, in 256 "
            f"cosine atoms, codes of either sign, {demo['n_nonzero']:.1f} non-zeros a patch, to a certified "
            f"gap of {DEMO_GAP:g}.  Spikes alone take {demo['n_spikes']:.0f} spikes a patch.",
            contest_table(demo["contest"], DEMO_SPIKES.name),
            f"**{data['n_patches']:,} patches**, without their means, at norm one; "
            f"{data['n_atoms']} atoms learned from such patches; codes not negative, penalty "
            f"{PATCH_PENALTY:g}: {data['n_nonzero']:.1f} non-zeros a patch; to a certified gap of {GAP:g}.  "
            f"Spikes alone take {data['n_spikes']:.0f} spikes a patch.",
            contest_table(data["contest"], peers.SPIKES.name),
            f"Patches a second, one core: {rates}.",
        ]
    )


def plot(data: dict) -> Figure | None:
    picture = figure(7.0, 3.4)
    ax = picture.subplots()
    rates = throughput(data)
    names = sorted(rates, key=rates.get)
    bars = ax.barh(names, [rates[name] for name in names], color=[colour_of(name) for name in names])
    ax.bar_label(bars, [f"{rates[name]:,.0f}" for name in names], padding=3, fontsize="small")
    ax.set(xscale="log", xlabel="patches a second, one core", title=f"Codes certified to {GAP:g}")
    ax.margins(x=0.15)
    return picture
