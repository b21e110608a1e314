"""A chain of a compiled step: whole blocks of steps are made, and pulled back, in one compiled call each.

To the sweep a block is one step: its schedule saves states between blocks, and the pull of a block computes the states inside of it again,
into one buffer. So Python is entered once a block, and every schedule and storage works unchanged.
"""

from __future__ import annotations

import warnings
from copy import copy
from typing import NamedTuple

import numpy as np
import optree

from dualad.batch import Batch, wrap
from dualad.program.arguments import Call
from dualad.program.differentiate import pullback
from dualad.program.forms import Unliftable
from dualad.program.loops import Shape, compile_loops
from dualad.program.passes import optimised
from dualad.program.program import Value
from dualad.traced import Traced

from .aliases import Aliases
from .link import Link, entered
from .links import Stacked
from .replay import Snapshot
from .schedules import CTZ, Revolve, StoreAll
from .sweep import Sweep

__all__ = ["BUDGET", "blocks_of", "record_compiled"]

BUDGET = 256 << 10  # bytes of the states inside of a block and between blocks, where nothing is said


class Blocks(NamedTuple):
    """How a compiled chain is cut: `size` steps are a block; the schedule is one of blocks."""

    size: int
    schedule: object
    reason: str


def blocks_of(steps, nbytes, schedule=None, budget=None, block=None):
    """Return the blocks of a chain of `steps` steps with states of `nbytes` bytes.

    A step that is made again costs as much as a saved state's memory saves, and entering Python a few microseconds. So where two square
    roots of N states fit into the budget, all states between blocks are saved, and each step is made twice; else blocks take half of
    the budget, and the schedule the other half.
    """
    nbytes = max(nbytes, 1)
    room = max((BUDGET if budget is None else budget) // (2 * nbytes), 1)
    size = min(steps, room) if block is None else min(block, steps)
    count = -(-steps // size)
    if schedule is None:
        if count <= room or (budget is None and count * nbytes <= BUDGET // 2):
            schedule = StoreAll()
        else:
            schedule = CTZ() if budget is None else Revolve(room)
    reason = f"{count:,} blocks of {size:,} compiled steps"
    return Blocks(size, schedule, reason)


def record_compiled(links, tape, *, steps, schedule, budget, block, storage, stats, progress, check):
    """Run the chain of a compiled step in a sweep and record it as one operation; None where its step has no compiled loops."""
    below = links.levels - {tape}
    if links.source.backend == "numpy" or not steps or below or getattr(schedule, "records", False) or getattr(storage, "resume", False):
        return None
    link = CompiledLink(links, tape, below, steps, check)
    if not link.compile():
        return None
    nbytes = sum(leaf.nbytes for leaf in link.again)
    if budget is not None:  # of which the working state and the cotangent with their second buffers take a part
        budget -= 4 * nbytes
        if budget < 2 * nbytes:
            return None
    link.blocks = blocks_of(steps, nbytes, schedule, budget, block)
    stats.reason = link.blocks.reason
    options = {"schedule": link.blocks.schedule, "storage": storage, "stats": stats, "progress": progress, "check": check}
    link.sweep = Sweep(link.advance, tuple(link.leaves()), steps=-(-steps // link.blocks.size), **options)
    tape.sweeps = [*getattr(tape, "sweeps", ()), link.sweep]
    leaves = link.numbers(link.sweep.forward(), link.state)
    link.count()
    return entered(link, tape, leaves, link.out_arrays, lambda outs: optree.tree_unflatten(link.out_structure, outs))


class CompiledLink(Link):
    """The entry of a chain of a compiled step."""

    def compile(self):
        """Compile the loops of the step and of its pullback; return whether that can be done."""
        links, step = self.links, self.links.source
        leaves = [*self.state, *self.inputs, *self.params]
        if not all(isinstance(leaf, float | int | complex | np.ndarray | np.generic) and not isinstance(leaf, bool) for leaf in leaves):
            return False
        rows = [leaf[0] for leaf in self.inputs]
        given = (optree.tree_unflatten(links.inputs_structure, rows),) if links.given else ()
        call = Call(step, (0, links.tree(self.state), *given, *self.arguments), {})
        try:
            entry = step.entry(call)
        except TypeError:
            links.explain(0, links.tree(self.state), self.arguments, self.inputs)
            raise
        if len(entry.compiled.program.inputs) != 1 + len(self.state) + len(rows) + len(self.params):
            return False  # some arguments are static
        made = optree.tree_unflatten(entry.structure, list(entry.compiled.program.outputs))
        if links.outputs:
            if not isinstance(made, tuple) or len(made) != 2:
                return False
            made, out = made
            self.out_structure = optree.tree_structure(out)
        program, count = entry.compiled.program, len(self.state)
        if optree.tree_structure(made) != links.state_structure or not all(
            map(keeps, program.inputs[1 : 1 + count], program.outputs[:count])
        ):
            return False
        outs = [described(out) for out in program.outputs[count:]]
        inputs = iter(program.inputs[1:])
        values = ([next(inputs) for _ in part] for part in (self.state, rows, self.params))
        floating_outs = [i for i, out in enumerate(outs) if out.dtype.kind in "fc"]
        self.shape = shape = Shape(*values, outs, links.floating, self.active_inputs, self.active, floating_outs)
        key = "loops", self.nan_safe, count, len(rows), len(self.params), *shape.active
        loops = entry.compiled.derived
        if key not in loops:
            try:
                loops[key] = compile_loops(program, self.pullback(program, call, shape), shape)
            except Unliftable as reason:
                loops[key] = reason
        self.loops = loops[key]
        if isinstance(self.loops, Unliftable):
            return False
        self.work = self.loops.work()
        self.out_arrays = [np.zeros((self.outs.count, *out.shape), out.dtype) for out in outs]
        self.given = [np.array(leaf, order="C") for leaf in (*self.params, *self.inputs)]
        self.made = self.pulled = 0
        self.again = self.leaves()
        return self.loops.compiled or self.compile_now(loops, key)

    def compile_now(self, loops, key):
        """Compile before the first sweep, so that what numba cannot do shows before a long run; return whether it could."""
        gs, sums = self.begin([None] * (len(self.state) + len(self.shape.outs)), 1)
        try:
            self.loops.compile(self.arguments_of_advance(0, 1, self.again), self.arguments_of_pull(0, 1, self.again, gs, sums))
        except Exception as error:
            name = self.links.source.__name__
            warnings.warn(f"chain: numba failed on {name}, whose steps are made one by one instead: {error!r}", stacklevel=6)
            loops[key] = Unliftable("numba failed")
            return False
        return True

    def pullback(self, program, call, shape):
        """Return the program of the pullback of one step."""
        parts = ((shape.state, shape.floating), (shape.rows, shape.active_rows), (shape.params, shape.active_params))
        wanted = [False, *(i in active for values, active in parts for i in range(len(values)))]
        outs = [described(out) for out in program.outputs]
        floating = {*shape.floating, *(len(shape.state) + i for i in shape.floating_outs)}
        cotangents = [example(out) if i in floating else None for i, out in enumerate(outs)]
        made = pullback(program, call.examples(), wanted, cotangents, nan_safe=self.nan_safe)
        made.outputs = made.outputs[: sum(wanted)]  # without those of the step itself
        return optimised(made)

    def leaves(self):
        """Return the leaves of x_0 as arrays of their own: numbers are arrays without axes."""
        return [np.array(leaf, order="C") for leaf in self.state]

    @staticmethod
    def numbers(arrays, like):
        """Return arrays as the numbers that they stand for."""
        return [
            array if isinstance(leaf, np.ndarray) else array[()] if isinstance(leaf, np.generic) else array.item()
            for array, leaf in zip(arrays, like, strict=True)
        ]

    def block(self, j):
        return j * self.blocks.size, min((j + 1) * self.blocks.size, self.outs.count)

    def advance(self, j, x):
        """Make the steps of block j, in place."""
        first, stop = self.block(j)
        self.loops.advance(*self.arguments_of_advance(first, stop, x))
        settle(x, self.again, stop - first)
        self.made += stop - first
        return x

    def arguments_of_advance(self, first, stop, x):
        return first, stop, *x, *self.again, *self.given, *self.out_arrays, *self.work

    def pull_step(self, j, x, cotangent):
        """Pull the cotangents back through block j, in place."""
        first, stop = self.block(j)
        if stop - first > 1:
            for states, leaf in zip(self.states, x, strict=True):
                states[0] = leaf
        self.loops.pull(*self.arguments_of_pull(first, stop, x, *cotangent))
        settle(cotangent[0], self.spare[0], stop - first)
        self.made += stop - first - 1
        self.pulled += stop - first
        return cotangent

    def arguments_of_pull(self, first, stop, x, gs, sums):
        other_gs, shares = self.spare
        advance = self.arguments_of_advance(first, stop, x)
        return *advance, *gs, *other_gs, *self.out_cotangents, *self.rows, *sums, *shares, *self.states

    def shares(self, g):
        """Return the nodes of state, parameters and inputs with their shares of the cotangents; of a batch of them, one sweep for each."""
        g = [*g, *[None] * (len(self.state) + len(self.shape.outs) - len(g))]
        links = self.links
        nodes = [self.state_nodes[i] for i in links.floating]
        nodes += [self.param_nodes[i] for i in self.active] + [self.input_nodes[i] for i in self.active_inputs]
        if any(isinstance(part, Traced) and type(part) is not Batch for part in g):
            return self.one_by_one().shares(g)
        level = next((part.level for part in g if type(part) is Batch), None)
        if level is None:
            return list(zip(nodes, self.swept(g), strict=True))
        lanes = [self.swept([part.primal[lane] if type(part) is Batch else part for part in g]) for lane in range(level.directions)]
        return [(node, wrap(np.stack(shares), level)) for node, shares in zip(nodes, zip(*lanes, strict=True), strict=True)]

    def one_by_one(self):
        """Return the same chain with steps that are not compiled, for cotangents that are themselves traced; its first sweep is made."""
        link = copy(self)
        link.__class__ = Link
        link.outs, link.aliases = Stacked(self.outs.count), Aliases(self.links.path)
        link.sweep = Sweep(link.advance, self.links.tree(link.state), record=link.record_step, steps=self.outs.count)
        leaves = self.links.leaves(self.outs.count - 1, link.sweep.forward())
        link.aliases.watching = False
        link.before = link.last = Snapshot(self.outs.count, leaves)
        return link

    def swept(self, g):
        """Return the shares of one reverse sweep."""
        gs, sums = self.begin(g, self.blocks.size if self.blocks.size > 1 else 0)
        try:
            gs, sums = self.sweep.backward(self.pull_step, (gs, sums), self.out_cotangents)
        finally:
            self.count()
        shares = self.numbers(gs, [self.state[i] for i in self.links.floating])
        shares += self.numbers(sums, [self.params[i] for i in self.active]) + self.rows
        self.rows, self.out_cotangents, self.states, self.spare = [], [], [], ([], [])
        return shares

    def begin(self, g, length):
        """Make the arrays of a reverse sweep, with blocks of this length; return those of the cotangents and of the sums."""
        self.out_cotangents = [filled(g[len(self.state) + i], self.out_arrays[i]) for i in self.shape.floating_outs]
        self.rows = [np.zeros_like(self.inputs[i], order="C") for i in self.active_inputs]
        gs = [filled(g[i], self.again[i]) for i in self.links.floating]
        sums = [np.zeros_like(self.params[i], order="C") for i in self.active]
        self.states = [np.empty((length, *leaf.shape), leaf.dtype) for leaf in self.again]
        self.spare = [np.empty_like(g) for g in gs], [np.empty_like(total) for total in sums]
        return gs, sums

    def count(self):
        """Say in the stats what was done in steps: the sweep has counted blocks."""
        stats, size = self.sweep.stats, self.blocks.size
        stats.steps, stats.advances, stats.pulls = self.outs.count, self.made, self.pulled
        if size > 1 and self.pulled:
            stats.peak_states += size
            stats.peak_bytes += size * sum(leaf.nbytes for leaf in self.again)


def settle(arrays, others, count):
    """Copy back what stands in the second buffers after an odd number of steps; numbers are always in the first ones."""
    if count % 2:
        for array, other in zip(arrays, others, strict=True):
            if array.ndim:
                array[...] = other


class Described(NamedTuple):
    """Shape, dtype and kind of an output of a program that is a literal number."""

    shape: tuple
    dtype: np.dtype
    kind: str


def described(out):
    """Return an output with shape, dtype and kind, also where it is a literal."""
    if isinstance(out, Value):
        return out
    return Described(np.shape(out), np.asarray(out).dtype, "python" if isinstance(out, float | int | complex) else "scalar")


def keeps(given, out):
    out = described(out)
    return given.shape == out.shape and given.dtype == out.dtype


def example(out):
    """Return a cotangent like an output."""
    one = out.dtype.type(1)
    return one.item() if out.kind == "python" else one if out.kind == "scalar" else np.ones(out.shape, out.dtype)


def filled(g, like):
    """Return a cotangent as an array of its own, zeros where there is none."""
    return np.zeros_like(like) if g is None else np.array(np.broadcast_to(g, like.shape), like.dtype, order="C")
