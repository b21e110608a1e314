"""How Python enters machine code, and all that is assumed of the objects of CPython and NumPy.

To Python a compiled function is a built-in one: a few instructions take the numbers and the pointers of arrays out of the arguments, as
the macros of CPython's and NumPy's headers do, and leave the interpreter to other threads while loops run. They look at the type, dtype,
shape and flags of each array before they use its pointer. Where objects are not as is assumed, functions are entered through `ctypes`.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np

from ..ir.nodes import ArrayType, Type, Var
from ..ir.values import PART, arithmetic_dtype
from ..support.costs import SHARED_LINES
from .llvm import ELEMENTS, number_type

__all__ = ["OBJECTS", "PYTHON", "code_of_entry", "entered", "immortal", "otherwise_laid_out"]

FASTCALL = 0x80  # METH_FASTCALL
#: functions of CPython that are called, with the types of their results and arguments
PYTHON = {
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyComplex_RealAsDouble": ("double", "ptr"),
    "PyComplex_ImagAsDouble": ("double", "ptr"),
    "PyLong_AsLongLong": ("i64", "ptr"),
    "PyLong_AsUnsignedLongLongMask": ("i64", "ptr"),
    "PyObject_IsTrue": ("i32", "ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr", "ptr", "i32"),
    "PyErr_Occurred": ("ptr",),
    "PyErr_SetString": ("void", "ptr", "ptr"),
    "PyType_IsSubtype": ("i32", "ptr", "ptr"),
    "PyEval_SaveThread": ("ptr",),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyObject_CallOneArg": ("ptr", "ptr", "ptr"),
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
}
#: objects that are referred to
OBJECTS = {
    "dualad_array": np.ndarray,
    "dualad_none": None,
    "dualad_complex": complex,
    "dualad_TypeError": TypeError,
    "dualad_IndexError": IndexError,
    "dualad_OverflowError": OverflowError,
    **{f"dualad_{dtype}": np.dtype(dtype) for dtype in ELEMENTS},
}
MESSAGES = {
    "type": "a compiled function got arguments that it was not compiled for",
    "integer": "jit: a Python integer grows beyond 64 bits or is divided by zero, or a matrix is singular or not positive definite",
    "index": "jit: an index that is computed is out of bounds for the axis it indexes",
}

# --- the layout of objects --------------------------------------------------------------------------------------------------------

HEAD = object.__basicsize__
#: where the fields of an object and of an array stand
OFFSETS = {"type": HEAD - 8, "data": HEAD, "ndim": HEAD + 8, "shape": HEAD + 16, "dtype": HEAD + 40, "flags": HEAD + 48}
FLAGS = {"C_CONTIGUOUS": 0x0001, "ALIGNED": 0x0100}  # that arrays must have


def at(thing, field, kind):
    return kind.from_address(id(thing) + OFFSETS[field]).value


@cache
def otherwise_laid_out() -> str:
    """Return what is not as the entry assumes, nothing if all is."""
    import sysconfig

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python has no global interpreter lock"
    if (sys.implementation.name, struct.calcsize("P")) != ("cpython", 8):
        return "this is not CPython of 64 bits"
    whole = np.arange(24.0).reshape(2, 3, 4)
    unaligned = np.frombuffer(bytes(16), np.uint8)[1:9].view(np.float64)
    examples = [whole, whole[:, ::2], whole.T, np.zeros((), np.int32), np.zeros(5, bool), unaligned]
    for x in examples:
        if at(x, "type", ctypes.c_void_p) != id(np.ndarray):
            return "objects have their types elsewhere"
        found = [at(x, "data", ctypes.c_void_p), at(x, "ndim", ctypes.c_int), at(x, "dtype", ctypes.c_void_p), at(x, "flags", ctypes.c_int)]
        if found != [x.ctypes.data, x.ndim, id(x.dtype), x.flags.num]:
            return "NumPy's arrays have other fields"
        lengths, strides = (ctypes.c_void_p.from_address(id(x) + OFFSETS["shape"] + k).value or 0 for k in (0, 8))
        if x.ndim and strides != lengths + 8 * x.ndim:  # NumPy allocates both at once: so this is what the next line may read
            return "NumPy's arrays have their shapes elsewhere"
        if x.ndim and tuple((ctypes.c_ssize_t * x.ndim).from_address(lengths)) != x.shape:
            return "NumPy's arrays have other shapes"
        if any(bool(x.flags.num & flag) != getattr(x.flags, name.lower()) for name, flag in FLAGS.items()):
            return "NumPy's arrays have other flags"
    return ""


class Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def immortal(thing):
    """Return an object that is never freed, not even when the interpreter ends: functions outlive the names of this module."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def entered(name: str, types: list[Type], address: Callable[[str], int]) -> Callable:
    """Return the function whose parameters have these types; `address` says where the ways of `code_of_entry` are."""
    reason = otherwise_laid_out()
    if not reason:
        method = immortal(Method(name.encode(), address("enter"), FASTCALL, None))
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(Method), ctypes.c_void_p, ctypes.c_void_p)
        return make(ctypes.byref(method), None, None)
    tell(reason)
    return by_ctypes(types, ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_char_p)(address("slots")))


