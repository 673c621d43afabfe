"""Lower records and elements of arrays to as few instructions as they need.

Left to itself, Numba passes a record by value, seven arguments for each array in it, and copies all that
describes an array before it reads one element.  Most of a kernel is such copies, which LLVM removes again,
one by one.  Here a record is passed by address, its fields are read where they are, and the address of an
element is computed from them.

As for what `linking` overrides, Numba does not document any of this.  All of it belongs to the compilation of
one function of this project, and is entered through `linking`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, config, lowering, types
from numba.core.datamodel import ArgPacker
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.np.arrayobj import load_item, store_item

OUR_PACKAGES = frozenset({"snn", "solvers", "dictlearn"})


def pass_records_by_address(context: Any) -> None:
    """Let the function that is compiled in a context take the records of this project by address.

    Numba makes a context for each compilation.  No code outside of this project takes such a record, and a
    kernel holds all that it hands records to.
    """
    models = _Models(context.data_model_manager)
    context.get_arg_packer = lambda types_: ArgPacker(models, types_)


def _is_record(type_: types.Type) -> bool:
    if not isinstance(type_, BaseNamedTuple):
        return False
    return type_.instance_class.__module__.partition(".")[0] in OUR_PACKAGES


def _is_number(type_: types.Type) -> bool:
    return isinstance(type_, types.Number | types.Boolean)


class _Models:
    """The models by which values are passed to functions, by their type."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def lookup(self, type_: types.Type) -> Any:
        model = self._models.lookup(type_)
        return _ByAddress(model.get_value_type()) if _is_record(type_) else model


class _ByAddress:
    """The address of a record, in which nobody writes during the call."""

    def __init__(self, type_: llvm.Type) -> None:
        self._type = type_

    def get_argument_type(self) -> llvm.Type:
        return self._type.as_pointer()

    def as_argument(self, builder: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        place = _place_of(value)
        if place is None:
            place = cgutils.alloca_once(builder, self._type)
            builder.store(value, place)
        return place

    def from_argument(self, builder: llvm.IRBuilder, address: llvm.Argument) -> llvm.Value:
        address.add_attribute("noalias")
        return _value_at(builder, address)


def _value_at(builder: llvm.IRBuilder, place: llvm.Value) -> llvm.Value:
    """Return what is at an address in which the function does not write."""
    value = builder.load(place)
    value.place = place
    return value


def _place_of(value: llvm.Value) -> llvm.Value | None:
    return getattr(value, "place", None)


def _part(builder: llvm.IRBuilder, value: llvm.Value, *indices: int) -> llvm.Value:
    place = _place_of(value)
    if place is None:
        return builder.extract_value(value, indices)
    return _value_at(builder, cgutils.gep_inbounds(builder, place, 0, *indices))


class InnerLower(lowering.Lower):
    """Lowers inner functions."""

    def extract_function_arguments(self) -> Any:
        """Return the values of arguments."""
        self._records: dict[str, llvm.Value] = {}
        return super().extract_function_arguments()

    def storevar(self, value: llvm.Value, name: str, argidx: int | None = None) -> None:
        """Give a variable its value: a record that came as an argument stays where it is.

        Where references are counted, Numba may delete an argument more than once, and has to find null then.
        """
        is_record = argidx is not None and _place_of(value) is not None
        if is_record and not self.context.enable_nrt and name not in self._singly_assigned_vars:
            self._records[name] = value
        else:
            super().storevar(value, name, argidx)

    def loadvar(self, name: str) -> llvm.Value:
        """Return the value of a variable."""
        return self._records[name] if name in self._records else super().loadvar(name)

    def delvar(self, name: str) -> None:
        """Forget a variable: without counts of references there is nothing to do."""
        if self.context.enable_nrt:
            super().delvar(name)

    def lower_expr(self, resty: types.Type, expr: Any) -> llvm.Value:
        """Return the value of an expression: fields of records and elements of arrays directly."""
        if expr.op == "getattr" and _is_record(record := self.typeof(expr.value.name)):
            if not isinstance(resty, types.BoundFunction):
                value = _part(self.builder, self.loadvar(expr.value.name), record.fields.index(expr.attr))
                self.incref(resty, value)
                return value
        elif expr.op == "static_getitem" and isinstance(self.typeof(expr.value.name), types.Array):
            signature = self.fndesc.calltypes[expr]
            if signature is not None and expr.index_var is not None:
                return self.lower_getitem(resty, expr, expr.value, expr.index_var, signature)
        return super().lower_expr(resty, expr)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> llvm.Value:
        """Return an element or a part of an array."""
        array = self.typeof(value.name)
        address = self._address_of(array, value, index)
        if address is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        item = load_item(self.context, self.builder, array, address)
        return self.context.cast(self.builder, item, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> llvm.Value:
        """Write an element or a part of an array."""
        array, given = self.typeof(target_var.name), self.typeof(value_var.name)
        address = self._address_of(array, target_var, index_var) if _is_number(given) else None
        if address is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        item = self.context.cast(self.builder, self.loadvar(value_var.name), given, array.dtype)
        store_item(self.context, self.builder, array, item, address)
        return self.context.get_dummy_value()

    def _address_of(self, array: types.Type, array_var: Any, index_var: Any) -> llvm.Value | None:
        """Return the address of an element of a contiguous array; None if that is not what is asked for."""
        index = self.typeof(index_var.name)
        is_tuple = isinstance(index, BaseTuple)
        kinds = index.types if is_tuple else (index,)
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
        value, given = self.loadvar(array_var.name), self.loadvar(index_var.name)
        field = context.data_model_manager[array].get_field_position
        position = llvm.Constant(context.get_value_type(types.intp), 0)
        for axis, kind in enumerate(kinds):
            entry = builder.extract_value(given, axis) if is_tuple else given
            entry = context.cast(builder, entry, kind, types.intp if kind.signed else types.uintp)
            length = _part(builder, value, field("shape"), axis)
            if kind.signed and not (isinstance(entry, llvm.Constant) and entry.constant >= 0):
                from_end = builder.add(length, entry)
                entry = builder.select(builder.icmp_signed("<", entry, entry.type(0)), from_end, entry)
            position = builder.add(builder.mul(position, length), entry) if axis else entry
        return builder.gep(_part(builder, value, field("data")), [position])


class KernelLower(InnerLower):
    """Lowers kernels, which hold what LLVM has not left as a call."""

    def extract_function_arguments(self) -> Any:
        """Return the values of arguments: records in memory of the kernel's own, which LLVM sees through."""
        self.fnargs = [
            value if _place_of(value) is None
            else _value_at(self.builder, cgutils.alloca_once_value(self.builder, value))
            for value in super().extract_function_arguments()
        ]  # fmt: skip
        return self.fnargs
