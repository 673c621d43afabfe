"""Arrays of floats or flags, read as integers of 64 bits."""

from typing import Any

import numpy as np
from numba import config, types
from numba.extending import intrinsic


def _as_integers(values):
    """Return the memory of an array as integers of 64 bits: one for each float, or for eight flags."""
    return values.view(np.int64)


def _typed(_: Any, values: types.Array) -> tuple:
    # As `values.view(np.int64)`, of which compiling takes a second.
    from numba.core.imputils import impl_ret_borrowed  # here, since they take long to import
    from numba.np.arrayobj import make_array, populate_array

    def generate(context: Any, builder: Any, signature: Any, arguments: tuple) -> Any:
        source = make_array(values)(context, builder, arguments[0])
        target = make_array(signature.return_type)(context, builder)
        shape, strides = source.shape, source.strides
        if values.dtype == types.boolean:
            size = builder.extract_value(shape, 0)
            shape = builder.insert_value(shape, builder.udiv(size, size.type(8)), 0)
            strides = builder.insert_value(strides, size.type(8), 0)
        data = builder.bitcast(source.data, target.data.type)
        itemsize = context.get_constant(types.intp, 8)
        populate_array(target, data, shape, strides, itemsize, source.meminfo, source.parent)
        return impl_ret_borrowed(context, builder, signature.return_type, target._getvalue())

    return values.copy(dtype=types.int64)(values), generate


as_integers = _as_integers if config.DISABLE_JIT else intrinsic(_typed)
