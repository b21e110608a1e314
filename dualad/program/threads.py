"""Large loop nests in blocks of rows, which threads share: a block's bits depend on nothing but its rows, so neither do those of the whole.

The number of blocks depends on the shape alone. A reduction to a number has a term for each block, added in their order.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor, wait

from .forms import Node, Reduce
from .fuse import Nest, Part, Plan

__all__ = ["in_blocks", "runner"]

LARGE, BLOCK, MOST = 1 << 16, 1 << 15, 64  # elements of a nest in blocks, and of a block; blocks


def in_blocks(plan: Plan) -> Plan:
    """Let every large nest of a plan be a part of its own, in blocks."""
    steps = []
    for step in plan.steps:
        if not isinstance(step, Part):
            steps.append(step)
            continue
        kept: list[Nest] = []
        for nest in step.nests:
            rows = rows_of(nest)
            if not rows:
                kept.append(nest)
                continue
            if kept:
                steps.append(Part(kept))
            nest.rows, kept = rows, []
            sums = [root for root in nest.roots if isinstance(root.form, Reduce) and not root.shape]
            nest.roots = [partial_of(root, nest, plan) if root in sums else root for root in nest.roots]
            steps.append(Part([nest]))
            if sums:
                kept.append(Nest("straight", (), sums))
        if kept:
            steps.append(Part(kept))
    plan.steps = steps
    return plan


def rows_of(nest):
    """Return how many rows a block of a nest has, 0 if it is not cut into blocks."""
    if nest.kind != "loops" or math.prod(nest.shape) < LARGE or any(map(across_rows, nest.roots)):
        return 0
    rows = max(-(-nest.shape[0] // MOST), -(-BLOCK // math.prod(nest.shape[1:])))
    return rows if rows < nest.shape[0] else 0


def across_rows(root):
    """Return whether a root is a reduction that has elements of its own, to which all rows contribute."""
    return isinstance(root.form, Reduce) and root.shape and 0 in root.form.axes


def partial_of(root, nest, plan):
    """Return the node of the terms that blocks have in a reduction, which becomes one of them."""
    partial = Node(root.form, (-(-nest.shape[0] // nest.rows),), root.dtype)
    partial.line = root.line
    root.form = Reduce(root.form.name, partial, (0,))
    plan.stored.add(partial)
    return partial


# --- running blocks -----------------------------------------------------------------------------------------------------------------


def runner(threads):
    """Return the function ``(part, count, arguments)`` that runs a part for each block, in this and other threads."""

    def some(part, blocks, arguments):
        for block in blocks:
            part(*arguments, block)

    def run(part, count, arguments):
        if threads == 1:
            return some(part, range(count), arguments)
        shares = [range(count * k // threads, count * (k + 1) // threads) for k in range(threads)]
        pool = pool_of(os.getpid(), threads)
        others = [pool.submit(some, part, share, arguments) for share in shares[1:] if share]
        try:
            some(part, shares[0], arguments)
        finally:
            wait(others)  # they write into the buffers
        for other in others:
            other.result()
        return None

    return run


POOLS: dict[tuple[int, int], ThreadPoolExecutor] = {}


def pool_of(process, threads):
    """Return the pool of this process; a forked one has no threads of its parent's."""
    if (process, threads) not in POOLS:
        POOLS[process, threads] = ThreadPoolExecutor(threads - 1, "dualad")
    return POOLS[process, threads]
