"""The order of the gallery: from the network to learning.  Sphinx-gallery imports `Order` by its name."""

from __future__ import annotations

SECTIONS = {
    "network": ("one_neuron", "three_neurons", "why_it_fired"),
    "codes": ("read_outs", "code_path", "choose_penalty"),
    "images": ("photograph", "missing_pixels", "convolution", "video"),
    "learning": ("local_updates", "learn_atoms"),
    "chips": ("bits", "operations"),
}
"""Folders of `examples/gallery`, and their scripts without ``plot_`` and ``.py``."""


class Order:
    """The sorting key of the scripts of a section."""

    def __init__(self, folder: str) -> None:
        self._names = [name for names in SECTIONS.values() for name in names]

    def __call__(self, script: str) -> int:
        """Return the place of a script; one that is not listed ends the build with an error."""
        name = str(script).rsplit("/", 1)[-1].removeprefix("plot_").removesuffix(".py")
        if name not in self._names:
            raise ValueError(f"{script} is not listed in docs/gallery_order.py: add it to its section")
        return self._names.index(name)

    def __repr__(self) -> str:
        # Part of what decides whether Sphinx reads all pages again.
        return f"<Order {self._names}>"
