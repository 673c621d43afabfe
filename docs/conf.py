"""Settings of the documentation: ``make docs``."""

import importlib
import os
import sys
from pathlib import Path

import snn
from dictlearn.resumable import Resumable
from snn.base.archive import Saved
from snn.base.describe import Drawn

os.environ.setdefault("MPLBACKEND", "Agg")

sys.path.insert(0, str(Path(__file__).parent))
from gallery_settings import SECTIONS

project = "sparsespike"
author = "the sparsespike developers"
copyright = "2026, the sparsespike developers"
version = release = snn.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
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
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = True
# Set below: what classes inherit of how they are drawn, saved and resumed.
numpydoc_show_inherited_class_members = {}
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "subsection_order": [f"../examples/gallery/{section}" for section in SECTIONS],
    "within_subsection_order": "gallery_settings.Order",
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib", "gallery_settings.strict"),
    "reset_modules_order": "both",
    # Pages of the reference show the examples that use what they describe.
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("snn", "solvers", "dictlearn"),
    "image_srcset": ["2x"],
    "thumbnail_size": (560, 400),
    "capture_repr": (),
    "show_signature": False,
    # The same pages from the same scripts: no running times.
    "write_computation_times": False,
    "min_reported_time": 1e9,
}

templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "pydata_sphinx_theme"
html_title = "sparsespike"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False

PACKAGES = (
    "snn",
    "snn.digital",
    "snn.exchange",
    "snn.hardware",
    "snn.pictures",
    "solvers",
    "dictlearn",
    "dictlearn.distributed",
    "dictlearn.pictures",
    "dictlearn.two_phase.rules",
)


def public_names(module) -> list[str]:
    """Return what a package or module exports; without a list of that, its own public names."""
    own = (name for name in vars(module) if getattr(vars(module)[name], "__module__", "") == module.__name__)
    names = getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]
    return sorted(names, key=str.lower)


def show_inherited(_app, config) -> None:
    """Let pages of classes show `plot`, `save` and `load`; estimators would show all of scikit-learn's."""
    bases = {Drawn, Saved, Resumable}
    shown = config.numpydoc_show_inherited_class_members = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in public_names(module):
            inherits = bases & set(getattr(getattr(module, name), "__bases__", ()))
            shown[f"{package}.{name}"] = bool(inherits)


def write_reference(_app, _config) -> None:
    """Write a page for each package that lists all it exports, and one that lists the packages."""
    folder = Path(__file__).parent / "reference"
    folder.mkdir(exist_ok=True)
    pages = {"index": ["Reference", "=========", "", ".. toctree::", "   :maxdepth: 2", ""]}
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = public_names(module)
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


def compile_kernels(_app) -> None:
    """Compile before the gallery runs: what the first use says on stderr would be in its pages."""
    importlib.import_module("dictlearn").warm_up(progress=sys.stderr.isatty())


def setup(app) -> None:
    """Make what is made from the packages."""
    app.connect("config-inited", show_inherited)
    app.connect("config-inited", write_reference)
    app.connect("builder-inited", compile_kernels, priority=0)