@cache
def tell(reason):
    message = f"dualad.jit: {reason}, so compiled functions are called through ctypes, which takes microseconds longer"
    warnings.warn(message, RuntimeWarning, stacklevel=2)


# --- through ctypes ---------------------------------------------------------------------------------------------------------------


def by_ctypes(types, function):
    """Return the function that calls another with the numbers and pointers that it is given, each in slots of 8 bytes."""
    letters = {"double": "d", "float": "d", "i64": "q", "i1": "q"}
    kinds = [(kind, "P" if isinstance(kind, ArrayType) else letters.get(number_type(kind), "dd")) for kind in types]
    layout = struct.Struct("@" + "".join(letter for _, letter in kinds))
    errors = {1: IndexError(MESSAGES["index"]), 2: OverflowError(MESSAGES["integer"])}

    def call(*args):
        if len(args) != len(kinds):
            raise TypeError(MESSAGES["type"])
        slots: list = []
        for x, (kind, letter) in zip(args, kinds, strict=True):
            if isinstance(kind, ArrayType):
                if not fits(x, kind):
                    raise TypeError(MESSAGES["type"])
                slots.append(x.ctypes.data)
            elif letter == "dd":
                slots += [complex(x).real, complex(x).imag]
            elif letter == "d":
                slots.append(x.__float__())
            else:
                slots.append(bool(x) if kind == "bool" else wrapped(x))
        status = function(layout.pack(*slots))
        if status:
            raise type(errors[status])(*errors[status].args)

    return call


def wrapped(n):
    """Return an integer as one of 64 bits with a sign."""
    return (n.__index__() + 2**63) % 2**64 - 2**63


def fits(x, kind):
    """Return whether an object is an array of a type."""
    if not issubclass(type(x), np.ndarray) or x.dtype != np.dtype(kind.dtype) or x.ndim != len(kind.shape):
        return False
    return (
        all(n == wanted or wanted < 0 for n, wanted in zip(x.shape, kind.shape, strict=True)) and x.flags.c_contiguous and x.flags.aligned
    )


# --- the code of each way --------------------------------------------------------------------------------------------------------

#: of an array argument: its type, or a subclass; its dtype, or an equal one; its number of axes and flags; then its shape
ARRAY = """\
  %type.at{i} = getelementptr i8, ptr %o{i}, i64 {type}
  %type{i} = load ptr, ptr %type.at{i}
  %exact{i} = icmp eq ptr %type{i}, @dualad_array
  br i1 %exact{i}, label %array{i}, label %other{i}
other{i}:
  %below{i} = call i32 @PyType_IsSubtype(ptr %type{i}, ptr @dualad_array)
  %is{i} = icmp ne i32 %below{i}, 0
  br i1 %is{i}, label %array{i}, label %unlike
array{i}:
  %dtype.at{i} = getelementptr i8, ptr %o{i}, i64 {dtype}
  %dtype{i} = load ptr, ptr %dtype.at{i}
  %same{i} = icmp eq ptr %dtype{i}, @dualad_{name}
  br i1 %same{i}, label %numbers{i}, label %another{i}
another{i}:
  %equal{i} = call i32 @PyObject_RichCompareBool(ptr %dtype{i}, ptr @dualad_{name}, i32 2)
  %alike{i} = icmp eq i32 %equal{i}, 1
  br i1 %alike{i}, label %numbers{i}, label %unlike
numbers{i}:
  %ndim.at{i} = getelementptr i8, ptr %o{i}, i64 {ndim}
  %ndim{i} = load i32, ptr %ndim.at{i}
  %axes{i} = icmp eq i32 %ndim{i}, {axes}
  %flags.at{i} = getelementptr i8, ptr %o{i}, i64 {flags}
  %flags{i} = load i32, ptr %flags.at{i}
  %needed{i} = and i32 %flags{i}, {needed}
  %plain{i} = icmp eq i32 %needed{i}, {needed}
  %fine{i} = and i1 %axes{i}, %plain{i}
  br i1 %fine{i}, label %shape{i}, label %unlike
shape{i}:
  %shape.at{i} = getelementptr i8, ptr %o{i}, i64 {shape}
  %lengths{i} = load ptr, ptr %shape.at{i}"""
