"""A photograph with missing pixels, filled in by sparse codes with masks: ten seconds.

One picture lacks half of its pixels, another has text and scratches over it.  Every overlapping 8 x 8 patch
is coded in cosine waves from its known pixels: one call codes all patches, each with its own mask.  The codes
predict missing pixels, and overlapping patches are averaged.  The penalty of a wave is proportional to its
frequency, as natural images have less energy at high frequencies.  The result is compared with the mean of
known pixels, and with scikit-image's biharmonic equation, which fills gaps as smoothly as possible.

    python -m examples.inpaint_photograph --output out
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dictlearn import extract_patches, overcomplete_dct, reconstruct_from_patches
from examples._common import figure, parser, save, signal_to_noise, table
from examples._data import grey_photograph
from solvers import LassoProblem, SparseCodingResult, solve_active_set

SIDE = 8
N_WAVES = 12
# Penalty of a wave with half a period in a patch; the constant wave has LEAST_FREQUENCY times this penalty.
PENALTY = 0.002
LEAST_FREQUENCY = 0.3
GAP = 1e-4
PICTURE = "camera"
TEXT = "missing pixels are not zero; they are not known. "


def half_missing(shape: tuple[int, int]) -> np.ndarray:
    """Return a mask of known pixels, with half of the pixels missing at random."""
    return np.random.default_rng(0).random(shape) >= 0.5


def written_over(shape: tuple[int, int]) -> np.ndarray:
    """Return a mask of known pixels, with lines of text and a few scratches missing."""
    height, width = shape
    page = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=14)
    line = TEXT * (1 + width // (5 * len(TEXT)))
    for row, top in enumerate(range(6, height, 26)):
        draw.text((-37 * (row % 4), top), line, fill=0, font=font)
    rng = np.random.default_rng(0)
    for _ in range(6):
        ends = rng.uniform(0.0, 1.0, (2, 2)) * (width, height)
        draw.line([tuple(end) for end in ends], fill=0, width=2)
    return np.asarray(page) > 127


def patch_problem(image: np.ndarray, known: np.ndarray, stride: int) -> tuple[LassoProblem, np.ndarray]:
    """Return the problem of all patches minus the means of their known pixels, and these means.

    The constant wave codes how far the mean of all pixels is from the mean of known pixels.
    """
    masks = extract_patches(known.astype(float), SIDE, stride=stride) > 0.0
    patches = extract_patches(np.where(known, image, 0.0), SIDE, stride=stride)
    means = patches.sum(axis=1) / np.maximum(masks.sum(axis=1), 1)
    frequency = np.arange(N_WAVES) * SIDE / N_WAVES
    frequency = np.hypot(frequency[:, np.newaxis], frequency).ravel()
    penalty = PENALTY * np.maximum(frequency, LEAST_FREQUENCY)
    signals = np.where(masks, patches - means[:, np.newaxis], np.nan)
    return LassoProblem(overcomplete_dct(SIDE, N_WAVES**2), signals, penalty, mask=masks), means


def inpaint(
    image: np.ndarray, known: np.ndarray, *, stride: int = 1, n_jobs: int | None = None
) -> tuple[np.ndarray, SparseCodingResult]:
    """Return the image with its missing pixels filled in, and the codes of its patches."""
    problem, means = patch_problem(image, known, stride)
    result = solve_active_set(problem, tol=GAP, n_jobs=n_jobs)
    patches = problem.reconstruct(result.sparse_codes) + means[:, np.newaxis]
    filled = reconstruct_from_patches(patches, image.shape, SIDE, stride=stride)
    return np.where(known, image, np.clip(filled, 0.0, 1.0)), result


def biharmonic(image: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the image filled in by scikit-image."""
    try:
        from skimage.restoration import inpaint_biharmonic
    except ImportError:
        raise SystemExit(
            "the image is compared with scikit-image, which is not installed: "
            "pip install 'sparsespike[examples]'"
        ) from None
    return np.clip(inpaint_biharmonic(np.where(known, image, 0.0), ~known), 0.0, 1.0)


def main(arguments: list[str] | None = None) -> int:
    """Remove pixels, fill the gaps in three ways, and draw the pictures."""
    command = parser(__doc__.splitlines()[0])
    command.add_argument(
        "--size", type=int, default=256, help="side of the part that is filled in, in pixels"
    )
    command.add_argument("--stride", type=int, default=1, help="distance of neighbouring patches")
    command.add_argument("--jobs", type=int, default=1, help="threads")
    options = command.parse_args(arguments)

    clean = grey_photograph(PICTURE)
    if not 2 * SIDE <= options.size <= min(clean.shape):
        raise SystemExit(f"--size must be from {2 * SIDE} to {min(clean.shape)}; got {options.size}")
    if options.stride < 1 or (options.size - SIDE) % options.stride:
        raise SystemExit(
            f"--stride must divide {options.size - SIDE}, --size less {SIDE}; got {options.stride}"
        )
    top, left = (clean.shape[0] - options.size) // 4, (clean.shape[1] - options.size) // 2
    clean = clean[top : top + options.size, left : left + options.size]

    rows, panels = [], []
    for damage, make in (("half of the pixels", half_missing), ("letters and scratches", written_over)):
        known = make(clean.shape)
        filled, result = inpaint(clean, known, stride=options.stride, n_jobs=options.jobs)
        ways = {
            "mean of known pixels": np.where(known, clean, clean[known].mean()),
            "biharmonic equation": biharmonic(clean, known),
            "sparse codes": filled,
        }
        missing = ~known
        for way, image in ways.items():
            quality = signal_to_noise(clean, image)
            of_missing = signal_to_noise(clean[missing], image[missing])
            rows.append([damage, f"{missing.mean():.0%}", way, f"{quality:.2f} dB", f"{of_missing:.2f} dB"])
            if way != "mean of known pixels":
                panels.append((f"{way}: {quality:.2f} dB", image))
        panels.insert(len(panels) - 2, (f"known: {known.mean():.0%}", np.where(known, clean, 1.0)))
        print(
            f"{damage}: {len(result.codes):,} patches in one call, {result.support_size.mean():.1f} waves a "
            f"patch, largest gap {np.max(result.duality_gap):.0e}"
        )
    print(table(["missing", "share", "filled in by", "peak signal to noise", "of missing pixels"], rows))

    picture = figure(11.0, 7.6)
    for ax, (title, image) in zip(picture.subplots(2, 3).flat, panels, strict=True):
        ax.imshow(image, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
        ax.set_title(title)
        ax.set_axis_off()
    save(picture, options.output, "inpainted.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
