"""All statements and expressions within a statement of the loop IR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from .nodes import Expression, Statement, Var

__all__ = ["names", "walked"]


def names(node: Any) -> set[str]:
    """Return the names of the variables in a statement, or in several."""
    return {found.name for found in walked(node) if isinstance(found, Var)}


def walked(node: Any) -> Iterator[Expression | Statement]:
    """Yield a statement, and all statements and expressions in it, each once."""
    seen, left = set(), [node]
    while left:
        node = left.pop()
        kind = type(node)
        if kind is tuple:
            left += node
        elif kind in KINDS and id(node) not in seen:
            seen.add(id(node))
            yield node
            left += [getattr(node, name) for name in kind.__slots__]


KINDS = frozenset(get_args(Expression | Statement))
