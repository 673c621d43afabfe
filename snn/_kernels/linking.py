"""Linking of inner functions into kernels, so that they are optimised only once, as parts of a kernel.

By default, Numba optimises each function, makes machine code that Python may call, and optimises the function
again in each caller.  In this module, the code of an inner function is a `Part`.  The code of a kernel is a
`Whole`, which collects its parts and their parts, so that LLVM sees all of them at once.  Records of this
project are passed by address, while Numba passes seven numbers for each array of a record.  The address of an
array element is computed directly, while Numba first copies the whole description of the array.

The option ``pipeline_class`` of a function switches linking on; functions of other packages are compiled as
usual.  This module overrides undocumented classes of Numba, so `compiling` uses it only with tested releases.
"""

from collections.abc import Iterator
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, codegen, compiler, config, lowering, types
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.datamodel import ArgPacker
from numba.core.typed_passes import NativeLowering
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.np.arrayobj import load_item, store_item

from snn._kernels.compile_notice import OURS


class Part(codegen.JITCodeLibrary):
    """The code of an inner function, which is neither optimised nor compiled to machine code by itself."""

    def finalize(self) -> None:
        """Forbid further additions to the code."""
        self._raise_if_finalized()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                # Several kernels may have a copy of the function, and drop the copy if all calls are inlined.
                function.linkage = "linkonce_odr"
        return self._final_module


class Whole(codegen.JITCodeLibrary):
    """The code of a kernel and of all its parts."""

    def add_linking_library(self, library: codegen.CodeLibrary) -> None:
        """Link another library and the libraries that it needs."""
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


class _Models:
    """The models by which values are passed to functions; records of this project are passed by address."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def lookup(self, type_: types.Type) -> Any:
        model = self._models.lookup(type_)
        is_record = isinstance(type_, BaseNamedTuple) and type_.instance_class.__module__.startswith(OURS)
        return _ByAddress(model.get_value_type()) if is_record else model


class _ByAddress:
    """The model of a record that is passed by its address; the record does not change during the call."""

    def __init__(self, type_: llvm.Type) -> None:
        self._type = type_

    def get_argument_type(self) -> llvm.Type:
        return self._type.as_pointer()

    def as_argument(self, builder: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        return getattr(value, "place", None) or cgutils.alloca_once_value(builder, value)

    def from_argument(self, builder: llvm.IRBuilder, address: llvm.Argument) -> llvm.Value:
        address.add_attribute("noalias")
        value = builder.load(address)
        value.place = address
        return value


class _Typing:
    """A cache of the types of one compilation: Numba tries a dozen templates at every read of an element."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._known: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: tuple, kws: Any) -> Any:
        """Return the signature of a call; operators and builtin functions are resolved once."""
        call = function, tuple(args)
        if kws or (isinstance(function, types.Type) and not isinstance(function, types.Function)):
            return self._context.resolve_function_type(function, args, kws)
        if call not in self._known:
            self._known[call] = self._context.resolve_function_type(function, args, kws)
        return self._known[call]


