"""Inner functions as parts of kernels: linked as they are, and optimised once, with the kernel around them.

Left to itself, Numba optimises each function, makes machine code of it that Python may call, and optimises
it again in each caller.  Here the code of an inner function is a `Part`.  A kernel, a `Whole`, collects its
parts and theirs, and LLVM sees all of them at once.  Numba also tries dozens of templates at each call of a
built-in function, and again when the call is lowered; here the answer is remembered.

Numba does not document what this module overrides.  With a release that has other names for it, importing
this raises an error, and `compiling` goes without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import codegen, compiler, types
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.typed_passes import NativeLowering

from snn._kernels import lowering

NEEDED = {
    codegen.JITCodeLibrary: (
        "_get_module_for_linking", "_raise_if_finalized", "add_linking_library", "enable_object_caching",
        "finalize",
    ),
    compiler.Compiler: ("_compile_core", "define_pipelines"),
    compiler.DefaultPassBuilder: ("define_nopython_pipeline",),
    compiler.Flags: ("no_compile",),
    PassManager: ("add_pass_after",),
    types.Function: ("get_call_type",),
} | lowering.NEEDED  # fmt: skip
for owner, names in NEEDED.items():
    for name in names:
        if not hasattr(owner, name):
            raise ImportError(f"this release of Numba has no {owner.__name__}.{name}")
lowering.pass_records_by_address()


class Part(codegen.JITCodeLibrary):
    """The code of an inner function, by itself neither optimised nor made into machine code."""

    def finalize(self) -> None:
        """Let nothing be added any more."""
        self._raise_if_finalized()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                # Any number of kernels may have a copy, and drop what they have inlined.
                function.linkage = "linkonce_odr"
        return self._final_module


class Whole(codegen.JITCodeLibrary):
    """The code of a kernel and of all its parts."""

    def add_linking_library(self, library: codegen.CodeLibrary) -> None:
        """Link another library, and those that it needs."""
        for needed in _with_parts(library, set()):
            super().add_linking_library(needed)


def _with_parts(library: codegen.CodeLibrary, seen: set) -> Iterator[codegen.CodeLibrary]:
    if library in seen:
        return
    seen.add(library)
    yield library
    if isinstance(library, Part):
        for needed in library._linking_libraries:
            yield from _with_parts(needed, seen)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(NativeLowering):
    _name = "sparsespike_lower_kernel"
    lowering_class = lowering.KernelLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerInner(NativeLowering):
    _name = "sparsespike_lower_inner"
    lowering_class = lowering.InnerLower


@register_pass(mutates_CFG=False, analysis_only=True)
class _NameInner(LoweringPass):
    """Make an inner function, of which there is no machine code to call, known to kernels."""

    _name = "sparsespike_name_inner"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        # Numba wants a built-in function as the name, and no two functions with one.
        name = [state.func_id.func_qualname].count
        state["cr"] = state["cr"]._replace(cfunc=name)
        state.targetctx.insert_user_function(name, state["cr"].fndesc, [state.library])
        return False


_SIGNATURES: dict[tuple, Any] = {}
_LOOK_UP = types.Function.get_call_type


def _remembered(function: types.Function, context: Any, args: tuple, kws: dict) -> Any:
    """Return the signature of a call of a built-in function, as `types.Function.get_call_type` does.

    What makes Numba compile another function is not remembered: which one depends on options of the caller.
    """
    key = function, args
    if not kws and key in _SIGNATURES:
        return _SIGNATURES[key]
    signature = _LOOK_UP(function, context, args, kws)
    if not kws and function.get_impl_key(signature) is function.typing_key:
        _SIGNATURES[key] = signature
    return signature


class _Compiler(compiler.Compiler):
    """Numba's, which remembers signatures while it compiles; it holds Numba's lock then."""

    def _compile_core(self) -> Any:
        function: Any = types.Function
        before = function.get_call_type
        function.get_call_type = _remembered
        try:
            return super()._compile_core()
        finally:
            function.get_call_type = before


def _passes(state: Any, lower: type) -> PassManager:
    """Return Numba's passes, with another one that lowers."""
    passes = compiler.DefaultPassBuilder.define_nopython_pipeline(state)
    passes.passes = [(lower if one is NativeLowering else one, text) for one, text in passes.passes]
    return passes


class KernelCompiler(_Compiler):
    """Compiles kernels."""

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes."""
        state = self.state
        state.library = Whole(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = _passes(state, _LowerKernel)
        passes.finalize()
        return [passes]


class InnerCompiler(_Compiler):
    """Compiles inner functions."""

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes, with one in place of making machine code."""
        state = self.state
        state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        passes = _passes(state, _LowerInner)
        passes.add_pass_after(_NameInner, _LowerInner)
        passes.finalize()
        return [passes]
