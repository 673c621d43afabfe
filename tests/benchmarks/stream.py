"""Video: how many spikes a frame takes, from the frames before and from nothing."""

import numpy as np
from matplotlib.figure import Figure

from dictlearn import extract_patches, remove_mean
from examples._common import BLUE, GREY, ORANGE, figure
from examples._data import grey_photograph, panned_window
from solvers import LassoProblem, SparseCodingStream, solve_spiking
from tests.benchmarks.problems import PATCH_PENALTY, PATCH_SIZE, learned_dictionary
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import table, verify

TITLE = "Video, frame after frame"
GAP = 1e-3
N_FRAMES = 30
# Pixels a frame.
SHIFTS = (0.03125, 0.0625, 0.125, 0.25, 1.0)
QUICK_SHIFTS = (0.0625, 1.0)
TARGET_SHIFTS = (0.03125, 0.0625, 1.0)
DEADLINE_SHIFT = 0.0625
PHOTOGRAPHS = ("china", "flower")
SIDE, CORNER = 32, (150, 240)
BUDGETS = (5, 10, 20, 40, 80)


def video(shift: float, *, n_frames: int, side: int) -> np.ndarray:
    """Return the patches of panned photographs, (n_frames, n_patches, pixels), of norm one in the median."""
    frames = []
    for name in PHOTOGRAPHS:
        window = panned_window(grey_photograph(name), n_frames, shift, side=side, corner=CORNER)
        frames.append(
            [remove_mean(extract_patches(image, PATCH_SIZE, stride=PATCH_SIZE))[0] for image in window]
        )
    patches = np.concatenate(frames, axis=1)
    return patches / np.median(np.linalg.norm(patches, axis=2))


def coded(
    stream: SparseCodingStream, problem: LassoProblem, frames: np.ndarray, **deadline: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return spikes and relative gaps of all signals, (n_frames, n_signals); verified without a deadline."""
    stream.reset()
    spikes, gaps = [], []
    for frame in frames:
        result = stream.code(frame, tol=GAP, **deadline)
        energies = 0.5 * (frame * frame).sum(axis=1)
        if not deadline:
            verify(problem.with_signals(frame), result.codes, GAP, "the stream")
        spikes.append(result.n_steps)
        gaps.append(result.duality_gap / energies)
    return np.array(spikes), np.array(gaps)


def run(*, quick: bool) -> dict:
    dictionary = learned_dictionary(32, 500) if quick else learned_dictionary(256, 10_000)
    gram = dictionary @ dictionary.T
    stream = SparseCodingStream(dictionary, PATCH_PENALTY, positive=True, gram=gram)
    n_frames, side = (4, 16) if quick else (N_FRAMES, SIDE)
    shifts = []
    for shift in QUICK_SHIFTS if quick else SHIFTS:
        frames = video(shift, n_frames=n_frames, side=side)
        whole = LassoProblem(dictionary, frames[0], PATCH_PENALTY, positive=True, gram=gram)
        warm, gaps = coded(stream, whole, frames)
        cold, one_window = [], []
        for frame in frames:
            problem = whole.with_signals(frame)
            cold.append(solve_spiking(problem, tol=GAP).n_steps)
            one_window.append(solve_spiking(problem, tol=GAP, refine=False).n_steps)
        change = np.linalg.norm(np.diff(frames, axis=0), axis=2) / np.linalg.norm(frames[1:], axis=2)
        shifts.append(
            {
                "shift": shift,
                "change": float(np.median(change)),
                "largest_gap": float(gaps.max()),
                # The first frame has nothing before it.
                "warm": [float(n) for n in warm.mean(axis=1)],
                "cold": [float(n) for n in np.mean(cold, axis=1)],
                "one_window": [float(n) for n in np.mean(one_window, axis=1)],
            }
        )
    frames = video(DEADLINE_SHIFT, n_frames=n_frames, side=side)
    deadlines = [
        {"spikes": budget, "gaps": [float(g) for g in np.quantile(gaps[1:], [0.5, 0.9])]}
        for budget in (BUDGETS[:2] if quick else BUDGETS)
        for _, gaps in [coded(stream, whole, frames, max_spikes=budget)]
    ]
    return {
        "n_frames": n_frames,
        "n_patches": int(frames.shape[1]),
        "n_atoms": len(dictionary),
        "shifts": shifts,
        "deadlines": deadlines,
    }


def mean_after_first(spikes: list[float]) -> float:
    return float(np.mean(spikes[1:]))


def saving(shift: dict, against: str) -> float:
    """Return how many times fewer spikes a frame takes, the first left out."""
    return mean_after_first(shift[against]) / max(mean_after_first(shift["warm"]), 1e-300)


def targets(data: dict) -> list[Target]:
    return [
        at_least(
            f"video, {data['n_frames']} frames panned by {shift['shift']:g} pixels, certified {GAP:g}",
            3.0,
            saving(shift, "cold"),
            ">= 3x fewer spikes than cold",
        )
        for shift in data["shifts"]
        if shift["shift"] in TARGET_SHIFTS
    ]


def markdown(data: dict) -> str:
    rows = [
        [
            f"{shift['shift']:g}",
            f"{100.0 * shift['change']:.0f} %",
            *(f"{mean_after_first(shift[name]):.1f}" for name in ("warm", "cold", "one_window")),
            f"{saving(shift, 'cold'):.1f}x",
            f"{saving(shift, 'one_window'):.1f}x",
            f"{shift['largest_gap']:.1e}",
        ]
        for shift in data["shifts"]
    ]
    deadlines = [[f"{d['spikes']}", *(f"{gap:.1e}" for gap in d["gaps"])] for d in data["deadlines"]]
    return (
        f"A window is panned over photographs, {', '.join(PHOTOGRAPHS)}, to the right: "
        f"{data['n_frames']} frames of {data['n_patches']} patches of 8 x 8 pixels without their means; "
        f"{data['n_atoms']} atoms learned from patches, codes not negative, penalty {PATCH_PENALTY:g}.  "
        f"Every code is certified to {GAP:g}.  Warm: a `SparseCodingStream`.  Cold: `solve_spiking` of each "
        "frame from nothing, with and without refinement.  Spikes a patch and frame, without the first "
        "frame.\n\n"
        + table(
            [
                "pixels a frame",
                "change of a patch",
                "warm",
                "cold",
                "cold, one window",
                "saving",
                "saving, one window",
                "largest gap",
            ],
            rows,
        )
        + f"\n\nWith a deadline in spikes a patch and frame, at {DEADLINE_SHIFT:g} pixels a frame:\n\n"
        + table(["spikes", "median gap", "gap of nine in ten"], deadlines)
    )


def plot(data: dict) -> Figure | None:
    picture = figure(5.0 * len(data["shifts"][:3]), 3.2)
    axes = picture.subplots(1, len(data["shifts"][:3]), squeeze=False, sharey=True)[0]
    for ax, shift in zip(axes, data["shifts"], strict=False):
        frames = np.arange(1, data["n_frames"] + 1)
        names = {"one_window": "cold, one window", "cold": "cold, refined", "warm": "warm: a stream"}
        for (name, label), colour in zip(names.items(), (GREY, ORANGE, BLUE), strict=True):
            ax.plot(frames, shift[name], color=colour, label=label)
        ax.set(xlabel="frame", title=f"{shift['shift']:g} pixels a frame", ylim=(0.0, None))
    axes[0].set(ylabel=f"spikes a patch, certified to {GAP:g}")
    axes[0].legend(loc="center left", fontsize="small")
    return picture