class _Lower(lowering.Lower):
    """Lowering of kernels and inner functions to the code of LLVM."""

    def extract_function_arguments(self) -> Any:
        """Return the values of arguments."""
        self._records: dict[str, llvm.Value] = {}
        return super().extract_function_arguments()

    def storevar(self, value: llvm.Value, name: str, argidx: int | None = None) -> None:
        """Assign a value to a variable, without copying a record that is an argument of the function."""
        # If references are counted, Numba may delete an argument twice; the second deletion must find null.
        is_record = argidx is not None and hasattr(value, "place")
        if is_record and not self.context.enable_nrt and name not in self._singly_assigned_vars:
            self._records[name] = value
        else:
            super().storevar(value, name, argidx)

    def loadvar(self, name: str) -> llvm.Value:
        """Return the value of a variable."""
        return self._records[name] if name in self._records else super().loadvar(name)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> llvm.Value:
        """Return an element or a slice of an array."""
        array = self.typeof(value.name)
        address = self._address_of(array, value, index)
        if address is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        item = load_item(self.context, self.builder, array, address)
        return self.context.cast(self.builder, item, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> llvm.Value:
        """Write an element or a slice of an array."""
        array, value_type = self.typeof(target_var.name), self.typeof(value_var.name)
        address = self._address_of(array, target_var, index_var) if _is_number(value_type) else None
        if address is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        item = self.context.cast(self.builder, self.loadvar(value_var.name), value_type, array.dtype)
        store_item(self.context, self.builder, array, item, address)
        return self.context.get_dummy_value()

    def _address_of(self, array: types.Type, array_var: Any, index_var: Any) -> llvm.Value | None:
        """Return the address of an element of a contiguous array of numbers, or None for anything else."""
        index_type = self.typeof(index_var.name)
        is_tuple = isinstance(index_type, BaseTuple)
        kinds = index_type.types if is_tuple else (index_type,)
        if (
            config.BOUNDSCHECK
            or not isinstance(array, types.Array)
            or array.layout != "C"
            or not _is_number(array.dtype)
            or not len(kinds) == array.ndim > 0
            or not all(isinstance(kind, types.Integer) for kind in kinds)
        ):
            return None
        builder, context = self.builder, self.context
        value, index = self.loadvar(array_var.name), self.loadvar(index_var.name)
        field = context.data_model_manager[array].get_field_position
        position = llvm.Constant(context.get_value_type(types.intp), 0)
        for axis, kind in enumerate(kinds):
            entry = builder.extract_value(index, axis) if is_tuple else index
            entry = context.cast(builder, entry, kind, types.intp if kind.signed else types.uintp)
            length = builder.extract_value(value, (field("shape"), axis))
            if kind.signed and not (isinstance(entry, llvm.Constant) and entry.constant >= 0):
                from_end = builder.add(length, entry)
                entry = builder.select(builder.icmp_signed("<", entry, entry.type(0)), from_end, entry)
            position = builder.add(builder.mul(position, length), entry) if axis else entry
        return builder.gep(builder.extract_value(value, field("data")), [position])


def _is_number(type_: types.Type) -> bool:
    return isinstance(type_, types.Number | types.Boolean)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerByAddress(NativeLowering):
    _name = "sparsespike_lower"
    lowering_class = _Lower


@register_pass(mutates_CFG=False, analysis_only=True)
class _NameInner(LoweringPass):
    """Pass that registers an inner function, which has no machine code, for the kernels that call it."""

    _name = "sparsespike_name_inner"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        # Numba needs a different built-in callable as the key of each function.
        name = [state.func_id.func_qualname].count
        state["cr"] = state["cr"]._replace(cfunc=name)
        state.targetctx.insert_user_function(name, state["cr"].fndesc, [state.library])
        return False


class KernelCompiler(compiler.Compiler):
    """Compiler of kernels."""

    library: type = Whole

    def define_pipelines(self) -> list[PassManager]:
        """Return Numba's passes, with `library` as the library of code and `_LowerByAddress` for lowering."""
        state, is_part = self.state, self.library is Part
        state.flags.no_compile = is_part
        state.typingctx = _Typing(state.typingctx)
        # The contexts may be changed here, because Numba makes new contexts for each compilation.
        models = _Models(state.targetctx.data_model_manager)
        state.targetctx.get_arg_packer = lambda types_: ArgPacker(models, types_)
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(state)
        passes.passes = [
            (_LowerByAddress if step is NativeLowering else step, why) for step, why in passes.passes
        ]
        if is_part:
            passes.add_pass_after(_NameInner, _LowerByAddress)
        else:
            state.library.enable_object_caching()
        passes.finalize()
        return [passes]


class InnerCompiler(KernelCompiler):
    """Compiler of inner functions, for which no machine code is made."""

    library = Part
