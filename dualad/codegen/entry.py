"""Machine code of emitted functions, and how Python enters it.

A translated function (`translate`) is optimised once, and kept on disk (`cache`). To Python it is a built-in function: a few
instructions take the numbers and the pointers of arrays out of the arguments, as the macros of CPython's and NumPy's headers do, and
leave the interpreter to other threads while loops run.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import binding

from ..support.forks import compiler, held_across_forks
from .cache import stored
from .llvm import COMPLEX, Array, Untranslatable, number_type
from .translate import translated

__all__ = ["assembly", "compiled"]

if hasattr(binding, "ffi"):  # numba's compilations in other threads
    held_across_forks(binding.ffi.lib._lock._lock)

FASTCALL = 0x80  # METH_FASTCALL
#: functions of CPython that are called, with the types of their results and arguments
PYTHON = {
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyComplex_RealAsDouble": ("double", "ptr"),
    "PyComplex_ImagAsDouble": ("double", "ptr"),
    "PyLong_AsLongLong": ("i64", "ptr"),
    "PyObject_IsTrue": ("i32", "ptr"),
    "PyErr_Occurred": ("ptr",),
    "PyErr_SetString": ("void", "ptr", "ptr"),
    "PyType_IsSubtype": ("i32", "ptr", "ptr"),
    "PyEval_SaveThread": ("ptr",),
    "PyEval_RestoreThread": ("void", "ptr"),
    "Py_IncRef": ("void", "ptr"),
}
#: objects that are referred to
OBJECTS = {
    "dualad_array": np.ndarray,
    "dualad_none": None,
    "dualad_TypeError": TypeError,
    "dualad_IndexError": IndexError,
    "dualad_OverflowError": OverflowError,
}
MESSAGES = {
    "type": "a compiled function got arguments that it was not compiled for",
    "integer": "jit: a Python integer grows beyond 64 bits, or is divided by zero",
    "index": "jit: an index that is computed is out of bounds for the axis it indexes",
}


class Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


#: the functions of this process by digest; their machine code is never given back
made: dict[str, Callable] = {}


def immortal(thing):
    """Return an object that is never freed, not even when the interpreter ends: functions outlive the names of this module."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def compiled(module, text: str, name: str, kinds: list):
    """Return the function `name` of an emitted module, compiled for arguments of these kinds: ``(shape, dtype)``, or a number's dtype.

    An array stands for itself, a constant: it is no argument of what is returned.
    """
    told = list(map(type_of, kinds))
    constants = {i: kind for i, kind in enumerate(kinds) if issubclass(type(kind), np.ndarray)}
    contents = [(i, hashlib.sha256(array.tobytes()).hexdigest()) for i, array in constants.items()]
    digest = hashlib.sha256(f"{text}{name}{told}{contents}".encode()).hexdigest()[:24]
    with compiler():
        if digest not in made:
            _, holder = engine()
            for i, array in constants.items():
                binding.add_symbol(f"constant_{digest}_{i}", immortal(array).ctypes.data)

            def make():
                return engine()[0].emit_object(optimised(with_entry(module, text, name, told, digest, set(constants))))

            holder.add_object_file(binding.ObjectFileRef.from_data(stored(digest, make)))
            method = immortal(Method(name.encode(), holder.get_function_address(f"enter_{digest}"), FASTCALL, None))
            make = ctypes.pythonapi.PyCFunction_NewEx
            make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(Method), ctypes.c_void_p, ctypes.c_void_p)
            made[digest] = make(ctypes.byref(method), None, None)
        return made[digest]


def type_of(kind):
    if issubclass(type(kind), np.ndarray):
        return Array.of(kind.dtype, kind.shape)
    return Array.of(np.dtype(kind[1]), kind[0]) if isinstance(kind, tuple) else number_type(np.dtype(kind))


def assembly(module, text: str, name: str, kinds: list) -> str:
    """Return the assembly of what `compiled` makes."""
    with compiler():
        return engine()[0].emit_assembly(optimised(with_entry(module, text, name, list(map(type_of, kinds)), "0")))


@cache
def engine():
    """Return what makes machine code, and what holds it."""
    target = binding.Target.from_triple(binding.get_process_triple())
    options = {"cpu": binding.get_host_cpu_name(), "features": binding.get_host_cpu_features().flatten(), "opt": 3, "jit": True}
    holder = immortal(binding.create_mcjit_compiler(binding.parse_assembly(""), target.create_target_machine(**options)))
    for name in PYTHON:
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    for name, thing in OBJECTS.items():
        binding.add_symbol(name, id(thing))
    return target.create_target_machine(**options), holder


