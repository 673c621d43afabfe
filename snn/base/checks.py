"""Checks of arguments, which return checked values or raise errors of one sentence, and warnings to callers.

A check raises `TypeError` for a wrong type, and `ValueError` for a wrong value or shape.
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

# Largest weight, bias or current, in firing thresholds.  A potential is a difference of sums of weights,
# biases and currents, and has an error of 2^-53 of these sums.  If the sums are 2^40 thresholds, the error is
# 1e-4 of a threshold.  If the sums are 2^53 thresholds, rounding makes neurons fire.
LARGEST_RATIO = 2.0**40

PASSED_OVER = {"sklearn", "joblib"}  # packages whose frames are not the caller of a warning

# The warnings that `warn_caller` suppresses in a thread.  A filter of `warnings` would act on all threads.
_LEFT_OUT: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())


UNITLESS = float, int, list, np.ndarray  # the most frequent types of arguments, which have no unit


def real_array(
    name: str, value: Any, *, shape: tuple[int | None, ...] | None, meaning: str = "", finite: bool = True
) -> np.ndarray:
    """Return `value` as a float64 array in C order, copied only if necessary; require finite entries."""
    if np.ma.is_masked(value):
        raise TypeError(
            f"{name} must not have masked entries; got {np.ma.count_masked(value)}: pass {name}.filled(x)"
        )
    refuse_units(name, value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    hint = f": pass {name}.toarray()" if hasattr(value, "toarray") else ""
    if array.dtype.kind == "O" and hasattr(value, "to_numpy"):
        # A pandas frame with bools and floats, or with entries pandas.NA or None, becomes an object array.
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
    # BLAS needs aligned arrays.  NumPy multiplies other arrays by its own routines, which round differently.
    return array if array.flags.aligned else array.copy()


def refuse_units(name: str, value: Any) -> None:
    """Raise TypeError for quantities with a unit, because the unit would be lost."""
    # The types of the packages quantities, pint, Brian2 and astropy have one of these attributes.  Attributes
    # of the value are not tested, because a column of a pandas frame is an attribute.
    kind = type(value)
    if kind not in UNITLESS and any(hasattr(kind, unit) for unit in ("dimensionality", "dimensions", "unit")):
        raise TypeError(
            f"{name} must be in units of the network; got a {kind.__name__}: divide it by its unit"
        )


def require_finite(name: str, array: np.ndarray, *, hint: str = "", first: int = 0) -> None:
    """Raise ValueError with the first entry that is not finite; row numbers start at `first`."""
    if np.isfinite(array).all():
        return
    row, *others = np.argwhere(~np.isfinite(array))[0].tolist()
    raise ValueError(f"{name} must be finite; got {array[row, *others]} at {[first + row, *others]}{hint}")


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of `array`, or `array` itself if it is read-only."""
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
    """Return an array of `length` numbers > 0 (>= 0 if `zero`); without `length`, a number stays a number."""
    if isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
        number = positive_number(name, value, zero=zero)
        return number if length is None else np.full(length, number)  # type: ignore[return-value]
    index = getattr(value, "index", None)
    if hasattr(value, "to_numpy") and index is not None and list(index) != list(range(len(value))):
        raise ValueError(
            f"{name} must have the index 0, 1, 2, ..., since entries go by position; got a "
            f"{type(value).__name__} with index {list(index)[:3]}: sort it, and pass {name}.to_numpy()"
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
    except OverflowError:  # a large integer
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite; got {number}")
    return number


def positive_number(name: str, value: Any, *, zero: bool = False, where: str = "") -> float:
    """Return `value` as a finite float > 0, or >= 0 if `zero`."""
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
    """Return a number of joblib workers: None, or any integer except 0."""
    number = None if value is None else integer(name, value)
    if number == 0:
        raise ValueError(f"{name} must not be 0; got 0: pass -1 for one worker per processor")
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
    """Return `value` if it is an instance of `kind`; the error ends with `hint`, which says what to do."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of type {kind.__name__}; got {type(value).__name__}{hint}")
    return value


def installed(module: str, *, extra: str) -> ModuleType:
    """Import and return a module that an extra of this project installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} must be installed; got an error, {error}: run pip install 'sparsespike[{extra}]'"
        ) from error


@contextmanager
def called(**names: str) -> Iterator[None]:
    """Rename arguments in errors: penalty="alpha" turns "penalty must be ..." into "alpha must be ..."."""
    # A word of the message is the name of an argument if it is the first word, or if " is " or "=" follows.
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        for name, new_name in names.items():
            message = re.sub(rf"^{name}\b|\b{name}(?= is |=)", new_name, message)
        if message == str(error):
            raise
        raise type(error)(message) from None


def without_warnings(category: type[Warning] = Warning) -> Any:
    """Suppress warnings of this project in a block and its thread; the caller warns once for all of them."""
    before = _LEFT_OUT.get()
    return undone(partial(_LEFT_OUT.set, before), _LEFT_OUT.set, (*before, category))


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code, outside of this project, scikit-learn and joblib."""
    if issubclass(category, _LEFT_OUT.get()):
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and is_ours(frame.f_globals.get("__name__", ""), PASSED_OVER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def is_ours(module: str, others: Collection[str] = ()) -> bool:
    """Return whether a module belongs to this project, or to one of the `others`."""
    package = module.partition(".")[0]
    is_one = getattr(sys.modules.get(package), "__distribution__", None) == "sparsespike"
    return is_one or package in others
