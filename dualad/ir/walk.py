"""All statements and expressions within a statement of the loop IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args

from .nodes import Assign, Expression, For, ForRows, If, Room, Statement, Var


def names(node: Any) -> set[str]:
    """Return the names of the variables in a statement, or in several."""
    return {found.name for found in walked(node) if isinstance(found, Var)}


def accumulates(statement: Statement) -> bool:
    """Return whether a statement changes a number of floating point by what it was, so that turns of a loop cannot be one of vectors."""
    return isinstance(statement, Assign) and any(
        target.name in names(value) and target.dtype.startswith("float")
        for target, value in zip(statement.targets, statement.values, strict=True)
    )


def set_by(statements: tuple[Statement, ...]) -> Iterator[str]:
    """Yield the name of each variable that statements set, at each place."""
    for statement in statements:
        match statement:
            case Assign():
                yield from (target.name for target in statement.targets)
            case Room():
                yield statement.target.name
            case For(index=index, body=body) | ForRows(row=index, body=body):
                yield index.name
                yield from set_by(body)
            case If():
                yield from set_by(statement.then + statement.otherwise)


def line_count(statements: tuple[Statement, ...]) -> int:
    """Return how many lines statements are, with those inside of loops and branches."""
    total = 0
    for statement in statements:
        total += 1
        match statement:
            case For(body=body) | ForRows(body=body):
                total += line_count(body)
            case If():
                total += line_count(statement.then) + line_count(statement.otherwise)
    return total


def walked(node: Any) -> Iterator[Expression | Statement]:
    """Yield a statement, and all statements and expressions in it, each once."""
    seen, left = set(), [node]
    while left:
        node = left.pop()
        if type(node) is tuple:
            left += node
        elif id(node) not in seen:
            seen.add(id(node))
            yield node
            for name in CHILDREN[type(node)]:
                left.append(getattr(node, name))


#: the fields of each kind that hold statements and expressions
CHILDREN = {
    kind: [field.name for field in fields(kind) if any(word in str(field.type) for word in ("Expression", "Statement", "Var", "Call"))]
    for kind in get_args(Expression | Statement)
}
