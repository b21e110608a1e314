"""Functions of our own that are written as text: Python compiles equal texts once."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any


def define(lines: list[str], space: dict[str, Any]) -> None:
    """Enter the function whose head is the first line, the others indented below it, in the namespace that holds what it names.

    Its code is a copy, as Python notes in code where it found globals: functions of several namespaces would undo it for each other.
    """
    code = code_of("\n    ".join(lines))
    space[code.co_name] = FunctionType(code.replace(), space)


@lru_cache
def code_of(source: str) -> CodeType:
    """Return the code of the one function that a text defines."""
    return next(constant for constant in compile(source, "<string>", "exec").co_consts if isinstance(constant, CodeType))
