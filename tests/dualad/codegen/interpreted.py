"""Emitted source run by Python itself, with NumPy's functions for our kernels: no compilation, and each index is checked."""

import importlib.util
import math
from types import FunctionType, ModuleType

import numpy as np
import pytest

from dualad.codegen.native import Native
from dualad.graph.passes import optimised
from dualad.graph.trace import Trace
from dualad.jit import tracing
from dualad.jit.compiled import BACKENDS, Compiled
from dualad.rules.stable import exp_of_expm1, root_above_one, sech_squared, turn
from dualad.rules.ufuncs import fmax_share, larger_share, softmax_share

NUMPY = {
    name: getattr(np, name)
    for name in [
        "arctan", "cbrt", "cos", "cosh", "exp", "expm1", "log", "log1p", "sin", "sinh",
        "tan", "tanh", "clip", "floor_divide", "fmax", "fmin", "heaviside", "maximum", "minimum", "remainder", "sign",
    ]
} | {
    "any_sin": np.sin, "any_cos": np.cos, "any_tan": np.tan, "is_finite": np.isfinite, "is_infinite": np.isinf,
    "fmax_share": fmax_share, "larger_share": larger_share, "softmax_share": softmax_share,
    "complex_magnitude": np.abs, "complex_quotient": np.divide, "complex_reciprocal": np.reciprocal,
    "complex_turn": lambda x, y, e, c, s: np.exp(complex(x, y)),
    "turn": turn, "exp_of_expm1": exp_of_expm1, "root_above_one": root_above_one, "sech_squared": sech_squared,
}  # fmt: skip


INTEGERS = {int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])}


class Checked(np.ndarray):
    """An array that is never indexed from its end."""

    def __getitem__(self, index):
        check(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        check(index)
        super().__setitem__(index, value)


def check(index):
    for part in index if type(index) is tuple else (index,):
        if type(part) in INTEGERS and part < 0:
            raise IndexError(f"the emitted code reads at {index}")


class Interpreted(Native):
    """A program whose emitted source Python runs."""

    def compile(self):
        module = module_of(self.source)
        return [getattr(module, name) for name in self.emitted.functions.values()]


def module_of(source):
    """Return the module of an emitted source that Python runs."""
    module = ModuleType("interpreted")
    space = vars(module)
    exec(compile(source, "<interpreted>", "exec"), space)
    functions = {name: fn for name, fn in space.items() if isinstance(fn, FunctionType)}
    emitted = {name: checking(fn) for name, fn in functions.items() if fn.__code__.co_filename == "<interpreted>"}
    space.update(NUMPY, **emitted, math=Tolerant, large_angle=lambda x: abs(x) > 1.0)
    return module


def checking(fn):
    """Return a function of checked arrays, in which nothing warns, as nothing does in machine code."""
    return np.errstate(all="ignore")(lambda *args: fn(*map(checked, args)))


class Tolerant:
    """The functions of `math` that do not raise in compiled code."""

    pi, inf, nan = math.pi, math.inf, math.nan
    sqrt, copysign = np.sqrt, np.copysign


def checked(x):
    return x.view(Checked) if isinstance(x, np.ndarray) else np.float64(x) if type(x) is float else x


def interpreted(program):
    """Return the function of inputs that runs a program's emitted source in Python."""
    native = Interpreted(program)

    def call(*inputs):
        with np.errstate(all="ignore"):
            return [np.asarray(out) if type(out) is Checked else out for out in native.call(*inputs)]

    call.native = native
    return call


def recorded(f, *examples):
    """Return the program of a function of arrays, not optimised."""
    with Trace() as trace:
        out = f(*map(trace.input, examples))
        return trace.finish(list(out) if isinstance(out, tuple | list) else [out])


def traced(f, *examples):
    """Return the program of a function of arrays."""
    return optimised(recorded(f, *examples))


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    """Let Python run what LLVM would compile, new paths, too, from the first call on."""
    monkeypatch.setitem(BACKENDS, "llvm", Interpreted)
    monkeypatch.setattr(tracing, "Compiled", lambda *args: Compiled(*args[:4]))


@pytest.fixture(autouse=True)
def no_optimiser(monkeypatch):
    """Let LLVM translate chains as they are: what it makes of them is a matter of the tests of codegen and of chains."""
    if importlib.util.find_spec("llvmlite") is None:
        return
    from dualad.codegen import machine

    for name in ("speed_level", "long_level", "code_level", "long_code_level", "loop_vectorization"):
        monkeypatch.setitem(machine.TUNING, name, 0)