LENGTH = """\
  %n.at{i}.{axis} = getelementptr i64, ptr %lengths{i}, i64 {axis}
  %n{i}.{axis} = load i64, ptr %n.at{i}.{axis}
  %long{i}.{axis} = icmp eq i64 %n{i}.{axis}, {n}
  br i1 %long{i}.{axis}, label %next{i}.{axis}, label %unlike
next{i}.{axis}:"""
DATA = """\
  %data.at{i} = getelementptr i8, ptr %o{i}, i64 {data}
  %n{i} = load ptr, ptr %data.at{i}"""


def code_of_entry(function, parameters: tuple[Var, ...], constants: frozenset[int]) -> str:
    """Return the LLVM code of what Python calls: ``enter(self, arguments, count)``, or through ctypes ``slots(values) -> status``.

    The positions in `constants` are no arguments; they are found under names of their own. DIGEST stands in all names.
    """
    given = [i for i in range(len(parameters)) if i not in constants]
    declared = [f"declare {result} @{name}({', '.join(kinds)})" for name, (result, *kinds) in PYTHON.items()]
    declared += [f"@{name} = external global i8" for name in (*OBJECTS, *(f"constant_DIGEST_{i}" for i in sorted(constants)))]
    messages = [f'@message_{name} = internal constant [{len(m) + 1} x i8] c"{m}\\00"' for name, m in MESSAGES.items()]
    passed = ["ptr %status"]
    for i, parameter in enumerate(parameters):
        array = isinstance(parameter.type, ArrayType)
        passed.append(f"ptr @constant_DIGEST_{i}" if i in constants else f"{'ptr' if array else number_type(parameter.dtype)} %n{i}")
    call = f"  call {function.result} @{function.name}({', '.join(passed)})"
    enter = [
        "  %status = alloca i64",
        "  store i64 0, ptr %status",
        f"  %right = icmp eq i64 %count, {len(given)}",
        "  br i1 %right, label %given, label %unlike",
        "unlike:",
        "  call void @PyErr_SetString(ptr @dualad_TypeError, ptr @message_type)",
        "  ret ptr null",
        "given:",
    ]
    types = Counter(parameters[i].type for i in given)
    often = [kind for kind, count in types.items() if isinstance(kind, ArrayType) and count * ARRAY.count("\n") > SHARED_LINES]
    for place, i in enumerate(given):
        enter += [f"  %p{i} = getelementptr ptr, ptr %arguments, i64 {place}", f"  %o{i} = load ptr, ptr %p{i}"]
        kind = parameters[i].type
        enter += [f"  %n{i} = call ptr @taken_{often.index(kind)}(ptr %o{i})"] if kind in often else taken(i, kind)
    fitting = "true"
    for i in given:
        if parameters[i].type in often:
            enter += [f"  %found{i} = icmp ne ptr %n{i}, null", f"  %fitting{i} = and i1 {fitting}, %found{i}"]
            fitting = f"%fitting{i}"
    if often:
        enter += [f"  br i1 {fitting}, label %taken, label %unlike", "taken:"]
    enter += [
        "  %error = call ptr @PyErr_Occurred()",
        "  %good = icmp eq ptr %error, null",
        "  br i1 %good, label %run, label %raised",
        "run:",
        *(["  %thread = call ptr @PyEval_SaveThread()"] if function.loops else []),
        call,
        *(["  call void @PyEval_RestoreThread(ptr %thread)"] if function.loops else []),
        "  %code = load i64, ptr %status",
        "  %inside = icmp eq i64 %code, 0",
        "  br i1 %inside, label %done, label %outside",
        "outside:",
        "  %index = icmp eq i64 %code, 1",
        "  %kind = select i1 %index, ptr @dualad_IndexError, ptr @dualad_OverflowError",
        "  %message = select i1 %index, ptr @message_index, ptr @message_integer",
        "  call void @PyErr_SetString(ptr %kind, ptr %message)",
        "  br label %raised",
        "raised:",
        "  ret ptr null",
        "done:",
        "  call void @Py_IncRef(ptr @dualad_none)",
        "  ret ptr @dualad_none",
    ]
    slots, place = ["  %status = alloca i64", "  store i64 0, ptr %status"], 0
    for i in given:
        lines, count = from_slots(i, place, parameters[i].type)
        slots += lines
        place += count
    slots += [call, "  %code = load i64, ptr %status", "  ret i64 %code"]
    by_objects = ["define ptr @enter_DIGEST(ptr %self, ptr %arguments, i64 %count) {", *enter, "}"]
    by_values = ["define i64 @slots_DIGEST(ptr %values) {", *slots, "}"]
    alike = [line for k, kind in enumerate(often) for line in taken_once(k, kind)]
    return "\n".join([*declared, *messages, *(by_values if otherwise_laid_out() else [*alike, *by_objects])])


