"""How Python enters machine code: what it was not compiled for is refused, whichever way it is entered."""

import sys
import zipfile

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from handmade import compiled, variables
from other_processes import ROOT, output_of

from dualad.codegen import entry, machine
from dualad.ir.nodes import Load, Store, number
from dualad.ir.values import Value, call, choose, unwrapped


def stored(size=3):
    """Return a function ``(a, i, n, z, flag, w)`` that sets an element of an array of this size to what numbers give."""
    parameters = variables(a=((size,), "float64"), i=((1,), "int64"), n="float64", z="complex128", flag="bool", w="uint64")
    a, i, *numbers = parameters
    n, z, flag, w = map(Value, numbers)
    place = call("at_least_inside", Value(Load(i, (number(0),))), size, dtype="int64")
    return compiled(parameters, Store(a, (place.node,), choose(flag, n * z.real + z.imag, n + w).node))


@pytest.fixture(params=["built-in", "ctypes"])
def function(request, monkeypatch):
    monkeypatch.setattr(machine, "made", {})
    entry.tell.cache_clear()
    if request.param != "ctypes":
        return stored()
    monkeypatch.setattr(entry, "otherwise_laid_out", lambda: "NumPy's arrays have other fields")
    with pytest.warns(RuntimeWarning, match="NumPy's arrays have other fields, so compiled functions are called through ctypes"):
        made = stored()
    stored(2)  # told once: another warning would be an error
    return made


def test_objects_are_laid_out_as_is_assumed():
    assert entry.otherwise_laid_out.__wrapped__() == ""


@pytest.mark.parametrize("field", ["type", "data", "ndim", "shape", "dtype", "flags"])
def test_another_layout_is_found(field, monkeypatch):
    offsets = entry.OFFSETS | {field: entry.OFFSETS[{"data": "ndim"}.get(field, "data")]}
    monkeypatch.setattr(entry, "OFFSETS", offsets)
    if field == "shape":
        monkeypatch.setattr(entry, "OFFSETS", offsets | {"shape": entry.OFFSETS["shape"] + 8})  # the strides
    assert entry.otherwise_laid_out.__wrapped__()


def test_a_python_without_a_global_lock_goes_through_ctypes(monkeypatch):
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: name == "Py_GIL_DISABLED")
    assert entry.otherwise_laid_out.__wrapped__() == "this Python has no global interpreter lock"


def test_numbers_and_arrays_are_taken(function):
    a, i = np.zeros(3), np.array([-1])
    function(a, i, 2.0, 3 - 1j, True, 5)
    assert a.tolist() == [0.0, 0.0, 5.0]
    function(a, i, np.float32(0.5), 1, False, 2**64 - 1)
    assert a[2] == 0.5 + 2.0**64
    i[0] = 3
    with pytest.raises(IndexError, match="out of bounds"):
        function(a, i, 2.0, 1j, True, 0)


def test_a_complex64_keeps_its_imaginary_part(function):
    """NumPy warned, and it was lost: that type is none of Python's complex."""
    out = {}
    for z in (np.complex64(3 - 2j), np.complex128(3 - 2j), 3 - 2j):
        a = np.zeros(3)
        function(a, np.array([0]), 2.0, z, True, 0)
        out[type(z)] = a.tolist()
    assert len(set(map(tuple, out.values()))) == 1
    for wrong in (None, [1j]):
        with pytest.raises(TypeError):
            function(a, np.array([0]), 2.0, wrong, True, 0)


def test_what_it_was_not_compiled_for_is_refused(function):
    a, i, rest = np.zeros(3), np.array([0]), (1.0, 1j, True, 0)
    wrong = [
        [0.0], None, np.zeros(4), np.zeros((3, 1)), np.array(0.0), np.zeros(3, np.float32), np.zeros(3, np.int64), np.zeros(6)[::2],
        np.frombuffer(bytes(25), np.uint8)[1:].view(np.float64), np.zeros(3, ">f8"), np.zeros(3, object),
    ]  # fmt: skip
    for x in wrong:
        with pytest.raises(TypeError, match="not compiled for"):
            function(x, i, *rest)
    for given in ((a, i), (a, i, *rest, 1.0), (a, np.array([0], np.int32), *rest)):
        with pytest.raises(TypeError, match="not compiled for"):
            function(*given)
    with pytest.raises((TypeError, AttributeError)):
        function(a, i, "1.0", 1j, True, 0)
    assert not a.any()


def test_arrays_of_the_same_dtype_by_another_name_and_of_a_subclass_are_taken(function):
    other = np.dtype("longlong" if np.dtype("longlong") is not np.dtype("int64") else "long")
    a, i = np.zeros(3).view(type("Array", (np.ndarray,), {})), np.array([1]).astype(other)
    function(a, i, 2.5, 1 + 0j, True, 0)
    assert a[1] == 2.5


def test_arguments_are_given_back(function):
    given = np.zeros(3), np.array([1]), np.float64(2.5), np.complex128(1j), True, 7
    before = [sys.getrefcount(x) for x in given]
    for _ in range(1000):
        function(*given)
    assert [sys.getrefcount(x) for x in given] == before


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import dualad
from checkpoint import grad
assert dualad.__file__.startswith(sys.argv[1])
f = dualad.jit(grad(lambda x: np.sum(np.tanh(x) * x)), backend="llvm")
x = np.arange(5.0)
np.testing.assert_allclose(f(x), np.tanh(x) + x / np.cosh(x) ** 2, rtol=1e-14)
assert "LLVM" in f.explain(x), f.explain(x)
"""


@pytest.mark.slow
def test_a_zipped_program_compiles(tmp_path):
    path = tmp_path / "program.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for package in ("dualad", "checkpoint"):
            for file in sorted((ROOT / package).rglob("*.py")):
                archive.write(file, file.relative_to(ROOT))
    output_of(PROGRAM, str(path), folder=tmp_path, PYTHONPATH="")


@pytest.mark.parametrize("place", [0, 17, 39])
def test_each_of_many_arrays_is_looked_at(place):
    y, *xs = variables(y=((1,), "float64"), **{f"x{k}": ((2,), "float64") for k in range(40)})
    total = sum(Value(Load(x, (number(1),))) for x in xs)
    function = compiled((y, *xs), Store(y, (number(0),), unwrapped(total)))
    y, xs = np.zeros(1), [np.arange(2.0) * k for k in range(40)]
    function(y, *xs)
    assert y[0] == 780.0
    for wrong in (np.zeros(3), np.zeros(2, np.float32), np.zeros((1, 2)), np.zeros(4)[::2], 1.0, None):
        with pytest.raises(TypeError, match="arguments that it was not compiled for"):
            function(y, *xs[:place], wrong, *xs[place + 1 :])
    assert y[0] == 780.0
