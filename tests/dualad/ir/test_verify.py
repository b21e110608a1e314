"""Faults that are put into the loop IR by hand are found, each by its message; what is right is not refused."""

import pytest

from dualad.ir.nodes import (
    ArrayType,
    Assign,
    Call,
    Cast,
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
    Op,
    Reshape,
    Room,
    Row,
    Store,
    Table,
    Var,
    number,
)  # fmt: skip
from dualad.ir.values import op
from dualad.ir.verify import Fault, verify

X, Y, W = (Var(name, ArrayType("float64", (6,))) for name in ("x0", "y0", "w0"))
A = Var("x1", ArrayType("float64", (4, 6)))
N, I, J, T = Var("n", "int64"), Var("i", "int64"), Var("j", "int64"), Var("t", "float64")
S = Var("s", ArrayType("float64", (5,)))
TABLE = Table("BOXES", ((0, 2), (3, 6)))
B, BOXES = Var("b", ArrayType("int64", (2,))), Var("BOXES", ArrayType("int64", (2, 2)))


def loop(index, low, high, *body, **options):
    return For(index, number(low), number(high), body, **options)


def module(*body, parameters=(N, X, A, W, Y), more=()):
    return Module((TABLE, *more, Function("part0", parameters, body)))


def each(array, value, low=0, high=6, shift=0):
    """A loop that stores a value at each index of a range."""
    return loop(I, low, high, Store(array, (op("add", I, number(shift)) if shift else I,), value))


def shifted(by):
    return op("add", I, number(by))


