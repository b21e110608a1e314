"""Large loop nests in blocks of rows, which threads share: a block's bits depend on nothing but its rows, so neither do those of the whole.

The number of blocks depends on the shape alone. A reduction to a number has a term for each block, added in their order.
"""

from __future__ import annotations

import math

from ..support.costs import CACHE_ELEMENTS, THREAD_BLOCKS
from .forms import Node, Reduce
from .fuse import Nest, Part, Plan


def in_blocks(plan: Plan) -> Plan:
    """Let every large nest of a plan be a part of its own, in blocks."""
    plan.blocks = True
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
                kept.append(Nest("unrolled", (), sums))
        if kept:
            steps.append(Part(kept))
    plan.steps = steps
    return plan


def rows_of(nest):
    """Return how many rows a block of a nest has, 0 if it is not cut into blocks."""
    if nest.kind != "loops" or any(map(across_rows, nest.roots)):
        return 0
    return rows_of_block(nest.shape[0], max(floats(nest.shape, root.dtype) for root in nest.roots))


def floats(shape, dtype):
    """Return how many numbers an array has, where a complex one counts as two."""
    return math.prod(shape) * (2 if dtype.kind == "c" else 1)


def rows_of_block(count, elements, prepares=False):
    """Return how many of so many rows of an array a block has, 0 if it is not cut into blocks.

    Where each call `prepares` something, such as the factors of a Fourier transform, there are fewer: the square root of as many, as the
    time of all is least where that of the preparations is that of the rows of a block (irfft of 256 rows of 256: 115 us in 16, 99 in 4).
    """
    if elements < 2 * CACHE_ELEMENTS:
        return 0
    rows = max(-(-count // THREAD_BLOCKS), -(-CACHE_ELEMENTS * count // elements))
    if prepares:
        rows = -(-count // max(2, math.isqrt(-(-count // rows))))
    return rows if rows < count else 0


def across_rows(root):
    """Return whether a root is a reduction that has elements of its own, to which all rows contribute."""
    return isinstance(root.form, Reduce) and root.shape and 0 in root.form.axes


def partial_of(root, nest, plan):
    """Return the node of the terms that blocks have in a reduction, which becomes one of them."""
    partial = Node(root.form, (-(-nest.shape[0] // nest.rows),), root.dtype)
    partial.line = root.line
    root.form = Reduce(root.form.name, partial, (0,))  # of numbers, no products
    plan.stored.add(partial)
    return partial


def run(function, blocks, arguments):
    """Compute all blocks: what threads share of compiled code (see `codegen.team`), where its source is run by Python."""
    for block in range(blocks):
        function(*arguments, block)


def thread():
    """Return the number of the thread that computes a block: there, of the only one."""
    return 0
