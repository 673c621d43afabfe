"""Modules of kernels, named ``..._of_test``, which tests write, and import as in a new process."""

import importlib
import sys
from contextlib import contextmanager

from snn._kernels import compiling


@contextmanager
def kernel_folder(tmp_path, monkeypatch, **sources):
    """Yield a folder with kernels and the files of Numba; at the end, unload the modules of the folder."""
    folder = tmp_path / "_kernels"
    folder.mkdir()
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    yield folder
    forget()


def forget():
    for name in [name for name in sys.modules if name.endswith("_of_test")]:
        del sys.modules[name]
    compiling._digest_of_files.cache_clear()


def imported_anew(name):
    """Import a module again, with nothing compiled yet."""
    forget()
    importlib.invalidate_caches()
    return importlib.import_module(name)
