"""Small picture files: PNG of at most 256 colours, and WebP for colour photographs.

python -m examples._pictures docs/figures/tutorial_*.png    # shrinks existing pictures
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

N_COLOURS = 256
QUALITY = 90


def save_picture(picture: Figure, path: Path, *, dpi: float) -> None:
    """Write a figure as WebP if the path ends in .webp, otherwise as PNG of few colours."""
    drawn = io.BytesIO()
    picture.savefig(drawn, dpi=dpi)
    write(Image.open(drawn), path)


def write(image: Image.Image, path: Path) -> None:
    """Write an image; a grey image is stored as PNG without loss."""
    image = image.convert("RGB")
    if path.suffix == ".webp":
        image.save(path, quality=QUALITY, method=6)
        return
    pixels = np.asarray(image)
    if (pixels == pixels[..., :1]).all():
        light = image.convert("L")
    else:
        light = image.quantize(N_COLOURS, method=Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE)
    light.save(path, optimize=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with Image.open(name) as saved:
            write(saved.copy(), Path(name))
