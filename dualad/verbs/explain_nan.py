"""explain_nan: where in a function its derivative stops being finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..core.dispatch import primal
from ..core.levels import Level
from ..forward.dual import make_dual
from ..forward.push import direction_for
from ..forward.seeding import check_function, flatten_input
from ..support.callers import line, trimmed

__all__ = ["explain_nan"]


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
    return first_report(f, args, tangents)


# --- parts ------------------------------------------------------------------------------------------------------------------


def first_report(f, args, tangents):
    """Return what `explain_nan` returns."""
    check_function(f, "explain_nan")
    leaves, structure = flatten_input(args, "explain_nan")
    if tangents is None:
        directions = [np.ones_like(leaf)[()] for leaf in leaves]
    else:
        directions = flatten_input(tuple(tangents), "explain_nan", "tangents")[0]
    with WatchedLevel() as level, np.errstate(all="ignore"):
        pairs = zip(leaves, directions, strict=True)
        f(*optree.tree_unflatten(structure, [make_dual(x, direction_for(x, v, "explain_nan"), level) for x, v in pairs]))
    return level.report


class WatchedLevel(Level):
    """A level that looks at the tangent of every result; no operation takes a short path."""

    __slots__ = ("count", "report")
    watched = True

    def __init__(self):
        super().__init__()
        self.plain = False
        self.count, self.report = 0, None

    def watch(self, row, values, result):
        """Keep a report of the first result whose tangent is not finite."""
        self.count += 1
        if self.report is None and result.tangent is not None and not np.all(np.isfinite(primal(result.tangent))):
            bad = np.argwhere(~np.isfinite(np.atleast_1d(primal(result.tangent))))[0]
            at = tuple(map(int, bad)) if np.ndim(primal(result.tangent)) else ()
            first = primal(result.tangent)[at] if at else primal(result.tangent)
            operands = ", ".join(
                str(np.broadcast_to(primal(v), result.shape)[at] if np.shape(primal(v)) == result.shape else shown(v))
                for v in values
                if not isinstance(v, tuple | slice)
            )
            place = f" at index {at}" if at else ""
            self.report = f"{row.name} (operation {self.count}) gave the tangent {first}{place}, of the operands {operands}; {line()}"


def shown(value):
    value = primal(value)
    return f"array of shape {np.shape(value)}" if np.ndim(value) else value
