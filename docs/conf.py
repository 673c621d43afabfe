"""Settings of the documentation: ``make docs``."""

import importlib
import os
import tomllib
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "sparsespike"
author = "the sparsespike developers"
copyright = "2026, the sparsespike developers"
version = release = PROJECT["version"]

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "README.md"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# Nothing is fetched: links to other projects are written out.
intersphinx_mapping = {}
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = True
numpydoc_show_inherited_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "sparsespike"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
# The interactive page: its program, and the runs that it shows.
html_static_path = ["_static"]

PACKAGES = ("snn", "snn.digital", "snn.exchange", "solvers", "dictlearn", "dictlearn.distributed")


def write_reference(_app, _config) -> None:
    """Write a page for each package that lists all it exports, and one that lists the packages."""
    folder = Path(__file__).parent / "reference"
    folder.mkdir(exist_ok=True)
    pages = {"index": ["Reference", "=========", "", ".. toctree::", "   :maxdepth: 2", ""]}
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = sorted(module.__all__, key=str.lower)
        pages["index"].append(f"   {package}")
        pages[package] = [
            package, "=" * len(package), "", module.__doc__.strip(), "", f".. currentmodule:: {package}", "",
            ".. autosummary::", "   :toctree: generated", "",
            *(f"   {name}" for name in names),
        ]  # fmt: skip
    for name, lines in pages.items():
        page, text = folder / f"{name}.rst", "\n".join([*lines, ""])
        # A page that is written is built again.
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app) -> None:
    """Make what is made from the packages."""
    app.connect("config-inited", write_reference)
