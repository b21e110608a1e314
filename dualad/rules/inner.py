"""What a row says of the ufunc underneath its function, whose loops compiled code calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class InnerLoop:
    """A call of a ufunc that gives what a function gives.

    `ufunc` is the name that it is found by, `types` those of the loop as it writes them (None: those that NumPy chooses). A transform works
    along `axis`. Of several results `result` is the one that is asked for, None for all. A loop that `overwrites` its first operand gives
    that as the first result.
    """

    ufunc: str
    operands: tuple
    types: str | None = None
    axis: int = -1
    result: int | None = None
    overwrites: bool = False
