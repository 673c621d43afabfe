"""Video in sparse code, frame after frame, by spikes: each frame starts from the codes of those before.

A window is panned over a photograph.  Its patches of 8 x 8 pixels, without their means, are coded in an
overcomplete cosine dictionary by spiking networks.  A stream carries the codes from frame to frame, and the
network codes what they leave.  Beside it stands the same network that starts from nothing at every frame.
Every code is certified.  After a cut the stream goes on with another photograph.  A second stream has a
deadline in spikes.

    python -m examples.stream_video [--output DIR] [--frames NUMBER] [--shift PIXELS]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from dictlearn import extract_patches, overcomplete_dct, remove_mean
from examples._common import BLUE, GREY, ORANGE, figure, parser, save, table
from examples._data import grey_photograph, panned_window
from solvers import SparseCodingStream, StreamResult

PATCH_SIZE = 8
N_ATOMS = 256
PENALTY = 0.3  # in units of the signals, whose pixels run from 0 to 1
TOL = 1e-3
SIDE = 48
SCENES = {"china": (150, 240), "flower": (150, 240)}
SPIKES_PER_PATCH = 30  # of the deadline


def video(name: str, n_frames: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Return frames, (n_frames, SIDE, SIDE), and their patches without means, (n_frames, n_patches, 64)."""
    window = panned_window(grey_photograph(name), n_frames, shift, side=SIDE, corner=SCENES[name])
    patches = [remove_mean(extract_patches(frame, PATCH_SIZE, stride=PATCH_SIZE))[0] for frame in window]
    return window, np.array(patches)


def coded(patches: np.ndarray, **deadline: int) -> list[StreamResult]:
    """Return the codes of frame after frame."""
    stream = SparseCodingStream(overcomplete_dct(PATCH_SIZE, N_ATOMS), PENALTY)
    return [stream.code(frame, tol=TOL, **deadline) for frame in patches]


def relative_gaps(results: Sequence[StreamResult], patches: np.ndarray) -> np.ndarray:
    """Return duality_gap / (1/2 ||patch||^2), zero where a patch is zero, (n_frames, n_patches)."""
    energies = 0.5 * (patches * patches).sum(axis=2)
    gaps = np.array([result.duality_gap for result in results])
    return np.divide(gaps, energies, out=np.zeros_like(gaps), where=energies > 0.0)


def draw(
    window: np.ndarray, gaps: dict[str, np.ndarray], spikes: dict[str, np.ndarray], cut: int, shift: float
) -> Figure:
    picture = figure(11.0, 6.0)
    top, bottom = picture.subfigures(2, 1, height_ratios=(0.55, 1.0))
    shown = np.unique(np.linspace(0, len(window) - 1, 6).astype(int))
    for ax, k in zip(top.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        ax.imshow(window[k], cmap="gray", vmin=0.0, vmax=1.0)
        ax.set(title=f"frame {k + 1}")
        ax.set_axis_off()
    left, right = bottom.subplots(1, 2)
    frames = np.arange(1, len(window) + 1)
    colours = dict(zip(spikes, (ORANGE, BLUE, GREY), strict=False))
    for label, counts in spikes.items():
        left.plot(frames, counts, color=colours[label], marker="o", markersize=3, label=label)
    for label, values in gaps.items():
        right.semilogy(frames, values.max(axis=1), color=colours[label], label=label)
    right.axhline(TOL, color=GREY, linestyle=":")
    right.annotate(
        f"tol = {TOL:g}", (1.0, TOL), xytext=(0, -9), textcoords="offset points", va="top", color=GREY
    )
    right.set_ylim(bottom=0.4 * TOL)
    for ax in (left, right):
        ax.axvline(cut + 0.5, color=GREY, linewidth=0.8)
        ax.annotate(" cut", (cut + 0.5, 0.97), xycoords=("data", "axes fraction"), va="top", color=GREY)
        ax.set(xlabel="frame")
    left.set(
        title=f"Spikes, a patch; the window moves {shift:g} pixels a frame",
        ylabel="spikes a patch",
        ylim=(0.0, None),
    )
    right.set(title="Certified distance from the optimum", ylabel="largest gap / (1/2 ||patch||²)")
    bottom.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--frames", type=int, default=30, help="number of frames, two thirds before the cut")
    options.add_argument("--shift", type=float, default=0.0625, help="pixels that the window moves a frame")
    asked = options.parse_args(arguments)
    if asked.frames < 3:
        options.error(f"--frames must be at least 3; got {asked.frames}")
    if not 0.0 <= asked.shift * asked.frames <= 200.0:
        options.error(f"--shift must be from 0 to {200.0 / asked.frames:g}; got {asked.shift:g}")

    cut = 2 * asked.frames // 3
    scenes = [video("china", cut, asked.shift), video("flower", asked.frames - cut, asked.shift)]
    window, patches = (np.concatenate(parts) for parts in zip(*scenes, strict=True))
    bounded = f"warm, at most {SPIKES_PER_PATCH} spikes"
    runs = {
        "cold: each frame from nothing": [coded(frame[np.newaxis])[0] for frame in patches],
        "warm: a stream": coded(patches),
        bounded: coded(patches, max_spikes=SPIKES_PER_PATCH),
    }
    spikes = {label: np.array([r.n_steps.mean() for r in results]) for label, results in runs.items()}
    gaps = {label: relative_gaps(results, patches) for label, results in runs.items()}
    after = np.setdiff1d(np.arange(asked.frames), [0, cut])
    rows = [
        (
            label,
            f"{spikes[label][after].mean():.1f}",
            f"{spikes[label][cut]:.1f}",
            f"{np.median(gaps[label]):.1e}",
            f"{gaps[label].max():.1e}",
        )
        for label in runs
    ]
    print(f"{asked.frames} frames of {patches.shape[1]} patches, {N_ATOMS} atoms, wanted gap {TOL:g}\n")
    print(table(["", "spikes a patch", "at the cut", "median gap", "largest gap"], rows))
    certified = sum(int((gaps[label] <= TOL).all(axis=1).sum()) for label in runs if label != bounded)
    print(f"\n{certified} of {2 * asked.frames} frames without a deadline are certified to {TOL:g}")
    save(draw(window, gaps, spikes, cut, asked.shift), asked.output, "stream_video.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
