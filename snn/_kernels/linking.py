"""Inner functions as parts of kernels: linked as they are, and optimised once, with the kernel around them.

Left to itself, Numba optimises each function, makes machine code of it that Python may call, and optimises
it again in each caller.  Here the code of an inner function is a `Part`.  A kernel, a `Whole`, collects its
parts and theirs, and LLVM sees all of them at once.

Both are entered by the option ``pipeline_class``: functions of other packages are compiled as always.  Numba
does not document what is overridden here, so `compiling` does without in releases that were not tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import codegen, compiler
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.typed_passes import NativeLowering

from snn._kernels import lowering


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


def _passes(state: Any, library: type, lower: type) -> PassManager:
    """Return Numba's passes, with another library of code and another pass that lowers."""
    lowering.pass_records_by_address(state.targetctx)
    state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
    passes = compiler.DefaultPassBuilder.define_nopython_pipeline(state)
    passes.passes = [(lower if one is NativeLowering else one, text) for one, text in passes.passes]
    return passes


class KernelCompiler(compiler.Compiler):
    """Compiles kernels."""

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes."""
        passes = _passes(self.state, Whole, _LowerKernel)
        self.state.library.enable_object_caching()
        passes.finalize()
        return [passes]


class InnerCompiler(compiler.Compiler):
    """Compiles inner functions."""

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes, with one in place of making machine code."""
        self.state.flags.no_compile = True
        passes = _passes(self.state, Part, _LowerInner)
        passes.add_pass_after(_NameInner, _LowerInner)
        passes.finalize()
        return [passes]
