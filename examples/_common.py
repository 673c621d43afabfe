"""Functions that examples share: options, tables, pictures, and a photograph of scikit-learn."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image

from examples._pictures import save_picture

# Weights of red, green and blue in the lightness of a pixel (ITU-R BT.601).
LUMA = (0.299, 0.587, 0.114)

# Colours of Okabe and Ito, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#666666"
SKY = "#56B4E9"


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the option that every example has."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    options.add_argument("--output", type=Path, default=Path("out"), help="folder for the pictures")
    return options


def at_least(least: float, most: float = float("inf"), kind: type = int) -> Callable[[str], Any]:
    """Return an argparse type for numbers in [least, most]."""

    def number(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from {least:g} to {most:g}; got {text}")
        return value

    return number


def figure(width: float, height: float) -> Figure:
    """Return an empty figure, with its size in inches, that draws without a display."""
    return Figure(figsize=(width, height), layout="constrained")


def save(picture: Figure, output: Path, name: str) -> Path:
    """Write a picture and print its path."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / name
    save_picture(picture, path, dpi=130)
    print(f"picture: {path}")
    return path


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in columns; the first column is left-aligned, all others are right-aligned."""
    lines = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
    written = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([written[0], "-" * (sum(widths) + 2 * len(widths) - 2), *written[1:]])


def photograph(height: int, width: int) -> np.ndarray:
    """Return the middle of scikit-learn's china.jpg in grey, values from 0 to 1, shape (height, width)."""
    grey = load_sample_image("china.jpg") @ np.array(LUMA) / 255.0
    if height > grey.shape[0] or width > grey.shape[1]:
        raise SystemExit(
            f"the photograph has {grey.shape[0]} x {grey.shape[1]} pixels; got {height} x {width}"
        )
    top, left = (grey.shape[0] - height) // 2, (grey.shape[1] - width) // 2
    return grey[top : top + height, left : left + width]


def signal_to_noise(image: np.ndarray, approximation: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio in dB of an image with values from 0 to 1."""
    return float(-10.0 * np.log10(np.mean((image - approximation) ** 2)))
