"""What a compiled call that failed was about: the program is evaluated again, one operation after the other."""

from __future__ import annotations

import numpy as np

from .program import Program
from .trace import where_in

__all__ = ["again"]


def again(program: Program, inputs) -> tuple:
    """Return the outputs of a program as NumPy and Python evaluate it; an error names the line of the operation that raises it.

    Loops raise where an index is out of bounds, or a Python integer grows beyond 64 bits, which here stays exact.
    """
    line = None

    def each(operation):
        nonlocal line
        line = operation.line

    try:
        with np.errstate(all="ignore"):
            outs = program.run(*inputs, each=each)
    except IndexError as error:
        raise IndexError(f"jit: {where_in(line)}{error}") from None
    except Exception as error:
        error.add_note(f"jit: in {where_in(line).rstrip(': ') or 'a compiled function'}")
        raise
    return tuple([out.copy("K") if issubclass(type(out), np.ndarray) else out for out in outs])
