"""Long functions of the loop IR that are cut into pieces: Python computes the same of both, bit for bit."""

import pytest
from emitted_examples import SOURCES
from handmade import cut_up
from interpreted import traced
from loop_examples import EXAMPLES

from dualad.codegen.emit import emit
from dualad.codegen.fragments import STEPS
from dualad.ir.cut import cut
from dualad.ir.nodes import ArrayType, Assign, Do, For, Function, Load, Module, Room, Row, Store, Var, number
from dualad.ir.values import op
from dualad.loops.fuse import plan

X, Y = (Var(name, ArrayType("float64", (4,))) for name in "xy")
I, T = Var("i", "int64"), Var("t", "float64")


@pytest.mark.parametrize("name", ["lorenz", "forced", "in_slices_vjp", "rows_and_columns", "adjoint_large"])
def test_programs(name):
    source = emit(plan(SOURCES[name]), STEPS)
    assert sum(cut_up(source.module, part, 20)[1] for part in source.functions.values()) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marched", "layered"])
def test_programs_without_loops(name):
    source = emit(plan(traced(EXAMPLES[name][0], *EXAMPLES[name][1])), STEPS)
    assert sum(cut_up(source.module, part, 50)[1] for part in source.functions.values()) >= 10


def test_numbers_rooms_and_views_are_there_in_later_pieces():
    parts, row, total = Var("parts", X.type), Var("row", ArrayType("float64", (2,))), Var("total", "float64")
    body = (
        Assign((T,), (Load(X, (number(0),)),)),
        Assign((row,), (Row(X, (), 1, 3, row.type),)),
        Room(parts),
        For(I, number(0), number(4), (Store(parts, (I,), op("multiply", T, Load(X, (I,)))),)),
        Assign((total,), (op("add", T, Load(row, (number(1),))),)),
        For(I, number(0), number(4), (Assign((total,), (op("add", total, Load(parts, (I,))),)), Store(Y, (I,), total))),
        Assign((T,), (op("add", T, total),)),
        Store(Y, (number(0),), op("subtract", T, Load(row, (number(0),)))),
        Store(Y, (number(1),), op("multiply", T, total)),
    )
    module = Module((Function("part0", (X, Y), body),))
    assert cut_up(module, "part0", 1)[1] == 9
    last = cut(module, 1).parts[-1]
    assert [type(statement) for statement in last.body[:2]] == [Room, Room]
    assert sum(isinstance(statement, Do) for statement in last.body) == 9


@pytest.mark.parametrize(
    "body",
    [
        (Store(X, (number(0),), number(1.0)),) * 3,
        (Assign((X, Y), (Y, X)), *(Store(X, (number(k),), number(1.0 + k)) for k in range(4))),
        (Assign((T,), (number(2.0),)), *(Store(X, (number(k),), T) for k in range(4))),
    ],
)
def test_what_is_short_or_changes_its_parameters_stays_whole(body):
    parameters = (X, Y, T) if isinstance(body[0], Assign) and body[0].targets == (T,) else (X, Y)
    module = Module((Function("part0", parameters, body),))
    assert cut_up(module, "part0", 100 if len(body) == 3 else 1)[1] == 0
