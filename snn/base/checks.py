"""Convert arguments to the arrays that kernels need, or say in one sentence what is wrong; warnings.

`TypeError` is for the wrong kind of thing, `ValueError` for a wrong value or shape.  A message names
the argument, the rule, and what came.  Nothing is repaired silently.
"""

import importlib
import math
import numbers
import operator
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, ModuleType
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

Number = TypeVar("Number", int, float)

# Largest weight, bias or current in units of the firing threshold that it acts on.  Potentials are
# differences of sums of this size.  In float64 they keep 2^-53 of it: at 2^40, a threshold is known to 1e-4
# of itself; from 2^53 on, rounding alone makes neurons fire.
LARGEST_RATIO = 2.0**40

# Packages whose code is not the caller's: estimators are called through wrappers of scikit-learn.
PASSED_OVER = {"snn", "solvers", "dictlearn", "sklearn", "joblib"}

# Filters of the `warnings` module belong to all threads of the process; these to one.
_LEFT_OUT: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())


def real_array(
    name: str, value: Any, *, shape: tuple[int | None, ...], meaning: str = "", finite: bool = True
) -> np.ndarray:
    """Return `value` as a finite float64 array in C order; a copy only where one is needed."""
    # Without `finite` the caller checks that the numbers are.
    if sparse.issparse(value):
        raise TypeError(f"{name} must be a dense array; got a {type(value).__name__}")
    if np.ma.is_masked(value):
        raise TypeError(f"{name} must not have masked entries")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of real numbers; got {type(value).__name__}") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of real numbers; got dtype {array.dtype}")
    if array.ndim != len(shape) or any(
        n is not None and n != m for n, m in zip(shape, array.shape, strict=True)
    ):
        rule = f"be {len(shape)}-D"
        if any(n is not None for n in shape):
            sizes = ", ".join("any" if n is None else str(n) for n in shape)
            rule = f"have shape ({sizes}{',' if len(shape) == 1 else ''})"
        hint = f", {meaning}" if meaning else ""
        raise ValueError(f"{name} must {rule}{hint}; got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty; got shape {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.float64)
    if finite:
        require_finite(name, array)
    # BLAS does not take numbers between two addresses, and NumPy's own products round differently.
    return array if array.flags.aligned else array.copy()


def require_finite(name: str, array: np.ndarray, *, hint: str = "", first: int = 0) -> None:
    """Raise ValueError naming the first entry of `array` that is NaN or infinite; `hint` ends the message.

    The array may be rows of a larger one, from row `first` on, of which the message speaks.
    """
    # The sum is finite unless an entry is not, or it overflows: only then look at each.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()
    if math.isfinite(total):
        return
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        row, *columns = wrong[0].tolist()
        where = ", ".join(map(str, [first + row, *columns]))
        raise ValueError(f"{name} must be finite; got {array[tuple(wrong[0])]} at [{where}]{hint}")


def read_only(array: np.ndarray) -> np.ndarray:
    """Return `array`, or a view of it, so that it cannot be written."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
    return view


def require_ratio(
    name: str, amounts: np.ndarray, firing_threshold: np.ndarray, *, whose: str = "of its neuron"
) -> None:
    """Raise ValueError if an amount is more than LARGEST_RATIO times the threshold of its neuron."""
    beyond = np.abs(amounts) / LARGEST_RATIO > firing_threshold
    if beyond.any():
        neuron = int(np.argmax(beyond))
        raise ValueError(
            f"{name} must be at most {LARGEST_RATIO:.2g} times the firing threshold {whose}; got "
            f"{amounts[neuron]:.3g} for neuron {neuron} with threshold {firing_threshold[neuron]:.3g}: "
            "beyond that rounding decides which neurons fire"
        )


def positive_array(name: str, value: Any, length: int, *, meaning: str, zero: bool = False) -> np.ndarray:
    """Return one number > 0, or >= 0, for each of `length` things; a single number is for all of them."""
    if is_one_number(value):
        return np.full(length, (non_negative_number if zero else positive_number)(name, value))
    array = real_array(name, value, shape=(length,), meaning=meaning)
    _require_positive(name, float(array.min()), f" at [{array.argmin()}]", zero=zero)
    return array


def is_one_number(value: Any) -> bool:
    """Return whether `value` is one number, perhaps in an array of no dimension, and not one for each."""
    return isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0)


def real_number(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    is_number = type(value) is float or isinstance(value, numbers.Real)
    if not is_number or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a real number; got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite; got an integer too large for a float") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite; got {number}")
    return number


def positive_number(name: str, value: Any) -> float:
    """Return `value` as a finite float > 0."""
    return _require_positive(name, real_number(name, value))


def non_negative_number(name: str, value: Any) -> float:
    """Return `value` as a finite float >= 0."""
    return _require_positive(name, real_number(name, value), zero=True)


def integer(name: str, value: Any) -> int:
    """Return `value` as an int."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer; got bool")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {type(value).__name__}") from None


def positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int > 0."""
    return _require_positive(name, integer(name, value))


def non_negative_integer(name: str, value: Any) -> int:
    """Return `value` as an int >= 0."""
    return _require_positive(name, integer(name, value), zero=True)


def _require_positive(name: str, number: Number, where: str = "", *, zero: bool = False) -> Number:
    if number < 0 or (number == 0 and not zero):
        rule = "not be negative" if zero else "be positive"
        raise ValueError(f"{name} must {rule}; got {number}{where}")
    return number


def integer_pair(name: str, value: Any) -> tuple[int, int]:
    """Return `value` as a pair of ints > 0."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a pair of integers, (rows, columns); got {type(value).__name__}")
    if len(value) != 2:
        raise ValueError(f"{name} must be a pair of integers, (rows, columns); got {len(value)} of them")
    first, second = (positive_integer(name, side) for side in value)
    return first, second


def index(name: str, value: Any, length: int) -> int:
    """Return `value` as an int in [0, length)."""
    number = integer(name, value)
    if not 0 <= number < length:
        raise ValueError(f"{name} must lie in [0, {length}); got {number}")
    return number


def worker_count(name: str, value: Any) -> int | None:
    """Return a number of joblib workers: None, or any integer but 0."""
    if value is None:
        return None
    number = integer(name, value)
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
    listed = ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str) or value not in choices:
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{name} must be one of {listed}; got {value!r:.80}")
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
            f"{module} must be installed for this; got an error where it is imported ({error}): "
            f"pip install 'sparsespike[{extra}]'"
        ) from error


@contextmanager
def called(**names: str) -> Iterator[None]:
    """Let errors say what the caller calls an argument: within ``called(penalty="alpha")``, "alpha must be ...".

    In a message the name of an argument is the first word, or stands before "is".
    """  # noqa: E501
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        for name, its_name in names.items():
            message = re.sub(rf"^{name}\b|\b{name}(?= is )", its_name, message)
        if message == str(error):
            raise
        raise type(error)(message) from None


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Leave out warnings of this project within, as the caller gives one for all; of this thread alone."""
    token = _LEFT_OUT.set((*_LEFT_OUT.get(), category))
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the line outside of this project and of scikit-learn from which it was called."""
    if issubclass(category, _LEFT_OUT.get()):
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
