"""Small animated pictures: all frames share one palette, so that the file stores only changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial import KDTree

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

DPI = 112.5  # dots per inch: a figure of 6.4 inches has 720 pixels, the width of a page
# A palette has the colours of lines, greys for photographs, the most frequent colours, and mean colours.
LINES = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY, SKY)
N_GREYS, N_FREQUENT, N_MEANS = 17, 8, 24
# Times for which a frame and the last frame are shown, in milliseconds.
FRAME_TIME, LAST_FRAME_TIME = 80, 2500


def frame_of(picture: Figure) -> Image.Image:
    """Return the present state of a figure as an image."""
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def palette_of(frames: list[Image.Image]) -> np.ndarray:
    """Return a palette for the frames of an animation, shape (n_colours, 3)."""
    pixels = np.concatenate([np.asarray(frame).reshape(-1, 3) for frame in frames])
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    frequent = colours[np.argsort(-counts, kind="stable")[:N_FREQUENT]]
    lines = np.array([to_rgb(line) for line in LINES])
    greys = np.linspace([0.0] * 3, [1.0] * 3, N_GREYS)
    joined = Image.fromarray(pixels[np.newaxis]).quantize(N_MEANS, method=Image.Quantize.MEDIANCUT)
    means = np.array(joined.getpalette()[: 3 * N_MEANS]).reshape(-1, 3)
    exact = np.round(255 * np.concatenate([lines, greys]))
    return np.concatenate([exact, frequent, means]).astype(np.uint8)


def in_palette(frame: Image.Image, palette: np.ndarray) -> Image.Image:
    """Return a frame with the nearest colour for each pixel; Pillow's own search uses only six bits."""
    pixels = np.asarray(frame)
    colours, places = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    _, nearest = KDTree(palette).query(colours)
    image = Image.fromarray(nearest[places].reshape(pixels.shape[:2]).astype(np.uint8), mode="P")
    image.putpalette(palette.ravel().tolist())
    return image


def save_animation(
    picture: Figure, draw: Callable[[int], None], n_frames: int, output: Path, name: str
) -> Path:
    """Write a file with all frames, and print the path; the last frame is shown for longer."""
    picture.set_dpi(DPI)
    frames = []
    for k in range(n_frames):
        draw(k)
        frames.append(frame_of(picture))
    palette = palette_of([frames[0], frames[n_frames // 2], frames[-1]])
    first, *others = [in_palette(frame, palette).convert("RGB") for frame in frames]
    output.mkdir(parents=True, exist_ok=True)
    path = output / name
    durations = [FRAME_TIME] * (n_frames - 1) + [LAST_FRAME_TIME]
    # For frames of few colours, a lossless WebP has half the size of a GIF, and a lossy WebP is larger.
    lossless = {"lossless": True, "quality": 60, "method": 4}
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, **lossless)
    print(f"animation: {path}, {n_frames} pictures, {path.stat().st_size / 1024:,.0f} KB")
    return path
