"""One step of a compiled chain is compared with the plain one: a stale program shows by its results, see `dualad.jit.verify`."""

from __future__ import annotations

from typing import Any

from dualad.graph.handled import own

from ..support.byte_sizes import format_bytes
from .budget import total
from .segments import Segments, like_leaves
from .stepper import Stepper

__all__ = ["Retraced", "left_out", "probe"]


class Retraced(Exception):
    """The program of a chain's step was stale: it has been traced again."""


def left_out(stepper: Stepper, budget: int | None) -> str:
    """Return why a plain step does not fit into a budget, in the words of `stats.reason`; empty where it does."""
    checks = stepper.entry.checks
    needed = checks.needed + stepper.nbytes + total(stepper.params)
    if budget is None or checks.reason is not None or needed <= budget:
        return ""
    return f"; not compared with a plain step, which takes {format_bytes(needed)}"


def probe(stepper: Stepper, segments: Segments, steps: int | None) -> None:
    """Compare one step, a later one each time: in x_0 a change may not show. Raise `Retraced` where the program was stale."""
    source, entry, (kinds, outs) = stepper.spec.source, stepper.entry, stepper.base.outputs
    k = source.verifications + 1 if steps is None else min(source.verifications + 1, steps - 1)
    segments.reserve(k + 1)
    x, reached = segments.advance(0, k, segments.start)
    if reached < k:
        k, x = 0, segments.start
    new, reached = segments.advance(k, k + 1, x)
    segments.made = 0
    if reached == k:  # a predicate ended it
        return
    leaves = stepper.plain_leaves(k, x)
    made = [*like_leaves(new[: len(kinds)], [out.kind for out in kinds]), *(rows[k] for rows in segments.outs[: len(outs)])]
    evaluate: Any = lambda compiled, _: compiled.program.run(*map(own, leaves))
    right, _ = source.compared(entry, stepper.call, leaves, made, evaluate, 8)
    if right is not entry:
        raise Retraced
