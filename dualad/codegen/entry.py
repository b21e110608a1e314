"""The entry from Python into machine code, and all assumptions about objects of CPython and NumPy.

To Python a compiled function is a built-in one: machine code that all share takes the numbers and the pointers of arrays out of the
arguments, as the macros of CPython's and NumPy's headers do, and leaves the interpreter to other threads while loops run. It looks at the
type, dtype, shape and flags of each array before it uses its pointer. Where objects are not as is assumed, functions are entered
through `ctypes`.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np

from ..ir.nodes import ArrayType, Type, Var
from ..ir.values import PART, arithmetic_dtype
from .llvm import Array, Writer, integer, number_type
from .team import PLACES

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


def entered(name: str, types: list[Type], slots: int, loops: bool, enter: Callable[[], int]) -> Callable:
    """Return the function whose parameters have these types, by the addresses of its `slots` and of `enter`."""
    reason = otherwise_laid_out()
    if not reason:
        method = immortal(Method(name.encode(), enter(), FASTCALL, None))
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p)
        return make(ctypes.byref(method), layout(types, slots, loops), None)
    tell(reason)
    return by_ctypes(types, ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_char_p)(slots))


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

#: what a number is taken as, in the layout of a function: in place of an array's dtype
KINDS = {"float64": 0, "float32": 0, "int64": 1, "uint64": 2, "bool": 3, "complex128": 4, "complex64": 4}

#: what Python calls, compiled once: `self` is an array, the layout of a function. Numbers and pointers go into slots of 8 bytes
ENTER = """\
define ptr @enter_DIGEST(ptr %self, ptr %arguments, i64 %count) {{
  %layout.at = getelementptr i8, ptr %self, i64 {data}
  %layout = load ptr, ptr %layout.at
  %function = load ptr, ptr %layout
  %wanted.at = getelementptr i64, ptr %layout, i64 1
  %wanted = load i64, ptr %wanted.at
  %size.at = getelementptr i64, ptr %layout, i64 2
  %size = load i64, ptr %size.at
  %loops.at = getelementptr i64, ptr %layout, i64 3
  %loops = load i64, ptr %loops.at
  %first = getelementptr i64, ptr %layout, i64 4
  %values = alloca i64, i64 %size
  %right = icmp eq i64 %count, %wanted
  br i1 %right, label %head, label %unlike
head:
  %k = phi i64 [0, %0], [%k.next, %done]
  %kind.at = phi ptr [%first, %0], [%kind.next, %done]
  %value = phi ptr [%values, %0], [%value.next, %done]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %argument, label %run
argument:
  %o.at = getelementptr ptr, ptr %arguments, i64 %k
  %o = load ptr, ptr %o.at
  %kind = load i64, ptr %kind.at
  %type.at = getelementptr i8, ptr %o, i64 {type}
  %type = load ptr, ptr %type.at
  switch i64 %kind, label %array [i64 0, label %float i64 1, label %signed i64 2, label %unsigned i64 3, label %bool i64 4, label %complex]
array:
  %exact = icmp eq ptr %type, @dualad_array
  br i1 %exact, label %dtype, label %other
other:
  %below = call i32 @PyType_IsSubtype(ptr %type, ptr @dualad_array)
  %is = icmp ne i32 %below, 0
  br i1 %is, label %dtype, label %unlike
dtype:
  %dtype.at = getelementptr i8, ptr %o, i64 {dtype}
  %found = load ptr, ptr %dtype.at
  %dtype.wanted = inttoptr i64 %kind to ptr
  %same = icmp eq ptr %found, %dtype.wanted
  br i1 %same, label %numbers, label %another
another:
  %equal = call i32 @PyObject_RichCompareBool(ptr %found, ptr %dtype.wanted, i32 2)
  %alike = icmp eq i32 %equal, 1
  br i1 %alike, label %numbers, label %unlike
numbers:
  %axes.at = getelementptr i64, ptr %kind.at, i64 1
  %axes = load i64, ptr %axes.at
  %lengths.wanted = getelementptr i64, ptr %kind.at, i64 2
  %ndim.at = getelementptr i8, ptr %o, i64 {ndim}
  %ndim.found = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.found to i64
  %as.many = icmp eq i64 %ndim, %axes
  %flags.at = getelementptr i8, ptr %o, i64 {flags}
  %flags = load i32, ptr %flags.at
  %needed = and i32 %flags, {needed}
  %plain = icmp eq i32 %needed, {needed}
  %fine = and i1 %as.many, %plain
  br i1 %fine, label %shape, label %unlike
shape:
  %shape.at = getelementptr i8, ptr %o, i64 {shape}
  %lengths = load ptr, ptr %shape.at
  br label %axis
axis:
  %i = phi i64 [0, %shape], [%i.next, %length]
  %left = icmp ult i64 %i, %axes
  br i1 %left, label %length, label %data
length:
  %n.at = getelementptr i64, ptr %lengths, i64 %i
  %n = load i64, ptr %n.at
  %n.wanted.at = getelementptr i64, ptr %lengths.wanted, i64 %i
  %n.wanted = load i64, ptr %n.wanted.at
  %long = icmp eq i64 %n, %n.wanted
  %any = icmp slt i64 %n.wanted, 0
  %fits = or i1 %long, %any
  %i.next = add i64 %i, 1
  br i1 %fits, label %axis, label %unlike
data:
  %data.at = getelementptr i8, ptr %o, i64 {data}
  %pointer = load ptr, ptr %data.at
  store ptr %pointer, ptr %value
  %behind = getelementptr i64, ptr %lengths.wanted, i64 %axes
  br label %done
float:
  %double = call double @PyFloat_AsDouble(ptr %o)
  store double %double, ptr %value
  %float.bad = fcmp oeq double %double, -1.0
  br i1 %float.bad, label %doubtful, label %number
signed:
  %integer = call i64 @PyLong_AsLongLong(ptr %o)
  br label %whole
unsigned:
  %wrapped = call i64 @PyLong_AsUnsignedLongLongMask(ptr %o)
  br label %whole
bool:
  %truth = call i32 @PyObject_IsTrue(ptr %o)
  %true = sext i32 %truth to i64
  br label %whole
whole:
  %bits = phi i64 [%integer, %signed], [%wrapped, %unsigned], [%true, %bool]
  store i64 %bits, ptr %value
  %whole.bad = icmp eq i64 %bits, -1
  br i1 %whole.bad, label %doubtful, label %number
complex:
  %z = call ptr @PyObject_CallOneArg(ptr @dualad_complex, ptr %o)
  %none = icmp eq ptr %z, null
  br i1 %none, label %raised, label %parts
parts:
  %real = call double @PyComplex_RealAsDouble(ptr %z)
  %imaginary = call double @PyComplex_ImagAsDouble(ptr %z)
  call void @Py_DecRef(ptr %z)
  store double %real, ptr %value
  %second = getelementptr i64, ptr %value, i64 1
  store double %imaginary, ptr %second
  br label %number
doubtful:
  %error = call ptr @PyErr_Occurred()
  %good = icmp eq ptr %error, null
  br i1 %good, label %number, label %raised
number:
  %last = phi ptr [%value, %float], [%value, %whole], [%value, %doubtful], [%second, %parts]
  %after = getelementptr i64, ptr %kind.at, i64 1
  br label %done
done:
  %before = phi ptr [%last, %number], [%value, %data]
  %kind.next = phi ptr [%after, %number], [%behind, %data]
  %value.next = getelementptr i64, ptr %before, i64 1
  %k.next = add i64 %k, 1
  br label %head
run:
  %frees = icmp ne i64 %loops, 0
  br i1 %frees, label %free, label %keep
free:
  %thread = call ptr @PyEval_SaveThread()
  %code.free = call i64 %function(ptr %values)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ran
keep:
  %code.keep = call i64 %function(ptr %values)
  br label %ran
ran:
  %code = phi i64 [%code.free, %free], [%code.keep, %keep]
  %inside = icmp eq i64 %code, 0
  br i1 %inside, label %end, label %outside
outside:
  %index = icmp eq i64 %code, 1
  %exception = select i1 %index, ptr @dualad_IndexError, ptr @dualad_OverflowError
  %message = select i1 %index, ptr @message_index, ptr @message_integer
  call void @PyErr_SetString(ptr %exception, ptr %message)
  br label %raised
unlike:
  call void @PyErr_SetString(ptr @dualad_TypeError, ptr @message_type)
  br label %raised
raised:
  ret ptr null
end:
  call void @Py_IncRef(ptr @dualad_none)
  ret ptr @dualad_none
}}
"""


def code_of_enter() -> str:
    """Return the LLVM code of ``enter(self, arguments, count)``, which enters all functions."""
    declared = [f"declare {result} @{name}({', '.join(kinds)})" for name, (result, *kinds) in PYTHON.items()]
    declared += [f"@{name} = external global i8" for name in OBJECTS]
    messages = [f'@message_{name} = internal constant [{len(m) + 1} x i8] c"{m}\\00"' for name, m in MESSAGES.items()]
    return "\n".join([*declared, *messages, ENTER.format(needed=sum(FLAGS.values()), **OFFSETS)])


def layout(types: list[Type], address: int, loops: bool) -> np.ndarray:
    """Return what `enter` reads of a function: its address, its numbers of arguments and slots, whether other threads run, its types."""
    kinds: list[int] = []
    for kind in types:
        if isinstance(kind, ArrayType):
            kinds += [id(np.dtype(kind.dtype)), len(kind.shape), *kind.shape]
        else:
            kinds.append(KINDS[arithmetic_dtype(kind)])
    return np.array([address, len(types), sum(map(slots_of, types)), loops, *kinds], np.int64)


#: the numbers that stand in slots for those of other dtypes
SLOTS = {"float32": "float64", "complex64": "complex128", "bool": "int64"}


def slots_of(kind: Type) -> int:
    """Return how many slots an argument takes: a complex number takes two."""
    return 1 if isinstance(kind, ArrayType) or arithmetic_dtype(kind) not in PART else 2


def code_of_slots(function, parameters: tuple[Var, ...], constants: frozenset[int]) -> str:
    """Return the LLVM code of ``slots(values) -> status``, which calls a function with what stands in slots of 8 bytes.

    The positions in `constants` are no arguments; they are found under names of their own. DIGEST stands in all names. A function
    that shares nests has the team in a slot after the others; it, and the number of the thread, stand behind the status.
    """
    declared = [f"@constant_DIGEST_{i} = external global i8" for i in sorted(constants)]
    writer, values, passed, place = Writer(None), Array(ArrayType("int64", ()), "%values"), ["ptr %status"], 0
    for i, parameter in enumerate(parameters):
        if i in constants:
            passed.append(f"ptr @constant_DIGEST_{i}")
            continue
        slot = writer.moved(values, integer(place)).pointer
        if isinstance(parameter.type, ArrayType):
            passed.append(f"ptr {writer.let(f'load ptr, ptr {slot}')}")
        else:
            dtype = arithmetic_dtype(parameter.dtype)
            passed.append(str(writer.cast(writer.load(Array(ArrayType(SLOTS.get(dtype, dtype), ()), slot)), dtype)))
        place += slots_of(parameter.type)
    call = f"  call {function.result} @{function.name}({', '.join(passed)})"
    writer.lines.append(SHARING.format(place=place, call=call, RUNNING=PLACES["RUNNING"]) if function.shares else call)
    writer.say(f"ret i64 {writer.let('load i64, ptr %status')}")
    status = ["  %status = alloca [3 x i64]", "  store i64 0, ptr %status"]
    return "\n".join([*declared, "define i64 @slots_DIGEST(ptr %values) {", *status, *writer.lines, "}"])


def code_of_alone(function) -> str:
    """Return the LLVM code of a function of another module, which calls one of this. DIGEST stands in its name."""
    given = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(function.kinds))
    return f"define void @alone_DIGEST({given}) nounwind {{\n  call void @{function.name}({given})\n  ret void\n}}"


#: a call of a function that shares nests, whose helpers stay meanwhile
SHARING = """\
  %team.slot = getelementptr i64, ptr %values, i64 {place}
  %team = load ptr, ptr %team.slot
  %team.at = getelementptr i64, ptr %status, i64 1
  store ptr %team, ptr %team.at
  %thread.at = getelementptr i64, ptr %status, i64 2
  store i64 0, ptr %thread.at
  %running = getelementptr i64, ptr %team, i64 {RUNNING}
  %begun = atomicrmw add ptr %running, i64 1 seq_cst
{call}
  %ended = atomicrmw sub ptr %running, i64 1 seq_cst"""
