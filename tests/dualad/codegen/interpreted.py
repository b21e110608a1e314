"""Emitted source run by Python itself: slow, but it needs no compilation, and each index is checked."""

from __future__ import annotations

import importlib.util
import math
import operator
from types import FunctionType, ModuleType

import numpy as np
import pytest

from dualad.codegen.arithmetic import multiply_add, product_of, sum_of
from dualad.codegen.emit import HEADER
from dualad.codegen.native import Native
from dualad.graph.passes import optimised
from dualad.graph.trace import Trace
from dualad.jit import tracing
from dualad.jit.compiled import BACKENDS
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
    "multiply_add": multiply_add, "sum_of": sum_of, "product_of": product_of,
    "fmax_share": fmax_share, "larger_share": larger_share, "softmax_share": softmax_share,
    "complex_magnitude": np.abs, "complex_quotient": np.divide, "complex_reciprocal": np.reciprocal,
    "complex_turn": lambda x, y, e, c, s: np.exp(complex(x, y)),
    "turn": turn, "exp_of_expm1": exp_of_expm1, "root_above_one": root_above_one, "sech_squared": sech_squared,
}  # fmt: skip


class Checked(np.ndarray):
    """An array that is never indexed from its end."""

    def __getitem__(self, index):
        check(index)
        found = super().__getitem__(index)
        return found if isinstance(found, np.ndarray) else np.asarray(found)[()]

    def __setitem__(self, index, value):
        check(index)
        super().__setitem__(index, value)


def check(index):
    for part in index if type(index) is tuple else (index,):
        if isinstance(part, int | np.integer) and part < 0:
            raise IndexError(f"the emitted code reads at {index}")


def ratio(x, r):
    return 0.0 if r == 0 else np.float64(x) / r


def strong_multiply(p, t):
    r = np.float64(p) * t
    return 0.0 if t == 0 and r != r else r


def at_least_inside(k, n):
    if not -n <= k < n:
        raise IndexError("out of bounds")
    return k + n if k < 0 else k


def exact(operate):
    """Return an operation of integers that raises beyond 64 bits."""

    def compute(*numbers):
        result = operate(*map(int, numbers))
        if type(result) is not int or not -(1 << 63) <= result < 1 << 63:
            raise OverflowError("beyond 64 bits")
        return np.int64(result)

    return compute


EXACT = {
    "exact_sum": exact(operator.add), "exact_difference": exact(operator.sub), "exact_product": exact(operator.mul),
    "exact_power": exact(pow), "exact_quotient": exact(operator.floordiv), "exact_remainder": exact(operator.mod),
    "exact_absolute": exact(abs),
}  # fmt: skip


class Interpreted(Native):
    """A program whose emitted source Python runs."""

    def compile(self):
        module = module_of(self.source)
        return [getattr(module, name) for name in self.emitted.functions.values()]


def module_of(source):
    """Return the module of an emitted source that Python runs."""
    module = ModuleType("interpreted")
    space = vars(module)
    space.update(NUMPY, **EXACT, np=np, math=Tolerant, large_angle=lambda x: abs(x) > 1.0)
    space.update(choose=lambda c, x, y: x if c else y, ratio=ratio, strong_multiply=strong_multiply, at_least_inside=at_least_inside)
    before = {*space, "__builtins__"}
    exec(compile(source.removeprefix(HEADER), "<interpreted>", "exec"), space)
    space.update({name: checking(fn) for name, fn in space.items() if name not in before and isinstance(fn, FunctionType)})
    return module


def checking(fn):
    """Return a function of checked arrays."""
    return lambda *args: fn(*map(checked, args))


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


def traced(f, *examples):
    """Return the program of a function of arrays."""
    with Trace() as tracing:
        out = f(*[tracing.input(example) for example in examples])
        return optimised(tracing.finish(list(out) if isinstance(out, tuple | list) else [out]))


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    """Let Python run what LLVM would compile, new paths, too, from the first call on."""
    monkeypatch.setitem(BACKENDS, "llvm", Interpreted)
    monkeypatch.setattr(tracing, "WAITING_CALLS", 0)


@pytest.fixture(autouse=True)
def no_optimiser(monkeypatch):
    """Let LLVM translate chains as they are: what it makes of them is a matter of the tests of codegen and of chains."""
    if importlib.util.find_spec("llvmlite") is None:
        return
    from dualad.codegen import machine

    for name in ("speed_level", "long_level", "code_level", "long_code_level", "loop_vectorization"):
        monkeypatch.setitem(machine.TUNING, name, 0)
