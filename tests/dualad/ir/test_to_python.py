"""The printed loop IR: Python computes from the text what the same functions compute of numbers, and parentheses stand where they must."""

import math
import operator
from itertools import product

import numpy as np
import pytest

from dualad.codegen import native
from dualad.ir.nodes import (
    ArrayType,
    Assign,
    Call,
    Const,
    Do,
    Fill,
    For,
    ForRows,
    Function,
    If,
    Lane,
    Load,
    Module,
    Reshape,
    Room,
    Row,
    Store,
    Table,
    Var,
    number,
)
from dualad.ir.to_python import expression, module_text
from dualad.ir.values import Value, call, cast, choose, unwrapped
from dualad.ir.verify import verify
from dualad.jit.compiled import BACKENDS
from dualad.loops.threads import run

FLOATS = [
    (lambda x, y: x - (y - x), "x - (y - x)"),
    (lambda x, y: (x - y) - x, "x - y - x"),
    (lambda x, y: x / (y * x), "x / (y * x)"),
    (lambda x, y: -(x**y), "-x ** y"),
    (lambda x, y: (-x) ** -y, "(-x) ** -y"),
    (lambda x, y: (x**y) ** x, "(x ** y) ** x"),
    (lambda x, y: 2.0 * (x + y) * (x - -0.5), "2.0 * (x + y) * (x - -0.5)"),
    (lambda x, y: (-0.5 + 0.0 * x) ** 2.0, "(-0.5 + 0.0 * x) ** 2.0"),
    (lambda x, y: (x < y) & ((x != y) | (y <= 1.0)), "(x < y) & ((x != y) | (y <= 1.0))"),
    (lambda x, y: choose(x > y, -x, abs(y - x)) + y, "choose(x > y, -x, abs(y - x)) + y"),
    (lambda x, y: (x < y) == (y < x), "(x < y) == (y < x)"),
]
INTEGERS = [
    (lambda k, n: (k & 7) + (n | k) % 5, "(k & 7) + (n | k) % 5"),
    (lambda k, n: ~(k << 2) ^ (n >> 1), "~(k << 2) ^ n >> 1"),
    (lambda k, n: operator.neg(-k) // n - k, "-(-k) // n - k"),
]


@pytest.mark.parametrize(("f", "text"), [*FLOATS, *INTEGERS])
def test_expressions(f, text):
    floats = (f, text) in FLOATS
    names, dtype, numbers = ("xy", "float64", (0.7, 1.9)) if floats else ("kn", "int64", (11, 3))
    node = unwrapped(f(*(Value(Var(name, dtype)) for name in names)))
    assert expression(node) == text
    assert eval(text, {"choose": choose, **dict(zip(names, numbers, strict=True))}) == f(*numbers)


def test_numbers():
    shown = {
        number(-0.0): "-0.0", number(math.nan): "math.nan", number(-math.inf): "-math.inf", number(True): "True", number(-3): "-3",
        Const(0.1, "float32"): "np.float32(0.1)", Const(2, "float64"): "2.0", Const(1 - 2j, "complex128"): "complex(1.0, -2.0)",
        Const(3, "int32"): "np.int32(3)", Const(1j, "complex64"): "np.complex64(complex(0.0, 1.0))",
    }  # fmt: skip
    assert [expression(node) for node in shown] == list(shown.values())
    z = Value(Var("z", "complex128"))
    assert expression(unwrapped((z + 1.0).imag * cast(z.real, "float32"))) == "(z + 1.0).imag * np.float32(z.real)"


def test_a_module_runs():
    """Every statement, by Python and as machine code: sums by lanes and by rows of a table, branches, calls, blocks, swaps, views."""
    x, y, out = Var("x", ArrayType("float64", (2, 9))), Var("y", ArrayType("float64", (18,))), Var("out", ArrayType("float64", ()))
    r, s, w, v = (Var(name, ArrayType("float64", shape)) for name, shape in (("r", (9,)), ("s", (5,)), ("w", (9,)), ("v", (18,))))
    i, j, k, flag, a, c = (Var(name, "int64") for name in ("i", "j", "k", "flag", "a", "c"))
    row, table = Var("b", ArrayType("int64", (2,))), Var("BOXES", ArrayType("int64", (2, 2)))
    zero, nine = number(0), number(9)
    lane = Lane(j, 4, 8)

    def plus(array, index, value):
        return Store(array, index, unwrapped(Value(Load(array, index)) + Value(value)))

    summed = Function(
        "summed",
        (x, y, w, out, flag),
        (
            Assign((r,), (Row(x, (number(1),), 0, 9, r.type),), ("/home/user/model.py", 7)),
            Room(s),
            Fill(s, number(0.0)),
            For(j, zero, nine, (plus(s, (lane,), Load(r, (j,))),), lanes=4),
            Store(out, (), unwrapped(call("sum_of", Value(s), dtype="float64"))),
            Assign((v,), (Reshape(x, v.type),)),
            Fill(y, v),
            Fill(y, v, adds=True),
            For(k, number(3), number(-1), (Store(y, (k,), Load(v, (k,)), adds=True),), step=-1),
            ForRows(row, table, zero, number(2), (For(i, Load(row, (zero,)), Load(row, (number(1),)), (Store(w, (i,), number(-1.0)),)),)),
            ForRows(row, table, number(1), flag, ()),
            Assign((r, w), (w, r)),
            If(unwrapped(Value(flag) > 0), (Store(r, (number(8),), number(5.0)),), (Store(w, (number(8),), number(6.0)),)),
            Assign((a, c), (unwrapped(2 * Value(flag)), number(3))),
            Store(out, (), unwrapped(Value(a) * Value(c)), adds=True),
            Do(Call("nothing", (x,), None)),
            Do(Call("added", (out,), None), 3),
        ),
    )
    added = Function("added", (out, k), (plus(out, (), k),))
    module = Module((Table("BOXES", ((0, 2), (5, 6))), Function("nothing", (x,), ()), added, summed))
    verify(module)
    text = module_text(module)
    assert "s[j & 3 if j < 8 else 4] = s[j & 3 if j < 8 else 4] + r[j]" in text
    assert "    r = x[1, 0:9]  # model.py:7\n" in text and "for b in BOXES[:]:" in text and "run(added, 3, (out,))" in text
    space = {"np": np, "sum_of": np.sum, "run": run}
    exec(text, space)
    for function, flag in product([space["summed"], *([native.compiled(module, "summed")] if "llvm" in BACKENDS else [])], (0, 2)):
        x, y, w, out = np.arange(18.0).reshape(2, 9), np.empty(18), np.zeros(9), np.zeros(())
        function(x, y, w, out, flag)
        assert out[()] == np.sum(np.arange(9.0, 18.0)) + 6 * flag + 3
        np.testing.assert_array_equal(y[:4], 3.0 * np.arange(4.0))
        np.testing.assert_array_equal(y[4:17], 2.0 * np.arange(4.0, 17.0))
        np.testing.assert_array_equal(w, [-1, -1, 0, 0, 0, -1, 0, 0, 5 if flag else 0])
        assert x[1, 8] == (17.0 if flag else 6.0)
