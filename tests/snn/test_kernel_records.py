"""Kernels call the right methods of records, are compiled again after changes, and refuse wrong records."""

import os
import sys
from collections import namedtuple

import numba
import numpy as np
import pytest

import dictlearn
import solvers
from snn._kernels import compiling
from snn._kernels.compiling import record
from snn._kernels.rows import Rows
from tests.processes import ROOT, run_python
from tests.reference.kernel_files import imported_anew, kernel_folder

SHAPES = """
from abc import abstractmethod

class Shape:
    __slots__ = ()

    @abstractmethod
    def area(self, scale):
        '''Return the area.'''

    def doubled(self, scale):
        return {factor} * self.area(scale)
"""
SQUARES = """
from typing import NamedTuple
import numpy as np
from shapes_of_test import Shape
from snn._kernels.compiling import compiled, record

class _Square(NamedTuple):
    sides: np.ndarray

@record
class Square(_Square, Shape):
    __slots__ = ()

    def area(self, scale):
        total = 0.0
        for i in range(self.sides.shape[0]):
            total += self.sides[i] ** 2
        return scale * total

@record
class Circle(_Square, Shape):
    __slots__ = ()

    def area(self, scale):
        return scale * 3.0 * self.sides[0] ** 2

    def doubled(self, scale):
        return -self.area(scale)

@record
class Frame(NamedTuple):
    outer: Square
    inner: Circle

    def area(self, scale):
        return self.outer.area(scale) - self.inner.area(scale=scale)

@record
class Disc(_Square, Shape):
    __slots__ = ()

    def area(self, scale, power=2):
        return 3.0 * scale * self.sides[0] ** power

@record
class Unfinished(_Square, Shape):
    __slots__ = ()

class Unmarked(Square):
    __slots__ = ()

@compiled
def measure(shape, scale):
    return shape.doubled(scale=scale) + shape.area(scale)

@compiled
def measure_disc(disc):
    return disc.area(2.0, power=1) + disc.area(1.0)

@compiled
def measure_frame(frame):
    return frame.area(2.0) + Square(frame.inner.sides).doubled(1.0)
"""
PROGRAM = """
import numpy as np
from squares_of_test import Circle, Frame, Square, measure, measure_frame
sides = np.array([0.1, 0.7])
shapes = Square(sides), Circle(sides)
print([float(measure(shape, 0.3)) for shape in shapes], float(measure_frame(Frame(*shapes))))
"""
MODULES = ("shapes_of_test", "squares_of_test")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Yield a folder of kernels, with a protocol in one file and records in another."""
    sources = {"shapes_of_test": SHAPES.format(factor="2.0"), "squares_of_test": SQUARES}
    with kernel_folder(tmp_path, monkeypatch, **sources) as folder:
        yield folder


def as_a_new_process():
    return imported_anew("squares_of_test")


def test_a_foreign_tuple_with_fields_of_all_names_of_methods_compiles():
    assert {dictlearn.__name__, solvers.__name__} <= set(sys.modules)
    names = sorted(set().union(*compiling._METHODS_OF_RECORDS.values()))
    assert {"deliver", "add_weights"} <= set(names)
    Foreign = namedtuple("Foreign", names)
    Mixed = namedtuple("Mixed", names)

    @numba.njit
    def of_others(foreign):
        return foreign.deliver + foreign.add_weights

    assert of_others(Foreign(*[1.5] * len(names))) == 3.0
    assert of_others(Mixed(*[1, 2.5] * (len(names) // 2), *[1] * (len(names) % 2))) > 1.0


def test_every_record_has_the_methods_that_its_bases_ask_for():
    records = [kind for kind in compiling._FOLDERS if kind.__module__.startswith(("snn.", "solvers."))]
    assert Rows in records
    for kind in records:
        missing = [name for name in dir(kind) if getattr(getattr(kind, name), "__isabstractmethod__", False)]
        assert not missing, kind


def test_methods_are_those_of_the_type_and_inherited_ones_are_defaults(folder):
    module, sides = as_a_new_process(), np.array([1.0, 3.0])
    square, circle = module.Square(sides), module.Circle(sides)
    assert module.measure(square, 2.0) == 60.0 == module.measure.py_func(square, 2.0)
    assert module.measure(circle, 2.0) == 0.0 == module.measure.py_func(circle, 2.0)
    assert module.measure_frame(module.Frame(square, circle)) == 34.0


def test_methods_of_one_name_may_have_other_arguments_and_defaults(folder):
    module = as_a_new_process()
    disc = module.Disc(np.array([3.0]))
    assert module.measure_disc(disc) == 45.0 == module.measure_disc.py_func(disc)
    assert module.measure(disc, 1.0) == 81.0


@pytest.mark.parametrize("kind", ["Unfinished", "Unmarked"])
def test_a_method_that_is_abstract_or_of_no_record_does_not_compile(folder, kind):
    module = as_a_new_process()
    with pytest.raises(numba.TypingError, match=r"doubled|area"):
        module.measure(getattr(module, kind)(np.ones(2)), 1.0)


def test_a_change_of_a_method_or_of_a_base_is_compiled_anew(folder):
    def measured(n_loaded):
        module = as_a_new_process()
        value = module.measure(module.Square(np.ones(1)), 1.0)
        assert sum(module.measure.stats.cache_hits.values()) == n_loaded
        return value

    assert [measured(0), measured(1)] == [3.0, 3.0]
    (folder / "shapes_of_test.py").write_text(SHAPES.format(factor="10.0"))
    assert [measured(0), measured(1)] == [11.0, 11.0]
    (folder / "squares_of_test.py").write_text(SQUARES.replace("scale * total", "100.0 * scale * total"))
    assert [measured(0), measured(1)] == [1100.0, 1100.0]


def test_a_record_of_another_folder_is_compiled_anew(folder, tmp_path, monkeypatch):
    """The kernel is in a second folder; the base class is in a third folder, within a folder of kernels."""
    kernel = tmp_path / "other" / "_kernels"
    base = tmp_path / "third" / "_kernels" / "deeper"
    for path in (kernel, base):
        path.mkdir(parents=True)
        monkeypatch.syspath_prepend(path)
    (kernel / "kernel_of_test.py").write_text(
        "from squares_of_test import Square\n"
        "from snn._kernels.compiling import compiled\n"
        "@compiled\ndef measure(shape):\n    return shape.doubled(1.0)\n"
    )
    (folder / "shapes_of_test.py").rename(base / "shapes_of_test.py")
    for factor, n_loaded in (("2.0", 0), ("2.0", 1), ("10.0", 0)):
        (base / "shapes_of_test.py").write_text(SHAPES.format(factor=factor))
        module = imported_anew("kernel_of_test")
        assert module.measure(module.Square(np.ones(1))) == float(factor)
        assert sum(module.measure.stats.cache_hits.values()) == n_loaded


def test_what_could_be_run_with_old_code_is_refused(folder):
    module = as_a_new_process()

    class Outside(module.Square):
        __slots__ = ()

    class Mixin:
        __slots__ = ()

        def area(self, scale):
            return scale

    # `Within` claims to be defined in the folder, but its method is defined here.
    Within = type(
        "Within", (module._Square,), {"__slots__": (), "__module__": MODULES[1], "area": Mixin.area}
    )
    Based = type("Based", (module._Square, Mixin), {"__slots__": (), "__module__": MODULES[1]})
    Nowhere = type("Nowhere", (module.Square,), {"__slots__": (), "__module__": "nowhere"})
    for kind in (Outside, Within, Based, Nowhere):
        with pytest.raises(TypeError, match="in a folder _kernels"):
            record(kind)
        assert kind not in compiling._FOLDERS


def test_a_record_that_has_other_attributes_is_refused(folder):
    module = as_a_new_process()
    with pytest.raises(TypeError, match=r"__slots__ = \(\)"):
        record(type("Open", (module._Square,), {"__module__": MODULES[1]}))


@pytest.mark.thorough
def test_methods_give_the_same_numbers_linked_plain_and_in_python(folder):
    path = os.pathsep.join((str(ROOT), str(folder)))
    ways = ({}, {"SPARSESPIKE_LINKING": "0"}, {"NUMBA_DISABLE_JIT": "1"})
    printed = {run_python("-c", PROGRAM, PYTHONPATH=path, **way).stdout for way in ways}
    assert len(printed) == 1
    assert printed.pop().startswith("[")
