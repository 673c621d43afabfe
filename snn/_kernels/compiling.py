"""Compilation of kernels, and a cache of their machine code on disk for later processes."""

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.core.types.misc import unliteral
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, register_jitable, register_model

from snn._kernels.compile_notice import NOTICE, PLAINLY

# Releases of Numba with which inner functions are linked into kernels.  With other releases, inner functions
# are not linked, and compilation takes longer.
TESTED_RELEASES = ("0.68",)
IS_WANTED = os.environ.get("SPARSESPIKE_LINKING") != "0"
IS_LINKED = IS_WANTED and numba.__version__.rpartition(".")[0] in TESTED_RELEASES
if not IS_LINKED:
    reason = f"it was not tested with Numba {numba.__version__}" if IS_WANTED else "SPARSESPIKE_LINKING=0"
    NOTICE.sentence += PLAINLY.format(reason=reason)
HERE = Path(__file__).parent
T = TypeVar("T")

event.register("numba:compile", NOTICE)

_KERNEL: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
if IS_LINKED:
    from snn._kernels import linking

    _KERNEL["pipeline_class"] = linking.KernelCompiler
    _INNER |= {"pipeline_class": linking.InnerCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Callable, **options: Any) -> Callable:
    """Compile a kernel that Python calls, at its first call; store it on disk, and run it without the GIL."""
    # Results depend on `inf` and on exact comparisons of times, so fast-math is off.  `options` are further
    # options of `numba.njit`; ``partial(compiled, ...)`` passes them.
    function = getattr(function, "py_func", function)
    dispatcher = njit(**_KERNEL, **options)(function)
    # A RuntimeError of Numba means that no folder is writable; an AttributeError, that Numba's internals have
    # changed.  If a kernel has no cache, each process compiles this kernel again.
    with contextlib.suppress(RuntimeError, AttributeError):
        dispatcher._cache = KernelCache(function)
    return dispatcher


# Like `compiled`, for kernels that neither allocate nor keep arrays: references are not counted.  In a kernel
# that takes a few dozen nanoseconds, counting references costs as much as the work.
uncounted = functools.partial(compiled, _nrt=False)


def inner(function: Callable, **options: Any) -> Callable:
    """Compile a function into each kernel that calls it; the function must not allocate memory."""
    # An inner function has no machine code of its own and is not stored on disk.  A function that allocates
    # needs ``partial(inner, _nrt=True)``.  When Python calls an inner function, it becomes a kernel.
    dispatcher: Any = njit(**{**_INNER, **options})(function)
    is_compiled = isinstance(dispatcher, Dispatcher)  # False if NUMBA_DISABLE_JIT is set
    if IS_LINKED and is_compiled:
        kernel: Any = functools.cache(lambda: compiled(function, **{"_nrt": False, **options}))
        resolve = dispatcher.get_call_template
        # Numba compiles again for each literal number in a call; without literals, one version serves all.
        dispatcher.get_call_template = lambda args, kws: resolve(
            tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()}
        )
        dispatcher._insert = lambda *_: None
        dispatcher._compile_for_args = lambda *arguments: kernel()._compile_for_args(*arguments)
    return dispatcher


# Like `inner`, for functions that run at every spike: the compiler inlines every call.
inlined = functools.partial(inner, forceinline=True)


def callable_in_kernels(function: Callable) -> Callable:
    """Let kernels call a function that makes records, and that Python calls without compilation."""
    # When a compiled function returns a record to Python, Numba makes the record by calling Python and does
    # not check for errors: a Ctrl-C at that moment would end the process.
    return register_jitable(**{**_INNER, "_nrt": True})(function)


def record(kind: type[T]) -> type[T]:
    """Let kernels call, as `inlined` functions, the public methods of a NamedTuple and of its bases."""
    # The type of the record selects the method when a kernel is compiled.  A call of an abstract method does
    # not compile.  Callers of methods must be `compiled`, because code of plain `numba.njit` crashes at a
    # method.
    if kind.__dictoffset__ != 0:
        raise TypeError(f"{kind.__name__} and its bases must have __slots__ = (); got a class without it")
    bases = [base for base in reversed(kind.__mro__) if base not in (tuple, object)]
    attributes = {name: value for base in bases for name, value in vars(base).items() if name[0] != "_"}
    methods = {name: value for name, value in attributes.items() if inspect.isfunction(value)}
    files = {*map(_file_of, bases), *(method.__code__.co_filename for method in methods.values())}
    for file in files:
        if not _folders_of_kernels(file):
            raise TypeError(
                f"{kind.__name__} must have bases and methods in a folder {HERE.name}, whose sources the "
                f"cache of machine code knows; got {file or 'a class without a file'}"
            )
    _METHODS_OF_RECORDS[kind], _FOLDERS[kind] = methods, set().union(*map(_folders_of_kernels, files))
    return kind


# The methods of each record, and the folders that contain their sources.
_METHODS_OF_RECORDS: dict[type, dict[str, Any]] = {}
_FOLDERS: dict[type, set[Path]] = {}


@infer_getattr
class _Methods(AttributeTemplate):
    """The place where Numba looks up methods of records when it compiles kernels."""

    key = BaseNamedTuple

    def generic_resolve(self, type_: Any, name: str) -> Any:
        """Return the type of a method; return None for a field, or if the NamedTuple is not a record."""
        method = _METHODS_OF_RECORDS.get(type_.instance_class, {}).get(name)
        is_missing = method is None or getattr(method, "__isabstractmethod__", False)
        return None if is_missing else _Method(method, type_)