def taken(i, kind):
    """Return the lines that take an argument out of an object."""
    if isinstance(kind, ArrayType):
        fields = {"i": i, "name": kind.dtype, "axes": len(kind.shape), "needed": sum(FLAGS.values()), **OFFSETS}
        lengths = [LENGTH.format(i=i, axis=axis, n=n) for axis, n in enumerate(kind.shape) if n >= 0]
        return [ARRAY.format(**fields), *lengths, DATA.format(**fields)]
    dtype = arithmetic_dtype(kind)
    if dtype in PART:
        return [
            f"  %before{i} = call ptr @PyErr_Occurred()",  # Python code must not run where an error is set
            f"  %clear{i} = icmp eq ptr %before{i}, null",
            f"  br i1 %clear{i}, label %converted{i}, label %raised",
            f"converted{i}:",
            f"  %z{i} = call ptr @PyObject_CallOneArg(ptr @dualad_complex, ptr %o{i})",  # a complex64 is not one of Python's
            f"  %none{i} = icmp eq ptr %z{i}, null",
            f"  br i1 %none{i}, label %raised, label %complex{i}",
            f"complex{i}:",
            *(f"  %{part}{i} = call double @PyComplex_{name}AsDouble(ptr %z{i})" for part, name in (("re", "Real"), ("im", "Imag"))),
            f"  call void @Py_DecRef(ptr %z{i})",
            *together(i, dtype),
        ]
    if dtype == "bool":
        return [f"  %t{i} = call i32 @PyObject_IsTrue(ptr %o{i})", f"  %n{i} = icmp ne i32 %t{i}, 0"]
    if dtype == "float32":
        return [f"  %d{i} = call double @PyFloat_AsDouble(ptr %o{i})", f"  %n{i} = fptrunc double %d{i} to float"]
    name = {"float64": "PyFloat_AsDouble", "int64": "PyLong_AsLongLong", "uint64": "PyLong_AsUnsignedLongLongMask"}[dtype]
    return [f"  %n{i} = call {number_type(dtype)} @{name}(ptr %o{i})"]


def taken_once(k, kind):
    """Return the lines of a function that returns the pointer of an array of a type, and null of any other object."""
    header = [f"define internal ptr @taken_{k}(ptr %o0) noinline {{", "  br label %given", "unlike:", "  ret ptr null", "given:"]
    return [*header, *taken(0, kind), "  ret ptr %n0", "}"]


def from_slots(i, place, kind):
    """Return the lines that take an argument out of slots from a place on, and how many."""

    def load(name, place, what):
        return [f"  %p{name} = getelementptr i64, ptr %values, i64 {place}", f"  %{name} = load {what}, ptr %p{name}"]

    dtype = None if isinstance(kind, ArrayType) else arithmetic_dtype(kind)
    if dtype is None:
        return load(f"n{i}", place, "ptr"), 1
    if dtype in PART:
        return [*load(f"re{i}", place, "double"), *load(f"im{i}", place + 1, "double"), *together(i, dtype)], 2
    if dtype == "float32":
        return [*load(f"d{i}", place, "double"), f"  %n{i} = fptrunc double %d{i} to float"], 1
    if dtype == "bool":
        return [*load(f"t{i}", place, "i64"), f"  %n{i} = icmp ne i64 %t{i}, 0"], 1
    return load(f"n{i}", place, number_type(dtype)), 1


def together(i, dtype):
    """Return the lines that make a complex number of two float64."""
    kind, part, lines = number_type(dtype), number_type(PART[dtype]), []
    names = [f"%re{i}", f"%im{i}"]
    if part == "float":
        lines = [f"  {name}.single = fptrunc double {name} to float" for name in names]
        names = [f"{name}.single" for name in names]
    return [
        *lines,
        f"  %half{i} = insertvalue {kind} undef, {part} {names[0]}, 0",
        f"  %n{i} = insertvalue {kind} %half{i}, {part} {names[1]}, 1",
    ]
