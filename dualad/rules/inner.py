"""The option of a row that names the ufunc underneath its function, whose loops compiled code calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class InnerLoop:
    """A call of the ufunc of this name that computes a function; `types` are those of its loop (None: as NumPy chooses).

    A transform works along `axis`. `result` is the one of several results that is asked for, None for all. A loop that `overwrites` its
    first operand returns it as the first result.
    """

    ufunc: str
    operands: tuple
    types: str | None = None
    axis: int = -1
    result: int | None = None
    overwrites: bool = False
