"""Parts of a core."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory


def delayed(module: Module, value: Any, cycles: int = 1) -> Any:
    """Return a value delayed by a number of cycles."""
    for _ in range(cycles):
        register = Signal(value.shape())
        module.d.sync += register.eq(value)
        value = register
    return value


def memory_of(module: Module, name: str, shape: Any, depth: int, values: Any = ()) -> Memory:
    """Return a memory of a module."""
    # Yosys refuses a memory of one word, because its address has no bits.
    memory = Memory(shape=shape, depth=max(depth, 2), init=list(values))
    module.submodules[name] = memory
    return memory


def quotient(number: Any, shift: int, rounding: str) -> Any:
    """Return number / 2^shift, rounded."""
    if shift == 0 or rounding == "floor":
        return number.shift_right(shift)
    negative, half = number < 0, 2 ** (shift - 1)
    added = Mux(negative, 2 * half - 1, 0) if rounding == "truncate" else Mux(negative, half - 1, half)
    return (number + added).shift_right(shift)


def fitted(number: Any, bits: int, overflow: str) -> tuple[Any, Any, Any]:
    """Return a number as a register stores it, and whether it is below or above the register's range."""
    least, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    below, above = number < least, number > largest
    if overflow == "saturate":
        number = Mux(below, least, Mux(above, largest, number))
    return number[:bits].as_signed(), below, above


def in_bytes(fields: dict[str, Any]) -> data.StructLayout:
    """Return the layout of a payload, filled up to whole bytes."""
    missing = -data.StructLayout(fields).size % 8
    return data.StructLayout({**fields, "filler": missing} if missing else fields)
