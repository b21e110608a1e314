"""Functions of the loop IR that differ in names and in constants alone: one of them, which is called with other arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

from .nodes import Call, Const, Do, Expression, For, ForRows, Function, Load, Op, Statement, Store, Table, Var
from .walk import CHILDREN

#: where constants may vary
VARYING = {Load: "index", Store: "index", Op: "args"}


def united(functions: Sequence[Function], tables: Mapping[str, Table]) -> tuple[list[Function], list[Do]]:
    """Return the functions that are left, and the calls of all.

    An operand, or an element's place, that is another constant in some functions of a kind becomes a parameter. Straight code, most of
    which may be constants, stays as it is.
    """
    kinds: dict[Any, list[tuple[int, Function, Form]]] = {}
    calls: dict[int, Do] = {}
    made: list[Function] = []
    for k, function in enumerate(functions):
        if any(isinstance(statement, For | ForRows) for statement in function.body):
            form = Form(function, tables)
            kinds.setdefault(form.key, []).append((k, function, form))
        else:
            made.append(function)
            calls[k] = Do(Call(function.name, function.parameters, None))
    for alike in kinds.values():
        _, function, first = alike[0]
        columns = list(zip(*(form.constants for *_, form in alike), strict=True))
        varying = [n for n, column in enumerate(columns) if len({repr(constant.value) for constant in column}) > 1]
        numbers = {id(columns[n][0]): Var(f"number{n}", columns[n][0].dtype) for n in varying}
        made.append(replace(function, parameters=(*function.parameters, *numbers.values()), body=put(function.body, numbers)))
        for place, (k, own, form) in enumerate(alike):
            given = {form.names[var.name]: var for var in own.parameters}
            arrays = [given[first.names[var.name]] for var in function.parameters]
            calls[k] = Do(Call(function.name, (*arrays, *(columns[n][place] for n in varying)), None))
    return made, [calls[k] for k in range(len(functions))]


#: the fields of each kind of statement and expression that tell it from others
PARTS = {
    kind: [field.name for field in fields(kind) if field.name not in ("line", VARYING.get(kind))]
    for kind in get_args(Expression | Statement)
}


class Form:
    """The statements of a function with numbers for names and for constants that may vary: the `key`, and both in their order."""

    def __init__(self, function: Function, tables: Mapping[str, Table]):
        self.tables = tables
        self.names: dict[str, int] = {}
        self.constants: list[Const] = []
        self.met: dict[int, int] = {}
        self.key = self.of(function.body)

    def of(self, node: Any) -> Any:
        kind = type(node)
        if kind is tuple:
            return tuple(map(self.of, node))
        if kind is Var and node.name in self.tables:
            return self.tables[node.name].rows
        if kind is Var:
            return self.names.setdefault(node.name, len(self.names)), node.type
        if kind is Const:
            return node.dtype, repr(node.value)
        if kind not in PARTS:
            return node
        if id(node) in self.met:  # an expression may be an operand of several
            return self.met[id(node)]
        self.met[id(node)] = len(self.met)
        parts = [kind, *[self.of(getattr(node, name)) for name in PARTS[kind]]]
        if kind in VARYING:
            parts += map(self.varied if may_vary(node) else self.of, getattr(node, VARYING[kind]))
        return tuple(parts)

    def varied(self, node: Expression) -> Any:
        if not isinstance(node, Const) or node.dtype not in ("int64", "float64"):
            return self.of(node)
        if id(node) not in self.met:
            self.met[id(node)] = len(self.constants)
            self.constants.append(node)
        return node.dtype, self.met[id(node)]


def may_vary(node: Any) -> bool:
    """Return whether constants in a node may vary; a power by some of them is computed otherwise."""
    return type(node) in VARYING and not (type(node) is Op and node.name == "power")


def put(node: Any, numbers: Mapping[int, Var]) -> Any:
    """Return statements in which variables stand for constants; what is computed once stays one expression."""
    made: dict[int, Any] = {}

    def new(node):
        if type(node) is tuple:
            return tuple(map(new, node))
        if type(node) not in CHILDREN:
            return node
        if id(node) not in made:
            changed = {name: new(getattr(node, name)) for name in CHILDREN[type(node)]}
            if may_vary(node):
                name = VARYING[type(node)]
                pairs = zip(getattr(node, name), changed[name], strict=True)
                changed[name] = tuple(numbers.get(id(part), other) for part, other in pairs)
            made[id(node)] = replace(node, **changed)
        return made[id(node)]

    return new(node) if numbers else node
