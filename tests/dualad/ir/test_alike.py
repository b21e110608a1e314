"""Pieces of a long function that are alike: one function, which computes the same of them all, bit for bit."""

import pytest
from handmade import cut_up

from dualad.ir.cut import cut
from dualad.ir.nodes import ArrayType, Assign, Call, Do, For, ForRows, Function, Load, Module, Row, Store, Table, Var, number
from dualad.ir.values import op

X, Y, Z = (Var(name, ArrayType("float64", (4,))) for name in "xyz")
I, T, LOW, HIGH = Var("i", "int64"), Var("t", "float64"), number(0), number(4)
ROW = Var("b", ArrayType("int64", (2,)))


def loop(target, *values):
    """Return the loop that stores what is made of each element of X, element by element."""
    return For(I, LOW, HIGH, tuple(Store(target, (I,), value) for value in values))


def times(factor, source=X, name="multiply"):
    return op(name, Load(source, (I,)), number(factor))


def kinds(*body, tables=()):
    """Return how many functions the statements of a long one become; they leave the same in its arguments, bit for bit."""
    module = Module((*tables, Function("part0", (X, Y, Z), body)))
    pieces, more = cut_up(module, "part0", 1)
    assert sum(isinstance(statement, Do) for statement in pieces.parts[-1].body) == len(body)
    return more


def test_loops_that_differ_in_arrays_and_constants_are_one_function():
    assert kinds(loop(Y, times(2.0)), loop(Z, times(3.0, Y)), loop(Y, times(2.0, Z))) == 1
    assert kinds(loop(Y, times(2.0)), loop(Y, times(2.0, Y))) == 2, "one array or two"
    assert kinds(loop(Y, times(2.0)), loop(Z, times(2.0, name="add"))) == 2
    assert kinds(loop(Y, times(0.0, name="add")), loop(Z, times(-0.0, name="add"))) == 1


def test_a_constant_is_another_where_it_stands_and_the_same_elsewhere():
    shared, own = number(2.0), number(3.0)
    value = lambda power, factor: op("multiply", op("power", Load(X, (I,)), power), factor)
    assert kinds(loop(Y, value(shared, shared)), loop(Z, value(number(2.0), own))) == 1
    assert kinds(loop(Y, value(shared, shared)), loop(Z, value(own, shared))) == 2, "a square is no cube"
    called = lambda x: Call("math.copysign", (Load(X, (I,)), x), "float64")
    assert kinds(loop(Y, called(shared)), loop(Z, called(number(-1.0)))) == 2


def test_elements_are_at_other_places_and_what_an_expression_shares_counts():
    first, last = (op("add", Load(X, (number(k),)), Load(X, (I,))) for k in (0, 3))
    assert kinds(loop(Y, first), loop(Z, last)) == 1
    once, twice = Load(X, (I,)), (Load(X, (I,)), Load(X, (I,)))
    assert kinds(loop(Y, op("add", once, once)), loop(Z, op("add", *twice))) == 2


@pytest.mark.parametrize(("rows", "count"), [(((0, 2), (2, 4)), 1), (((0, 3), (3, 4)), 2)])
def test_loops_over_boxes_are_alike_where_these_are(rows, count):
    tables = [Table(f"BOXES_{k}", boxes) for k, boxes in enumerate((((0, 2), (2, 4)), rows))]
    over = lambda table, target: ForRows(
        ROW,
        Var(table.name, ArrayType("int64", (2, 2))),
        number(0),
        number(2),
        (For(I, Load(ROW, (number(0),)), Load(ROW, (number(1),)), (Store(target, (I,), times(2.0)),)),),
    )
    assert kinds(*map(over, tables, (Y, Z)), tables=tables) == count


def test_straight_code_and_other_lengths_stay_apart():
    assert kinds(*(Store(Y, (number(k),), number(float(k))) for k in range(4))) == 4
    assert kinds(loop(Y, times(2.0)), For(I, LOW, number(3), (Store(Z, (I,), times(2.0)),))) == 2


def test_a_loop_ends_a_piece_unless_what_it_sets_is_read_further_on():
    total = lambda array: (
        Assign((T,), (number(0.0),)),
        For(I, LOW, HIGH, (Assign((T,), (op("add", T, Load(array, (I,))),)),)),
        Store(array, (number(0),), T),
    )
    row = Var("row", ArrayType("float64", (2,)))
    view = Assign((row,), (Row(X, (), 0, 2, row.type),))
    body = (view, *(loop(Y, times(float(k))) for k in range(9)), *total(X), loop(Z, op("add", times(3.0), Load(row, (number(0),)))))
    module = Module((Function("part0", (X, Y, Z), body),))
    lengths = [len(part.body) for part in cut(module, 100).parts]
    assert lengths == [2, 1, 5, 10]
