"""Functions of our own that are written as text: Python compiles equal texts once."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any


def define(lines: list[str], space: dict[str, Any]) -> None:
    """Run the first line, with the others indented below it, in a namespace that holds what they name."""
    exec(code_of("\n    ".join(lines)), space)


@lru_cache
def code_of(source: str) -> CodeType:
    return compile(source, "<string>", "exec")
