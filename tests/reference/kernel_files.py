"""Modules of kernels, named ``..._of_test``, that a test writes and imports as a new process would."""

import importlib
import sys
from contextlib import contextmanager

from snn._kernels import compiling


@contextmanager
def kernel_folder(tmp_path, monkeypatch, **sources):
    """Yield a folder of kernels, which also has Numba's files; forget its modules at the end."""
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
    """Import a module with nothing compiled yet."""
    forget()
    importlib.invalidate_caches()
    return importlib.import_module(name)
