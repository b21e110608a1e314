"""Numbers that a function of the loop IR is given, read out of the slots in which they arrive: calls of thousands of arguments are dear.

A frame is an array of slots of 8 bytes: a number stands in one, a complex one in two, and of an array there is the address.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeGuard

from .nodes import ArrayType, Assign, At, Call, Cast, Do, Expression, Function, Load, Module, Statement, Var, number
from .values import PART, arithmetic_dtype, op
from .walk import names, walked

__all__ = ["FRAME", "framed", "is_taken"]

FRAME = Var("frame", ArrayType("int64", (-1,)))


def framed(module: Module, name: str, places: dict[str, int]) -> Module:
    """Return a module in which a function takes the frame first, and no parameters that have `places` there.

    Nor do the functions to which it passes them, where they are called once.
    """
    parts = {part.name: part for part in module.parts}
    calls = Counter(node.function for part in module.parts if isinstance(part, Function) for node in walked(part.body) if is_call(node))
    left = [(name, places)]
    while left:
        title, places = left.pop()
        function = parts[title]
        assert isinstance(function, Function)
        statements: list[Statement] = []
        for statement in function.body:
            called = parts.get(statement.call.function) if isinstance(statement, Do) and statement.blocks is None else None
            if isinstance(statement, Do) and isinstance(called, Function) and calls[called.name] == 1:
                pairs = list(zip(called.parameters, statement.call.args, strict=True))
                passed = {to.name: places[arg.name] for to, arg in pairs if isinstance(arg, Var) and arg.name in places}
                left.append((called.name, passed))
                statement = Do(Call(called.name, (FRAME, *(arg for to, arg in pairs if to.name not in passed)), None))
            statements.append(statement)
        mentioned = names(tuple(statements))
        first = [
            Assign((var,), (taken(var, places[var.name]),)) for var in function.parameters if var.name in places and var.name in mentioned
        ]
        parameters = (FRAME, *(var for var in function.parameters if var.name not in places))
        parts[title] = replace(function, parameters=parameters, body=(*first, *statements))
    return Module(tuple(parts.values()))


def is_call(node) -> TypeGuard[Call]:
    return isinstance(node, Call)


def taken(var: Var, place: int) -> Expression:
    """Return what a variable is set to that stands at a place of the frame."""
    if isinstance(var.type, ArrayType):
        return At(FRAME, (number(place),), var.type)
    dtype = arithmetic_dtype(var.type)
    slot = Load(FRAME, (number(place),))
    real = Call("from_bits", (slot,), "float64")
    if dtype in PART:
        imaginary = Call("from_bits", (Load(FRAME, (number(place + 1),)),), "float64")
        return Cast(op("complex", real, imaginary), dtype)
    if dtype == "bool":
        return op("not_equal", slot, number(0))
    return Cast(real if dtype.startswith("float") else slot, dtype)


def is_taken(statement: Statement) -> TypeGuard[Assign]:
    """Return whether a statement sets a variable to what stands in the frame."""
    return isinstance(statement, Assign) and names(statement.values) == {FRAME.name}
