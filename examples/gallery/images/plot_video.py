"""
Video, frame after frame, with a deadline
=========================================

Successive frames are alike.  A stream starts each frame from the codes of earlier
frames, so that the network only has to code what changed.  The stream can have a
deadline in spikes, and still certifies how good each code is.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_sample_image

from dictlearn import extract_patches, overcomplete_dct, remove_mean
from solvers import SparseCodingStream

# A camera moves by a twentieth of a pixel a frame, and then shows another place.
photograph = load_sample_image("china.jpg").mean(axis=2) / 255.0
cut, n_frames = 8, 20
frames = []
for k in range(n_frames):
    top, left = (270, 220) if k < cut else (150, 240)
    window = photograph[top : top + 60, left : left + 60]
    moved = shift(window, (0.0, 0.05 * k), order=3, mode="nearest")[6:54, 6:54]
    frames.append(remove_mean(extract_patches(moved, 8, stride=8))[0])

dictionary = overcomplete_dct(8, 256)


def code(options, *, cold=False):
    """Return the median number of spikes and the largest gap of patches, per frame."""
    stream = SparseCodingStream(dictionary, penalty=0.3)
    figures = []
    for patches in frames:
        if cold:
            stream.reset()
        result = stream.code(patches, tol=1e-3, **options)
        figures.append((np.median(result.n_steps), result.relative_gap.max()))
    return np.transpose(figures)


# %%
# The same frames are coded with memory, without memory, and with a deadline of 20
# spikes for each patch.

runs = {
    "each frame from nothing": (code({}, cold=True), "o"),
    "a stream": (code({}), "s"),
    "a stream, at most 20 spikes": (code({"max_spikes": 20}), "^"),
}
figure, (spikes, gap) = plt.subplots(
    2, 1, sharex=True, figsize=(6.4, 5.0), layout="constrained"
)
for name, ((n_spikes, gaps), marker) in runs.items():
    spikes.plot(np.arange(n_frames), n_spikes, f"{marker}-", markersize=4, label=name)
    gap.semilogy(np.arange(n_frames), gaps, f"{marker}-", markersize=4)
spikes.set(
    title="A stream needs spikes for what is new",
    ylabel="spikes (median of 36 patches)",
)
spikes.legend(fontsize="small")
gap.axhline(1e-3, color="0.5", linestyle=":")
gap.set(
    xlabel="frame",
    xticks=range(0, n_frames, 2),
    ylabel="largest gap / (1/2 ||patch||²)",
)
for ax in (spikes, gap):
    ax.axvline(cut - 0.5, color="0.5", linewidth=0.8)
gap.set_ylim(5e-4, 0.2)
gap.text(cut - 0.3, 0.1, "cut to another place", color="0.3")
plt.show()

# %%
# While little changes, most patches take no spikes: the code of the previous frame is
# still good enough.  At the cut the old codes are useless, and the stream starts
# from nothing, as the network without memory always does.  The last stream never takes
# more than 20 spikes a patch: its codes are less accurate, as their certified gaps
# show.  The dotted line is the tolerance of the other two runs.
