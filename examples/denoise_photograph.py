"""A noisy photograph cleaned with atoms that spikes learned from others.

8 x 8 atoms are learned from patches of the other photographs; every overlapping patch of the noisy one is
coded in them, and the patches are averaged.  The paper's photograph was Lena, 512 x 512, at 18.7 dB.

    python -m examples.denoise_photograph --output out
"""

from __future__ import annotations

import numpy as np

from dictlearn import (
    denoise,
    join_channels,
    learn_dictionary,
    overcomplete_dct,
)
from examples._common import figure, parser, save, signal_to_noise, table
from examples._data import PHOTOGRAPHS, grey_photograph, patch_signals, photographs

SIDE = 8
NOISE = 29.6 / 255.0
PICTURE = "camera"


def main() -> None:
    """Learn, add noise, remove it, and draw."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--samples", type=int, default=30_000, help="training samples")
    options.add_argument("--size", type=int, default=512, help="side of the part that is cleaned, in pixels")
    options.add_argument("--stride", type=int, default=1, help="distance of neighbouring patches")
    options.add_argument("--jobs", type=int, default=1, help="threads")
    arguments = options.parse_args()

    every = photographs()
    # Without scikit-image there are two: learn from one, clean the other.
    name = PICTURE if len(every) == len(PHOTOGRAPHS) else "china"
    clean = grey_photograph(name)
    others = [image for image in every if not np.array_equal(image, clean)]
    size = min(arguments.size, *clean.shape)
    top, left = ((side - size) // 2 for side in clean.shape)
    clean = clean[top : top + size, left : left + size]
    signals = patch_signals(others, SIDE, min(arguments.samples, 100_000), seed=0, contrast=0.1)
    learner = learn_dictionary(
        signals, 256, penalty=0.1, n_samples=arguments.samples, rng=0, n_jobs=arguments.jobs, progress=True
    )
    noisy = clean + NOISE * np.random.default_rng(0).standard_normal(clean.shape)

    dictionaries = {
        "learned by spikes": join_channels(learner.dictionary),
        # The constant wave is what remove_mean takes away.
        "cosine waves": overcomplete_dct(SIDE, 256)[1:],
    }
    results, rows = {}, [["(noisy)", f"{signal_to_noise(clean, noisy):.2f} dB", "", ""]]
    for atoms, dictionary in dictionaries.items():
        result = denoise(
            noisy,
            dictionary,
            patch_size=SIDE,
            noise_level=NOISE,
            stride=arguments.stride,
            n_jobs=arguments.jobs,
            progress=True,
        )
        results[atoms] = result
        rows.append(
            [
                atoms,
                f"{signal_to_noise(clean, result.image):.2f} dB",
                f"{result.nonzeros_per_patch:.2f}",
                f"{result.relative_gap:.0e}",
            ]
        )
    print(table(["atoms", "peak signal to noise", "atoms a patch", "largest duality gap"], rows))

    best = results["learned by spikes"].image
    picture = figure(12.0, 4.4)
    axes = picture.subplots(1, 3)
    for ax, title, image in zip(axes, ("clean", "noisy", "cleaned"), (clean, noisy, best), strict=True):
        ax.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        ax.set_title(title if title == "clean" else f"{title}: {signal_to_noise(clean, image):.2f} dB")
        ax.set_axis_off()
    save(picture, arguments.output, "denoised.png")


if __name__ == "__main__":
    main()
