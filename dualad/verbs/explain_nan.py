"""explain_nan: where in a function its derivative stops being finite."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..core.dispatch import dtype_of, primal
from ..core.levels import Handle, Level
from ..forward.dual import make_dual
from ..forward.push import direction_for
from ..forward.seeding import check_function, flatten_input
from ..support.callers import line, trimmed, user_frame, warn

# --- public -----------------------------------------------------------------------------------------------------------------


@trimmed
def explain_nan(f: Callable[..., Any], *args: Any, tangents: tuple[Any, ...] | None = None) -> str | None:
    """Return which operation of `f` first gave a derivative that is infinite or NaN, and where it stands.

    Parameters
    ----------
    f : function of ``len(args)`` arguments, each a pytree of numbers and arrays.
    args : the point.
    tangents : tuple of the structure of `args`, optional: the direction; by default ones.

    Returns
    -------
    str, or None where every tangent is finite.

    Raises
    ------
    TypeError, ValueError
        Where a leaf of `args` is not numeric, or a tangent has another shape than it.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad import explain_nan
    >>> print(explain_nan(lambda x: x * np.sqrt(x), 0.0).split(",")[0])
    numpy.sqrt (operation 1) gave the tangent inf

    Notes
    -----
    ``nan_safe=True`` on the verbs makes a zero tangent times any partial zero.
    """
    check_function(f, "explain_nan")
    return first_report(f, args, tangents)


def warn_not_finite(where: str, what: str, result: Any, f: Callable[..., Any], *args: Any) -> None:
    """Warn if a result of a verb or a chain is not finite, and name the first operation of ``f(*args)`` that is to blame."""
    leaves = optree.tree_leaves(result)
    if all(map(is_finite, leaves)) or any(isinstance(leaf, Handle) and leaf.level.watched for leaf in leaves):
        return
    from ..jit.verify import evaluating

    point: Any = optree.tree_map(primal, args)  # type: ignore[arg-type]
    with evaluating():  # compiled functions plainly, so that their lines are known
        report = first_report(f, point, None, "value") or first_report(f, point, None)
    why = report or "evaluated again, no operation gave a value or a tangent that is not finite; a cotangent may have overflowed"
    warn(f"{where}: the {what} is not finite: {why}", user_frame(sys._getframe(1)))


# --- parts ------------------------------------------------------------------------------------------------------------------


def is_finite(x):
    """Return whether a leaf has no infinite elements and no NaNs; what is known only when a program runs counts as finite."""
    x = primal(x)
    return isinstance(x, Handle) or dtype_of(x).kind not in "fc" or bool(np.all(np.isfinite(x)))


def first_report(f, args, tangents, looked_at="tangent"):
    """Return the report of `explain_nan`, or the same for values."""
    leaves, structure = flatten_input(args, "explain_nan")
    if tangents is None:
        directions = [np.ones_like(leaf)[()] for leaf in leaves]
    else:
        directions = flatten_input(tuple(tangents), "explain_nan", "tangents")[0]
    with WatchedLevel(looked_at) as level, np.errstate(all="ignore"):
        pairs = zip(leaves, directions, strict=True)
        f(*optree.tree_unflatten(structure, [make_dual(x, direction_for(x, v, "explain_nan"), level) for x, v in pairs]))
    return level.report


class WatchedLevel(Level):
    """A level that looks at the tangent (or the value) of every result; no operation takes a short path."""

    __slots__ = ("count", "looked_at", "report", "step")
    watched = True

    def __init__(self, looked_at):
        super().__init__()
        self.plain = False
        self.count, self.report, self.looked_at = 0, None, looked_at
        self.step = ""  # of a chain that is under way

    def watch(self, row, values, result):
        """Keep a report of the first result that is not finite."""
        self.count += 1
        found = primal(result.primal if self.looked_at == "value" else result.tangent)
        if self.report is None and found is not None and not np.all(np.isfinite(found)):
            at = tuple(map(int, np.argwhere(~np.isfinite(np.atleast_1d(found)))[0])) if np.ndim(found) else ()
            operands = ", ".join(
                str(np.broadcast_to(primal(v), result.shape)[at] if np.shape(primal(v)) == result.shape else text_of(v))
                for v in values
                if not isinstance(v, tuple | slice)
            )
            first, place = found[at] if at else found, f" at index {at}" if at else ""
            what = f"gave the {self.looked_at} {first}{place}, of the operands {operands}"
            self.report = f"{row.name} (operation {self.count}) {what}; {self.step}{line()}"


def text_of(value):
    value = primal(value)
    return f"array of shape {np.shape(value)}" if np.ndim(value) else value