def optimised(text):
    """Return the optimised module of LLVM code."""
    machine, _ = engine()
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = binding.get_process_triple(), str(machine.target_data)
    tuning = binding.create_pipeline_tuning_options(speed_level=2)  # 3 unrolls more: up to five times as dear, and the code not faster
    tuning.loop_vectorization, tuning.slp_vectorization = True, False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


# --- the entry --------------------------------------------------------------------------------------------------------------------

HEAD = object.__basicsize__  # where the value of a float and the pointer of an array stand
CONVERTED = {
    "double": ["%n{0} = call double @PyFloat_AsDouble(ptr %o{0})"],
    "float": ["%d{0} = call double @PyFloat_AsDouble(ptr %o{0})", "%n{0} = fptrunc double %d{0} to float"],
    "i64": ["%n{0} = call i64 @PyLong_AsLongLong(ptr %o{0})"],
    "i1": ["%t{0} = call i32 @PyObject_IsTrue(ptr %o{0})", "%n{0} = icmp ne i32 %t{0}, 0"],
    COMPLEX["double"]: [
        "%r{0} = call double @PyComplex_RealAsDouble(ptr %o{0})",
        "%i{0} = call double @PyComplex_ImagAsDouble(ptr %o{0})",
        "%h{0} = insertvalue {{ double, double }} undef, double %r{0}, 0",
        "%n{0} = insertvalue {{ double, double }} %h{0}, double %i{0}, 1",
    ],
}
POINTER = f"""define internal ptr @pointer(ptr %object) noinline {{
  %place = getelementptr i8, ptr %object, i64 {HEAD - 8}
  %type = load ptr, ptr %place
  %exact = icmp eq ptr %type, @dualad_array
  br i1 %exact, label %array, label %other
other:
  %below = call i32 @PyType_IsSubtype(ptr %type, ptr @dualad_array)
  %is = icmp ne i32 %below, 0
  br i1 %is, label %array, label %wrong
array:
  %field = getelementptr i8, ptr %object, i64 {HEAD}
  %pointer = load ptr, ptr %field
  ret ptr %pointer
wrong:
  call void @PyErr_SetString(ptr @dualad_TypeError, ptr @message_type)
  ret ptr null
}}"""


def with_entry(module, text, name, kinds, digest, constants=frozenset()):
    """Return the LLVM code of a function, and of what Python calls: ``enter(self, arguments, count)``.

    The positions in `constants` are no arguments; they are found under names of their own.
    """
    function, code = translated(text, vars(module), name, kinds)
    lines = [
        "  %status = alloca i64",
        "  store i64 0, ptr %status",
        f"  %right = icmp eq i64 %count, {len(kinds) - len(constants)}",
        "  br i1 %right, label %given, label %miscounted",
        "miscounted:",
        "  call void @PyErr_SetString(ptr @dualad_TypeError, ptr @message_type)",
        "  ret ptr null",
        "given:",
    ]
    passed = ["ptr %status"]
    place = 0
    for i, kind in enumerate(kinds):
        if i in constants:
            passed.append(f"ptr @constant_{digest}_{i}")
            continue
        lines += [f"  %p{i} = getelementptr ptr, ptr %arguments, i64 {place}", f"  %o{i} = load ptr, ptr %p{i}"]
        array = isinstance(kind, Array)
        if not array and kind not in CONVERTED:
            raise Untranslatable(f"an argument that is {kind}")
        lines += [f"  {line.format(i)}" for line in (["%n{0} = call ptr @pointer(ptr %o{0})"] if array else CONVERTED[kind])]
        passed.append(f"{'ptr' if array else kind} %n{i}")
        place += 1
    call = [f"  call {function.result} @{function.name}({', '.join(passed)})"]
    if function.loops:
        call = ["  %thread = call ptr @PyEval_SaveThread()", *call, "  call void @PyEval_RestoreThread(ptr %thread)"]
    lines += [
        "  %error = call ptr @PyErr_Occurred()",
        "  %good = icmp eq ptr %error, null",
        "  br i1 %good, label %run, label %raised",
        "run:",
        *call,
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
    declared = [f"declare {result} @{name}({', '.join(kinds)})" for name, (result, *kinds) in PYTHON.items()]
    declared += [f"@{name} = external global i8" for name in (*OBJECTS, *(f"constant_{digest}_{i}" for i in sorted(constants)))]
    messages = [f'@message_{name} = internal constant [{len(m) + 1} x i8] c"{m}\\00"' for name, m in MESSAGES.items()]
    entry = f"define ptr @enter_{digest}(ptr %self, ptr %arguments, i64 %count) {{"
    return "\n".join([*declared, *messages, code, POINTER, entry, *lines, "}"])
