"""Convert arguments to the arrays that kernels need, or say in one sentence what is wrong; warnings.

`TypeError` is for the wrong kind of thing, `ValueError` for a wrong value or shape.
"""

import importlib
import math
import numbers
import operator
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from snn._interrupts import undone

# Largest weight, bias or current in firing thresholds.  Potentials are differences of sums of this size, and
# keep 2^-53 of it: at 2^40 a threshold is known to 1e-4 of itself; from 2^53 on, rounding makes neurons fire.
LARGEST_RATIO = 2.0**40

PASSED_OVER = {"sklearn", "joblib"}  # packages that are not the caller's either

# Filters of the `warnings` module belong to all threads of the process; these to one.
_LEFT_OUT: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())


UNITLESS = float, int, list, np.ndarray  # the types that are most, which need no look


def real_array(
    name: str, value: Any, *, shape: tuple[int | None, ...] | None, meaning: str = "", finite: bool = True
) -> np.ndarray:
    """Return `value` as a float64 array in C order, by default `finite`; a copy only where one is needed."""
    if np.ma.is_masked(value):
        raise TypeError(f"{name} must not have masked entries")
    refuse_units(name, value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    hint = f": pass {name}.toarray()" if hasattr(value, "toarray") else ""
    if array.dtype.kind == "O" and hasattr(value, "to_numpy"):
        # A pandas frame of bools and floats, or of columns that may be without a number: pandas.NA, or None.
        kinds = {type(entry) for entry in array.flat}
        other = {k.__name__ for k in kinds if not issubclass(k, (numbers.Real, np.bool_, type(None)))}
        hint = f" with entries of type {min(other, default='')}: drop them, or call pandas.get_dummies"
        if other <= {"NAType"}:
            entries = [np.nan if type(entry).__name__ == "NAType" else entry for entry in array.flat]
            array = np.array(entries, dtype=np.float64).reshape(array.shape)
    if array.dtype.kind not in "fiub":
        kind = type(value).__name__
        raise TypeError(f"{name} must be a dense real array; got {kind}, {array.dtype}{hint}")
    if shape is not None and (
        array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True))
    ):
        rule = f"be {len(shape)}-D"
        if any(n is not None for n in shape):
            rule = "have shape " + str(tuple("any" if n is None else n for n in shape)).replace("'", "")
        hint = f", {meaning}" if meaning else ""
        raise ValueError(f"{name} must {rule}{hint}; got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty; got shape {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.float64)
    if finite:
        require_finite(name, array)
    # BLAS does not take numbers between two addresses, and NumPy's own products round differently.
    return array if array.flags.aligned else array.copy()


def refuse_units(name: str, value: Any) -> None:
    """Raise TypeError for quantities with a unit, which would be dropped."""
    # Of quantities and pint, of Brian2, and of astropy; a frame may have a column of such a name.
    kind = type(value)
    if kind not in UNITLESS and any(hasattr(kind, unit) for unit in ("dimensionality", "dimensions", "unit")):
        raise TypeError(
            f"{name} must be in units of the network; got a {kind.__name__}: divide it by its unit"
        )


def require_finite(name: str, array: np.ndarray, *, hint: str = "", first: int = 0) -> None:
    """Raise ValueError naming the first entry that is NaN or infinite; rows are counted from `first` on."""
    if np.isfinite(array).all():
        return
    row, *others = np.argwhere(~np.isfinite(array))[0].tolist()
    raise ValueError(f"{name} must be finite; got {array[row, *others]} at {[first + row, *others]}{hint}")


def read_only(array: np.ndarray) -> np.ndarray:
    """Return `array`, or a view of it, so that it cannot be written."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
    return view


def require_ratio(name: str, amounts: np.ndarray, firing_threshold: np.ndarray) -> None:
    """Raise ValueError if an amount is more than LARGEST_RATIO times the threshold of its neuron."""
    beyond = np.abs(amounts) / LARGEST_RATIO > firing_threshold
    if beyond.any():
        neuron = int(np.argmax(beyond))
        raise ValueError(
            f"{name} must be at most {LARGEST_RATIO:.2g} times the firing threshold, or rounding decides "
            f"which neurons fire; got {amounts[neuron]:.3g} for neuron {neuron} with threshold "
            f"{firing_threshold[neuron]:.3g}"
        )


def positive_array(
    name: str, value: Any, length: int | None = None, *, zero: bool = False, dimensions: int = 1
) -> np.ndarray:
    """Return one number > 0, or >= 0, for each of `length` things; without a length, one number as it is."""
    if isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
        number = positive_number(name, value, zero=zero)
        return number if length is None else np.full(length, number)  # type: ignore[return-value]
    index = getattr(value, "index", None)
    if hasattr(value, "to_numpy") and index is not None and list(index) != list(range(len(value))):
        raise ValueError(
            f"{name} goes by position, not by the index of a {type(value).__name__}; got {list(index)[:3]}: "
            f"put it in order by the names, and pass {name}.to_numpy()"
        )
    array = real_array(name, value, shape=None if length is None else (length,), meaning="one number each")
    if array.ndim > dimensions:
        raise ValueError(f"{name} must be at most {dimensions}-dimensional; got shape {array.shape}")
    positive_number(name, array.min(), zero=zero, where=f" at [{array.argmin()}]")
    return array


def real_number(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    refuse_units(name, value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
        raise TypeError(f"{name} must be a real number; got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite; got {number}")
    return number


def positive_number(name: str, value: Any, *, zero: bool = False, where: str = "") -> float:
    """Return `value` as a finite float > 0, or >= 0."""
    number = real_number(name, value)
    if number < 0.0 or (number == 0.0 and not zero):
        raise ValueError(f"{name} must {'not be negative' if zero else 'be positive'}; got {number}{where}")
    return number


def non_negative_number(name: str, value: Any) -> float:
    """Return `value` as a finite float >= 0."""
    return positive_number(name, value, zero=True)


def integer(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> int:
    """Return `value` as an int within a range."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got {type(value).__name__}")
    if not least <= number <= most:
        rule = f"be at least {least}" if most == math.inf else f"lie in [{least}, {most}]"
        raise ValueError(f"{name} must {rule}; got {number}")
    return number


def positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int > 0."""
    return integer(name, value, 1)


def non_negative_integer(name: str, value: Any) -> int:
    """Return `value` as an int >= 0."""
    return integer(name, value, 0)


def integer_pair(name: str, value: Any) -> tuple[int, int]:
    """Return `value` as a pair of ints > 0."""
    error = ValueError if isinstance(value, (tuple, list)) else TypeError
    if error is TypeError or len(value) != 2:
        raise error(f"{name} must be a pair of integers, (rows, columns); got {value!r:.80}")
    return positive_integer(name, value[0]), positive_integer(name, value[1])


def worker_count(name: str, value: Any) -> int | None:
    """Return a number of joblib workers: None, or any integer but 0."""
    number = None if value is None else integer(name, value)
    if number == 0:
        raise ValueError(f"{name} must not be 0; -1 is one worker for each processor")
    return number


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r:.80}")
    return value


def instance_of(name: str, value: Any, kind: type, *, hint: str = "") -> Any:
    """Return `value` if it is a `kind`; `hint`, what to do, ends the message."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of type {kind.__name__}; got {type(value).__name__}{hint}")
    return value


def installed(module: str, *, extra: str) -> ModuleType:
    """Return a package that an extra installs; it is imported where it is used."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} must be installed ({error}): pip install 'sparsespike[{extra}]'"
        ) from error


@contextmanager
def called(**names: str) -> Iterator[None]:
    """Within ``called(penalty="alpha")``, let errors say "alpha must be ..." for "penalty must be ..."."""
    # In a message the name of an argument is the first word, or stands before "is" or "=".
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        for name, its_name in names.items():
            message = re.sub(rf"^{name}\b|\b{name}(?= is |=)", its_name, message)
        if message == str(error):
            raise
        raise type(error)(message) from None


def without_warnings(category: type[Warning] = Warning) -> Any:
    """Leave out warnings of this project within, as the caller gives one for all; of this thread alone."""
    before = _LEFT_OUT.get()
    return undone(partial(_LEFT_OUT.set, before), _LEFT_OUT.set, (*before, category))


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the line outside of this project and of scikit-learn from which it was called."""
    if issubclass(category, _LEFT_OUT.get()):
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and is_ours(frame.f_globals.get("__name__", ""), PASSED_OVER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def is_ours(module: str, others: Collection[str] = ()) -> bool:
    """Return whether a module is of this project, whose packages say so, or of one of some other packages."""
    package = module.partition(".")[0]
    is_one = getattr(sys.modules.get(package), "__distribution__", None) == "sparsespike"
    return is_one or package in others