class _Method(numba.types.BoundFunction):
    """The type of a method of a record: a call passes the record as the first argument of a function."""

    def __init__(self, method: Any, this: numba.types.Type) -> None:
        self.this, self.typing_key = this, method
        self._function = _as_inlined(method)._numba_type_
        numba.types.Type.__init__(self, f"{method.__qualname__} of {this}")

    key = property(lambda self: (self.typing_key, self.this))

    def get_call_type(self, context: Any, args: tuple, kws: dict) -> Any:
        """Return the signature of a call."""
        return self._function.get_call_type(context, (self.this, *args), kws).as_method()

    def get_impl_key(self, signature: Any) -> Any:
        """Return the key by which Numba finds the code of a method."""
        return self._function.get_impl_key(signature)


_as_inlined: Any = functools.cache(inlined)
register_model(_Method)(lambda models, type_: models[type_.this])


def _as_integers(values):
    """Return the memory of an array as 64-bit integers: one for each float, or for every eight flags."""
    return values.view(np.int64)


def _as_integers_typed(_: Any, values: numba.types.Array) -> tuple:
    # This function replaces `values.view(np.int64)`, which takes a second to compile.
    from numba.core.imputils import impl_ret_borrowed  # imported only here, because this import takes long
    from numba.np.arrayobj import make_array, populate_array

    def generate(context: Any, builder: Any, signature: Any, arguments: tuple) -> Any:
        source = make_array(values)(context, builder, arguments[0])
        target = make_array(signature.return_type)(context, builder)
        shape, strides = source.shape, source.strides
        if values.dtype == numba.types.boolean:
            size = builder.extract_value(shape, 0)
            shape = builder.insert_value(shape, builder.udiv(size, size.type(8)), 0)
            strides = builder.insert_value(strides, size.type(8), 0)
        data = builder.bitcast(source.data, target.data.type)
        itemsize = context.get_constant(numba.types.intp, 8)
        populate_array(target, data, shape, strides, itemsize, source.meminfo, source.parent)
        return impl_ret_borrowed(context, builder, signature.return_type, target._getvalue())

    return values.copy(dtype=numba.types.int64)(values), generate


as_integers = _as_integers if numba.config.DISABLE_JIT else intrinsic(_as_integers_typed)


class KernelCache(FunctionCache):
    """Numba's cache of machine code on disk, safe for many processes, unreadable files and full disks."""

    # Numba numbers the files of a kernel, and first writes an index of the files.  If two processes compile
    # for different types at once, or if a process is killed after it wrote the index, the index may lead to
    # code for other types or of older sources, and Numba runs this code.  Numba fails at an unreadable file.
    #
    # In a `KernelCache`, the name of a file has digests of everything on which the code depends.  A file
    # begins with a checksum of its name and content, and gets its name when it is complete.  A file with
    # another name or a wrong checksum is ignored.  If a file cannot be written, the next process compiles
    # again.

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        # Numba's stamp covers only the file of the kernel, but a kernel has parts from other files.
        folders = {HERE, *_folders_of_kernels(function.__code__.co_filename)}
        sources = [_digest_of_files(folder) for folder in sorted(folders)]
        locator = self._impl.locator
        # The name leaves out the line number, so that the code of a moved kernel replaces the old code.
        base = self._impl.filename_base.replace(f"-{locator.get_disambiguator()}", "", 1)
        stamp = _digest([*sources, locator.get_source_stamp()])
        self._cache_file = _Files(Path(self.cache_path), base, stamp)

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


class _Files:
    """The files of one kernel, without an index, in place of `numba.core.caching.IndexDataCacheFile`."""

    def __init__(self, folder: Path, base: str, stamp: str) -> None:
        self._folder, self._base, self._stamp = folder, base, stamp

    def load(self, key: tuple) -> Any:
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        checksum, record = content[:32], content[32:]
        return pickle.loads(record) if _checksum(path, record) == checksum else None

    def save(self, key: tuple, data: Any) -> None:
        record, path = dumps(data), self._path(key)
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
        try:
            temporary.write_bytes(_checksum(path, record) + record)
            os.replace(temporary, path)
        finally:
            _remove(temporary)
        for old in set(self._folder.glob(f"{self._base}.*.nbc")) - set(self._folder.glob(self._name("*"))):
            _remove(old)

    def _name(self, types: str) -> str:
        return f"{self._base}.{self._stamp}-{types}.nbc"

    def _path(self, key: tuple) -> Path:
        records = [_digest_of_files(folder) for folder in sorted(_folders_of_records(key[0]))]
        # NUMBA_BOUNDSCHECK=1 and the way of linking change the code of a kernel.
        way = numba.__version__, numba.config.BOUNDSCHECK, IS_LINKED
        return self._folder / self._name(_digest((key, way, records)))


def _folders_of_records(types: Iterable[Any]) -> set[Path]:
    """Return the folders of kernels that define the records among the types, and their nested records."""
    folders = set()
    for type_ in types:
        if isinstance(type_, BaseTuple):
            folders |= _folders_of_records(type_)
        if isinstance(type_, BaseNamedTuple):
            kind = type_.instance_class
            folders |= _FOLDERS.get(kind, _folders_of_kernels(_file_of(kind)))
    return folders


def _file_of(kind: type) -> str:
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""


def _folders_of_kernels(file: str) -> set[Path]:
    """Return the folders of kernels that contain a file."""
    return {folder for folder in Path(file).parents if folder.name == HERE.name}


def _remove(path: Path) -> None:
    # Another process may have removed the file, or may hold the file open, which can forbid removal.
    with contextlib.suppress(OSError):
        path.unlink()


def _checksum(path: Path, record: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + record).digest()


def _digest(values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


@functools.cache
def _digest_of_files(folder: Path) -> str:
    return _digest([hashlib.sha256(file.read_bytes()).digest() for file in sorted(folder.rglob("*.py"))])