HALF = Function("half", (X, Y), (each(Y, Load(X, (I,)), 0, 3),))
RIGHT = {
    "loops, rows, reshapes": [
        loop(I, 0, 4, Assign((Var("r", Y.type),), (Row(A, (I,), 0, 6, Y.type),)),
             loop(J, 1, 5, Store(W, (J,), op("add", Load(Var("r", Y.type), (J,)), Load(X, (op("subtract", J, number(1)),)))))),
        Assign((Var("v", ArrayType("float64", (2, 3))),), (Reshape(X, ArrayType("float64", (2, 3))),)),
        Store(Y, (number(0),), Load(Var("v", ArrayType("float64", (2, 3))), (number(1), number(2)))),
    ],
    "a position that is piecewise": [each(Y, Load(X, (op("select", op("less", I, number(1)), shifted(5), shifted(-1)),)))],
    "an index that is checked": [Store(Y, (Call("at_least_inside", (N, number(6)), "int64"),), number(1.0))],
    "boxes": [ForRows(B, BOXES, number(0), number(2), (
        For(I, Load(B, (number(0),)), Load(B, (number(1),)), (Store(Y, (I,), number(1.0)),)),))],
    "partial sums": [
        Room(S), Fill(S, number(0.0)),
        loop(J, 0, 6, Store(S, (Lane(J, 4, 4),), Load(X, (J,)), True), lanes=4),
        Store(Y, (number(0),), Call("sum_of", (S,), "float64")),
    ],
    "even and odd elements": [loop(I, 0, 3, Store(W, (op("multiply", I, number(2)),), number(1.0)),
                                   Store(W, (op("add", op("multiply", I, number(2)), number(1)),), number(2.0))), each(Y, Load(W, (I,)))],
    "halves by two calls": [Do(Call("half", (X, W), None)), each(W, number(0.0), 3), each(Y, Load(W, (I,)))],
    "buffers that change places": [
        Assign((Var("a", X.type), Var("c", X.type)), (X, W)),
        loop(I, 0, 3, Fill(Var("c", X.type), Var("a", X.type)),
             Assign((Var("a", X.type), Var("c", X.type)), (Var("c", X.type), Var("a", X.type)))),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_refused(name):
    verify(module(*RIGHT[name], more=(HALF,)), ["part0"], ["x0", "x1"])


WRONG = {
    "t is read before it is set": [Store(Y, (number(0),), T)],
    "t is read before it is set ": [If(op("less", N, number(3)), (Assign((T,), (number(1.0),)),)), Store(Y, (number(0),), T)],
    "t is float64 and int64": [Assign((T,), (number(1.0),)), Assign((Var("t", "int64"),), (number(1),))],
    "t is set to int64": [Assign((T,), (number(1),))],
    "add gives float64, not int64": [Assign((Var("k", "int64"),), (Op("add", (N, number(1.0)), "int64"),))],
    "there is no operator plus": [Assign((Var("k", "int64"),), (Op("plus", (N, N), "int64"),))],
    "a complex number becomes float64": [Assign((T,), (Cast(Const(1j, "complex128"), "float64"),))],
    "a complex number is stored into float64": [Store(Y, (number(0),), Const(1j, "complex128"))],
    "an index from 6 to 6 of an axis of 6": [Store(Y, (number(6),), number(1.0))],
    "an index from -1 to 4 of an axis of 6": [each(Y, Load(X, (shifted(-1),)))],
    "an index from 1 to 6 of an axis of 6": [each(Y, number(0.0), shift=1)],
    "an index from 0 to 6 of an axis of 6": [ForRows(B, BOXES, number(0), number(2), (
        For(I, number(0), op("add", Load(B, (number(1),)), number(1)), (Store(Y, (I,), number(1.0)),)),))],
    "a range from -1 to 3 of": [Assign((Var("r", ArrayType("float64", (4,))),),
                                      (Row(A, (number(0),), -1, 3, ArrayType("float64", (4,))),))],
    "an element of an array of 2 axes has 1 indices": [Store(Y, (number(0),), Load(A, (number(0),)))],
    "float64 is an index or a bound": [Store(Y, (number(0.0),), number(1.0))],
    "an array stands for a number": [Store(Y, (number(0),), X)],
    "is filled with": [Fill(Y, A)],
    "is no ArrayType": [Assign((Var("v", ArrayType("float64", (5,))),), (Reshape(X, ArrayType("float64", (5,))),))],
    "j has 0 lanes, not 4": [Room(S), Fill(S, number(0.0)), loop(J, 0, 6, Store(S, (Lane(J, 4, 4),), number(1.0)))],
    "lanes end at 4, not at 8": [Room(S), Fill(S, number(0.0)), loop(J, 0, 9, Store(S, (Lane(J, 4, 4),), number(1.0)), lanes=4)],
    "an array on the stack is read before it is stored": [Room(S), Store(Y, (number(0),), Call("sum_of", (S,), "float64"))],
    "half is called with 1 arguments": [Do(Call("half", (X,), None))],
    "half is called with ArrayType": [Do(Call("half", (X, A), None))],
    "half returns nothing, not float64": [Assign((T,), (Call("half", (X, W), "float64"),))],
    "1 variables are set to 2 values": [Assign((T,), (number(1.0), number(2.0)))],
    # what a loop stores at one index is read at another, where it may not be stored yet: tangents of bodies that attract each other
    "reads w0 before it is stored": [loop(I, 0, 6, Assign((T,), (Load(W, (number(0),)),)),
                                          Store(W, (I,), Load(X, (I,))), Store(Y, (I,), T))],
    "reads w0 before it is stored ": [each(W, Load(X, (I,)), 0, 5), each(Y, Load(W, (I,)))],
    "reads w0 before it is stored  ": [Do(Call("half", (X, W), None)), each(Y, Load(W, (I,)))],
    "reads w0 before it is stored   ": [Do(Call("half", (W, Y), None)), Fill(W, X)],
    "reads y0 before it is stored": [Fill(Y, X, True)],
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_faults_are_found(message):
    with pytest.raises(Fault) as caught:
        verify(module(*WRONG[message], more=(HALF,)), ["part0"], ["x0", "x1"])
    assert message.strip() in str(caught.value)


def test_parts_share_what_they_store():
    one, two = Function("part0", (X, W), (each(W, Load(X, (I,))),)), Function("part1", (W, Y), (each(Y, Load(W, (I,))),))
    verify(Module((one, two)), ["part0", "part1"], ["x0"])
    with pytest.raises(Fault, match="part1 reads w0 before it is stored"):
        verify(Module((one, two)), ["part1", "part0"], ["x0"])
