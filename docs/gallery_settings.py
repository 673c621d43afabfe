"""The order of the gallery, from the network to learning, and what Sphinx-gallery imports by name."""

from __future__ import annotations

import warnings
from contextlib import ExitStack

SECTIONS = {
    "network": ("one_neuron", "why_it_fired", "live_input"),
    "codes": ("read_outs", "choose_penalty", "operations"),
    "images": ("video",),
    "learning": ("learn_atoms", "how_many_atoms", "own_rule"),
}
"""Folders of `examples/gallery`, and their scripts without ``plot_`` and ``.py``."""

_STRICT = ExitStack()


class Order:
    """The sorting key of the scripts of a section."""

    def __init__(self, folder: str) -> None:
        self._names = [name for names in SECTIONS.values() for name in names]

    def __call__(self, script: str) -> int:
        """Return the place of a script; one that is not listed ends the build with an error."""
        name = str(script).rsplit("/", 1)[-1].removeprefix("plot_").removesuffix(".py")
        if name not in self._names:
            raise ValueError(f"{script} is not listed in docs/gallery_settings.py: add it to its section")
        return self._names.index(name)

    def __repr__(self) -> str:
        # Part of what decides whether Sphinx reads all pages again.
        return f"<Order {self._names}>"


def strict(_settings: dict, script: str | None, when: str) -> None:
    """Make a warning of a script an error, which ends the build; undo that after the script."""
    if when == "after":
        _STRICT.close()
    elif script is not None:
        _STRICT.enter_context(warnings.catch_warnings(action="error"))
