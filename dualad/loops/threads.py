"""Large loop nests in blocks of rows, which threads share: a block's bits depend on nothing but its rows, so neither do those of the whole.

The number of blocks depends on the shape alone. A reduction to a number has a term for each block, added in their order.
"""

from __future__ import annotations

import math
import os
from queue import SimpleQueue
from threading import Thread

from ..support.costs import CACHE_ELEMENTS, THREAD_BLOCKS
from .forms import Node, Reduce
from .fuse import Nest, Part, Plan

__all__ = ["in_blocks", "runner"]


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
                kept.append(Nest("straight", (), sums))
        if kept:
            steps.append(Part(kept))
    plan.steps = steps
    return plan


def rows_of(nest):
    """Return how many rows a block of a nest has, 0 if it is not cut into blocks."""
    if nest.kind != "loops" or math.prod(nest.shape) < 2 * CACHE_ELEMENTS or any(map(across_rows, nest.roots)):
        return 0
    rows = max(-(-nest.shape[0] // THREAD_BLOCKS), -(-CACHE_ELEMENTS // math.prod(nest.shape[1:])))
    return rows if rows < nest.shape[0] else 0


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


# --- running blocks -----------------------------------------------------------------------------------------------------------------


def runner(threads):
    """Return the function ``(part, count, arguments)`` that runs a part for each block, in this and other threads.

    Each takes the next block that is left, so that nobody waits for a thread that is not awake yet, or has no processor.
    """

    def run(part, count, arguments):
        if threads == 1:
            for block in range(count):
                part(*arguments, block)
            return
        tasks, blocks, done = tasks_of(os.getpid(), threads), iter(range(count)), SimpleQueue[BaseException | int]()
        others, mine = min(threads, count) - 1, 0
        for _ in range(others):
            tasks.put((part, blocks, arguments, done))
        try:
            for block in blocks:
                mine += 1
                part(*arguments, block)
            while mine < count:
                told = done.get()
                if isinstance(told, BaseException):
                    raise told
                mine += told
        except BaseException:
            for _ in blocks:
                pass
            while others:  # they write into the buffers
                others -= done.get() == 0
            raise

    return run


def work(tasks):
    """Run blocks for ever: of each task those that are left, saying 1 or the error for each, and 0 at the end."""
    while True:
        part, blocks, arguments, done = tasks.get()
        for block in blocks:
            try:
                part(*arguments, block)
                done.put(1)
            except BaseException as error:
                done.put(error)
        done.put(0)
        del part, blocks, arguments, done  # while waiting


TASKS: dict[tuple[int, int], SimpleQueue] = {}


def tasks_of(process, threads):
    """Return where the other threads of this process take their tasks; a forked process has no threads of its parent's."""
    if (process, threads) not in TASKS:
        tasks = TASKS[process, threads] = SimpleQueue()
        for _ in range(threads - 1):
            Thread(target=work, args=(tasks,), name="dualad", daemon=True).start()
    return TASKS[process, threads]
