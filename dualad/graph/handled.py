"""Errors that depend on values: which operation raised one, and whether the function itself handles it.

If the compiled function raises one, the plain function is called, which may handle it.
"""

from __future__ import annotations

import sys

import numpy as np

from ..core.levels import Handle
from ..rules.memory import copied_to_write
from ..rules.reductions import defined
from ..support.callers import user_frame, warn
from .program import Program, dead
from .trace import TraceError, where_in


class Handled(TraceError):
    """The function handled an error at these values, so that what was traced is not what it does at others."""


def check_handlers(tracing, program, name):
    """Raise where the function handled an error while it was traced, or would where its program leaves out what raises."""
    if tracing.raised is not None:
        line, error = tracing.raised
        raise Handled(
            f"jit: {where_in(line)}{name} catches a {type(error).__name__} for these arguments: trace it with arguments that raise none"
        )
    if tracing.tried:
        evaluated = set(dead(program).operations)
        checked = {operation.args[1] for operation in evaluated if operation.fn is defined}
        for operation in tracing.tried:
            if operation not in evaluated and not (operation.fn is defined and operation.args[1] in checked):
                raise TraceError(
                    f"jit: {where_in(operation.line)}a call in a try block may raise an error, but its result is not used: the "
                    f"compiled function would not evaluate it. Use the result (return it), or call {name} outside of jit"
                )


def own(leaf):
    """Return an array as a copy that may be written into."""
    if isinstance(leaf, Handle):
        return leaf.copy("K")
    return copied_to_write(leaf) if issubclass(type(leaf), np.ndarray) else leaf


def rerun_in_numpy(program: Program, inputs, reruns: dict[str, tuple[int, str]]) -> tuple:
    """Return the outputs of a program as NumPy and Python evaluate it; an error names the line of the operation that raises it.

    Loops raise where an index is out of bounds, or a Python integer grows beyond 64 bits, which is exact here. A warning tells of others.
    By their types, `reruns` holds how many errors were followed by results, and the last text.
    """
    line, reason = None, sys.exception()

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
    if reason is not None:
        kind = type(reason).__name__
        reruns[kind] = reruns.get(kind, (0, ""))[0] + 1, str(reason)
        if not isinstance(reason, OverflowError):
            warn(
                f"jit: a compiled program ended with {kind}: {reason}. NumPy computed the call instead, which is slower. If "
                "no function that it calls returned another shape than when it was traced, please report this",
                user_frame(sys._getframe()),
            )
    return tuple([out.copy("K") if issubclass(type(out), np.ndarray) else out for out in outs])
